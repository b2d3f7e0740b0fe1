"""U: what the learners say of the query, and its shallow features, to a mask. The DFN of Yu et al. (2018)."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.fused import Foldable, FusedRefine


class Decoder(nn.Module):
    """From coarse to fine: refine the input of each scale, weigh it against what is known so far, refine, upsample.

    inputs: {stride: channels}, of which the finest is decoded to 2 logits (background, foreground).
    """

    def __init__(self, inputs: Mapping[int, int], width: int = 256) -> None:
        super().__init__()
        self.strides = tuple(sorted(inputs, reverse=True))
        self.width = width
        self.refine_in = nn.ModuleDict({str(s): Refine(inputs[s], width) for s in self.strides})
        self.attend = nn.ModuleDict({str(s): Attend(width) for s in self.strides})
        self.refine_up = nn.ModuleDict({str(s): Refine(width, width) for s in self.strides})
        self.classify = nn.Conv2d(width, 2, 1)

    def forward(self, maps: Mapping[int, Tensor]) -> Tensor:
        """{stride: (B, channels, H/stride, W/stride)} -> logits (B, 2, H/finest, W/finest)."""
        state: Tensor | None = None
        for stride in self.strides:
            key = str(stride)
            new = self.refine_in[key](maps[stride])
            if state is None:
                state = torch.zeros_like(new)
            else:
                state = F.interpolate(state, size=new.shape[-2:], mode="nearest")
            state = self.refine_up[key](self.attend[key](state, new))
        logits: Tensor = self.classify(state)
        return logits


class Refine(Foldable):
    """Refinement residual block."""

    FOLDS = (("conv2", "bn"),)

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        return F.relu(x + self.conv3(F.relu(self.bn(self.conv2(x)))))

    def fused(self) -> nn.Module:
        return FusedRefine(self.conv1, self.conv2, self.conv3)


class Attend(nn.Module):
    """Channel attention: how much of each channel of the new scale to add to the state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2 * width, width, 1)
        self.conv2 = nn.Conv2d(width, width, 1)

    def forward(self, state: Tensor, new: Tensor) -> Tensor:
        pooled = torch.cat([x.mean((-2, -1), keepdim=True) for x in (state, new)], 1)
        attention = torch.sigmoid(self.conv2(F.relu(self.conv1(pooled))))
        return torch.addcmul(state, new, attention)

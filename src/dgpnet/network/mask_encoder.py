"""G: support masks to the outputs that the learner regresses."""

import math
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.encoders.body import convolve_relu
from dgpnet.network.fused import Foldable, FusedResidual
from dgpnet.network.mask_stem import STEMS, usual
from dgpnet.network.pooling import max_pool


class MaskEncoder(Foldable):
    """A light residual network with a head for each level.

    (B, 1, H, W) in {0, 1} -> {stride: (B, encodings, H/stride, W/stride)}. Nothing is built for an unused level.
    """

    FOLDS = (("conv1", "bn1"),)

    def __init__(self, levels: Sequence[int], encodings: int = 64, *, relu: bool = False) -> None:
        super().__init__()
        self.relu = relu
        self.stem = ""  #: which of `mask_stem.STEMS` is taken where the norm is folded; by default the usual one
        self.conv1 = nn.Conv2d(1, 16, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = Block(16, 32)  # stride 8
        self.layer2 = Block(32, 64)  # stride 16
        self.layer3 = Block(64, 64) if 32 in levels else None
        self.heads = nn.ModuleDict(
            {
                str(level): nn.Sequential(nn.Conv2d(64, encodings, 3, padding=1, bias=False), nn.BatchNorm2d(encodings))
                for level in levels
            }
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, 0, math.sqrt(2 / fan))

    def forward(self, mask: Tensor) -> dict[int, Tensor]:
        if isinstance(self.bn1, nn.Identity) and self.conv1.bias is not None:
            x = STEMS[self.stem or usual(mask)](mask, self.conv1.weight, self.conv1.bias)
        else:
            x = max_pool(convolve_relu(mask, self.conv1, self.bn1))
        x = self.layer2(self.layer1(x))
        trunk = {16: x}
        if self.layer3 is not None:
            trunk[32] = self.layer3(x)
        found = {int(level): head(trunk[int(level)]) for level, head in self.heads.items()}
        return {level: F.relu(y) for level, y in found.items()} if self.relu else found


class Block(Foldable):
    """A residual block that halves the resolution; its shortcut is a 3×3 convolution."""

    FOLDS = (("conv1", "bn1"), ("conv2", "bn2"))

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))

    def fused(self) -> nn.Module:
        return FusedResidual([self.conv1, self.conv2], self.shortcut)

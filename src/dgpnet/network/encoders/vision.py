"""A vision transformer beside a convolutional encoder: the one knows what things are, the other where they end.

The transformer is ViT-S in DINOv2's layout with patches of 16 pixels, without its last two blocks. It is given the
photograph shrunk to three quarters, and gives what it knows at strides 16 and 32; EfficientNet-Lite0 gives all four
strides. What both give at one stride lies side by side.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.encoders.body import Body
from dgpnet.network.encoders.efficientnet import EfficientNetLite
from dgpnet.network.fused import Foldable

WIDTH, HEADS, PATCH = 384, 6, 16
#: The part of the photograph's sides that it is given: three quarters are as good, and cost little more than half.
SEEN = 3, 4
#: Places each way that a position was learned for.
GRID = 37
#: Blocks before the features of a stride, and how long these are in the mean: as long as those beside them.
TAPS = {16: (9, 3.0), 32: (10, 2.2)}
BLOCKS = max(blocks for blocks, _ in TAPS.values())


class Block(Foldable):
    """Attention and a perceptron, each behind a norm and added in a learned measure."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.scale1: nn.Parameter | None = nn.Parameter(torch.ones(WIDTH))
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)
        self.scale2: nn.Parameter | None = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, P, 384) -> (B, P, 384)."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = x + (y if self.scale1 is None else self.scale1 * y)
        y = self.fc2(F.gelu(self.fc1(self.norm2(x))))
        x = x + (y if self.scale2 is None else self.scale2 * y)
        return x

    def fused(self) -> nn.Module:
        """Itself, its measures made part of the weights."""
        for name, linear in (("scale1", self.out), ("scale2", self.fc2)):
            scale = self._parameters[name]
            if scale is not None:
                linear.weight.mul_(scale[:, None])
                linear.bias.mul_(scale)
                self._parameters[name] = None
        return self


class Vision(nn.Module):
    """The transformer: features of 384 channels after some of its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(0.02 * torch.randn(1, WIDTH, GRID, GRID))
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norms = nn.ModuleDict({str(stride): nn.LayerNorm(WIDTH, eps=1e-6) for stride in TAPS})
        for stride in TAPS:
            nn.init.constant_(self._norm(stride).weight, TAPS[stride][1])

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these strides; drop what only others need."""
        for name in [name for name in self.norms if int(name) not in strides]:
            del self.norms[name]
        self.blocks = self.blocks[: max(TAPS[stride][0] for stride in map(int, self.norms))]

    def _norm(self, stride: int) -> nn.LayerNorm:
        norm = self.norms[str(stride)]
        assert isinstance(norm, nn.LayerNorm)
        return norm

    def forward(self, x: Tensor) -> dict[int, Tensor]:
        """x: (B, 3, H, W) -> {stride: (B, 384, ⌈H / stride⌉, ⌈W / stride⌉)}."""
        x = _whole(x)
        height, width = (side // PATCH for side in x.shape[-2:])
        size = _seen(height), _seen(width)
        x = self.patches(_resize(x, [PATCH * side for side in size]))
        tokens = torch.cat([self.token.expand(len(x), -1, -1).to(x.dtype), (x + self._places(x)).flatten(2).mT], 1)
        found = {}
        for i, block in enumerate(self.blocks, 1):
            tokens = block(tokens)
            for stride in map(int, self.norms):
                if TAPS[stride][0] == i:
                    known = self._norm(stride)(tokens[:, 1:]).mT.unflatten(-1, size)
                    known = _resize(known, [height, width])
                    found[stride] = F.avg_pool2d(known, stride // PATCH, ceil_mode=True) if stride > PATCH else known
        return found

    def _places(self, x: Tensor) -> Tensor:
        return _resize(self.places, list(x.shape[-2:])).to(x.dtype)


def _seen(patches: int) -> int:
    """Patches along a side once the photograph was shrunk."""
    return -(-patches * SEEN[0] // SEEN[1])


def _resize(x: Tensor, size: list[int]) -> Tensor:
    """In float32 or better: an interpolation of bfloat16 would round every place."""
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    return F.interpolate(exact, size, mode="bilinear", align_corners=False).to(x.dtype)


def _whole(x: Tensor) -> Tensor:
    """x with what whole patches need to its right and below."""
    if torch.compiler.is_exporting():  # sides are multiples of 32
        return x
    below, right = (-side % PATCH for side in x.shape[-2:])
    return F.pad(x, [0, right, 0, below]) if right or below else x


class VisionAndLite(Body):
    """ViT-S beside EfficientNet-Lite0: 24, 40, 112 + 384 and 320 + 384 channels at strides 4, 8, 16 and 32."""

    def __init__(self) -> None:
        super().__init__()
        self.lite = EfficientNetLite()
        self.vision: Vision | None = Vision()
        self._count()

    def _count(self) -> None:
        deep = {} if self.vision is None else dict.fromkeys(map(int, self.vision.norms), WIDTH)
        pairs = zip(self.strides, self.lite.channels, strict=True)
        self.channels = tuple(channels + deep.get(stride, 0) for stride, channels in pairs)

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these strides; drop what only others need."""
        super().keep(strides)
        self.lite.keep(strides)
        if self.vision is not None and set(TAPS) & set(strides):
            self.vision.keep(strides)
        else:
            self.vision = None
        self._count()

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W) -> the features of the strides, finest first."""
        deep = {} if self.vision is None else self.vision(x)
        found = zip(self.strides, self.lite(x), strict=True)
        return [torch.cat([f, deep[stride].to(f.dtype)], 1) if stride in deep else f for stride, f in found]


def vision_and_lite(stride_on: str) -> VisionAndLite:
    """Randomly initialised; it has no bottleneck whose stride could be elsewhere."""
    return VisionAndLite()

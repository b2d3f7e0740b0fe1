"""What every image encoder has in common: a pyramid of features, and BatchNorm whose statistics never move."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.activated import activated, how
from dgpnet.network.fused import Foldable


class FrozenStatistics(nn.BatchNorm2d):
    """BatchNorm that always normalises with its running statistics; only scale and shift are trained.

    Keeps the parameter and buffer names of `nn.BatchNorm2d`, so that weights load unchanged.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__(channels, eps=eps)
        self.train(False)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode whatever is asked: training mode would update the statistics."""
        return super().train(False)


def folded(convolution: nn.Conv2d, norm: nn.Module) -> tuple[Tensor, Tensor] | None:
    """Weight and bias of the one convolution that is norm(convolution(x)), where there is one: with frozen statistics,
    which makes the pass over the activations part of the weights, or without a norm."""
    if isinstance(norm, FrozenStatistics):
        assert norm.running_var is not None and norm.running_mean is not None
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return convolution.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
    if isinstance(norm, nn.Identity) and convolution.bias is not None:
        return convolution.weight, convolution.bias
    return None


def convolve(x: Tensor, convolution: nn.Conv2d, norm: nn.Module) -> Tensor:
    """norm(convolution(x))."""
    both = folded(convolution, norm)
    result: Tensor = norm(convolution(x)) if both is None else convolution._conv_forward(x, *both)
    return result


def convolve_relu(
    x: Tensor, convolution: nn.Module, norm: nn.Module, shortcut: tuple[Tensor, Tensor | None] | None = None
) -> Tensor:
    """ReLU(norm(convolution(x)) [+ shortcut]); the shortcut is a tensor, and a bias for it unless it is in there."""
    if not isinstance(convolution, nn.Conv2d):  # what takes its place for predicting has norm and ReLU in it
        result: Tensor = convolution(x)
        return result
    both = folded(convolution, norm)
    z, bias = shortcut or (None, None)
    if both is None:
        y = norm(convolution(x))
        return F.relu(y if z is None else y + z)
    return activated(x, both[0], both[1] if bias is None else both[1] + bias, how(convolution), z)


class Body(Foldable):
    """An image encoder: photographs to features at several strides, the finest first.

    strides: the strides, (4, 8, 16, 32) unless `keep` left some out.
    channels: the channels of the feature map at each stride.
    options: what `build_encoder` needs beside the name to build the same encoder anywhere (plain JSON values).
    """

    strides: tuple[int, ...] = (4, 8, 16, 32)
    channels: tuple[int, ...]
    options: Mapping[str, Any] = MappingProxyType({})

    def keep(self, strides: Collection[int]) -> None:
        """Give only the features of these (some of `strides`), and lose or freeze the parameters only others need."""
        kept = [(s, c) for s, c in zip(self.strides, self.channels, strict=True) if s in strides]
        self.strides, self.channels = tuple(s for s, _ in kept), tuple(c for _, c in kept)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: (B, 3, H, W) float, normalised as ImageNet -> one (B, C_i, H/s_i, W/s_i) for each stride s_i."""
        raise NotImplementedError

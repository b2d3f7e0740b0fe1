"""What every image encoder has in common: a pyramid of features, and BatchNorm whose statistics never move."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Self

import torch
from torch import Tensor, nn


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


def convolve(x: Tensor, convolution: nn.Conv2d, norm: nn.Module) -> Tensor:
    """norm(convolution(x)). Frozen statistics make the norm part of the weights: the pass over the activations, and the
    dearer one back, are saved."""
    if not isinstance(norm, FrozenStatistics):
        result: Tensor = norm(convolution(x))
        return result
    assert norm.running_var is not None and norm.running_mean is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    weight = convolution.weight * scale[:, None, None, None]
    return convolution._conv_forward(x, weight, norm.bias - norm.running_mean * scale)


class Body(nn.Module):
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

"""Blocks for predicting: convolutions that have norm, shortcut and ReLU in them.

A block that can be made quicker says so itself: `FOLDS` names its pairs of convolution and norm, and `fused()` gives
the module that takes its place once the norms are folded (`fast`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.activated import activated, how
from dgpnet.network.prepared import PreparedWeights, activate


class Foldable(nn.Module):
    """A block with BatchNorm behind some of its convolutions."""

    #: Names of a convolution and of the norm behind it.
    FOLDS: ClassVar[tuple[tuple[str, str], ...]] = ()

    def fused(self) -> nn.Module:
        """What takes its place, given that its norms are folded; itself where there is nothing to gain."""
        return self


class FusedConv(nn.Module):
    """activation(convolution(x) [+ z]), of the convolution that it is made from, as one call. z may be overwritten.

    activation: "relu", "relu6" (without z only) or "none".
    """

    def __init__(self, convolution: nn.Conv2d, activation: str = "relu") -> None:
        super().__init__()
        weight, bias = convolution.weight, convolution.bias
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(weight.new_zeros(len(weight)) if bias is None else bias, requires_grad=False)
        self.how = how(convolution)
        self.activation = activation
        self.prepared: PreparedWeights | None = None

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """x: (B, C, H, W), z like the result -> (B, C', H', W')."""
        if self.prepared is not None:
            return self.prepared(x, z)
        if self.activation == "relu":
            return activated(x, self.weight, self.bias, self.how, z)
        y = F.conv2d(x, self.weight, self.bias, *self.how)
        return activate(y if z is None else y + z, self.activation)


class FusedResidual(nn.Module):
    """Convolutions with a ReLU behind each, the shortcut added before the last.

    Without a projection in the shortcut the input may be overwritten: nobody else needs it, since features that are
    kept go into blocks that have one.
    """

    def __init__(self, convolutions: Sequence[nn.Conv2d], shortcut: nn.Module | None) -> None:
        super().__init__()
        fused = [FusedConv(c) for c in convolutions]
        self.convolutions = nn.ModuleList(fused)
        self.shortcut = shortcut
        if isinstance(shortcut, nn.Conv2d) and shortcut.bias is not None:
            fused[-1].bias.add_(shortcut.bias)  # added once, not in a pass of its own
            shortcut.bias = None

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', H', W')."""
        z = x if self.shortcut is None else self.shortcut(x)
        for convolution in self.convolutions[:-1]:
            x = convolution(x)
        result: Tensor = self.convolutions[-1](x, z)
        return result


class FusedRefine(nn.Module):
    """The decoder's refinement: a 1×1 convolution, and a residual block of two others."""

    def __init__(self, first: nn.Conv2d, second: nn.Conv2d, third: nn.Conv2d) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = first, FusedConv(second), FusedConv(third)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, width, H, W)."""
        x = pointwise(x, self.conv1)
        result: Tensor = self.conv3(self.conv2(x), x)
        return result


def pointwise(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """A 1×1 convolution; on CUDA as a matrix product, which adds the bias on the way."""
    if not x.is_cuda:
        result: Tensor = convolution(x)
        return result
    return F.linear(x.permute(0, 2, 3, 1), convolution.weight[:, :, 0, 0], convolution.bias).permute(0, 3, 1, 2)

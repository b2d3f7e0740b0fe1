"""Convolutions on a CPU with the weights laid out beforehand, and Winograd's algorithm where it pays.

PyTorch rearranges the weights of a convolution for the processor each time it is called, and runs bias, sum and ReLU
as passes of their own. oneDNN has kernels that do all in one on weights rearranged once, which `torch.compile` uses
without a name that is public: where they are missing, nothing here is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network import winograd
from dgpnet.network.activated import How, how

Ready = Callable[[Tensor, Tensor | None], Tensor]
#: Numbers in an input from which on it is worth the call.
LARGE = 2**15
#: A 3×3 convolution that keeps the size.
PADDED: How = ((1, 1), (1, 1), (1, 1), 1)


def available() -> bool:
    """Whether this build of PyTorch has the kernels."""
    names = ("_reorder_convolution_weight", "_convolution_pointwise", "_convolution_pointwise_")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)


class PreparedWeights:
    """One convolution on a CPU: activation(convolution(x) [+ z]), channels-last. z may be overwritten.

    activation: "relu", "relu6" (without z only) or "none".

    It takes float32 and bfloat16 and computes in float32, by Winograd's algorithm where that pays, or with `half` in
    bfloat16; its result is of that type.
    A layout is right for one shape of input and very slow for others, so the last one is kept; making another takes no
    longer than what PyTorch does for each call. Winograd's products have one layout for any number of tiles. The same
    input has the same answer each time, to the bit, whichever threads ask.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, how: How, activation: str, *, half: bool = False) -> None:
        self.how, self.activation = how, activation
        self.dtype = torch.bfloat16 if half else torch.float32
        self._weight, self._bias = weight.to(self.dtype), None if bias is None else bias.to(self.dtype)
        tiled = activation == "relu" and bias is not None and how == PADDED and weight.shape[2:] == (3, 3)
        self._tiled = tiled and not half
        self._products: Ready | None = None
        self._last: tuple[torch.Size, Ready] | None = None

    def __call__(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        x, z = x.to(self.dtype), None if z is None else z.to(self.dtype)
        weight, bias = self._weight, self._bias
        if self._tiled and bias is not None and winograd.pays(*weight.shape[:2], *x.shape[2:]):
            products = self._products = self._products or _products(weight, bias)
            return winograd.convolve(x, lambda values: products(values, None), len(weight), z)
        if x.numel() < LARGE:
            y = F.conv2d(x, weight, bias, *self.how)
            return activate(y if z is None else y.add_(z), self.activation)
        last = self._last
        if last is None or last[0] != x.shape:
            last = self._last = x.shape, laid_out(weight, bias, self.how, x.shape, self.activation)
        return last[1](x, z)

    def __getstate__(self) -> dict[str, Any]:
        """Without the layouts, which cannot be copied and are made again."""
        return {**self.__dict__, "_last": None, "_products": None}


def _products(weight: Tensor, bias: Tensor) -> Ready:
    """Winograd's products for a convolution, as one in groups that is laid out for any number of tiles."""
    filters, constant = winograd.filters(weight), winograd.constant(bias)
    groups = winograd.SIDE**2
    shape = torch.Size((1, groups * filters.shape[1], groups, 1))
    return laid_out(filters, constant, ((1, 1), (0, 0), (1, 1), groups), shape, "none")


class PreparedConv(nn.Module):
    """A convolution without activation in the place of another."""

    def __init__(self, convolution: nn.Conv2d, *, half: bool = False) -> None:
        super().__init__()
        self.prepared = PreparedWeights(*values(convolution), how(convolution), "none", half=half)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C', H', W')."""
        return self.prepared(x)


def values(convolution: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight and bias as they are now, whatever becomes of the module."""
    weight, bias = convolution.weight, convolution.bias
    assert isinstance(weight, Tensor)
    return weight.detach(), bias.detach() if isinstance(bias, Tensor) else None


def activate(x: Tensor, activation: str) -> Tensor:
    """activation(x), in its place."""
    if activation == "none":
        return x
    return F.relu_(x) if activation == "relu" else F.hardtanh_(x, 0.0, 6.0)


#: What oneDNN calls activations, and the numbers that it takes for them.
NAMES: dict[str, tuple[str, list[float]]] = {"none": ("none", []), "relu": ("relu", []), "relu6": ("hardtanh", [0, 6])}


def laid_out(weight: Tensor, bias: Tensor | None, how: How, shape: torch.Size, activation: str) -> Ready:
    """activation(convolution(x) [+ z]) for x of that shape: in z, which saves the memory that a result would have to be
    fetched into the cache from."""
    stride, padding, dilation, groups = how
    rest = padding, stride, dilation, groups
    ready = torch.ops.mkldnn._reorder_convolution_weight(weight, *rest, shape)
    convolve, convolve_into = torch.ops.mkldnn._convolution_pointwise, torch.ops.mkldnn._convolution_pointwise_
    name, numbers = NAMES[activation]

    def run(x: Tensor, z: Tensor | None) -> Tensor:
        if z is None:
            found: Tensor = convolve(x, ready, bias, *rest, name, numbers, "")
        else:
            then = None if activation == "none" else name
            found = convolve_into.binary(z, x, ready, bias, *rest, "add", 1.0, then, [], "")
        return found

    return run

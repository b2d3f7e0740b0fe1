"""Covariance functions of feature vectors.

Every kernel answers three questions: all pairs of two sets (`kernel(x, y)`; `kernel(x)` for a set with itself, with
an exact diagonal), each point with itself (`diagonal`), and each point of a grid with its neighbours (`window`).
Kernels add and multiply: `SquaredExponential(8.0) + Linear(variance=0.5)` is a kernel too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.gp.linalg import at_least_float32, full_precision, times
from dgpnet.gp.windows import local_gram, shifts


class Kernel(nn.Module):
    """A positive semi-definite function of two feature vectors."""

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """x: (..., n, D), y: (..., m, D) or None for x itself -> (..., n, m)."""
        raise NotImplementedError

    def against(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """κ(x, ·) of fixed points x: (..., n, D), to be asked about y: (..., m, D) many times: what depends on x alone
        is computed once."""
        return lambda y: self(x, y)

    def diagonal(self, x: Tensor) -> Tensor:
        """x: (..., n, D) -> (..., n), κ(x, x)."""
        raise NotImplementedError

    def window(self, x: Tensor, size: int) -> Tensor:
        """x: (..., H, W, D) -> (..., H, W, size²): κ with each neighbour, row-major; 0 outside the grid."""
        raise NotImplementedError

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other)

    def __mul__(self, other: Kernel) -> Kernel:
        return Product(self, other)


class Positive(nn.Module):
    """A positive number: fixed, or trainable as its logarithm."""

    def __init__(self, value: float, *, trainable: bool, name: str) -> None:
        super().__init__()
        if not (math.isfinite(value) and value > 0):
            raise Error(f"{name} must be a positive number, got {value}.")
        self.value = value
        self.log = nn.Parameter(torch.tensor(math.log(value))) if trainable else None

    def forward(self) -> Tensor | float:
        return self.value if self.log is None else self.log.exp()

    def __float__(self) -> float:
        return self.value if self.log is None else float(self.log.detach().exp())


class _Elementary(Kernel):
    """A kernel that is a function of the inner product and the two squared norms.

    Stationary ones are computed on centred features, since ‖x‖² + ‖y‖² − 2xᵀy cancels badly far from the origin.
    """

    centred: bool

    def __init__(self, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__()
        self.variance = Positive(variance, trainable=trainable, name="The kernel's variance")

    def _of(self, xy: Tensor, squared: Tensor) -> Tensor:
        """From inner products xᵀy and squared distances ‖x − y‖² (≥ 0) of the same shape."""
        raise NotImplementedError

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        with full_precision(x.device):
            x = at_least_float32(x)
            other = x if y is None else at_least_float32(y)
            if self.centred:
                centre = other.detach().mean(-2, keepdim=True)
                x, other = x - centre, other - centre
            xy = times(x, other.mT)
            squared = x.square().sum(-1)[..., :, None] + other.square().sum(-1)[..., None, :] - 2 * xy
            squared = squared.clamp(min=0)
            if y is None:
                squared.diagonal(dim1=-2, dim2=-1).zero_()
            return self._of(xy, squared)

    def against(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        x = at_least_float32(x)
        centre = x.detach().mean(-2, keepdim=True) if self.centred else torch.zeros_like(x[..., :1, :])
        x = x - centre
        norms = x.square().sum(-1, keepdim=True)

        def ask(y: Tensor) -> Tensor:
            with full_precision(x.device):
                other = at_least_float32(y) - centre
                xy = times(x, other.mT)
                return self._of(xy, (norms + other.square().sum(-1)[..., None, :] - 2 * xy).clamp(min=0))

        return ask

    def diagonal(self, x: Tensor) -> Tensor:
        x = at_least_float32(x)
        norm = x.square().sum(-1)
        return self._of(norm, torch.zeros_like(norm))

    def window(self, x: Tensor, size: int) -> Tensor:
        with full_precision(x.device):
            x = at_least_float32(x)
            if self.centred:
                x = x - x.detach().mean((-3, -2), keepdim=True)
            xy = local_gram(x, size)
            inside, norms = shifts(x.square().sum(-1), size)
            centre = size * size // 2
            squared = norms[..., centre : centre + 1] + norms - 2 * xy
            squared = squared.clamp(min=0)
            squared[..., centre] = 0
            return self._of(xy, squared) * inside


class SquaredExponential(_Elementary):
    """κ(x, y) = σ_f² exp(−‖x − y‖² / 2ℓ²), with `length_squared` = ℓ² (the paper: √D) and `variance` = σ_f²."""

    centred = True

    def __init__(self, length_squared: float, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__(variance=variance, trainable=trainable)
        self.length_squared = Positive(length_squared, trainable=trainable, name="The kernel's ℓ²")

    def _of(self, xy: Tensor, squared: Tensor) -> Tensor:
        value: Tensor = self.variance() * torch.exp(squared * (-0.5 / self.length_squared()))
        return value


class Exponential(_Elementary):
    """κ(x, y) = σ_f² exp(−‖x − y‖ / ℓ), with `length` = ℓ (the paper: √D)."""

    centred = True

    def __init__(self, length: float, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__(variance=variance, trainable=trainable)
        self.length = Positive(length, trainable=trainable, name="The kernel's ℓ")

    def _of(self, xy: Tensor, squared: Tensor) -> Tensor:
        apart = squared > 0  # the square root has no gradient at 0: there the kernel's is taken as 0
        distance = torch.where(apart, squared, 1).sqrt() * apart
        value: Tensor = self.variance() * torch.exp(-distance / self.length())
        return value


class Linear(_Elementary):
    """κ(x, y) = σ_f² xᵀy: Bayesian linear regression without a bias. Not stationary, so not centred."""

    centred = False

    def _of(self, xy: Tensor, squared: Tensor) -> Tensor:
        value: Tensor = self.variance() * xy
        return value


class _Combined(Kernel):
    def __init__(self, *kernels: Kernel) -> None:
        super().__init__()
        if not kernels:
            raise Error("A sum or product of kernels needs at least one kernel.")
        self.kernels = nn.ModuleList(kernels)

    def _combine(self, values: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self._combine([kernel(x, y) for kernel in self.kernels])

    def diagonal(self, x: Tensor) -> Tensor:
        return self._combine([kernel.diagonal(x) for kernel in self._members()])

    def window(self, x: Tensor, size: int) -> Tensor:
        return self._combine([kernel.window(x, size) for kernel in self._members()])

    def _members(self) -> list[Kernel]:
        return [kernel for kernel in self.kernels if isinstance(kernel, Kernel)]


class Sum(_Combined):
    """κ = κ₁ + κ₂ + …"""

    def _combine(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values).sum(0)


class Product(_Combined):
    """κ = κ₁ · κ₂ · …"""

    def _combine(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values).prod(0)

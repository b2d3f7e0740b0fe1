"""Covariance functions of feature vectors.

Every kernel answers three questions: all pairs of two sets (`kernel(x, y)`; `kernel(x)` for a set with itself, with
an exact diagonal), each point with itself (`diagonal`), and each point of a grid with its neighbours (`window`).
Kernels add and multiply: `SquaredExponential(8.0) + Linear(variance=0.5)` is a kernel too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.gp.linalg import at_least_float32, batched, full_precision, times
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
    """σ_f² times a function of the inner product."""

    def __init__(self, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__()
        self.variance = Positive(variance, trainable=trainable, name="The kernel's variance")

    def _scaled(self, value: Tensor) -> Tensor:
        """σ_f² · value, without a pass over memory where σ_f² is 1."""
        variance = self.variance()
        return value if isinstance(variance, float) and variance == 1 else variance * value


class _Stationary(_Elementary):
    """A kernel that is a function of e = −‖x − y‖² / 2ℓ² ≤ 0.

    It is computed as (xᵀy − ‖x‖²/2 − ‖y‖²/2) / ℓ² on centred features, since this cancels badly far from the origin.
    """

    def _of(self, exponent: Tensor) -> Tensor:
        """The kernel at e, a tensor that may be overwritten."""
        raise NotImplementedError

    def _inverse_length_squared(self) -> Tensor | float:
        raise NotImplementedError

    def _centred(self, x: Tensor, centre: Tensor) -> tuple[Tensor, float]:
        """x − centre and a scale, such that scale · ‖x − y‖² is the squared distance in units of ℓ."""
        x, scale = at_least_float32(x) - centre, self._inverse_length_squared()
        return (x * scale.sqrt(), 1.0) if isinstance(scale, Tensor) else (x, scale)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        with full_precision(x.device):
            centre = at_least_float32(x if y is None else y).detach().mean(-2, keepdim=True)
            left, scale = self._centred(x, centre)
            if y is None:
                flat = left.reshape(math.prod(left.shape[:-2]), *left.shape[-2:])
                return self._of(_exponent(flat, None, scale).reshape(*x.shape[:-1], x.shape[-2]))
            right, _ = self._centred(y, centre)
            shape = *torch.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-2]
            return self._of(_exponent(*batched(left, right), scale).reshape(shape))

    def against(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        centre = at_least_float32(x).detach().mean(-2, keepdim=True)
        left, scale = self._centred(x, centre)
        norms = _norms(left, scale)[..., :, None]

        def ask(y: Tensor) -> Tensor:
            with full_precision(x.device):
                right, _ = self._centred(y, centre)
                sums = norms + _norms(right, scale)[..., None, :]
                return self._of(torch.add(sums, times(left, right.mT), alpha=scale).clamp(max=0))

        return ask

    def diagonal(self, x: Tensor) -> Tensor:
        return self._of(at_least_float32(x[..., 0]).new_zeros(x.shape[:-1]))

    def window(self, x: Tensor, size: int) -> Tensor:
        with full_precision(x.device):
            x, scale = self._centred(x, at_least_float32(x).detach().mean((-3, -2), keepdim=True))
            norms = _norms(x, scale)
            own = torch.add(norms[..., None], local_gram(x, size), alpha=scale).unflatten(-1, (size, size))
            # Points beyond the grid are infinitely far away: the kernel is 0 there.
            exponent = (own + shifts(norms, size, -math.inf)).flatten(-2).clamp(max=0)
            exponent[..., size * size // 2] = 0
            return self._of(exponent)


def _norms(x: Tensor, scale: float) -> Tensor:
    """x: (..., D) -> −scale · ‖x‖² / 2: (...)."""
    return x.square().sum(-1) * (-0.5 * scale)


class _Exponent(torch.autograd.Function):
    """−scale · ‖x − y‖² / 2: (B, n, m) of x: (B, n, D) and y: (B, m, D) or None, which is x, with an exact diagonal.

    The distances are written, added to by one matrix product and clamped, all in place. Where rounding made them
    negative the gradient, scale · (y − x), is as small as x − y is, and needs no mask.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, scale: float) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        norms = _norms(x, scale)
        others = norms if y is None else _norms(y, scale)
        out = norms[:, :, None] + others[:, None, :]
        out.baddbmm_(x, (x if y is None else y).mT, alpha=scale).clamp_(max=0)
        if y is None:
            out.diagonal(dim1=-2, dim2=-1).zero_()
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, y = ctx.saved_tensors
        g = grads[0]
        with full_precision(g.device):
            if y is None:
                return _pull(g + g.mT, x, x, ctx.scale), None, None
            return (
                _pull(g, x, y, ctx.scale) if ctx.needs_input_grad[0] else None,
                _pull(g.mT, y, x, ctx.scale) if ctx.needs_input_grad[1] else None,
                None,
            )


def _pull(g: Tensor, x: Tensor, y: Tensor, scale: float) -> Tensor:
    """scale · Σ_j g_ij (y_j − x_i): (B, n, D) for g: (B, n, m), x: (B, n, D), y: (B, m, D)."""
    return (x * g.sum(-1, keepdim=True)).baddbmm_(g, y, beta=-scale, alpha=scale)


def _exponent(x: Tensor, y: Tensor | None, scale: float) -> Tensor:
    if torch.compiler.is_compiling() and y is not None:  # the formula itself, for compilers to read
        return (_norms(x, scale)[:, :, None] + _norms(y, scale)[:, None, :] + scale * (x @ y.mT)).clamp(max=0)
    if torch.compiler.is_exporting():
        diagonal = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        return _exponent(x, x, scale).masked_fill(diagonal, 0)
    result: Tensor = _Exponent.apply(x, y, scale)  # type: ignore[no-untyped-call]
    return result


class SquaredExponential(_Stationary):
    """κ(x, y) = σ_f² exp(−‖x − y‖² / 2ℓ²), with `length_squared` = ℓ² (the paper: √D) and `variance` = σ_f²."""

    def __init__(self, length_squared: float, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__(variance=variance, trainable=trainable)
        self.length_squared = Positive(length_squared, trainable=trainable, name="The kernel's ℓ²")

    def _inverse_length_squared(self) -> Tensor | float:
        inverse: Tensor | float = 1 / self.length_squared()
        return inverse

    def _of(self, exponent: Tensor) -> Tensor:
        return self._scaled(exponent.exp_())


class Exponential(_Stationary):
    """κ(x, y) = σ_f² exp(−‖x − y‖ / ℓ), with `length` = ℓ (the paper: √D)."""

    def __init__(self, length: float, *, variance: float = 1.0, trainable: bool = False) -> None:
        super().__init__(variance=variance, trainable=trainable)
        self.length = Positive(length, trainable=trainable, name="The kernel's ℓ")

    def _inverse_length_squared(self) -> Tensor | float:
        inverse: Tensor | float = self.length() ** -2
        return inverse

    def _of(self, exponent: Tensor) -> Tensor:
        apart = exponent < 0  # the square root has no gradient at 0: there the kernel's is taken as 0
        distance = torch.where(apart, -2 * exponent, 1).sqrt() * apart
        return self._scaled((-distance).exp_())


class Linear(_Elementary):
    """κ(x, y) = σ_f² xᵀy: Bayesian linear regression without a bias. Not stationary, so not centred."""

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        with full_precision(x.device):
            x = at_least_float32(x)
            return self._scaled(times(x, (x if y is None else at_least_float32(y)).mT))

    def diagonal(self, x: Tensor) -> Tensor:
        return self._scaled(at_least_float32(x).square().sum(-1))

    def window(self, x: Tensor, size: int) -> Tensor:
        with full_precision(x.device):
            return self._scaled(local_gram(at_least_float32(x), size))


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

"""Gaussian process regression: condition on a support set once, ask about any number of queries.

Symbols are the paper's: S support points with features x_s and outputs y_s, Q query points, E outputs, and

    μ = K_qs (K_ss + σ_y² I)⁻¹ y_s          Σ = K_qq − K_qs (K_ss + σ_y² I)⁻¹ K_sq.

With L Lᵀ = K_ss + σ_y² I, the posterior keeps the whitener W = L⁻¹ and the weights α = WᵀW y_s, so that a query is
matrix products only: μ = K_qs α and Σ = K_qq − VVᵀ with V = K_qs Wᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.gp.inducing import nystroem
from dgpnet.gp.kernels import Kernel
from dgpnet.gp.linalg import (
    at_least_float32,
    full_precision,
    grow,
    inverse_choleskies,
    inverse_cholesky,
    times,
    times_lower,
)
from dgpnet.gp.windows import local_gram, radius

#: Numbers that K_qs may hold at once when no gradient is needed (256 MiB of float32): larger queries go in bands.
CHUNK = 1 << 26


class GaussianProcess(nn.Module):
    """A zero-mean Gaussian process with observation noise of variance σ_y² = `noise`."""

    def __init__(self, kernel: Kernel, *, noise: float = 0.1) -> None:
        super().__init__()
        if not (math.isfinite(noise) and noise > 0):
            raise Error(f"The observation noise σ_y² must be a positive number, got {noise}.")
        self.kernel = kernel
        self.noise = noise

    def condition(self, x: Tensor, y: Tensor, *, budget: int | None = None) -> Posterior:
        """Condition on outputs y: (..., S, E) at features x: (..., S, D).

        With a `budget` of M < S points, M of the support points stand for all of them (see `inducing`): learning
        is then O(S·M²) instead of O(S³), and a query does not depend on S. A budget that is not used up yet is
        kept for when the posterior is extended.
        """
        if budget is None or budget >= x.shape[-2]:
            return replace(condition_together([self], [x], [y])[0], budget=budget)
        _check(x, y)
        with full_precision(x.device):
            x, y = at_least_float32(x), at_least_float32(y)
            basis, whitener, weights, residual = nystroem(self.kernel, self.noise, x, y, budget)
            return Posterior(self, x, y, basis, whitener, weights, budget, residual)

    def restore(self, tensors: dict[str, Tensor]) -> Posterior:
        """The posterior that `Posterior.tensors` described."""
        basis = tensors.get("basis", tensors["x"])
        budget = int(tensors["budget"]) if "budget" in tensors else None
        return Posterior(
            self,
            tensors["x"],
            tensors["y"],
            basis,
            tensors["whitener"],
            tensors["weights"],
            budget,
            tensors.get("residual"),
        )


def condition_together(
    processes: Sequence[GaussianProcess], xs: Sequence[Tensor], ys: Sequence[Tensor]
) -> list[Posterior]:
    """The exact posterior of each process given its own support. Kernel matrices of one shape are factorised as one
    batch, since a GPU takes hardly longer for two than for one."""
    for x, y in zip(xs, ys, strict=True):
        _check(x, y)
    with full_precision(xs[0].device):
        xs, ys = [at_least_float32(x) for x in xs], [at_least_float32(y) for y in ys]
        grams = [process.kernel(x) for process, x in zip(processes, xs, strict=True)]
        noises = [process.noise for process in processes]
        # An export is for any shape.
        if not torch.compiler.is_exporting() and len({gram.shape for gram in grams}) == 1:
            whiteners = inverse_choleskies(grams, noises)
        else:
            whiteners = [inverse_cholesky(gram, noise) for gram, noise in zip(grams, noises, strict=True)]
        return [
            Posterior(process, x, y, x, whitener, whitener.mT @ (whitener @ y))
            for process, x, y, whitener in zip(processes, xs, ys, whiteners, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What queries need of a support set. Immutable; batch dimensions lead every tensor.

    x: (..., S, D), y: (..., S, E)   the support
    basis: (..., M, D)               the points that queries are compared with: x itself, or M inducing points
    whitener: (..., R, M)            V = K_qm whitenerᵀ explains Σ = K_qq − VVᵀ
    weights: (..., M, E)             α
    budget                           the most inducing points that it may have, however it grows; None: it stays exact
    residual: (...,)                 prior variance, summed over the support, that the inducing points leave
                                     unexplained; None where the posterior is exact

    A query may have the posterior's batch dimensions, or further ones behind them: several photographs per support.
    """

    gp: GaussianProcess
    x: Tensor
    y: Tensor
    basis: Tensor
    whitener: Tensor
    weights: Tensor
    budget: int | None = None
    residual: Tensor | None = None

    # -- queries -----------------------------------------------------------------------------------------------------

    def mean(self, x: Tensor) -> Tensor:
        """x: (..., Q, D) -> μ: (..., Q, E)."""
        with full_precision(x.device):
            basis, _, weights = self._aligned(x.dim() - 2)
            return times(self.gp.kernel(x, basis), weights)

    def variance(self, x: Tensor) -> Tensor:
        """x: (..., Q, D) -> diagonal of Σ: (..., Q), never negative."""
        with full_precision(x.device):
            explained = self._whitened(x).square().sum(-1)
            return (self.gp.kernel.diagonal(x) - explained).clamp(min=0)

    def covariance(self, x: Tensor) -> Tensor:
        """x: (..., Q, D) -> Σ: (..., Q, Q). The slow oracle: everything else needs `window` only."""
        with full_precision(x.device):
            v = self._whitened(x)
            result: Tensor = self.gp.kernel(x) - v @ v.mT
            return result

    def window(self, x: Tensor, size: int) -> Tensor:
        """x: (..., H, W, D) -> (..., H, W, size²): Σ with each neighbour, row-major; 0 outside the grid."""
        return self.predict(x, size)[1]

    def predict(self, x: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Mean (..., H, W, E) and covariance window (..., H, W, size²) of a grid x: (..., H, W, D).

        size 0 asks for no covariance: the window then has no channels. Memory is O(Q·(S + size²)).
        """
        height, width = x.shape[-3:-1]
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self._band(x, size)
        rows = max(1, CHUNK // max(1, x.shape[:-3].numel() * width * self.basis.shape[-2]))
        if rows >= height:
            return self._band(x, size)
        r = radius(size) if size else 0
        bands = []
        for top in range(0, height, rows):
            first, last = max(0, top - r), min(height, top + rows + r)
            keep = slice(top - first, min(top + rows, height) - first)
            bands.append([part[..., keep, :, :] for part in self._band(x[..., first:last, :, :], size)])
        means, windows = zip(*bands, strict=True)
        return torch.cat(means, -3), torch.cat(windows, -3)

    def _band(self, x: Tensor, size: int) -> tuple[Tensor, Tensor]:
        with full_precision(x.device):
            grid = x.shape[-3:-1]
            points = x.flatten(-3, -2)
            basis, whitener, weights = self._aligned(points.dim() - 2)
            k = self.gp.kernel(points, basis)
            mean = times(k, weights).unflatten(-2, grid)
            if size == 0:
                return mean, mean.new_zeros(*mean.shape[:-1], 0)
            v = self._whiten(k, whitener).unflatten(-2, grid)
            window = self.gp.kernel.window(x, size) - local_gram(v, size)
            window[..., size * size // 2].clamp_(min=0)
            return mean, window

    def _whitened(self, x: Tensor) -> Tensor:
        basis, whitener, _ = self._aligned(x.dim() - 2)
        return self._whiten(self.gp.kernel(x, basis), whitener)

    def _whiten(self, k: Tensor, whitener: Tensor) -> Tensor:
        """V = k whitenerᵀ; the whitener of an exact posterior is triangular."""
        return times_lower(k, whitener) if self.residual is None else times(k, whitener.mT)

    def _aligned(self, dims: int) -> tuple[Tensor, Tensor, Tensor]:
        """Basis, whitener and weights with batch dimensions added behind their own until there are `dims`."""
        missing = dims - (self.basis.dim() - 2)
        if missing < 0:
            raise Error(f"A query needs the posterior's {self.basis.dim() - 2} batch dimensions, got {dims}.")
        index = (..., *([None] * missing), slice(None), slice(None))
        return self.basis[index], self.whitener[index], self.weights[index]

    # -- growing and shrinking ---------------------------------------------------------------------------------------

    def extend(self, x: Tensor, y: Tensor) -> Posterior:
        """The posterior given n more points x: (..., n, D), y: (..., n, E), equal to conditioning on all from scratch.

        Without a budget the factor grows by a block, O(S²·n); with one, inducing points are chosen anew.
        """
        _check(x, y)
        if x.shape[-1] != self.x.shape[-1] or y.shape[-1] != self.y.shape[-1]:
            raise Error(
                f"The posterior has {self.x.shape[-1]} features and {self.y.shape[-1]} outputs a point, "
                f"the new points have {x.shape[-1]} and {y.shape[-1]}."
            )
        with full_precision(x.device):
            x, y = at_least_float32(x), at_least_float32(y)
            everything = torch.cat([self.x, x], -2), torch.cat([self.y, y], -2)
            if self.budget is not None:
                return self.gp.condition(*everything, budget=self.budget)
            w = self.whitener
            cross = self.gp.kernel(x, self.x) @ w.mT
            corner = inverse_cholesky(self.gp.kernel(x) - cross @ cross.mT, self.gp.noise)
            return self._exact(*everything, grow(w, cross, corner))

    def remove(self, start: int, stop: int) -> Posterior:
        """The posterior without the support points start … stop − 1; only the factor below them is computed anew."""
        points = self.x.shape[-2]
        if not 0 <= start < stop <= points or stop - start == points:
            raise Error(f"Of {points} support points some but not all can be removed, got {start} … {stop}.")
        x, y = (torch.cat([t[..., :start, :], t[..., stop:, :]], -2) for t in (self.x, self.y))
        if self.budget is not None:
            return self.gp.condition(x, y, budget=self.budget)
        with full_precision(x.device):
            head = self.whitener[..., :start, :start]
            tail = x[..., start:, :]
            cross = self.gp.kernel(tail, x[..., :start, :]) @ head.mT
            corner = inverse_cholesky(self.gp.kernel(tail) - cross @ cross.mT, self.gp.noise)
            return self._exact(x, y, grow(head, cross, corner))

    def _exact(self, x: Tensor, y: Tensor, whitener: Tensor) -> Posterior:
        weights = whitener.mT @ (whitener @ y)
        return replace(self, x=x, y=y, basis=x, whitener=whitener, weights=weights)

    # -- moving ------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the process itself, for a file; `GaussianProcess.restore` is the way back."""
        found = {"x": self.x, "y": self.y, "whitener": self.whitener, "weights": self.weights}
        if self.budget is not None:
            found["budget"] = torch.tensor(self.budget)
        if self.residual is not None:
            found.update(basis=self.basis, residual=self.residual)
        return {name: tensor.contiguous() for name, tensor in found.items()}

    def each(self, change: Callable[[Tensor], Tensor]) -> Posterior:
        """The same posterior of changed tensors; on another device, its process must be there too."""
        x = change(self.x)
        return replace(
            self,
            x=x,
            y=change(self.y),
            basis=x if self.basis is self.x else change(self.basis),
            whitener=change(self.whitener),
            weights=change(self.weights),
            residual=None if self.residual is None else change(self.residual),
        )


def _check(x: Tensor, y: Tensor) -> None:
    if x.dim() < 2 or y.dim() < 2 or x.shape[:-1] != y.shape[:-1]:
        raise Error(
            f"Support features (..., S, D) and outputs (..., S, E) must agree in all but the last dimension, "
            f"got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if x.shape[-2] == 0:
        raise Error("The support set is empty: give at least one example.")

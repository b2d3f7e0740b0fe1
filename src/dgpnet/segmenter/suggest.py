"""Which photographs to annotate: the ones that would tell the Gaussian process the most about all the others."""

from __future__ import annotations

import torch
from torch import Tensor

from dgpnet.gp import Kernel, Posterior

#: Each photograph stands in the pool as the means of its features over a grid of this many cells a side …
GRID = 8
#: … and of half as many where there are more photographs than this.
FINE = 1024
#: Points of the pool on which variance is summed; of a larger pool, this many drawn at random.
MEASURED = 2048
#: Points of what is known already; a larger support set is reduced to this many inducing points.
KNOWN = 1024
#: Numbers of the covariance between candidates and measured points that exist at once: 256 MiB.
CHUNK = 1 << 26


def greedy_order(kernel: Kernel, noise: float, pool: Tensor, budget: int, known: Posterior | None = None) -> list[int]:
    """Indices of `budget` photographs in the order in which to annotate them.

    pool: (N, GRID², D), feature vectors of N photographs. Each step takes the photograph i whose points,
    once observed, lower the summed posterior variance of the pool the most, by

        tr(Σ_pi (Σ_ii + σ²I)⁻¹ Σ_ip),      Σ the posterior covariance given what is known and what was taken before.

    known: a posterior with one batch dimension of 1; without it, Σ starts as the prior.
    """
    if len(pool) > FINE:
        pool = coarser(pool)
    pool = pool.to(torch.promote_types(pool.dtype, torch.float32))
    points = pool.flatten(0, 1)
    measured = _sample(points)
    explained, explained_there = _explained(known, points), _explained(known, measured)
    order: list[int] = []
    while len(order) < min(budget, len(pool)):
        gains = _gains(kernel, noise, pool, explained.unflatten(0, pool.shape[:2]), measured, explained_there)
        gains[order] = -torch.inf
        best = int(gains.argmax())
        order.append(best)
        chosen = pool[best]
        rows = slice(best * pool.shape[1], (best + 1) * pool.shape[1])
        own = explained[rows].clone()
        factor = torch.linalg.cholesky(_noisy(kernel(chosen) - own @ own.mT, noise))
        explained = _append(kernel, points, explained, chosen, own, factor)
        explained_there = _append(kernel, measured, explained_there, chosen, own, factor)
    return order


def coarser(pool: Tensor) -> Tensor:
    """(N, GRID², D) -> (N, GRID²/4, D): means of 2 × 2 cells."""
    cells: Tensor = pool.unflatten(1, (GRID // 2, 2, GRID // 2, 2))
    return cells.mean((2, 4)).flatten(1, 2)


def _sample(points: Tensor) -> Tensor:
    if len(points) <= MEASURED:
        return points
    # A fixed seed: the same pool always gets the same answer.
    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:MEASURED]
    return points[drawn.to(points.device)]


def _explained(known: Posterior | None, points: Tensor) -> Tensor:
    """(n, R) with Σ = K − VVᵀ for points (n, D); R = 0 where nothing is known."""
    if known is None:
        return points.new_zeros(len(points), 0)
    if known.basis.shape[-2] > KNOWN:
        known = known.gp.condition(known.x, known.y, budget=KNOWN)
    parts = [known.gp.kernel(part, known.basis[0]) @ known.whitener[0].mT for part in points.split(8192)]
    return torch.cat(parts)


def _gains(
    kernel: Kernel, noise: float, pool: Tensor, explained: Tensor, measured: Tensor, explained_there: Tensor
) -> Tensor:
    """(N,) how much variance of the measured points each photograph of the pool would take away."""
    at_once = max(1, CHUNK // (pool.shape[1] * len(measured)))
    gains = []
    for x, v in zip(pool.split(at_once), explained.split(at_once), strict=True):
        across = kernel(x.flatten(0, 1), measured).unflatten(0, x.shape[:2]) - v @ explained_there.mT
        factor = torch.linalg.cholesky(_noisy(kernel(x) - v @ v.mT, noise))
        solved = torch.cholesky_solve(across @ across.mT, factor)
        gains.append(solved.diagonal(dim1=-2, dim2=-1).sum(-1))
    return torch.cat(gains)


def _append(kernel: Kernel, points: Tensor, v: Tensor, chosen: Tensor, own: Tensor, factor: Tensor) -> Tensor:
    """V with further columns for what the chosen points (G, D) explain once observed."""
    across = kernel(points, chosen) - v @ own.mT
    return torch.cat([v, torch.linalg.solve_triangular(factor, across.mT, upper=False).mT], -1)


def _noisy(covariance: Tensor, noise: float) -> Tensor:
    return covariance + noise * torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)

"""A few points that stand for many.

Inducing points are chosen among the support by greedy conditional variance: always the point that is least explained
by those already taken, which is a pivoted Cholesky factorisation K_ss ≈ ΦΦᵀ with Φ: (S, M). The posterior is then the
one of Bayesian linear regression on the features φ(x) = L_mm⁻¹ k_m(x) (the projected process, or DTC), with the
prior's own variance kept where φ does not reach. With M = S it is the exact posterior.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.gp.kernels import Kernel
from dgpnet.gp.linalg import inverse_cholesky

#: A point whose variance given the chosen ones is below this share of the largest prior variance adds only rounding.
EXPLAINED = 1e-5


#: Points that further ones are chosen among before all others are looked at again.
PANEL = 512


@torch.no_grad()
def pivots(kernel: Kernel, x: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """Greedy choice of at most `budget` of the points x: (..., S, D).

    Returns their indices (..., M) and the variance each point has left (..., S). In a batch whose members run out of
    points at different times, the indices of those that did so first end in −1.
    """
    if budget < 1:
        raise Error(f"The budget of inducing points must be at least 1, got {budget}.")
    found = [_pivots(kernel, one, min(budget, len(one))) for one in x.reshape(-1, *x.shape[-2:])]
    most = max(len(index) for index, _ in found)
    index = torch.stack([F.pad(index, (0, most - len(index)), value=-1) for index, _ in found])
    return index.view(*x.shape[:-2], most), torch.stack([left for _, left in found]).view(x.shape[:-1])


def _pivots(kernel: Kernel, x: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """`pivots` of one set of points (S, D), a panel at a time, with the very choice that a step a point would make.

    Variances only fall. So the least explained of the PANEL points that had most left is the least explained of all as
    long as it has more left than any point outside had when the panel was taken. Within the panel the choice is made on
    the host, from one copy; all else is a few large products for each panel.
    """
    left = kernel.diagonal(x).clone()
    floor = EXPLAINED * float(left.max())
    factor = left.new_zeros(budget, len(x))  # K ≈ factorᵀ factor
    similarity = kernel.against(x)
    if not floor > 0:  # nothing to explain
        return left.argmax()[None], left
    chosen = left.new_empty(0, dtype=torch.long)
    while (done := len(chosen)) < budget:
        order = left.argsort(descending=True, stable=True)[: PANEL + 1]
        panel = order[:PANEL].sort().values  # of equals the first one is taken
        known = factor[:done, panel]
        residual = kernel(x[panel]) - known.mT @ known
        bound = float(left[order[PANEL]]) if len(order) > PANEL else floor
        picks, lower = _within(residual.cpu().numpy(), left[panel].cpu().numpy(), floor, bound, budget - done)
        if not picks:
            break
        new = panel[picks]
        rows = similarity(x[new]).mT - factor[:done, new].mT @ factor[:done]
        rows = torch.linalg.solve_triangular(torch.from_numpy(lower).to(rows), rows, upper=False)
        factor[done : done + len(picks)] = rows
        chosen = torch.cat([chosen, new])
        # Rounding must not give an explained point a negative variance, nor a chosen one any.
        left = (left - rows.square().sum(0)).clamp(min=0).scatter(0, chosen, 0.0)
    return chosen, left


def _within(
    residual: NDArray[Any], left: NDArray[Any], floor: float, bound: float, budget: int
) -> tuple[list[int], NDArray[Any]]:
    """Greedy choice among n points with covariances (n, n) and variances (n,): the first with more than `floor` left,
    and others as long as they have more than `bound`. Returns at most `budget` places, and L: (M, M) of those points.
    """
    rows = np.zeros((min(budget, len(left)), len(left)), left.dtype)
    picks: list[int] = []
    while (done := len(picks)) < len(rows):
        best = int(left.argmax())
        if left[best] <= (max(bound, floor) if picks else floor):
            break
        root = np.sqrt(left[best])
        rows[done] = (residual[best] - rows[:done, best] @ rows[:done]) / root
        rows[done, picks], rows[done, best] = 0, root
        picks.append(best)
        left = np.maximum(left - rows[done] ** 2, 0)
        left[picks] = 0
    return picks, np.ascontiguousarray(rows[: len(picks), picks].T)


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows index: (..., M) of x: (..., S, D) -> (..., M, D)."""
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def nystroem(kernel: Kernel, noise: float, x: Tensor, y: Tensor, budget: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Basis (..., M, D), whitener (..., M, M), weights (..., M, E) and residual trace (...,) of the budgeted posterior.

    With A = σ²I + ΦᵀΦ, the mean is φ(q)ᵀA⁻¹Φᵀy and the covariance K_qq − φᵀ(I − σ²A⁻¹)φ.
    """
    index, _ = pivots(kernel, x, budget)
    # Where a member of the batch needs fewer points, the rest have no say: φ is 0 there.
    real, index = (index >= 0).to(x.dtype), index.clamp(min=0)
    basis = take(x, index)
    unreal = torch.diag_embed(1 - real)
    eye = torch.eye(index.shape[-1], dtype=x.dtype, device=x.device)
    pairs = real[..., :, None] * real[..., None, :]
    unroot = inverse_cholesky(kernel(basis) * pairs + unreal) * pairs  # L_mm⁻¹
    # Each inducing point is a support point: κ of the two is exact, not what rounding makes of a distance of 0.
    cross = kernel(x, basis).scatter(-2, index[..., None, :], kernel.diagonal(basis)[..., None, :])
    phi = cross @ unroot.mT
    w = inverse_cholesky(noise * eye + phi.mT @ phi)
    inverse = w.mT @ w  # A⁻¹
    weights = unroot.mT @ (inverse @ (phi.mT @ y))
    unexplained = inverse_cholesky((eye - noise * inverse) * pairs + unreal)
    gain = torch.linalg.solve_triangular(unexplained, eye.expand_as(w), upper=False)
    residual = (kernel.diagonal(x) - phi.square().sum(-1)).clamp(min=0).sum(-1)
    return basis, gain.mT @ unroot, weights, residual

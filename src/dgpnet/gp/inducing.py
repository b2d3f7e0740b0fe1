"""A few points that stand for many.

Inducing points are chosen among the support by greedy conditional variance: always the point that is least explained
by those already taken, which is a pivoted Cholesky factorisation K_ss ≈ ΦΦᵀ with Φ: (S, M). The posterior is then the
one of Bayesian linear regression on the features φ(x) = L_mm⁻¹ k_m(x) (the projected process, or DTC), with the
prior's own variance kept where φ does not reach. With M = S it is the exact posterior.
"""

import torch
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.gp.kernels import Kernel
from dgpnet.gp.linalg import inverse_cholesky

#: A point whose variance given the chosen ones is below this share of the largest prior variance adds only rounding.
EXPLAINED = 1e-5


@torch.no_grad()
def pivots(kernel: Kernel, x: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """Greedy choice of at most `budget` of the points x: (..., S, D).

    Returns their indices (..., M) and the variance each point has left (..., S). In a batch whose members run out of
    points at different times, the indices of those that did so first end in −1.
    """
    if budget < 1:
        raise Error(f"The budget of inducing points must be at least 1, got {budget}.")
    left = kernel.diagonal(x).clone()
    floor = EXPLAINED * left.amax(-1, keepdim=True)
    points = x.shape[-2]
    factor = x.new_zeros(*x.shape[:-2], min(budget, points), points)  # K ≈ factorᵀ factor
    similarity = kernel.against(x)
    chosen = []
    for column in range(factor.shape[-2]):
        best, index = left.max(-1, keepdim=True)  # (..., 1)
        needed = best > floor
        if column and not bool(needed.any()):
            break
        known = factor[..., :column, :]
        own = known.gather(-1, index[..., None].expand(*known.shape[:-1], 1))  # (..., column, 1)
        residual = similarity(take(x, index)).mT - own.mT @ known
        scaled = residual[..., 0, :] * (needed / best.clamp(min=floor).sqrt())
        factor[..., column, :] = scaled
        # Rounding must not give an explained point a negative variance, nor the chosen one any.
        left = (left - scaled.square()).clamp(min=0).scatter(-1, index, 0.0)
        chosen.append(torch.where(needed, index, -1) if column else index)
    return torch.cat(chosen, -1), left


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

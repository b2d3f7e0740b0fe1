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


def pivots(kernel: Kernel, x: Tensor, budget: int) -> tuple[Tensor, Tensor, Tensor]:
    """Greedy choice of at most `budget` of the points x: (..., S, D).

    Returns their indices (..., M), the factor Φ: (..., S, M) with K ≈ ΦΦᵀ, and the variance each point has left
    (..., S).
    """
    if budget < 1:
        raise Error(f"The budget of inducing points must be at least 1, got {budget}.")
    left = kernel.diagonal(x).clone()
    floor = EXPLAINED * left.amax(-1, keepdim=True)
    factor = x.new_zeros(*x.shape[:-1], min(budget, x.shape[-2]))
    chosen = []
    for column in range(factor.shape[-1]):
        best, index = left.max(-1, keepdim=True)  # (..., 1)
        if column and bool((best <= floor).all()):
            factor = factor[..., :column]
            break
        point = x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))  # (..., 1, D)
        row = factor.gather(-2, index[..., None].expand(*index.shape, factor.shape[-1]))[..., :column]
        residual = kernel(x, point) - factor[..., :column] @ row.mT
        scaled = residual[..., 0] / best.clamp(min=floor).sqrt()
        # Rounding must not give an explained point a negative variance, nor the chosen one any.
        factor[..., column] = scaled.scatter(-1, index, best.clamp(min=floor).sqrt())
        left = (left - scaled.square()).clamp(min=0).scatter(-1, index, 0.0)
        chosen.append(index)
    return torch.cat(chosen, -1), factor, left


def nystroem(kernel: Kernel, noise: float, x: Tensor, y: Tensor, budget: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Basis (..., M, D), whitener (..., M, M), weights (..., M, E) and residual trace (...,) of the budgeted posterior.

    With A = σ²I + ΦᵀΦ, the mean is φ(q)ᵀA⁻¹Φᵀy and the covariance K_qq − φᵀ(I − σ²A⁻¹)φ.
    """
    index, phi, left = pivots(kernel, x, budget)
    basis = x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))
    root = phi.gather(-2, index[..., None].expand(*index.shape, phi.shape[-1])).tril()  # L_mm
    eye = torch.eye(root.shape[-1], dtype=x.dtype, device=x.device)
    unroot = torch.linalg.solve_triangular(root, eye.expand_as(root), upper=False)
    w = inverse_cholesky(noise * eye + phi.mT @ phi)
    inverse = w.mT @ w  # A⁻¹
    weights = unroot.mT @ (inverse @ (phi.mT @ y))
    gain = torch.linalg.solve_triangular(inverse_cholesky(eye - noise * inverse), eye.expand_as(root), upper=False)
    return basis, gain.mT @ unroot, weights, left.sum(-1)

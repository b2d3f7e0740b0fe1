"""The few matrix operations that the Gaussian process is made of, in float32 or better."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dgpnet.errors import Error

#: What is added to the diagonal, relative to its mean, before a factorisation is given up.
JITTERS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)

#: Matrices up to this size are factorised by the library, larger ones by halves.
BLOCK = 64


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No autocast, no TF32: Gram matrices lose their definiteness in anything less than float32."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32, or as it is if it is float64."""
    return x if x.dtype == torch.float64 else x.float()


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, where a b shared by the whole batch is not copied for each member of it."""
    if b.dim() > 2 and b.shape[:-2].numel() == 1:
        b = b.reshape(b.shape[-2:])
    return a @ b


def capturing(x: Tensor) -> bool:
    """Whether a CUDA graph is being captured, in which numbers cannot be looked at."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _whitener(a: Tensor) -> Tensor:
    """W = L⁻¹ of a: (..., S, S), climbing the ladder of jitters where rounding made a indefinite."""
    failures: list[Tensor] = []
    whitener = _by_halves(a, failures)
    # A captured graph cannot branch; the noise on the diagonal keeps a definite.
    if capturing(a) or not torch.stack([info.any() for info in failures]).any():
        return whitener
    if not torch.isfinite(a).all():
        raise Error(
            "The kernel matrix holds NaN or infinity: check that features and masks are finite (a diverged network?)."
        )
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    scale = a.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    for jitter in JITTERS:
        lower, info = torch.linalg.cholesky_ex(a + jitter * scale * eye)
        if not info.any():
            return _inverse(lower)
    raise Error(
        f"The kernel matrix of {a.shape[-1]} points is not positive definite even with {JITTERS[-1]:g} of its mean "
        "diagonal added: raise the noise, or remove repeated support points."
    )


def _by_halves(a: Tensor, failures: list[Tensor]) -> Tensor:
    """W = L⁻¹ where all but small blocks on the diagonal is matrix products, which batched solvers are not."""
    size = a.shape[-1]
    if size <= BLOCK:
        lower, info = torch.linalg.cholesky_ex(a)
        failures.append(info)
        return _inverse(lower)
    half = size // 2
    first = _by_halves(a[..., :half, :half], failures)
    cross = a[..., half:, :half] @ first.mT
    return grow(first, cross, _by_halves(a[..., half:, half:] - cross @ cross.mT, failures))


def _inverse(lower: Tensor) -> Tensor:
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    inverse: Tensor = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    return inverse.contiguous()  # the solver's column order would not survive a file, and sums would round otherwise


def grow(whitener: Tensor, cross: Tensor, corner: Tensor) -> Tensor:
    """The whitener of [[A, Bᵀ], [B, C]] from that of A, cross = B whitenerᵀ, and that of C − cross crossᵀ."""
    upper = torch.cat([whitener, whitener.new_zeros(*whitener.shape[:-1], corner.shape[-1])], -1)
    lower = torch.cat([-corner @ (cross @ whitener), corner], -1)
    return torch.cat([upper, lower], -2)


class _InverseCholesky(torch.autograd.Function):
    """W = L⁻¹ where L Lᵀ = A.

    With Φ the lower triangle with half the diagonal, dL = L Φ(W dA Wᵀ), hence dW = −Φ(W dA Wᵀ) W, and the gradient
    is three matrix products: no triangular solve in the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        whitener = _whitener(a)
        ctx.save_for_backward(whitener)
        return whitener

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        w: Tensor = ctx.saved_tensors[0]
        with full_precision(w.device):
            phi = (grads[0] @ w.mT).tril()
            phi = phi - 0.5 * torch.diag_embed(phi.diagonal(dim1=-2, dim2=-1))
            g = -(w.mT @ phi @ w)
            symmetric: Tensor = 0.5 * (g + g.mT)
            return symmetric


def inverse_cholesky(a: Tensor) -> Tensor:
    """W = L⁻¹: (..., S, S), lower triangular, with WᵀW = A⁻¹, for a symmetric positive definite A: (..., S, S)."""
    result: Tensor = _InverseCholesky.apply(a)  # type: ignore[no-untyped-call]
    return result

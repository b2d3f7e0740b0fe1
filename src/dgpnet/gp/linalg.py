"""The few matrix operations that the Gaussian process is made of, in float32 or better."""

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from dgpnet.errors import Error

#: What is added to the diagonal, relative to its mean, before a factorisation is given up.
JITTERS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)

#: Points in a block of the factorisation, by the kind of device: wider blocks are fewer and longer steps.
BLOCK = {"cpu": 64, "cuda": 32}

#: The same on CUDA from so many numbers in all matrices together: the products then take the time, not the launches.
WIDE_BLOCK, WIDE_FROM = 128, 1 << 24

#: Blocks up to this size are factorised on CUDA by one launch of a Triton kernel (`linalg_triton`), larger ones by the
#: library.
FUSED = 32

#: Numbers that keep a device busy: a product with a triangular matrix that has more is done in strips of at least this
#: many, each without the zeros beyond the diagonal.
BUSY = {"cpu": 1 << 16, "cuda": 1 << 21}


class _Highest:
    """PyTorch's precision of float32 matrix products, which is one for all threads, at its highest for as long as
    anybody needs it so; what it was before comes back when the last one has left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = "highest"

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = torch.get_float32_matmul_precision()
            if self._inside == 0 and self._before != "highest":
                torch.set_float32_matmul_precision("highest")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._before != "highest":
                torch.set_float32_matmul_precision(self._before)


_HIGHEST = _Highest()
if hasattr(os, "register_at_fork"):  # another thread may have been inside, and stays with the parent
    os.register_at_fork(after_in_child=_HIGHEST.__init__)  # type: ignore[misc]


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No autocast, no TF32: Gram matrices lose their definiteness in anything less than float32."""
    # What is compiled or exported keeps no switch of this process.
    with nullcontext() if torch.compiler.is_compiling() else _HIGHEST, without_autocast(device):
        yield


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """No autocast; nothing at all where there is none, so that exported graphs hold no trace of it."""
    on = device.type != "meta" and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32, or as it is if it is float64."""
    return x if x.dtype == torch.float64 else x.float()


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, where a b shared by the whole batch is not copied for each member of it."""
    if b.dim() > 2 and math.prod(b.shape[:-2]) == 1:
        b = b.reshape(b.shape[-2:])
    return a @ b


def capturing(x: Tensor) -> bool:
    """Whether a CUDA graph is being captured, in which numbers cannot be looked at."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def batched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a: (..., n, D) and b: (..., m, D) as (B, N, D) and (B, m, D). A b shared by the whole batch is not copied for
    each member of it: they are then rows of one matrix, and B is 1."""
    if math.prod(b.shape[:-2]) == 1:
        return a.reshape(1, math.prod(a.shape[:-1]), a.shape[-1]), b.reshape(1, *b.shape[-2:])
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (t.expand(*batch, -1, -1).flatten(0, -3) for t in (a, b))
    return a, b


def times_lower(a: Tensor, w: Tensor) -> Tensor:
    """a @ wᵀ: (..., n, S) for a: (..., n, S) and a lower triangular w: (..., S, S), whose zeros are skipped where no
    gradient is needed."""
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and (a.requires_grad or w.requires_grad)):
        return times(a, w.mT)
    rows, w = batched(a, w)
    out = torch.empty_like(rows)
    for start, stop in _strips(w.shape[-1], out):
        torch.bmm(rows[..., :stop], w[:, start:stop, :stop].mT, out=out[..., start:stop])
    return out.reshape(a.shape)


def _strips(size: int, product: Tensor) -> Iterator[tuple[int, int]]:
    """(start, stop) of the strips, each of at least 128 rows or columns, in which a product (B, ., .) is best done."""
    numbers = 128 * max(1, product.numel() // size)
    width = 128 * -(-_of_device(BUSY, product) // numbers)
    return ((start, min(start + width, size)) for start in range(0, size, width))


def _of_device(table: dict[str, int], x: Tensor) -> int:
    return table["cpu" if x.device.type == "cpu" else "cuda"]


def _whitener(matrices: Sequence[Tensor], noises: Sequence[float]) -> Tensor:
    """W = L⁻¹ of every A + noise · I, stacked, climbing the ladder of jitters where rounding made one indefinite."""
    a = _noisy(matrices, noises)
    whitener = torch.zeros_like(a)
    whitener.diagonal(dim1=-2, dim2=-1).fill_(1)
    infos = _factorise(a.flatten(0, -3), whitener.flatten(0, -3))
    # A captured graph cannot branch; the noise on the diagonal keeps a definite.
    if capturing(a) or not _failed(infos, whitener):
        return whitener
    a = _noisy(matrices, noises)
    if not torch.isfinite(a).all():
        raise Error(
            "The kernel matrix holds NaN or infinity: check that features and masks are finite (a diverged network?)."
        )
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    scale = a.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    for jitter in JITTERS:
        lower, info = torch.linalg.cholesky_ex(a + jitter * scale * eye)
        if not info.any():
            return whitener.copy_(torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False))
    raise Error(
        f"The kernel matrix of {a.shape[-1]} points is not positive definite even with {JITTERS[-1]:g} of its mean "
        "diagonal added: raise the noise, or remove repeated support points."
    )


def _failed(infos: Sequence[Tensor], whitener: Tensor) -> bool:
    found = [info.any() for info in infos]
    return bool(torch.stack([*found, ~whitener.diagonal(dim1=-2, dim2=-1).isfinite().all()]).any())


def _noisy(matrices: Sequence[Tensor], noises: Sequence[float]) -> Tensor:
    """A new (len, ..., S, S): each matrix with its noise on the diagonal."""
    a = torch.stack(list(matrices))
    for matrix, noise in zip(a, noises, strict=True):
        matrix.diagonal(dim1=-2, dim2=-1).add_(noise)
    return a


def _factorise(a: Tensor, w: Tensor) -> list[Tensor]:
    """Writes L⁻¹ into w: (B, S, S), the identity until then. Reads the lower triangle of a: (B, S, S) and uses it up.

    All but small blocks on the diagonal is matrix products, which batched solvers are not. Returns what the solver says
    of the blocks: anything but zeros where it failed.
    """
    size = a.shape[-1]
    widest = WIDE_BLOCK if a.is_cuda and a.numel() >= WIDE_FROM else _of_device(BLOCK, a)
    blocks = max(1, -(-size // widest))
    block = max(1, -(-size // blocks))
    fused = _kernels(a) if block <= FUSED else None
    infos = []
    for start in range(0, max(1, size), block):
        stop = min(start + block, size)
        corner, rest = w[:, start:stop, start:stop], a[:, stop:, stop:]
        if fused:
            fused.whiten_block(a[:, start:stop, start:stop], corner)
        else:
            infos.append(_whiten_block(a[:, start:stop, start:stop], corner))
        if stop == size:
            break
        below = w[:, stop:, start:stop]  # L, until `_join` makes it L⁻¹
        torch.bmm(a[:, stop:, start:stop], corner.mT, out=below)
        for left, right in _strips(size - stop, rest):
            rest[:, left:, left:right].baddbmm_(below[:, left:], below[:, left:right].mT, alpha=-1)
    while block < size:
        for scratch, pair in zip(_on_diagonal(a, 2 * block), _on_diagonal(w, 2 * block), strict=True):
            if pair.shape[-1] > block:
                _join(pair, scratch, block)
        block *= 2
    return infos


def _whiten_block(a: Tensor, w: Tensor) -> Tensor:
    """Writes L⁻¹ of a: (B, n, n) into w: (B, n, n), the identity until then, and returns zeros: (B,) where it could."""
    info: Tensor
    lower, info = torch.linalg.cholesky_ex(a)
    w.copy_(torch.linalg.solve_triangular(lower, w, upper=False))
    return info


def _kernels(a: Tensor) -> Any:
    """The Triton twin where it can run, else None."""
    if a.is_cuda and a.dtype == torch.float32:
        from dgpnet.gp import linalg_triton

        if linalg_triton.AVAILABLE:
            return linalg_triton
    return None


def _on_diagonal(a: Tensor, size: int) -> list[Tensor]:
    """Views (., n, n) that make up the blocks on the diagonal of a: (B, S, S), all of n = size but the last ones: as
    few views as can be."""
    batch, whole = a.shape[0], a.shape[-1] // size * size
    if batch * size >= whole:
        found = [a[:, start : start + size, start : start + size] for start in range(0, whole, size)]
    else:
        found = [m.unfold(0, size, size).unfold(1, size, size).diagonal().movedim(-1, 0) for m in a]
    return [*found, a[:, whole:, whole:]]


def _join(pair: Tensor, scratch: Tensor, size: int) -> None:
    """From [[W₁, 0], [L₂₁, W₂]] to [[W₁, 0], [−W₂ L₂₁ W₁, W₂]], in place, where W₁ is (B, size, size)."""
    first, second = pair[:, :size, :size], pair[:, size:, size:]
    lower, product = pair[:, size:, :size], scratch[:, size:, :size]
    for start, stop in _strips(size, product):
        torch.bmm(lower[:, :, start:], first[:, start:, start:stop], out=product[:, :, start:stop])
    for start, stop in _strips(product.shape[1], product):
        lower[:, start:stop].baddbmm_(second[:, start:stop, :stop], product[:, :stop], beta=0, alpha=-1)


def grow(whitener: Tensor, cross: Tensor, corner: Tensor) -> Tensor:
    """The whitener of [[A, Bᵀ], [B, C]] from that of A, cross = B whitenerᵀ, and that of C − cross crossᵀ."""
    upper = torch.cat([whitener, whitener.new_zeros(*whitener.shape[:-1], corner.shape[-1])], -1)
    lower = torch.cat([-corner @ (cross @ whitener), corner], -1)
    return torch.cat([upper, lower], -2)


class _InverseCholesky(torch.autograd.Function):
    """W = L⁻¹ where L Lᵀ = A + noise · I, of several A, stacked.

    With Φ the lower triangle with half the diagonal, dL = L Φ(W dA Wᵀ), hence dW = −Φ(W dA Wᵀ) W, and the gradient
    is three matrix products: no triangular solve in the backward pass. It is not symmetric, as A and dA are: only its
    symmetric part has a meaning.
    """

    @staticmethod
    def forward(ctx: Any, noises: Sequence[float], *matrices: Tensor) -> Tensor:
        whitener = _whitener(matrices, noises)
        ctx.save_for_backward(whitener)
        return whitener

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        w: Tensor = ctx.saved_tensors[0]
        with full_precision(w.device):
            phi = (grads[0] @ w.mT).tril_()
            phi.diagonal(dim1=-2, dim2=-1).mul_(0.5)
            return None, *(w.mT @ phi @ w).neg_()


def inverse_cholesky(a: Tensor, noise: float = 0.0) -> Tensor:
    """W = L⁻¹: (..., S, S), lower triangular, with WᵀW = (A + noise · I)⁻¹, for a symmetric A: (..., S, S) such that
    A + noise · I is positive definite."""
    return inverse_choleskies([a], [noise])[0]


def inverse_choleskies(matrices: Sequence[Tensor], noises: Sequence[float]) -> list[Tensor]:
    """`inverse_cholesky` of several matrices of one shape as one batch."""
    if torch.compiler.is_exporting():
        return [whitener_of(_noisy_copy(a, noise)) for a, noise in zip(matrices, noises, strict=True)]
    return list(_InverseCholesky.apply(tuple(noises), *matrices))  # type: ignore[no-untyped-call]


def _noisy_copy(a: Tensor, noise: float) -> Tensor:
    """a: (..., S, S) with the noise on its diagonal."""
    return a + noise * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


@torch.library.custom_op("dgpnet::whitener", mutates_args=())
def whitener_of(a: Tensor) -> Tensor:
    """W = L⁻¹ of a: (..., S, S) as one operation of an export: runtimes that cannot factorise are taught it."""
    return plain_whitener(a)


@whitener_of.register_fake
def _(a: Tensor) -> Tensor:
    return torch.empty_like(a)


def plain_whitener(a: Tensor) -> Tensor:
    """W = L⁻¹ of a: (..., S, S), in two operations that every PyTorch has."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a)
    w: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky_ex(a)[0], eye, upper=False)
    return w

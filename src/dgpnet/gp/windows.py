"""Inner products of each grid point with its neighbours: what the covariance window is made of.

`local_gram(a, n)[..., h, w, (i + r)·n + (j + r)] = a[..., h, w, :] · a[..., h + i, w + j, :]` for |i|, |j| ≤ r = n // 2
and 0 outside the grid: n² numbers a point, never Q × Q. The matrix is symmetric, so half of the offsets are computed.
On CUDA a Triton kernel does the same (`windows_triton`); this file is its plain twin.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.errors import Error


def radius(size: int) -> int:
    """The r of a (2r + 1)² window."""
    if size < 1 or size % 2 == 0:
        raise Error(f"A covariance window has an odd size (1, 3, 5, 7 …), got {size}.")
    return size // 2


def shifts(x: Tensor, size: int, outside: float) -> Tensor:
    """x: (..., H, W) -> (..., H, W, size, size), a view: the values of each point's neighbours, `outside` beyond the
    grid."""
    r = radius(size)
    return F.pad(x, (r, r, r, r), value=outside).unfold(-2, size, 1).unfold(-2, size, 1)


def _half(size: int) -> list[tuple[int, int, int]]:
    """(channel, i, j) of the offsets at or before the centre in row-major order; the others mirror them."""
    r = size // 2
    return [(c, c // size - r, c % size - r) for c in range(size * size // 2 + 1)]


def _overlap(i: int, length: int) -> tuple[slice, slice]:
    """Where a grid axis and the same axis shifted by i both exist: (here, there)."""
    return slice(max(0, -i), length - max(0, i)), slice(max(0, i), length - max(0, -i))


def _gram_plain(a: Tensor, size: int) -> Tensor:
    height, width = a.shape[-3:-1]
    out = a.new_zeros(*a.shape[:-1], size * size)
    for channel, i, j in _half(size):
        if abs(i) >= height or abs(j) >= width:
            continue
        (h, h_there), (w, w_there) = _overlap(i, height), _overlap(j, width)
        products = (a[..., h, w, :] * a[..., h_there, w_there, :]).sum(-1)
        out[..., h, w, channel] = products
        out[..., h_there, w_there, size * size - 1 - channel] = products
    return out


def _gram_of_rows(a: Tensor, size: int) -> Tensor:
    """The same in a few matrix products, which is what other runtimes are quick with: each row of the grid with those
    at most r rows away, of which a band around the diagonal is kept. Memory is O(H·W²·size)."""
    r, (height, width) = radius(size), a.shape[-3:-1]
    padded = F.pad(a, (0, 0, 0, 0, r, r))
    products = torch.stack([a @ padded[..., i : i + height, :, :].mT for i in range(size)], -3)  # (..., H, size, W, W)
    # Row w of the band begins w further to the right: with rows one longer than they are, all begin below each other.
    flat = F.pad(F.pad(products, (r, r)).flatten(-2), (0, width))
    band: Tensor = flat.unflatten(-1, (width, width + 2 * r + 1))[..., :size]  # (..., H, size, W, size)
    return band.transpose(-3, -2).flatten(-2)


def _apply_plain(g: Tensor, a: Tensor, size: int) -> Tensor:
    """Σ over offsets of g[..., h, w, offset] · a at that neighbour: the window as a sparse matrix, times a."""
    r, (height, width) = size // 2, a.shape[-3:-1]
    padded = F.pad(a, (0, 0, r, r, r, r))
    out = torch.zeros_like(a)
    for channel in range(size * size):
        i, j = divmod(channel, size)
        out.addcmul_(g[..., channel, None], padded[..., i : i + height, j : j + width, :])
    return out


def _mirrored(g: Tensor, size: int) -> Tensor:
    """g as the transposed sparse matrix: entry (q, o) becomes entry (q + o, −o)."""
    r, (height, width) = size // 2, g.shape[-3:-1]
    padded = F.pad(g, (0, 0, r, r, r, r))
    views = []
    for channel in range(size * size):
        i, j = divmod(channel, size)
        views.append(padded[..., i : i + height, j : j + width, size * size - 1 - channel])
    return torch.stack(views, -1)


def _kernels(a: Tensor) -> Any:
    """The Triton twins where they can run, else None."""
    if a.is_cuda and a.dtype == torch.float32:
        from dgpnet.gp import windows_triton

        if windows_triton.AVAILABLE:
            return windows_triton
    return None


class _LocalGram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(a)
        ctx.size = size
        fused = _kernels(a)
        out: Tensor = fused.gram(a, size) if fused else _gram_plain(a, size)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (a,) = ctx.saved_tensors
        fused = _kernels(a)
        g = grads[0] + _mirrored(grads[0], ctx.size)  # each product stands in the window twice, and so does a in it
        out: Tensor = fused.apply(g, a, ctx.size) if fused else _apply_plain(g, a, ctx.size)
        return out, None


def local_gram(a: Tensor, size: int) -> Tensor:
    """a: (..., H, W, C) -> (..., H, W, size²), the inner products described at the top of this file."""
    if torch.compiler.is_exporting():
        return _gram_of_rows(a, size)
    if torch.compiler.is_compiling():  # in words that compilers know
        padded, (height, width) = F.pad(a, (0, 0, *(2 * [radius(size)]), *(2 * [radius(size)]))), a.shape[-3:-1]
        shifted = (padded[..., i : i + height, j : j + width, :] for i in range(size) for j in range(size))
        return torch.stack([(a * there).sum(-1) for there in shifted], -1)
    radius(size)
    out: Tensor = _LocalGram.apply(a, size)  # type: ignore[no-untyped-call]
    return out

"""The Triton twin of `linalg._whiten_block`: one launch instead of a dozen."""

from __future__ import annotations

from torch import Tensor

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
except ImportError:  # CPU builds of torch come without it
    AVAILABLE = False

if AVAILABLE:

    @triton.jit  # type: ignore[untyped-decorator]
    def _whiten_kernel(a, w, step_a, step_w, row_a, row_w, size, N: tl.constexpr):  # type: ignore[no-untyped-def]
        """One program: one matrix, eliminated column by column together with the identity, which becomes L⁻¹."""
        index = tl.arange(0, N)
        rows, columns = index[:, None], index[None, :]
        inside = (rows < size) & (columns < size)
        matrix = tl.program_id(0).to(tl.int64)
        # The upper triangle is not to be read: it is the lower one, transposed.
        there = tl.maximum(rows, columns) * row_a + tl.minimum(rows, columns)
        left = tl.load(a + matrix * step_a + there, mask=inside, other=0.0)
        right = tl.where(rows == columns, 1.0, 0.0)
        for j in range(size):
            row = tl.sum(tl.where(rows == j, left, 0.0), 0)
            column = tl.sum(tl.where(columns == j, left, 0.0), 1)
            pivot = tl.sum(tl.where(index == j, row, 0.0), 0)
            scale = tl.div_rn(1.0, tl.sqrt_rn(pivot))  # not a number where the matrix is indefinite
            below = tl.where(index > j, column * scale, 0.0)[:, None]
            done = tl.sum(tl.where(rows == j, right, 0.0), 0) * scale
            left -= below * (row * scale)[None, :]
            right = tl.where(rows == j, done[None, :], right - below * done[None, :])
        tl.store(w + matrix * step_w + rows * row_w + columns, right, mask=inside)


def whiten_block(a: Tensor, w: Tensor) -> None:
    """Writes L⁻¹ of a: (B, n, n) float32 into w: (B, n, n); both may be views, with adjacent columns."""
    size = a.shape[-1]
    padded = max(16, triton.next_power_of_2(size))
    _whiten_kernel[(a.shape[0],)](
        a, w, a.stride(0), w.stride(0), a.stride(1), w.stride(1), size, N=padded, num_warps=max(1, padded // 16)
    )

"""The Triton twins of `windows._gram_plain` and `windows._apply_plain`: one launch each instead of dozens."""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
except ImportError:  # CPU builds of torch come without it
    AVAILABLE = False

if AVAILABLE:

    @triton.jit  # type: ignore[untyped-decorator]
    def _gram_kernel(  # type: ignore[no-untyped-def]
        a,
        out,
        height,
        width,
        channels,
        SIZE: tl.constexpr,
        BLOCK_Q: tl.constexpr,
        BLOCK_C: tl.constexpr,
    ):
        """One program: BLOCK_Q points of one image, one offset of the half window."""
        points = height * width
        image = tl.program_id(1)
        offset = tl.program_id(2)
        i = offset // SIZE - SIZE // 2
        j = offset % SIZE - SIZE // 2
        q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        h = q // width + i
        w = q % width + j
        exists = q < points
        inside = exists & (h >= 0) & (h < height) & (w >= 0) & (w < width)
        there = h * width + w
        base = a + image.to(tl.int64) * points * channels
        total = tl.zeros((BLOCK_Q,), tl.float32)
        for start in range(0, channels, BLOCK_C):
            c = start + tl.arange(0, BLOCK_C)
            valid = inside[:, None] & (c < channels)[None, :]
            left = tl.load(base + q[:, None] * channels + c[None, :], mask=valid, other=0.0)
            right = tl.load(base + there[:, None] * channels + c[None, :], mask=valid, other=0.0)
            total += tl.sum(left * right, 1)
        result = out + image.to(tl.int64) * points * SIZE * SIZE
        tl.store(result + q * SIZE * SIZE + offset, total, mask=exists)
        tl.store(result + there * SIZE * SIZE + (SIZE * SIZE - 1 - offset), total, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _apply_kernel(  # type: ignore[no-untyped-def]
        g,
        a,
        out,
        height,
        width,
        channels,
        SIZE: tl.constexpr,
        BLOCK_Q: tl.constexpr,
        BLOCK_C: tl.constexpr,
    ):
        """One program: BLOCK_Q points × BLOCK_C channels of one image."""
        points = height * width
        image = tl.program_id(1).to(tl.int64)
        q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        c = tl.program_id(2) * BLOCK_C + tl.arange(0, BLOCK_C)
        exists = q < points
        total = tl.zeros((BLOCK_Q, BLOCK_C), tl.float32)
        for offset in tl.static_range(SIZE * SIZE):
            h = q // width + (offset // SIZE - SIZE // 2)
            w = q % width + (offset % SIZE - SIZE // 2)
            inside = exists & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            weight = tl.load(g + (image * points + q) * SIZE * SIZE + offset, mask=inside, other=0.0)
            valid = inside[:, None] & (c < channels)[None, :]
            value = tl.load(
                a + (image * points + h * width + w)[:, None] * channels + c[None, :], mask=valid, other=0.0
            )
            total += weight[:, None] * value
        valid = exists[:, None] & (c < channels)[None, :]
        tl.store(out + (image * points + q)[:, None] * channels + c[None, :], total, mask=valid)


def gram(a: Tensor, size: int) -> Tensor:
    """a: (..., H, W, C) float32 -> (..., H, W, size²)."""
    a = a.contiguous()
    height, width, channels = a.shape[-3:]
    # Only offsets whose mirror image lies in the grid are stored by their mirror's program: the rest must be zero.
    out = torch.zeros(*a.shape[:-1], size * size, dtype=a.dtype, device=a.device)
    images = a.shape[:-3].numel()
    grid = (triton.cdiv(height * width, 16), images, size * size // 2 + 1)
    _gram_kernel[grid](a, out, height, width, channels, SIZE=size, BLOCK_Q=16, BLOCK_C=128)
    return out


def apply(g: Tensor, a: Tensor, size: int) -> Tensor:
    """g: (..., H, W, size²), a: (..., H, W, C), both float32 -> (..., H, W, C)."""
    g, a = g.contiguous(), a.contiguous()
    height, width, channels = a.shape[-3:]
    out = torch.empty_like(a)
    grid = (triton.cdiv(height * width, 16), a.shape[:-3].numel(), triton.cdiv(channels, 128))
    _apply_kernel[grid](g, a, out, height, width, channels, SIZE=size, BLOCK_Q=16, BLOCK_C=128)
    return out

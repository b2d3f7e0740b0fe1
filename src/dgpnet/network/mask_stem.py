"""The beginning of the mask encoder: a 3×3 convolution of one channel with stride 2, ReLU, and 3×3 max pooling with
stride 2. Convolutions of one channel do not suit tensor cores, and what lies between convolution and pooling is four
times as large as what comes out: on a GPU one kernel does it all, with the same result but for rounding, and takes a
tenth of the time (docs/results/speed.md).

mask: (B, 1, H, W), H and W multiples of 4; weight: (C, 1, 3, 3), bias: (C,) -> (B, C, H/4, W/4), channels-last.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dgpnet.network.activated import How, activated
from dgpnet.network.pooling import max_pool

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
except ImportError:  # CPU builds of torch come without it
    AVAILABLE = False

#: What the first convolution does beside its weights.
FIRST: How = ((2, 2), (1, 1), (1, 1), 1)

if AVAILABLE:

    @triton.jit  # type: ignore[untyped-decorator]
    def _stem_kernel(  # type: ignore[no-untyped-def]
        mask, weight, bias, out, height, width, rows, columns, CHANNELS: tl.constexpr, BLOCK: tl.constexpr
    ):
        """One program: BLOCK neighbouring pixels of one row of the result, all channels."""
        row = tl.program_id(0).to(tl.int64)
        image, top = row // rows, row % rows
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        c = tl.arange(0, CHANNELS)
        there = column < columns
        shift = tl.load(bias + c).to(tl.float32)
        largest = tl.zeros((BLOCK, CHANNELS), tl.float32)  # behind a ReLU nothing is smaller
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                h, w = 2 * top - 1 + i, 2 * column - 1 + j  # in the result of the convolution
                total = tl.zeros((BLOCK, CHANNELS), tl.float32) + shift[None, :]
                for k in tl.static_range(9):
                    y, x = 2 * h - 1 + k // 3, 2 * w - 1 + k % 3
                    inside = there & (y >= 0) & (y < height) & (x >= 0) & (x < width)
                    pixel = tl.load(mask + (image * height + y) * width + x, mask=inside, other=0.0).to(tl.float32)
                    total += pixel[:, None] * tl.load(weight + c * 9 + k).to(tl.float32)[None, :]
                exists = there & (h >= 0) & (w >= 0)
                largest = tl.maximum(largest, tl.where(exists[:, None], total, 0.0))
        place = (row * columns + column)[:, None] * CHANNELS + c[None, :]
        tl.store(out + place, largest.to(out.dtype.element_ty), mask=there[:, None])


def in_layers(mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One after the other."""
    return max_pool(activated(mask, weight, bias, FIRST))


def in_one(mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """By a kernel of its own, which writes nothing but the result."""
    mask, weight = mask.contiguous(), weight.contiguous()
    batch, _, height, width = mask.shape
    channels, rows, columns = len(weight), height // 4, width // 4
    out = mask.new_empty(batch, rows, columns, channels)
    block = min(128, triton.next_power_of_2(columns))
    grid = (batch * rows, triton.cdiv(columns, block))
    _stem_kernel[grid](mask, weight, bias, out, height, width, rows, columns, CHANNELS=channels, BLOCK=block)
    return out.permute(0, 3, 1, 2)


#: The ways, by name.
STEMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"layers": in_layers}
if AVAILABLE:
    STEMS["kernel"] = in_one


def usual(mask: Tensor) -> str:
    """The quickest way where the mask is."""
    return "kernel" if AVAILABLE and mask.is_cuda and not torch.compiler.is_exporting() else "layers"

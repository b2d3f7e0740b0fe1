"""3×3 max pooling with stride 2. Where no gradient is needed on CUDA, a kernel that does not write down, as PyTorch's
does in eight bytes a value, which pixel was the largest."""

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
except ImportError:  # CPU builds of torch come without it
    AVAILABLE = False

if AVAILABLE:

    @triton.jit  # type: ignore[untyped-decorator]
    def _pool_kernel(x, out, height, width, channels, rows, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        """One program: BLOCK neighbouring values of one row of the result."""
        row = tl.program_id(0).to(tl.int64)
        value = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        image, top = row // rows, 2 * (row % rows) - 1
        left, c = 2 * (value // channels) - 1, value % channels
        there = value < columns * channels
        largest = tl.full((BLOCK,), float("-inf"), tl.float32)
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                h, w = top + i, left + j
                inside = there & (h >= 0) & (h < height) & (w >= 0) & (w < width)
                pixel = tl.load(x + ((image * height + h) * width + w) * channels + c, mask=inside, other=float("-inf"))
                largest = tl.maximum(largest, pixel.to(tl.float32), propagate_nan=tl.PropagateNan.ALL)
        tl.store(out + row * columns * channels + value, largest.to(out.dtype.element_ty), mask=there)


def max_pool(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, C, ⌈H/2⌉, ⌈W/2⌉)."""
    quick = AVAILABLE and x.is_cuda and x.dtype != torch.float64 and not torch.is_grad_enabled()
    if torch.compiler.is_compiling() or not (quick and x.is_contiguous(memory_format=torch.channels_last)):
        return F.max_pool2d(x, 3, 2, padding=1)
    batch, channels, height, width = x.shape
    rows, columns = (height + 1) // 2, (width + 1) // 2
    out = torch.empty(batch, channels, rows, columns, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    grid = (batch * rows, triton.cdiv(columns * channels, 1024))
    _pool_kernel[grid](x, out, height, width, channels, rows, columns, BLOCK=1024)
    return out

"""One table for every "equals" in the tests: what two ways to the same number may differ by, absolutely, at scale 1.

Bit-equal is promised only on the same machine with the same number of threads, and tested with `torch.equal`.
"""

import torch
from torch import Tensor

TOLERANCE: dict[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 2e-4,  # through a factorisation of condition number about 10⁴
    torch.bfloat16: 5e-2,
}


def assert_equal(found: Tensor, expected: Tensor, *, dtype: torch.dtype | None = None) -> None:
    """Equal within the tolerance of the less precise of the two, relative to the larger of 1 and the largest value."""
    dtype = dtype or min((found.dtype, expected.dtype), key=lambda d: torch.finfo(d).bits)
    assert found.shape == expected.shape, f"{tuple(found.shape)} and {tuple(expected.shape)}"
    assert torch.isfinite(found).all() and torch.isfinite(expected).all()
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    error = float((found.double() - expected.double()).abs().max()) if expected.numel() else 0.0
    assert error <= TOLERANCE[dtype] * scale, f"differ by {error:.3g} at scale {scale:.3g}"

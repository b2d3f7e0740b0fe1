"""The pooling without indices is PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

from dgpnet.network import pooling
from dgpnet.network.pooling import max_pool

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available() or not pooling.AVAILABLE, reason="needs CUDA and Triton")


@NEEDS_CUDA
@pytest.mark.parametrize("shape", [(2, 16, 32, 32), (1, 3, 7, 10), (3, 64, 33, 48), (1, 1, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_it_is_pytorchs(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert torch.equal(max_pool(x), F.max_pool2d(x, 3, 2, padding=1))


def test_a_cpu_takes_the_largest_of_nine() -> None:
    x = torch.randn(1, 2, 5, 6).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found = max_pool(x)
    for i in range(3):
        for j in range(3):
            nine = x[:, :, max(0, 2 * i - 1) : 2 * i + 2, max(0, 2 * j - 1) : 2 * j + 2]
            assert torch.equal(found[:, :, i, j], nine.amax((-2, -1)))


@NEEDS_CUDA
def test_numbers_that_are_none_stay_so() -> None:
    x = torch.randn(1, 16, 8, 8, device="cuda").to(memory_format=torch.channels_last)
    x[0, 3, 4, 4] = torch.nan
    with torch.no_grad():
        assert torch.equal(max_pool(x).isnan(), F.max_pool2d(x, 3, 2, padding=1).isnan())


def test_gradients_go_through_pytorchs() -> None:
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(max_pool, x)

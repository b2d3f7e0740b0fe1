"""The pooling without indices is PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

from dgpnet.network import pooling
from dgpnet.network.pooling import max_pool


@pytest.mark.parametrize("shape", [(2, 16, 32, 32), (1, 3, 7, 10), (3, 64, 33, 48), (1, 1, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_it_is_pytorchs(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x = torch.randn(shape, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert torch.equal(max_pool(x), F.max_pool2d(x, 3, 2, padding=1))


@pytest.mark.skipif(not torch.cuda.is_available() or not pooling.AVAILABLE, reason="needs CUDA and Triton")
def test_numbers_that_are_none_stay_so() -> None:
    x = torch.randn(1, 16, 8, 8, device="cuda").to(memory_format=torch.channels_last)
    x[0, 3, 4, 4] = torch.nan
    with torch.no_grad():
        assert torch.equal(max_pool(x).isnan(), F.max_pool2d(x, 3, 2, padding=1).isnan())


def test_gradients_go_through_pytorchs() -> None:
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(max_pool, x)

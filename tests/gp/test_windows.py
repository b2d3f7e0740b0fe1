"""The local inner products, their gradient, and the Triton twins where there is a GPU."""

import pytest
import torch

from dgpnet.gp import windows, windows_triton
from dgpnet.gp.windows import local_gram, shifts
from tests.tolerances import assert_equal


@pytest.mark.parametrize("size", [1, 3, 5, 7])
@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 3, 4, 5), (6, 2, 2), (2, 2, 7, 3, 2)])
def test_inner_products_with_neighbours(shape: tuple[int, ...], size: int) -> None:
    a = torch.randn(*shape, dtype=torch.float64)
    height, width = shape[-3:-1]
    r = size // 2
    full = torch.einsum("...hwc,...ijc->...hwij", a, a)
    expected = a.new_zeros(*shape[:-1], size * size)
    for h in range(height):
        for w in range(width):
            for i in range(max(-r, -h), min(r, height - 1 - h) + 1):
                for j in range(max(-r, -w), min(r, width - 1 - w) + 1):
                    expected[..., h, w, (i + r) * size + j + r] = full[..., h, w, h + i, w + j]
    assert_equal(local_gram(a, size), expected)
    assert_equal(windows._gram_of_rows(a, size), expected)  # what exports do


@pytest.mark.parametrize("size", [1, 3, 5])
def test_gradient(size: int) -> None:
    a = torch.randn(2, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: local_gram(a, size), (a,))


def test_shifts_are_the_values_of_the_neighbours() -> None:
    neighbours = shifts(torch.arange(6.0).reshape(2, 3), 3, outside=-1.0)
    assert neighbours[0, 0].flatten().tolist() == [-1, -1, -1, -1, 0, 1, -1, 3, 4]
    assert neighbours[1, 2].flatten().tolist() == [1, 2, -1, 4, 5, -1, -1, -1, -1]


@pytest.mark.skipif(not torch.cuda.is_available() or not windows_triton.AVAILABLE, reason="needs CUDA and Triton")
@pytest.mark.parametrize("size", [1, 3, 5, 7])
@pytest.mark.parametrize("shape", [(2, 7, 9, 33), (3, 24, 24, 144), (1, 4, 4, 5)])
def test_triton_twins_equal_the_plain_ones(shape: tuple[int, ...], size: int) -> None:
    a = torch.randn(*shape, device="cuda")
    g = torch.randn(*shape[:-1], size * size, device="cuda")
    assert_equal(windows_triton.gram(a, size), windows._gram_plain(a, size))
    assert_equal(windows_triton.apply(g, a, size), windows._apply_plain(g, a, size))


def test_without_cuda_the_plain_twin_is_used() -> None:
    assert windows._kernels(torch.zeros(1)) is None

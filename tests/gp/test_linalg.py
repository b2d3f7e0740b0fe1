"""The factorisation by blocks, its gradient, products with triangular matrices, and the Triton twin on a GPU."""

import pytest
import torch
from torch import Tensor

from dgpnet.gp import linalg, linalg_triton
from dgpnet.gp.linalg import batched, inverse_choleskies, inverse_cholesky, times_lower
from tests.tolerances import assert_equal


def definite(*batch: int, size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    root = torch.randn(*batch, size, size + 3, dtype=dtype)
    return root @ root.mT / size + torch.eye(size, dtype=dtype)


def by_hand(a: Tensor) -> Tensor:
    return torch.linalg.inv(torch.linalg.cholesky(a.double()))


@pytest.fixture
def strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in the narrowest strips there are."""
    monkeypatch.setitem(linalg.BUSY, "cpu", 1)


@pytest.mark.parametrize("block", [1, 7, 64, 500])
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 150, 320])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2)])
def test_any_block_gives_the_inverse_factor(
    batch: tuple[int, ...], size: int, block: int, monkeypatch: pytest.MonkeyPatch, strips: None
) -> None:
    monkeypatch.setitem(linalg.BLOCK, "cpu", max(block, size // 20))
    a = definite(*batch, size=size)
    before = a.clone()
    w = inverse_cholesky(a)
    assert_equal(w, by_hand(a))
    assert not w.triu(1).any() and w.is_contiguous()
    assert torch.equal(a, before)


def test_float32_by_blocks_is_as_close_as_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linalg.BLOCK, "cpu", 16)
    x = torch.randn(300, 8)
    a = torch.exp(-0.05 * torch.cdist(x.double(), x.double()).square())  # of condition number about 10³
    a = (a + 0.1 * torch.eye(300)).float()
    library = torch.linalg.inv(torch.linalg.cholesky(a))
    exact = by_hand(a)
    assert (inverse_cholesky(a) - exact).abs().max() < 3 * (library - exact).abs().max()


def test_several_matrices_have_their_own_noise() -> None:
    a = definite(2, 3, size=20)
    together = inverse_choleskies(list(a), [0.1, 0.7])
    for found, matrix, noise in zip(together, a, (0.1, 0.7), strict=True):
        assert_equal(found, inverse_cholesky(matrix, noise))
        assert_equal(found, by_hand(matrix + noise * torch.eye(20, dtype=a.dtype)))


@pytest.mark.parametrize("block", [2, 64])
def test_gradients(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linalg.BLOCK, "cpu", block)
    root = torch.randn(2, 5, 5, dtype=torch.float64, requires_grad=True)

    def whiteners(root: Tensor) -> tuple[Tensor, ...]:
        a = root @ root.mT
        return tuple(inverse_choleskies([a, a @ a], [1.0, 0.5]))

    assert torch.autograd.gradcheck(whiteners, (root,))


@pytest.mark.parametrize("shapes", [((9, 5), ()), ((4, 9, 5), ()), ((4, 9, 5), (1,)), ((4, 9, 5), (4,))])
@pytest.mark.parametrize("size", [5, 300])
def test_products_skip_the_zeros_of_a_triangle(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], size: int, strips: None
) -> None:
    rows, batch = shapes
    a = torch.randn(*rows[:-1], size, dtype=torch.float64)
    w = torch.randn(*batch, size, size, dtype=torch.float64).tril()
    assert_equal(times_lower(a, w), a @ w.mT)
    assert_equal(times_lower(a.clone().requires_grad_(), w).detach(), a @ w.mT)


def test_several_rows_of_a_batch_for_each_matrix() -> None:
    a, w = torch.randn(2, 3, 7, 6), torch.randn(2, 1, 6, 6).tril()
    assert_equal(times_lower(a, w), a @ w.mT)
    assert [t.shape[0] for t in batched(a, w)] == [6, 6]
    assert [t.shape for t in batched(a, w[0])] == [(1, 42, 6), (1, 6, 6)]


@pytest.mark.skipif(not torch.cuda.is_available() or not linalg_triton.AVAILABLE, reason="needs CUDA and Triton")
@pytest.mark.parametrize("size", [1, 5, 16, 40, 64])
def test_triton_twin_equals_the_plain_one(size: int) -> None:
    a = definite(3, size=100, dtype=torch.float32).cuda()
    found, expected = torch.eye(100, device="cuda").repeat(2, 3, 1, 1)
    here = (slice(None), slice(7, 7 + size), slice(7, 7 + size))
    linalg_triton.whiten_block(a[here], found[here])
    assert not linalg._whiten_block(a[here], expected[here]).any()
    assert_equal(found, expected)
    linalg_triton.whiten_block(-a[here], found[here])
    assert linalg._failed([], found)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("block", [16, 64, 256])
@pytest.mark.parametrize("wide_from", [0, 1 << 40])
def test_on_a_gpu(block: int, wide_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linalg.BLOCK, "cuda", block)
    monkeypatch.setattr(linalg, "WIDE_FROM", wide_from)
    monkeypatch.setitem(linalg.BUSY, "cuda", 1)
    a = definite(3, size=500, dtype=torch.float32)
    assert_equal(inverse_cholesky(a.cuda()).cpu(), by_hand(a), dtype=torch.float32)


def test_without_cuda_the_plain_twin_is_used() -> None:
    assert linalg._kernels(torch.zeros(1)) is None

"""What holds of every kernel."""

import gpytorch
import pytest
import torch

from dgpnet.errors import Error
from dgpnet.gp import Exponential, Kernel, Linear, Product, SquaredExponential, Sum
from tests.tolerances import assert_equal

D = 6
KERNELS = {
    "se": lambda: SquaredExponential(2.5, variance=1.7),
    "exponential": lambda: Exponential(1.3, variance=0.6),
    "linear": lambda: Linear(variance=0.8),
    "sum": lambda: SquaredExponential(2.0) + Linear(variance=0.1),
    "product": lambda: SquaredExponential(2.0) * Exponential(3.0),
    "nested": lambda: Sum(Product(SquaredExponential(1.0), Linear()), Exponential(2.0)),
}


def points(*shape: int, dtype: torch.dtype = torch.float64, far: float = 0.0) -> torch.Tensor:
    return torch.randn(*shape, D, dtype=dtype) + far


def by_hand(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The formulas of the paper's appendix, from differences."""
    d2 = (x[..., :, None, :] - y[..., None, :, :]).square().sum(-1)
    dot = (x[..., :, None, :] * y[..., None, :, :]).sum(-1)
    return {
        "se": lambda: 1.7 * torch.exp(-d2 / 5),
        "exponential": lambda: 0.6 * torch.exp(-d2.sqrt() / 1.3),
        "linear": lambda: 0.8 * dot,
        "sum": lambda: torch.exp(-d2 / 4) + 0.1 * dot,
        "product": lambda: torch.exp(-d2 / 4) * torch.exp(-d2.sqrt() / 3),
        "nested": lambda: torch.exp(-d2 / 2) * dot + torch.exp(-d2.sqrt() / 2),
    }[name]()


@pytest.mark.parametrize("name", KERNELS)
class TestEveryKernel:
    def kernel(self, name: str) -> Kernel:
        return KERNELS[name]()

    def test_equals_its_formula(self, name: str) -> None:
        x, y = points(2, 7), points(2, 5)
        assert_equal(self.kernel(name)(x, y), by_hand(name, x, y))

    def test_float32_is_close_far_from_the_origin(self, name: str) -> None:
        x, y = points(9, far=0.0 if name in ("linear", "sum", "nested") else 50.0), points(4)
        y = y + x.mean(0)
        assert_equal(self.kernel(name)(x.float(), y.float()), by_hand(name, x, y), dtype=torch.float32)

    def test_asking_many_times_is_asking_once(self, name: str) -> None:
        kernel, x, y = self.kernel(name), points(2, 7), points(2, 5)
        ask = kernel.against(x)
        assert_equal(torch.cat([ask(y[:, i : i + 1]) for i in range(5)], -1), kernel(x, y))

    def test_diagonal_is_the_diagonal_exactly(self, name: str) -> None:
        x = points(3, 8, far=7.0)
        kernel = self.kernel(name)
        assert_equal(kernel.diagonal(x), kernel(x).diagonal(dim1=-2, dim2=-1))

    def test_same_points_are_symmetric_and_positive(self, name: str) -> None:
        k = self.kernel(name)(points(12))
        assert_equal(k, k.mT)
        assert torch.linalg.eigvalsh(k).min() > -1e-9

    @pytest.mark.parametrize("size", [1, 3, 5, 7])
    def test_window_is_gathered_from_all_pairs(self, name: str, size: int) -> None:
        height, width, r = 4, 6, size // 2
        x = points(2, height, width)
        kernel = self.kernel(name)
        full = kernel(x.flatten(1, 2)).reshape(2, height, width, height, width)
        window = kernel.window(x, size)
        assert window.shape == (2, height, width, size * size)
        for h in range(height):
            for w in range(width):
                for i in range(-r, r + 1):
                    for j in range(-r, r + 1):
                        inside = 0 <= h + i < height and 0 <= w + j < width
                        expected = full[:, h, w, h + i, w + j] if inside else torch.zeros(2, dtype=x.dtype)
                        assert_equal(window[:, h, w, (i + r) * size + j + r], expected)

    def test_batched_is_unbatched(self, name: str) -> None:
        x, y = points(3, 5), points(3, 4)
        kernel = self.kernel(name)
        assert_equal(kernel(x, y), torch.stack([kernel(a, b) for a, b in zip(x, y, strict=True)]))

    def test_gradients(self, name: str) -> None:
        x, y, grid = (points(*shape).requires_grad_() for shape in ((3,), (2,), (2, 3)))
        kernel = self.kernel(name)
        assert torch.autograd.gradcheck(kernel, (x, y))
        assert torch.autograd.gradcheck(lambda x: kernel(x), (x,))
        assert torch.autograd.gradcheck(lambda g: kernel.window(g, 3), (grid,))

    def test_gradient_is_finite_where_points_coincide(self, name: str) -> None:
        x = points(1).repeat(4, 1).requires_grad_()
        self.kernel(name)(x).sum().backward()
        assert x.grad is not None and torch.isfinite(x.grad).all()


def test_agrees_with_gpytorch() -> None:
    x, y = points(7), points(5)
    rbf = gpytorch.kernels.RBFKernel().double()
    ours = SquaredExponential(rbf.lengthscale.item() ** 2, variance=1.7)
    assert_equal(1.7 * rbf(x, y).to_dense().detach(), ours(x, y))
    matern = gpytorch.kernels.MaternKernel(nu=0.5).double()
    assert_equal(matern(x, y).to_dense().detach(), Exponential(matern.lengthscale.item())(x, y))


def test_hyper_parameters_are_fixed_unless_asked_for_and_stay_positive() -> None:
    assert not list(SquaredExponential(2.0).parameters())
    kernel = SquaredExponential(2.0, variance=3.0, trainable=True)
    assert float(kernel.length_squared) == pytest.approx(2.0) and float(kernel.variance) == pytest.approx(3.0)
    optimiser = torch.optim.SGD(kernel.parameters(), lr=1.0)
    kernel(points(5, dtype=torch.float32)).sum().backward()
    assert all(p.grad is not None and p.grad.abs() > 0 for p in kernel.parameters())
    optimiser.step()
    assert float(kernel.length_squared) > 0 and float(kernel.variance) > 0


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_hyper_parameter_that_is_not_positive_is_refused(wrong: float) -> None:
    for make in (lambda: SquaredExponential(wrong), lambda: Exponential(wrong), lambda: Linear(variance=wrong)):
        with pytest.raises(Error, match="positive"):
            make()


def test_an_even_window_is_refused() -> None:
    with pytest.raises(Error, match="odd"):
        Linear().window(points(4, 4), 2)


def test_half_precision_is_computed_in_float32() -> None:
    x = points(6).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        k = SquaredExponential(2.0)(x)
    assert k.dtype == torch.float32
    assert_equal(k, SquaredExponential(2.0)(x.double()), dtype=torch.float32)

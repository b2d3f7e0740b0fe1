"""The posterior against its formula, against GPyTorch, and against itself."""

import math

import gpytorch
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dgpnet.benchmark.inducing import one_by_one
from dgpnet.errors import Error
from dgpnet.gp import Exponential, GaussianProcess, Kernel, Linear, Posterior, SquaredExponential, regression
from dgpnet.gp.inducing import PANEL, nystroem, pivots
from dgpnet.gp.regression import condition_together
from tests.tolerances import assert_equal

D, E = 5, 3
KERNELS = {"se": lambda: SquaredExponential(3.0), "exponential": lambda: Exponential(2.0), "linear": Linear}


def process(name: str = "se", noise: float = 0.1) -> GaussianProcess:
    return GaussianProcess(KERNELS[name](), noise=noise)


def support(*batch: int, points: int = 20, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    return torch.randn(*batch, points, D, dtype=dtype), torch.randn(*batch, points, E, dtype=dtype)


def by_hand(kernel: Kernel, noise: float, x: Tensor, y: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and full covariance as equations 5 and 6 of the paper have them, in float64."""
    x, y, q = x.double(), y.double(), q.double()
    a = torch.linalg.inv(kernel(x) + noise * torch.eye(x.shape[-2], dtype=torch.float64))
    k = kernel(q, x)
    return k @ a @ y, kernel(q) - k @ a @ k.mT


def gather(full: Tensor, height: int, width: int, size: int) -> Tensor:
    """The window out of a full covariance (..., HW, HW), one entry after the other."""
    r = size // 2
    out = full.new_zeros(*full.shape[:-2], height, width, size * size)
    for h in range(height):
        for w in range(width):
            for i in range(-r, r + 1):
                for j in range(-r, r + 1):
                    if 0 <= h + i < height and 0 <= w + j < width:
                        entry = full[..., h * width + w, (h + i) * width + w + j]
                        out[..., h, w, (i + r) * size + j + r] = entry
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", KERNELS)
class TestAgainstTheFormula:
    def test_mean_covariance_variance(self, name: str, dtype: torch.dtype) -> None:
        gp, (x, y) = process(name), support(2, dtype=dtype)
        q = torch.randn(2, 9, D, dtype=dtype)
        mean, covariance = by_hand(gp.kernel, gp.noise, x, y, q)
        posterior = gp.condition(x, y)
        assert_equal(posterior.mean(q), mean, dtype=dtype)
        assert_equal(posterior.covariance(q), covariance, dtype=dtype)
        assert_equal(posterior.variance(q), covariance.diagonal(dim1=-2, dim2=-1), dtype=dtype)

    @pytest.mark.parametrize("size", [1, 3, 5, 7])
    def test_window_at_borders_and_inside(self, name: str, dtype: torch.dtype, size: int) -> None:
        gp, (x, y) = process(name), support(2, dtype=dtype)
        q = torch.randn(2, 4, 6, D, dtype=dtype)
        mean, covariance = by_hand(gp.kernel, gp.noise, x, y, q.flatten(1, 2))
        found, window = gp.condition(x, y).predict(q, size)
        assert_equal(found.flatten(1, 2), mean, dtype=dtype)
        assert_equal(window, gather(covariance, 4, 6, size), dtype=dtype)


def test_agrees_with_gpytorch() -> None:
    x, y = support()
    q = torch.randn(8, D, dtype=torch.float64)

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, target: Tensor) -> None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
            super().__init__(x, target, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.RBFKernel().double()

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    for column in range(E):
        model = Exact(y[:, column]).eval()
        length, noise = model.covar_module.lengthscale.item(), model.likelihood.noise.item()
        posterior = GaussianProcess(SquaredExponential(length**2), noise=noise).condition(x, y)
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            answer = model(q)
        assert_equal(posterior.mean(q)[:, column], answer.mean)
        assert_equal(posterior.covariance(q), answer.covariance_matrix)
        assert_equal(posterior.variance(q), answer.variance)
        assert_equal(posterior.window(q.reshape(2, 4, D), 3), gather(answer.covariance_matrix, 2, 4, 3))


def test_the_linear_kernel_is_bayesian_linear_regression() -> None:
    x, y = support()
    q = torch.randn(7, D, dtype=torch.float64)
    # Weights w ~ N(0, I), y = xᵀw + noise: posterior N(m, V) with V = (I + XᵀX/σ²)⁻¹, m = V Xᵀy/σ².
    v = torch.linalg.inv(torch.eye(D, dtype=torch.float64) + x.T @ x / 0.1)
    posterior = process("linear").condition(x, y)
    assert_equal(posterior.mean(q), q @ v @ x.T @ y / 0.1)
    assert_equal(posterior.covariance(q), q @ v @ q.T)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("points", [20, 150])  # below and above what is factorised by halves
class TestGrowingAndShrinking:
    def test_extend_is_condition(self, name: str, points: int) -> None:
        gp, (x, y) = process(name), support(2, points=points)
        whole = gp.condition(x, y)
        grown = gp.condition(x[:, :7], y[:, :7]).extend(x[:, 7:12], y[:, 7:12]).extend(x[:, 12:], y[:, 12:])
        q = torch.randn(2, 3, 4, D, dtype=torch.float64)
        for found, expected in zip(grown.predict(q, 3), whole.predict(q, 3), strict=True):
            assert_equal(found, expected)
        assert_equal(grown.whitener, whole.whitener)

    @pytest.mark.parametrize("cut", [(0, 4), (5, 11), (13, 20)])
    def test_remove_is_condition_on_the_rest(self, name: str, points: int, cut: tuple[int, int]) -> None:
        gp, (x, y) = process(name), support(2, points=points)
        keep = [i for i in range(points) if not cut[0] <= i < cut[1]]
        q = torch.randn(2, 3, 4, D, dtype=torch.float64)
        found, expected = gp.condition(x, y).remove(*cut), gp.condition(x[:, keep], y[:, keep])
        for a, b in zip(found.predict(q, 3), expected.predict(q, 3), strict=True):
            assert_equal(a, b)


def test_removing_everything_or_nothing_is_refused() -> None:
    posterior = process().condition(*support())
    for start, stop in ((0, 20), (3, 3), (5, 25), (-1, 2)):
        with pytest.raises(Error, match="removed"):
            posterior.remove(start, stop)


class TestInducingPoints:
    def budgeted(self, gp: GaussianProcess, x: Tensor, y: Tensor, budget: int) -> Posterior:
        basis, whitener, weights, residual = nystroem(gp.kernel, gp.noise, x, y, budget)
        return Posterior(gp, x, y, basis, whitener, weights, budget, residual)

    @pytest.mark.parametrize("name", KERNELS)
    def test_all_points_give_the_exact_posterior(self, name: str) -> None:
        gp, (x, y) = process(name), support(2)
        q = torch.randn(2, 4, 4, D, dtype=torch.float64)
        budgeted, exact = self.budgeted(gp, x, y, 20), gp.condition(x, y)
        for found, expected in zip(budgeted.predict(q, 3), exact.predict(q, 3), strict=True):
            assert_equal(found, expected, dtype=torch.float32)  # a jitter of 1e-7 may stand on the diagonal

    def test_more_points_leave_less_unexplained_and_err_less(self) -> None:
        gp, (x, y) = process(), support(points=120)
        q = torch.randn(50, D, dtype=torch.float64)
        exact = gp.condition(x, y).mean(q)
        posteriors = [gp.condition(x, y, budget=m) for m in (5, 15, 40, 80)]
        residuals = [float(p.residual) for p in posteriors if p.residual is not None]
        errors = [float((p.mean(q) - exact).abs().mean()) for p in posteriors]
        assert residuals == sorted(residuals, reverse=True) and residuals[0] > residuals[-1]
        assert errors[-1] < errors[0]

    def test_queries_do_not_depend_on_the_support(self) -> None:
        posterior = process().condition(*support(points=200), budget=12)
        assert posterior.basis.shape == (12, D) and posterior.whitener.shape == (12, 12)
        assert posterior.weights.shape == (12, E)

    def test_pivots_are_greedy(self) -> None:
        gp, (x, _) = process(), support(points=15)
        index, left = pivots(gp.kernel, x, 6)
        k = gp.kernel(x)
        chosen: list[int] = []
        for step in range(6):
            residual = k
            if chosen:
                residual = k - k[:, chosen] @ torch.linalg.solve(k[chosen][:, chosen], k[chosen])
            assert int(index[step]) == int(residual.diagonal().argmax())
            chosen.append(int(index[step]))
        residual = k - k[:, chosen] @ torch.linalg.solve(k[chosen][:, chosen], k[chosen])
        assert_equal(left, residual.diagonal().clamp(min=0))

    @pytest.mark.parametrize("points", [30, PANEL + 1, 1200])
    @pytest.mark.parametrize("name", KERNELS)
    def test_panels_choose_what_a_step_a_point_does(self, name: str, points: int) -> None:
        gp, (x, _) = process(name), support(3, points=points)
        x = x * torch.tensor([0.2, 1.0, 4.0], dtype=torch.float64)[:, None, None]  # near, and hardly related
        index, left = pivots(gp.kernel, x, 300)
        for found, variance, one in zip(index, left, x, strict=True):
            expected, remains = one_by_one(gp.kernel, one, 300)
            assert found.tolist() == expected.tolist() + [-1] * (len(found) - len(expected))
            assert_equal(variance, remains)

    def test_in_single_precision_as_much_is_explained_as_by_a_step_a_point(self) -> None:
        """Of points that are equal within rounding another one may be taken."""
        gp, (x, _) = process(), support(points=1200, dtype=torch.float32)
        for budget in (20, 100, 400):
            (_, left), (_, expected) = (choose(gp.kernel, x, budget) for choose in (pivots, one_by_one))
            assert float(left.sum()) == pytest.approx(float(expected.sum()), rel=1e-3)

    def test_of_equal_points_one_is_taken(self) -> None:
        x, _ = support(points=700)
        index, _ = pivots(process().kernel, torch.cat([x, x]), 700)
        assert int(index[0]) == 0 and len(set((index % 700).tolist())) == len(index)

    def test_where_there_is_nothing_to_explain_one_point_is_taken(self) -> None:
        index, left = pivots(Linear(), torch.zeros(600, D), 10)
        assert index.tolist() == [0] and not left.any()

    def test_repeated_points_are_not_chosen_twice(self) -> None:
        x, y = support(points=4)
        x, y = x.repeat(5, 1), y.repeat(5, 1)
        posterior = process().condition(x.float(), y.float(), budget=12)
        assert posterior.basis.shape[0] == 4
        assert_equal(posterior.mean(x[:4].float()), process().condition(x, y).mean(x[:4]), dtype=torch.float32)

    def test_extend_and_remove_choose_anew(self) -> None:
        gp, (x, y) = process(), support(points=40)
        q = torch.randn(9, D, dtype=torch.float64)
        grown = gp.condition(x[:30], y[:30], budget=10).extend(x[30:], y[30:])
        assert_equal(grown.mean(q), gp.condition(x, y, budget=10).mean(q))
        assert_equal(grown.remove(30, 40).mean(q), gp.condition(x[:30], y[:30], budget=10).mean(q))

    def test_variance_is_never_negative_and_never_above_the_prior(self) -> None:
        x, y = support(points=300, dtype=torch.float32)
        variance = process().condition(x, y, budget=64).variance(torch.cat([x, torch.randn(50, D)]))
        assert (variance >= 0).all() and (variance <= 1 + 1e-5).all()

    def test_members_of_a_batch_that_need_fewer_points_are_themselves(self) -> None:
        few, _ = support(points=3)
        many, _ = support(points=60)
        x, (_, y) = torch.stack([few.repeat(20, 1), many]), support(2, points=60)
        q = torch.randn(2, 3, 3, D, dtype=torch.float64)
        posterior = process().condition(x, y, budget=40)
        assert posterior.residual is not None and posterior.basis.shape == (2, 40, D)
        for b in range(2):
            alone = process().condition(x[b], y[b], budget=40)
            for found, expected in zip(posterior.predict(q, 3), alone.predict(q[b], 3), strict=True):
                assert_equal(found[b], expected)
            assert alone.residual is not None
            assert_equal(posterior.residual[b], alone.residual)

    def test_gradients(self) -> None:
        for name in KERNELS:
            x, y = support(points=7)
            inputs = tuple(t.requires_grad_() for t in (x, y, torch.randn(2, 3, D, dtype=torch.float64)))
            gp = process(name)
            assert torch.autograd.gradcheck(lambda x, y, q, gp=gp: gp.condition(x, y, budget=4).predict(q, 3), inputs)

    def test_a_budget_is_remembered_before_it_is_used_up_and_on_the_way_to_disk(self) -> None:
        gp, (x, y) = process(), support(points=40)
        q = torch.randn(9, D, dtype=torch.float64)
        small = gp.condition(x[:6], y[:6], budget=10)
        assert small.residual is None  # exact so far
        for start in (small, gp.restore(small.tensors())):
            grown = start.extend(x[6:], y[6:])
            assert grown.residual is not None and grown.basis.shape == (10, D)
            assert_equal(grown.mean(q), gp.condition(x, y, budget=10).mean(q))
        repeated = gp.condition(x[:3].repeat(9, 1), y[:27], budget=10)
        assert repeated.basis.shape == (3, D) and gp.restore(repeated.tensors()).budget == 10

    def test_a_budget_of_nothing_is_refused(self) -> None:
        with pytest.raises(Error, match="budget"):
            process().condition(*support(), budget=0)


class TestBatches:
    @settings(max_examples=25, deadline=None)
    @given(
        batch=st.integers(1, 3),
        points=st.integers(1, 90),
        height=st.integers(1, 6),
        width=st.integers(1, 6),
        size=st.sampled_from([0, 1, 3, 5]),
        name=st.sampled_from(sorted(KERNELS)),
    )
    def test_batched_is_unbatched(self, batch: int, points: int, height: int, width: int, size: int, name: str) -> None:
        gp, (x, y) = process(name), support(batch, points=points)
        q = torch.randn(batch, height, width, D, dtype=torch.float64)
        mean, window = gp.condition(x, y).predict(q, size)
        for b in range(batch):
            one_mean, one_window = gp.condition(x[b], y[b]).predict(q[b], size)
            assert_equal(mean[b], one_mean)
            assert_equal(window[b], one_window)

    def test_one_support_set_serves_many_queries(self) -> None:
        gp, (x, y) = process(), support(1)
        q = torch.randn(4, 3, 5, D, dtype=torch.float64)
        mean, window = gp.condition(x, y).predict(q, 3)
        for g in range(4):
            one_mean, one_window = gp.condition(x[0], y[0]).predict(q[g], 3)
            assert_equal(mean[g], one_mean)
            assert_equal(window[g], one_window)

    def test_several_photographs_for_each_support_set(self) -> None:
        gp, (x, y) = process(), support(2)
        q = torch.randn(2, 3, 4, 4, D, dtype=torch.float64)
        mean, window = gp.condition(x, y).predict(q, 3)
        for b in range(2):
            for g in range(3):
                one_mean, one_window = gp.condition(x[b], y[b]).predict(q[b, g], 3)
                assert_equal(mean[b, g], one_mean)
                assert_equal(window[b, g], one_window)

    def test_more_outputs_share_the_factorisation(self) -> None:
        gp, (x, y) = process(), support()
        q = torch.randn(6, D, dtype=torch.float64)
        columns = [gp.condition(x, y[:, e : e + 1]).mean(q) for e in range(E)]
        assert_equal(gp.condition(x, y).mean(q), torch.cat(columns, -1))

    def test_processes_conditioned_together_are_themselves(self) -> None:
        processes = [process("se"), process("linear", noise=0.3)]
        sets = [support(2), support(2)]
        together = condition_together(processes, *zip(*sets, strict=True))
        for gp, (x, y), posterior in zip(processes, sets, together, strict=True):
            assert_equal(posterior.whitener, gp.condition(x, y).whitener)
        uneven = condition_together(processes, *zip(support(2), support(2, points=9), strict=True))
        assert [p.x.shape[-2] for p in uneven] == [20, 9]


class TestMemory:
    def test_bands_of_rows_equal_the_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gp, (x, y) = process(), support(2)
        q = torch.randn(2, 11, 7, D, dtype=torch.float64)
        posterior = gp.condition(x, y)
        with torch.no_grad():
            whole = posterior.predict(q, 5)
            monkeypatch.setattr(regression, "CHUNK", 2 * 7 * 20 * 3)  # three rows at a time
            for found, expected in zip(posterior.predict(q, 5), whole, strict=True):
                assert_equal(found, expected)

    def test_nothing_of_size_q_by_q_is_made(self) -> None:
        gp, (x, y) = process(), support(points=10, dtype=torch.float32)
        q = torch.randn(48, 48, D)  # Q² would be 5.3 million numbers

        class Largest(torch.utils._python_dispatch.TorchDispatchMode):
            numbers = 0

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                out = function(*args, **(kwargs or {}))
                for t in torch.utils._pytree.tree_leaves(out):
                    if isinstance(t, Tensor):
                        Largest.numbers = max(Largest.numbers, t.untyped_storage().nbytes() // 4)
                return out

        with torch.no_grad(), Largest():
            gp.condition(x, y).predict(q, 5)
        assert Largest.numbers < 48 * 48 * 4 * (25 + 10)


class TestNumerics:
    def test_gradients(self) -> None:
        for name in KERNELS:
            gp = process(name)
            x, y = support(points=6)
            q = torch.randn(2, 3, D, dtype=torch.float64)
            inputs = tuple(t.requires_grad_() for t in (x, y, q))
            assert torch.autograd.gradcheck(lambda x, y, q, gp=gp: gp.condition(x, y).predict(q, 3), inputs)

    def test_gradient_through_the_factorisation_by_halves(self) -> None:
        gp = process()
        x, y = support(points=100)
        q = torch.randn(2, D, dtype=torch.float64)
        x.requires_grad_()
        gp.condition(x, y).mean(q).square().sum().backward()
        grad = x.grad
        step = torch.zeros_like(x)
        step[3, 2] = 1e-6
        with torch.no_grad():
            up, down = (gp.condition(x + s * step, y).mean(q).square().sum() for s in (1, -1))
        assert grad is not None
        assert float(grad[3, 2]) == pytest.approx(float(up - down) / 2e-6, rel=1e-5)

    def test_trainable_hyper_parameters_get_gradients(self) -> None:
        gp = GaussianProcess(SquaredExponential(3.0, trainable=True))
        x, y = support(dtype=torch.float32)
        mean, window = gp.condition(x, y).predict(torch.randn(3, 3, D), 3)
        (mean.sum() + window.sum()).backward()
        assert all(p.grad is not None and p.grad.abs() > 0 for p in gp.parameters())

    def test_float32_inside_autocast(self) -> None:
        gp, (x, y) = process(), support(dtype=torch.float32)
        q = torch.randn(3, 3, D)
        with torch.autocast("cpu", torch.bfloat16):
            mean, window = gp.condition(x, y).predict(q, 3)
        expected = gp.condition(x, y).predict(q, 3)
        assert mean.dtype == window.dtype == torch.float32
        assert torch.equal(mean, expected[0]) and torch.equal(window, expected[1])

    def test_variance_is_never_negative(self) -> None:
        x, y = support(points=400, dtype=torch.float32)
        posterior = process(noise=1e-6).condition(x * 0.01, y)
        assert (posterior.variance(x * 0.01) >= 0).all()
        window = posterior.window((x * 0.01).reshape(20, 20, D), 3)
        assert (window[..., 4] >= 0).all()

    def test_a_singular_kernel_matrix_is_saved_by_jitter(self) -> None:
        x, y = torch.ones(30, D), torch.ones(30, 1)
        posterior = process(noise=1e-12).condition(x, y)
        assert_equal(posterior.mean(x), y, dtype=torch.bfloat16)

    def test_the_end_of_the_ladder_says_what_to_do(self) -> None:
        class Negative(SquaredExponential):
            def _of(self, value: Tensor) -> Tensor:
                return -super()._of(value)

        with pytest.raises(Error, match="raise the noise"):
            GaussianProcess(Negative(1.0)).condition(*support())

    def test_not_a_number_is_named(self) -> None:
        x, y = support()
        x[3, 1] = math.nan
        with pytest.raises(Error, match="NaN"):
            process().condition(x, y)


class TestBadInput:
    def test_empty_support(self) -> None:
        with pytest.raises(Error, match="empty"):
            process().condition(torch.zeros(0, D), torch.zeros(0, E))

    def test_shapes_that_do_not_fit(self) -> None:
        with pytest.raises(Error, match="agree"):
            process().condition(torch.zeros(4, D), torch.zeros(5, E))
        with pytest.raises(Error, match="features"):
            process().condition(*support()).extend(torch.zeros(2, D + 1), torch.zeros(2, E))

    @pytest.mark.parametrize("noise", [0.0, -0.1, math.nan, math.inf])
    def test_noise_that_is_not_positive(self, noise: float) -> None:
        with pytest.raises(Error, match="noise"):
            process(noise=noise)


def test_a_posterior_is_a_value_that_goes_to_disk_and_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from safetensors.torch import load_file, save_file

    gp, (x, y) = process(), support(points=30, dtype=torch.float32)
    q = torch.randn(5, 5, D)
    for posterior in (gp.condition(x, y), gp.condition(x, y, budget=8)):
        save_file(posterior.tensors(), tmp_path / "p.safetensors")
        again = gp.restore(load_file(tmp_path / "p.safetensors"))
        assert again.budget == posterior.budget
        for a, b in zip(again.predict(q, 3), posterior.each(torch.clone).predict(q, 3), strict=True):
            assert torch.equal(a, b)
        with pytest.raises(AttributeError):
            posterior.x = x  # type: ignore[misc]

"""The dense Gaussian process learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dgpnet.gp import GaussianProcess, Kernel, Posterior
from dgpnet.gp.regression import condition_together
from dgpnet.learners.base import Learned, Learner, cut


class GaussianLearner(Learner):
    """Maps: the posterior mean of the E outputs and the posterior covariance with the neighbours in a window².

    C classes are further columns of y: they share the kernel matrix and its factorisation.
    """

    learns_from: ClassVar[Literal["encoding", "mask", "nothing"]] = "encoding"

    def __init__(self, kernel: Kernel, *, noise: float, window: int) -> None:
        super().__init__()
        self.gp = GaussianProcess(kernel, noise=noise)
        self.window = window

    def channels(self, encodings: int) -> int:
        return encodings + self.window**2

    def learn(self, x: Tensor, y: Tensor, *, budget: int | None = None) -> LearnedGaussian:
        return self._learned(self.gp.condition(*_columns(x, y), budget=budget), x, y)

    @classmethod
    def learn_all(
        cls, learners: Sequence[Learner], points: Sequence[tuple[Tensor, Tensor]], *, budget: int | None = None
    ) -> Sequence[Learned]:
        if budget is not None:
            return super().learn_all(learners, points, budget=budget)
        kin = [learner for learner in learners if isinstance(learner, GaussianLearner)]
        xs, ys = zip(*(_columns(x, y) for x, y in points), strict=True)
        posteriors = condition_together([learner.gp for learner in kin], xs, ys)
        return [learner._learned(p, x, y) for learner, p, (x, y) in zip(kin, posteriors, points, strict=True)]

    def _learned(self, posterior: Posterior, x: Tensor, y: Tensor) -> LearnedGaussian:
        return LearnedGaussian(posterior, self.window, (x.shape[2],) * x.shape[1], classes=y.shape[3])

    def restore(self, tensors: dict[str, Tensor]) -> LearnedGaussian:
        classes, *points = tensors["counts"].tolist()
        return LearnedGaussian(self.gp.restore(tensors), self.window, tuple(points), classes)


def _columns(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The points of all photographs in a row, (B, K·P, D), and the outputs of all classes, (B, K·P, C·E)."""
    return x.flatten(1, 2), y.flatten(1, 2).flatten(2)


@dataclass(frozen=True, eq=False)
class LearnedGaussian:
    """A posterior with classes·E outputs, of the support points of all examples in a row."""

    posterior: Posterior
    window: int
    points: tuple[int, ...]
    classes: int

    @property
    def budgeted(self) -> bool:
        return self.posterior.residual is not None

    def predict(self, x: Tensor) -> Tensor:
        mean, window = self.posterior.predict(x, self.window)
        mean = mean.unflatten(-1, (self.classes, -1)).movedim(-2, 1)  # (B, C, H, W, E)
        return torch.cat([mean, window[:, None].expand(-1, self.classes, -1, -1, -1)], -1)

    def novelty(self, x: Tensor, maps: Tensor) -> Tensor:
        prior = self.posterior.gp.kernel.diagonal(x)
        if self.window:
            variance = maps[:, 0, ..., maps.shape[-1] - self.window**2 + self.window**2 // 2]
        else:
            variance = self.posterior.variance(x.flatten(1, 2)).unflatten(1, x.shape[1:3])
        return (variance.to(prior.dtype) / prior.clamp(min=1e-12)).clamp(0, 1).sqrt()

    def extend(self, x: Tensor, y: Tensor) -> LearnedGaussian:
        posterior = self.posterior.extend(*_columns(x, y))
        return replace(self, posterior=posterior, points=self.points + (x.shape[2],) * x.shape[1])

    def without(self, example: int) -> LearnedGaussian:
        start, stop, points = cut(self.points, example)
        return replace(self, posterior=self.posterior.remove(start, stop), points=points)

    def counted(self, points: tuple[int, ...]) -> LearnedGaussian:
        return replace(self, points=points)

    def within(self, budget: int) -> LearnedGaussian:
        p = self.posterior
        return replace(self, posterior=p.gp.condition(p.x, p.y, budget=budget))

    def each(self, change: Callable[[Tensor], Tensor]) -> LearnedGaussian:
        return replace(self, posterior=self.posterior.each(change))

    def state(self) -> dict[str, Tensor]:
        p = self.posterior
        return {"basis": p.basis, "whitener": p.whitener, "weights": p.weights}

    def with_state(self, state: Mapping[str, Tensor]) -> LearnedGaussian:
        basis, whitener, weights = state["basis"], state["whitener"], state["weights"]
        posterior = replace(self.posterior, basis=basis, whitener=whitener, weights=weights)
        # Without the support itself, which a graph would keep alive.
        return replace(self, posterior=replace(posterior, x=basis[..., :0, :], y=weights[..., :0, :]))

    def tensors(self) -> dict[str, Tensor]:
        return {**self.posterior.tensors(), "counts": torch.tensor([self.classes, *self.points])}

"""The learner that learns nothing: the decoder sees the query photograph only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dgpnet.learners.base import Learner, cut


class NoLearner(Learner):
    """No maps. The paper's "No GP": what a decoder makes of shallow features alone."""

    learns_from: ClassVar[Literal["encoding", "mask", "nothing"]] = "nothing"

    def channels(self, encodings: int) -> int:
        return 0

    def learn(self, x: Tensor, y: Tensor, *, budget: int | None = None) -> LearnedNothing:
        return LearnedNothing((x.shape[2],) * x.shape[1], y.shape[3])

    def restore(self, tensors: dict[str, Tensor]) -> LearnedNothing:
        classes, *points = tensors["counts"].tolist()
        return LearnedNothing(tuple(points), classes)


@dataclass(frozen=True)
class LearnedNothing:
    """The number of examples and classes, for what they are worth."""

    points: tuple[int, ...]
    classes: int
    budgeted: ClassVar[bool] = False

    def predict(self, x: Tensor) -> Tensor:
        return x.new_zeros(x.shape[0], self.classes, *x.shape[1:3], 0)

    def novelty(self, x: Tensor, maps: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:3])

    def extend(self, x: Tensor, y: Tensor) -> LearnedNothing:
        return replace(self, points=self.points + (x.shape[2],) * x.shape[1])

    def without(self, example: int) -> LearnedNothing:
        return replace(self, points=cut(self.points, example)[2])

    def counted(self, points: tuple[int, ...]) -> LearnedNothing:
        return replace(self, points=points)

    def within(self, budget: int) -> LearnedNothing:
        return self

    def each(self, change: Callable[[Tensor], Tensor]) -> LearnedNothing:
        return self

    def state(self) -> dict[str, Tensor]:
        return {}

    def with_state(self, state: Mapping[str, Tensor]) -> LearnedNothing:
        return self

    def tensors(self) -> dict[str, Tensor]:
        return {"counts": torch.tensor([self.classes, *self.points])}

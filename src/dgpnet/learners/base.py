"""The interface that every learner has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, Self

from torch import Tensor, nn

from dgpnet.errors import Error


class Learned(Protocol):
    """What a learner made of K examples of C classes: an immutable value with one batch dimension B.

    B is the number of queries, or 1: then one support set serves any number of queries.
    """

    @property
    def points(self) -> tuple[int, ...]:
        """How many support points each of the K examples gave."""

    @property
    def budgeted(self) -> bool:
        """Whether inducing points stand for the support (see `dgpnet.gp.inducing`)."""

    def predict(self, x: Tensor) -> Tensor:
        """Query features (B, H, W, D) -> maps for the decoder (B, C, H, W, channels)."""

    def novelty(self, x: Tensor, maps: Tensor) -> Tensor:
        """Query features and their `predict` -> (B, H, W) in [0, 1]: 1 where nothing like it was shown."""

    def extend(self, x: Tensor, y: Tensor) -> Self:
        """With further examples x: (B, k, P, D), y: (B, k, P, C, E); equal to learning all of them at once."""

    def without(self, example: int) -> Self:
        """Without one of the examples."""

    def counted(self, points: tuple[int, ...]) -> Self:
        """The same points, so many of each example."""

    def within(self, budget: int) -> Self:
        """The same support with at most `budget` inducing points in its place, now and when it grows."""

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same of changed tensors."""

    def state(self) -> dict[str, Tensor]:
        """The tensors that queries read, and nothing else."""

    def with_state(self, state: Mapping[str, Tensor]) -> Self:
        """For queries alone: the same with other tensors of those names and shapes in place of `state()`."""

    def tensors(self) -> dict[str, Tensor]:
        """For a file; `Learner.restore` is the way back."""


class Learner(nn.Module):
    """Learns from features x: (B, K, P, D) and outputs y: (B, K, P, C, E) at P points of each of K photographs.

    `learns_from` says what y is: the learned "encoding" of the mask, the "mask" itself (average over each point's
    cell, E = 1), or "nothing": then neither features nor masks are computed for it.
    """

    learns_from: ClassVar[Literal["encoding", "mask", "nothing"]]

    def channels(self, encodings: int) -> int:
        """Channels of a query's maps when E = encodings."""
        raise NotImplementedError

    def learn(self, x: Tensor, y: Tensor, *, budget: int | None = None) -> Learned:
        """x: (B, K, P, D), y: (B, K, P, C, E) -> what queries need."""
        raise NotImplementedError

    @classmethod
    def learn_all(
        cls, learners: Sequence[Learner], points: Sequence[tuple[Tensor, Tensor]], *, budget: int | None = None
    ) -> Sequence[Learned]:
        """`learn` for several learners of this kind, each with its own (x, y): the levels of the pyramid."""
        return [learner.learn(x, y, budget=budget) for learner, (x, y) in zip(learners, points, strict=True)]

    def restore(self, tensors: dict[str, Tensor]) -> Learned:
        """The value that `Learned.tensors` described."""
        raise NotImplementedError


def cut(points: tuple[int, ...], example: int) -> tuple[int, int, tuple[int, ...]]:
    """Where one example's support points start and stop, and the points of the others."""
    if not 0 <= example < len(points):
        raise Error(f"There are {len(points)} examples, numbered from 0; got {example}.")
    if len(points) == 1:
        raise Error("The only example cannot be taken back: learn from other examples instead.")
    start = sum(points[:example])
    return start, start + points[example], points[:example] + points[example + 1 :]

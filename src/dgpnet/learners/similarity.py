"""Learners that compare directions of feature vectors: the paper's baselines, and plain similarity as a further cue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.gp.linalg import at_least_float32, full_precision
from dgpnet.learners.base import Learner, cut

#: Keeps a division by an empty mask finite.
TINY = 1e-6


class _Comparing(Learner):
    """Remembers support features and masks; what is compared, and how, is up to the kind."""

    learns_from: ClassVar[Literal["encoding", "mask", "nothing"]] = "mask"

    def learn(self, x: Tensor, y: Tensor, *, budget: int | None = None) -> LearnedSimilarity:
        with full_precision(x.device):
            support, m = self.prepare(at_least_float32(x)), at_least_float32(y[..., 0])
            return LearnedSimilarity(self, support.flatten(1, 2), m.flatten(1, 2), (x.shape[2],) * x.shape[1])

    def restore(self, tensors: dict[str, Tensor]) -> LearnedSimilarity:
        return LearnedSimilarity(self, tensors["x"], tensors["m"], tuple(tensors["counts"].tolist()))

    def prepare(self, x: Tensor) -> Tensor:
        """What is remembered of support features (B, K, P, D): their directions."""
        return F.normalize(x, dim=-1)

    def compare(self, x: Tensor, support: LearnedSimilarity) -> Tensor:
        """Unit query features (Q, H, W, D) -> maps (Q, C, H, W, channels)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class LearnedSimilarity:
    """Support features x: (B, S, D) as prepared, and the share of each class in each point m: (B, S, C)."""

    learner: _Comparing
    x: Tensor
    m: Tensor
    points: tuple[int, ...]
    budgeted: ClassVar[bool] = False

    def predict(self, x: Tensor) -> Tensor:
        with full_precision(x.device):
            return self.learner.compare(F.normalize(at_least_float32(x), dim=-1), self)

    def novelty(self, x: Tensor, maps: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:3])

    def likeness(self, x: Tensor, found: Tensor) -> Tensor:
        """Query features (Q, H, W, D) and how much of each point was found to be a class (Q, C, H, W) in [0, 1]
        -> (Q, C, H, W), whose mean over what was found is the cosine of two means: of directions there, and of those
        that were shown of the class."""
        with full_precision(x.device):
            directions, found = F.normalize(at_least_float32(x), dim=-1), at_least_float32(found)
            sums = torch.einsum("qhwd,qchw->qcd", directions, found)
            # The mean of directions is shorter than 1, the more so the more they differ.
            shorter = sums.norm(dim=-1) / found.sum((-2, -1)).clamp(min=TINY)
            cosines = _to_prototype(directions, *self.some(Similarity.MOST))
            likeness: Tensor = cosines / shorter.clamp(min=TINY)[..., None, None]
            return likeness

    def some(self, most: int) -> tuple[Tensor, Tensor]:
        """x and m of all support points, or of at most so many, evenly spaced."""
        if torch.compiler.is_exporting():  # whoever gives the points to an exported graph gives it no more
            return self.x, self.m
        step = -(-self.x.shape[1] // most)
        return self.x[:, ::step], self.m[:, ::step]

    def extend(self, x: Tensor, y: Tensor) -> LearnedSimilarity:
        more = self.learner.learn(x, y)
        x, m = torch.cat([self.x, more.x], 1), torch.cat([self.m, more.m], 1)
        return replace(self, x=x, m=m, points=self.points + more.points)

    def without(self, example: int) -> LearnedSimilarity:
        start, stop, points = cut(self.points, example)
        x, m = (torch.cat([t[:, :start], t[:, stop:]], 1) for t in (self.x, self.m))
        return replace(self, x=x, m=m, points=points)

    def counted(self, points: tuple[int, ...]) -> LearnedSimilarity:
        return replace(self, points=points)

    def within(self, budget: int) -> LearnedSimilarity:
        return self  # what a query costs is bounded already, see `Similarity.MOST`

    def each(self, change: Callable[[Tensor], Tensor]) -> LearnedSimilarity:
        return replace(self, x=change(self.x), m=change(self.m))

    def state(self) -> dict[str, Tensor]:
        return {"x": self.x, "m": self.m}

    def with_state(self, state: Mapping[str, Tensor]) -> LearnedSimilarity:
        return replace(self, x=state["x"], m=state["m"])

    def tensors(self) -> dict[str, Tensor]:
        return {"x": self.x, "m": self.m, "counts": torch.tensor(self.points)}


class Prototype(_Comparing):
    """Cosine similarity to p = Σ m·x / Σ m over all support points: one channel."""

    def channels(self, encodings: int) -> int:
        return 1

    def prepare(self, x: Tensor) -> Tensor:
        """The features themselves: the prototype is their mean, not the mean of their directions."""
        return x

    def compare(self, x: Tensor, support: LearnedSimilarity) -> Tensor:
        return _to_prototype(x, support.x, support.m)[..., None]


class PriorMask(_Comparing):
    """PFENet's prior: the largest cosine similarity to a foreground point, averaged over photographs, in [0, 1].

    A point is foreground if any of its cell is; background points count as similarity 0.
    """

    def channels(self, encodings: int) -> int:
        return 1

    def compare(self, x: Tensor, support: LearnedSimilarity) -> Tensor:
        foreground = (support.m > 0).to(support.m)
        photographs = zip(support.x.split(support.points, 1), foreground.split(support.points, 1), strict=True)
        nearest = torch.stack([_nearest(_cosines(x, points), share) for points, share in photographs])
        return _stretch(nearest.mean(0))[..., None]


class Similarity(_Comparing):
    """What features that were never trained on masks say: three channels, each about ±1.

    The prior mask over all points, the prototypes' foreground minus background cosine, and the same for the nearest
    points. Differences of cosines are small: they are scaled by `SCALE`.
    """

    SCALE: ClassVar[float] = 5.0
    #: Support points that a query is compared with; of more, evenly spaced ones, so that a query's cost is bounded.
    MOST: ClassVar[int] = 5120

    def channels(self, encodings: int) -> int:
        return 3

    def compare(self, x: Tensor, support: LearnedSimilarity) -> Tensor:
        points, share = support.some(self.MOST)
        cosines = _cosines(x, points)
        foreground, background = _nearest(cosines, share), _nearest(cosines, 1 - share)
        prototypes = _to_prototype(x, points, share) - _to_prototype(x, points, 1 - share)
        differences = [self.SCALE * d for d in (prototypes, foreground - background)]
        return torch.stack([_stretch(foreground), *differences], -1)


def _to_prototype(x: Tensor, points: Tensor, share: Tensor) -> Tensor:
    """Cosine of unit query features (Q, H, W, D) to the mean of the points (B, S, D) weighted by (B, S, C)
    -> (Q, C, H, W)."""
    prototype = share.mT @ points / share.sum(1)[..., None].clamp(min=TINY)
    return torch.einsum("qhwd,qcd->qchw", x, F.normalize(prototype, dim=-1).expand(x.shape[0], -1, -1))


def _cosines(x: Tensor, points: Tensor) -> Tensor:
    """Unit query features (Q, H, W, D) and unit points (B, S, D) -> (Q, H, W, S)."""
    cosines: Tensor = (x.flatten(1, 2) @ points.mT).unflatten(1, x.shape[1:3])
    return cosines


def _nearest(cosines: Tensor, share: Tensor) -> Tensor:
    """The largest of the cosines (Q, H, W, S), each weighted by its point's share of the class (B, S, C)
    -> (Q, C, H, W)."""
    if torch.compiler.is_exporting():  # for any number of classes
        return (cosines[:, None] * share.mT[:, :, None, None]).amax(-1)
    return torch.stack([(cosines * s[:, None, None]).amax(-1) for s in share.unbind(-1)], 1)


def _stretch(maps: Tensor) -> Tensor:
    """Each map (..., H, W) scaled to [0, 1]."""
    low, high = maps.amin((-2, -1), keepdim=True), maps.amax((-2, -1), keepdim=True)
    return (maps - low) / (high - low).clamp(min=TINY)

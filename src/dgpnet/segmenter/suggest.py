"""Which photographs to annotate: the ones that would tell the Gaussian process the most about all the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.checks import each
from dgpnet.errors import Error
from dgpnet.gp import Kernel, Posterior
from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.learners import GaussianLearner
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.network import Memory
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.streams import ahead, batches
from dgpnet.segmenter.support import Prepared, padded, pixels_of

if TYPE_CHECKING:
    from dgpnet.images import ImageSource
    from dgpnet.segmenter.concept import Concept
    from dgpnet.segmenter.model import Segmenter

#: Each photograph stands in the pool as the means of its features over a grid of this many cells a side …
GRID = 8
#: … and of half as many where there are more photographs than this.
FINE = 1024
#: Points of the pool on which variance is summed; of a larger pool, this many drawn at random.
MEASURED = 2048
#: Points of what is known already; a larger support set is reduced to this many inducing points.
KNOWN = 1024
#: Numbers of the covariance between candidates and measured points that exist at once: 256 MiB.
CHUNK = 1 << 26


@dataclass(frozen=True, eq=False)
class Pool:
    """Photographs to choose from: features (N, GRID², D) float16, their places in the list, and what was unreadable;
    where it is known, the probability that they show what was learned, (N,) float32 on the CPU."""

    features: Tensor
    readable: list[int]
    failures: dict[int, Error]
    presence: Tensor | None = None

    def whole(self) -> Pool:
        """Itself; raises the first failure where there is one."""
        for error in self.failures.values():
            raise error
        return self


def encode(
    segmenter: Segmenter,
    photos: Iterable[ImageSource],
    concept: Concept | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
) -> Pool:
    """Photographs as `order` takes them, read and encoded a few at a time. concept: what was learned, if anything;
    where it tells presence, it looks at each."""
    _deepest(segmenter)  # refused before anything is read
    network, engine = segmenter.network, segmenter.engine
    looking = concept if concept is not None and concept.tells_presence else None
    failures: dict[int, Error] = {}
    readable: list[int] = []
    presence: list[float] = []
    found = [torch.empty(0, GRID**2, network.config.features, dtype=torch.half, device=segmenter.device)]

    def read(photo: ImageSource) -> Prepared:
        if looking is None:
            return engine.read(photo, max_pixels)
        return looking.prepare(read_photo(photo, max_pixels=max_pixels))

    def good(stream: Iterable[tuple[ImageSource, Future[Prepared]]]) -> Iterator[Prepared]:
        for i, (_, future) in enumerate(stream):
            error = future.exception()
            if isinstance(error, Error):
                failures[i] = error
            else:
                readable.append(i)
                yield future.result()

    entries = each("photos", photos, single=3)
    size = engine.batch(1 if looking is None else len(looking.classes))
    with torch.no_grad(), closing(ahead(entries, read, cost=pixels_of)) as stream:
        for group in batches(good(stream), size):
            for _, alike in groupby(group, lambda one: padded(one.photo)):
                some = list(alike)
                count = engine.captured(1 << (len(some) - 1).bit_length())
                features = engine.predictor.encode(engine.as_input([one.photo for one in some], count=count))
                found.append(cells(segmenter, features)[: len(some)])
                presence += [] if looking is None else _presence(looking, some, features, count)
    return Pool(torch.cat(found), readable, failures, None if looking is None else torch.tensor(presence))


def _presence(concept: Concept, photos: Sequence[Prepared], features: Mapping[int, Tensor], count: int) -> list[float]:
    """Of N photographs that are padded to one size. features: by stride, of `count` ≥ N, so that a concept that was not
    fitted need not encode them again."""
    if concept.fitted is not None:
        return [one.presence for one in concept.judge(concept.maps(photos, batch=count))]
    several = Maps.of(concept.segmenter.engine.predictor.look_at(concept.memory, features))
    maps = []
    for photo, *one in zip(photos, *several, strict=False):
        height, width = photo.photo.shape[:2]
        maps.append(Maps(*(part[..., :height, :width] for part in one)))
    return [one.presence for one in concept.judge(maps)]


def cells(segmenter: Segmenter, features: Mapping[int, Tensor]) -> Tensor:
    """What N photographs stand in a pool as, (N, GRID², D), from their encoder features by stride."""
    level, _ = _deepest(segmenter)
    projected = segmenter.network.encoder.project[level](features[int(level)].to(torch.float32))
    return F.adaptive_avg_pool2d(projected, GRID).flatten(2).mT.half()  # a pool may be large


def order(segmenter: Segmenter, pool: Pool, budget: int, memory: Memory | None = None) -> list[int]:
    """Places of the photographs to annotate, the most telling first, given what was learned so far; what each would
    tell counts by its presence, where that is known. Unreadable ones are left out."""
    if not pool.readable:
        raise Error("There is no readable photograph to choose from; give at least one.")
    level, learner = _deepest(segmenter)
    learned = memory.learned[level] if memory is not None else None
    known = learned.posterior if isinstance(learned, LearnedGaussian) else None
    with torch.no_grad():
        best = greedy_order(learner.gp.kernel, learner.gp.noise, pool.features, budget, known, pool.presence)
    return [pool.readable[i] for i in best]


def _deepest(segmenter: Segmenter) -> tuple[str, GaussianLearner]:
    """Name and learner of the deepest level, which must be a Gaussian process."""
    config = segmenter.network.config
    level = str(max(config.levels))
    learner = getattr(segmenter.network.named_branches().get(level), "learner", None)
    if not isinstance(learner, GaussianLearner):
        raise Error(
            f"Only a Gaussian process knows what it does not know; this model's learner is {config.learner!r}: "
            "use a model with learner 'gp' for suggestions."
        )
    return level, learner


def greedy_order(
    kernel: Kernel,
    noise: float,
    pool: Tensor,
    budget: int,
    known: Posterior | None = None,
    weights: Tensor | None = None,
) -> list[int]:
    """Indices of `budget` photographs in the order in which to annotate them.

    pool: (N, GRID², D), feature vectors of N photographs. Each step takes the photograph i whose points,
    once observed, lower the summed posterior variance of the pool the most, by

        tr(Σ_pi (Σ_ii + σ²I)⁻¹ Σ_ip),      Σ the posterior covariance given what is known and what was taken before.

    known: a posterior with one batch dimension of 1; without it, Σ starts as the prior · weights (N,): what each
    photograph's sum is multiplied by.
    """
    if len(pool) > FINE:
        pool = coarser(pool)
    pool = pool.to(torch.promote_types(pool.dtype, torch.float32))
    points = pool.flatten(0, 1)
    measured = _sample(points)
    explained, explained_there = _explained(known, points), _explained(known, measured)
    order: list[int] = []
    while len(order) < min(budget, len(pool)):
        gains = _gains(kernel, noise, pool, explained.unflatten(0, pool.shape[:2]), measured, explained_there)
        if weights is not None:
            gains = gains * weights.to(gains)
        gains[order] = -torch.inf
        best = int(gains.argmax())
        order.append(best)
        chosen = pool[best]
        rows = slice(best * pool.shape[1], (best + 1) * pool.shape[1])
        own = explained[rows].clone()
        factor = torch.linalg.cholesky(_noisy(kernel(chosen) - own @ own.mT, noise))
        explained = _append(kernel, points, explained, chosen, own, factor)
        explained_there = _append(kernel, measured, explained_there, chosen, own, factor)
    return order


def coarser(pool: Tensor) -> Tensor:
    """(N, GRID², D) -> (N, GRID²/4, D): means of 2 × 2 cells."""
    cells: Tensor = pool.unflatten(1, (GRID // 2, 2, GRID // 2, 2))
    return cells.mean((2, 4)).flatten(1, 2)


def _sample(points: Tensor) -> Tensor:
    if len(points) <= MEASURED:
        return points
    # A fixed seed: the same pool always gets the same answer.
    drawn = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:MEASURED]
    return points[drawn.to(points.device)]


def _explained(known: Posterior | None, points: Tensor) -> Tensor:
    """(n, R) with Σ = K − VVᵀ for points (n, D); R = 0 where nothing is known."""
    if known is None:
        return points.new_zeros(len(points), 0)
    if known.basis.shape[-2] > KNOWN:
        known = known.gp.condition(known.x, known.y, budget=KNOWN)
    parts = [known.gp.kernel(part, known.basis[0]) @ known.whitener[0].mT for part in points.split(8192)]
    return torch.cat(parts)


def _gains(
    kernel: Kernel, noise: float, pool: Tensor, explained: Tensor, measured: Tensor, explained_there: Tensor
) -> Tensor:
    """(N,) how much variance of the measured points each photograph of the pool would take away."""
    at_once = max(1, CHUNK // (pool.shape[1] * len(measured)))
    gains = []
    for x, v in zip(pool.split(at_once), explained.split(at_once), strict=True):
        across = kernel(x.flatten(0, 1), measured).unflatten(0, x.shape[:2]) - v @ explained_there.mT
        factor = torch.linalg.cholesky(_noisy(kernel(x) - v @ v.mT, noise))
        solved = torch.cholesky_solve(across @ across.mT, factor)
        gains.append(solved.diagonal(dim1=-2, dim2=-1).sum(-1))
    return torch.cat(gains)


def _append(kernel: Kernel, points: Tensor, v: Tensor, chosen: Tensor, own: Tensor, factor: Tensor) -> Tensor:
    """V with further columns for what the chosen points (G, D) explain once observed."""
    across = kernel(points, chosen) - v @ own.mT
    return torch.cat([v, torch.linalg.solve_triangular(factor, across.mT, upper=False).mT], -1)


def _noisy(covariance: Tensor, noise: float) -> Tensor:
    return covariance + noise * torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)

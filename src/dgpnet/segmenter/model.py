"""`Segmenter`: a trained network, ready to learn from a few masks."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet import weights
from dgpnet.annotations.legend import Legend
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.images import MAX_PIXELS
from dgpnet.learners import GaussianLearner
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.network import DGPNet, Memory
from dgpnet.network.fast import Predictor
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.concept import Concept, check_shown
from dgpnet.segmenter.engine import Engine
from dgpnet.segmenter.streams import ahead, batches
from dgpnet.segmenter.suggest import GRID, greedy_order
from dgpnet.segmenter.support import Prepared, Source, padded, pixels_of, read_examples


@dataclass(frozen=True, eq=False)
class Pool:
    """Photographs to choose from: features (N, GRID², D) float16, their places in the list, and what was unreadable."""

    features: Tensor
    readable: list[int]
    failures: dict[int, Error]

    def whole(self) -> Pool:
        """Itself; raises the first failure where there is one."""
        for error in self.failures.values():
            raise error
        return self


class Segmenter:
    """A trained network, ready to learn concepts from a few masks. Holds no state beyond the network, of which it has a
    copy of its own: one serves any number of concepts and threads.

    calibration: what makes its probabilities honest; by default they are taken at their word.
    dtype: of the convolutions; None takes bfloat16 where the hardware has it, else float32.
    """

    def __init__(
        self, network: DGPNet, *, calibration: Calibration | None = None, dtype: torch.dtype | None = None
    ) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.calibration = calibration or Calibration()
        self.dtype = dtype
        self.source: str | None = None
        """What `load` was given, where it made this segmenter."""
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The network made quick, with what is around it."""
        with self._lock:
            if self._engine is None:
                self._engine = Engine(Predictor(self.network, dtype=self.dtype))
            return self._engine

    @property
    def predictor(self) -> Predictor:
        return self.engine.predictor

    def using(self, dtype: torch.dtype) -> Segmenter:
        """The same segmenter with convolutions of that type; itself where it was made so."""
        if self.dtype == dtype:
            return self
        other = Segmenter(self.network, calibration=self.calibration, dtype=dtype)
        other.source = self.source
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: by name where it was loaded, since weights are large and there already."""
        if self.source is None:
            return _rebuilt, (self.network, self.calibration, self.dtype)
        return _reloaded, (self.source, str(self.device), self.dtype, self.fingerprint)

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the network's configuration and weights: a Concept belongs to one fingerprint."""
        return weights.fingerprint(self.network)

    def learn(
        self, photos: Iterable[Source], masks: Iterable[Source], *, classes: Sequence[str] | Legend | None = None
    ) -> Concept:
        """Learn C classes from K ≥ 1 photographs and their masks.

        photos: paths, PIL images, (H, W, 3) or (H, W) uint8 arrays, or (3, H, W) tensors.
        masks: paths, PIL images, boolean or integer arrays: 0 background, 1 … C classes, 255 ignore.
        classes: C names, or a legend of them; by default as many classes as the masks' largest value.
        A photograph without a class is a negative example; a class that no mask shows is an error.
        """
        given = classes.names if isinstance(classes, Legend) else classes
        shots, names = read_examples(photos, masks, given, self.network.config)
        origins = tuple(shot.origin for shot in shots)
        check_shown(origins, names)
        legend = classes if isinstance(classes, Legend) else Legend.of(names)
        return Concept(self, self.engine.remember(shots), legend, origins)

    def suggest(self, photos: Iterable[Source], *, budget: int = 5) -> list[int]:
        """Which of the photographs to annotate first, before any mask exists: indices, the most telling first."""
        return self.order(self.pool(photos).whole(), budget)

    def order(self, pool: Pool, budget: int, memory: Memory | None = None) -> list[int]:
        """`suggest` for encoded photographs, given what was learned so far; unreadable ones are left out."""
        if budget < 1:
            raise Error(f"The budget is how many photographs to suggest, at least 1; given {budget}.")
        if not pool.readable:
            raise Error("There is no readable photograph to choose from; give at least one.")
        level, learner = self._deepest()
        learned = memory.learned[level] if memory is not None else None
        known = learned.posterior if isinstance(learned, LearnedGaussian) else None
        with torch.no_grad():
            order = greedy_order(learner.gp.kernel, learner.gp.noise, pool.features, budget, known)
        return [pool.readable[i] for i in order]

    def pool(self, photos: Iterable[Source], *, max_pixels: int = MAX_PIXELS) -> Pool:
        """Encode photographs for `order`, a few at a time."""
        level, _ = self._deepest()
        failures: dict[int, Error] = {}
        readable: list[int] = []
        found = [torch.empty(0, GRID**2, self.network.config.features, dtype=torch.half, device=self.device)]

        def good(stream: Iterable[tuple[Source, Future[Prepared]]]) -> Iterator[Prepared]:
            for i, (_, future) in enumerate(stream):
                error = future.exception()
                if isinstance(error, Error):
                    failures[i] = error
                else:
                    readable.append(i)
                    yield future.result()

        with (
            torch.no_grad(),
            closing(ahead(photos, partial(self.engine.read, max_pixels=max_pixels), cost=pixels_of)) as stream,
        ):
            for group in batches(good(stream), self.engine.batch(1)):
                for _, alike in groupby(group, lambda one: padded(one.photo)):
                    features = self.network.encoder(self.engine.as_input([one.photo for one in alike]))[int(level)]
                    projected = self.network.encoder.project[level](features)
                    found.append(F.adaptive_avg_pool2d(projected, GRID).flatten(2).mT.half())  # a pool may be large
        return Pool(torch.cat(found), readable, failures)

    def _deepest(self) -> tuple[str, GaussianLearner]:
        """Name and learner of the deepest level, which must be a Gaussian process."""
        level = str(max(self.network.config.levels))
        learner = getattr(self.network.named_branches().get(level), "learner", None)
        if not isinstance(learner, GaussianLearner):
            raise Error(
                f"Only a Gaussian process knows what it does not know; this model's learner is "
                f"{self.network.config.learner!r}: use a model with learner 'gp' for suggestions."
            )
        return level, learner

    # -- what the concept and the folder job share ---------------------------------------------------------------------

    def batch(self, classes: int) -> int:
        """How many photographs to take through the network at once."""
        return self.engine.batch(classes)


def load(name: str | os.PathLike[str] = "default", *, device: str | torch.device | None = None) -> Segmenter:
    """The checkpoint that ships with the package ("default" or "small"), or one from a file, ready to learn.

    device: "cpu", "cuda", "cuda:1" …; by default, or with "auto", CUDA where there is a device, otherwise the CPU.
    """
    path = weights.checkpoint_path(os.fspath(name))
    about = weights.read_metadata(path)
    network = weights.load(path, device=find_device(device))
    segmenter = Segmenter(network, calibration=Calibration.from_json(about["calibration"]))
    segmenter.source = os.fspath(name) if name in weights.SHIPPED else str(path.absolute())
    return segmenter


def _rebuilt(network: DGPNet, calibration: Calibration, dtype: torch.dtype | None) -> Segmenter:
    return Segmenter(network, calibration=calibration, dtype=dtype)


@lru_cache(maxsize=4)
def _reloaded(source: str, device: str, dtype: torch.dtype | None, fingerprint: str) -> Segmenter:
    """One for all concepts of a process that were pickled with it."""
    segmenter = load(source, device=device)
    if segmenter.fingerprint != fingerprint:
        raise Error(f"{source} is not the model any more that the concept was pickled with; save concepts as files.")
    return segmenter if dtype is None else segmenter.using(dtype)

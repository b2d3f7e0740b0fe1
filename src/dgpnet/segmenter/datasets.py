"""A concept on a dataset of Ray Data: actors that hold it once each. Importing this imports no Ray."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dgpnet import checks, storage
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.segmenter.engine import batch_on
from dgpnet.segmenter.portable import portable, traveller

if TYPE_CHECKING:
    from ray.data import Dataset

    from dgpnet.segmenter.concept import Concept

#: Processors that a worker takes where there are no GPUs: more of them speed it up less than further workers do.
PROCESSORS = 4
#: Batches of the network that an actor is given together, to read some while others are segmented.
AHEAD = 4
#: The most workers that there may be on one GPU, or actors in all.
MOST = 64, 100_000


def found() -> Any:
    """Ray; an Error where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers of every cluster
    try:
        import ray
    except ModuleNotFoundError as error:
        raise Error("Ray is not installed; install it with: pip install 'dgpnet[scale]'.") from error
    return ray


def machines(ray: Any) -> list[dict[str, float]]:
    """What each machine of the cluster that is up has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def share_of(ray: Any, per_gpu: int, processors: int | None) -> dict[str, float]:
    """What a worker takes of the cluster: its part of a GPU where there are any; else processors, PROCESSORS unless
    PyTorch uses fewer here, and no more than the smallest machine has."""
    several = machines(ray)
    if any(one.get("GPU", 0) for one in several):
        return {"num_gpus": 1 / per_gpu}
    smallest = min((int(one["CPU"]) for one in several if one.get("CPU", 0) >= 1), default=1)
    return {"num_cpus": min(processors or min(PROCESSORS, torch.get_num_threads()), smallest)}


def beside_reading(ray: Any, processors: int, workers: int) -> int:
    """The processors that each of so many workers books, of those that it takes: where all of them together would leave
    none to whatever reads, they would wait for it for ever."""
    there = sum(int(one.get("CPU", 0)) for one in machines(ray))
    return max(0, min(processors, (there - 1) // workers))


def mapped(
    concept: Concept,
    dataset: Dataset,
    how: dict[str, Any],
    *,
    column: str,
    workers: int | tuple[int, int],
    per_gpu: int,
    processors: int | None,
) -> Dataset:
    """See `Concept.map`. how: what `segment` is told."""
    ray = found()
    checks.kind("dataset", dataset, ray.data.Dataset)
    checks.kind("column", column, str)
    least, most = workers if isinstance(workers, tuple) and len(workers) == 2 else (workers, workers)
    least = checks.whole("workers", least, 1, MOST[1])
    most = checks.whole("workers", most, least, MOST[1])
    chosen = None if processors is None else checks.whole("processors", processors, 1, MOST[1])
    taken = share_of(ray, checks.whole("per_gpu", per_gpu, 1, MOST[0]), chosen)
    size = batch_on("cuda" if "num_gpus" in taken else "cpu", len(concept.classes))
    threads = int(taken["num_cpus"]) if "num_cpus" in taken else None
    if threads is not None:
        taken = {"num_cpus": beside_reading(ray, threads, least)}
    packed = ray.put(portable(traveller(concept)))
    return dataset.map_batches(
        _Finder,
        fn_constructor_args=(packed, column, how, size, threads),
        batch_size=AHEAD * size,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        **taken,
    )


class _Finder:
    """A concept in an actor of Ray Data's."""

    def __init__(self, concept: Any, column: str, how: dict[str, Any], size: int, threads: int | None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        packed: bytes = found().get(concept)
        self._concept: Concept = pickle.loads(packed).on(find_device("auto"))
        self._column, self._how, self._size = column, how, size

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        photos = [one.item() if isinstance(one, np.generic) else one for one in batch[self._column]]
        with ThreadPoolExecutor(storage.AT_ONCE) as pool:
            read = list(pool.map(_content, photos))
        results = self._concept.segment_all(
            [one for one in read if not isinstance(one, Error)], on_error="return", **self._how
        )
        several = (one if isinstance(one, Error) else next(results) for one in read)
        for start in range(0, len(photos), self._size):
            rows = {name: values[start : start + self._size] for name, values in batch.items()}
            yield rows | _columns(list(islice(several, self._size)))


def _content(photo: Any) -> Any:
    """The bytes of an address's object, or the Error that they cannot be had; anything else as it is."""
    try:
        return storage.read(photo) if storage.is_address(photo) else photo
    except Error as error:
        return error


def _columns(results: list[Any]) -> dict[str, Any]:
    """What is found in each photograph, or its Error, as columns."""
    masks = np.empty(len(results), dtype=object)
    masks[:] = [np.zeros((0, 0), np.uint8) if isinstance(one, Error) else one.mask for one in results]
    told = {
        name: np.array([0.0 if isinstance(one, Error) else getattr(one, name) for one in results])
        for name in ("score", "likeness", "presence")
    }
    return {"mask": masks, **told, "error": np.array([str(one) if isinstance(one, Error) else "" for one in results])}

"""Datasets of Ray Data, for those who have their photographs in one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpnet import checks
from dgpnet.cluster.actors import PROCESSORS, found
from dgpnet.cluster.worker import portable
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.segmenter import Concept
from dgpnet.segmenter.engine import batch_on

if TYPE_CHECKING:
    from ray.data import Dataset


def segment_dataset(
    concept: Concept,
    dataset: Dataset,
    *,
    column: str = "image",
    workers: int | tuple[int, int] = (1, 64),
    gpus: float | None = None,
    processors: int = PROCESSORS,
    **how: Any,
) -> Dataset:
    """The dataset with what is found in each photograph, lazily and in a pool of actors, as Ray Data does things.

    Columns that are added: mask (H, W) uint8, score, likeness and presence; error, which is "" where all is well, and
    where it is not the mask is empty.
    column: what has the photographs: arrays (H, W, 3), bytes of image files, or paths.
    workers: how many actors, or at least and at most · gpus: that each takes; by default one where the cluster has any
    · processors: that each takes where there are no GPUs.
    how: threshold, min_likeness, tile … as for `Concept.segment`.
    """
    ray = found()
    concept = checks.kind("concept", concept, Concept)
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU", 0) else 0.0
    share = {"num_gpus": gpus} if gpus else {"num_cpus": processors}
    size = batch_on("cuda" if gpus else "cpu", len(concept.classes))
    given = {"concept": ray.put(portable(concept)), "column": checks.kind("column", column, str), "how": how}
    return dataset.map_batches(
        _Finder, fn_constructor_kwargs=given, batch_size=size, batch_format="numpy", concurrency=workers, **share
    )


class _Finder:
    """A concept in an actor of Ray Data's."""

    def __init__(self, concept: Any, column: str, how: dict[str, Any]) -> None:
        packed: bytes = found().get(concept)
        self._concept: Concept = pickle.loads(packed).on(find_device("auto"))
        self._column = column
        self._how = how

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        photos = [one.item() if isinstance(one, np.generic) else one for one in batch[self._column]]
        results = list(self._concept.segment_all(photos, on_error="return", **self._how))
        several = [None if isinstance(one, Error) else one for one in results]
        masks = np.empty(len(several), dtype=object)
        masks[:] = [np.zeros((0, 0), np.uint8) if one is None else one.mask for one in several]
        return {
            **batch,
            "mask": masks,
            "score": np.array([0.0 if one is None else one.score for one in several]),
            "likeness": np.array([0.0 if one is None else one.likeness for one in several]),
            "presence": np.array([0.0 if one is None else one.presence for one in several]),
            "error": np.array([str(one) if isinstance(one, Error) else "" for one in results]),
        }

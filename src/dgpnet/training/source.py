"""Where a run's episodes come from, and how their photographs reach the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.data import build, draws
from dgpnet.data.cache import Cache
from dgpnet.data.dataset import Dataset, Mixture
from dgpnet.data.episodes import Batch, mixed_shots, sample_batch, trainable
from dgpnet.errors import Error
from dgpnet.training.config import Source, TrainConfig
from dgpnet.training.step import Inputs

#: A store up to this share of a GPU's free memory lives there; joining several datasets takes twice its size.
RESIDENT_SHARE = 0.4


def open_source(
    config: TrainConfig, *, cache: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Dataset:
    """All sources as one dataset at the stored size. Broken files and classes that are too small are Errors here."""
    if not config.sources:
        raise Error("There is nothing to train on; name a dataset.")
    members = [(_open(source, config.stored_size, cache, progress), source.weight) for source in config.sources]
    dataset = members[0][0] if len(members) == 1 else Mixture(members)
    left = dataset
    for shots in sorted(set(config.shots)):  # a class that is too small for some is too small for more
        left, dropped = trainable(left, shots, config.protocol)
        dataset.notes = [*dataset.notes, *dropped]
    return dataset


def _open(source: Source, size: int, cache: Path | None, progress: Callable[[int, int], None] | None) -> Dataset:
    return build(
        source.dataset,
        source.root or None,
        fold=source.fold,
        split="train",
        classes=source.classes or None,
        size=size,
        cache=cache,
        progress=progress,
        **source.options,
    )


def size_at(config: TrainConfig, step: int) -> int:
    """Side of the views of that step."""
    if not config.sizes:
        return config.network.size
    draw = float(draws.uniform(config.seed, draws.SIZES, step, 1)[0])
    return config.sizes[int(draw * len(config.sizes))]


def batch_at(dataset: Dataset, config: TrainConfig, step: int) -> Batch:
    """All episodes of one step, a pure function of dataset, configuration and step."""
    return sample_batch(
        dataset,
        config.seed,
        step,
        config.episodes,
        config.shots[mixed_shots(config.seed, step, 0, len(config.shots) - 1)],
        augmentation=config.augmentation,
        self_augmentation=config.self_augmentation,
        self_episodes=config.self_episodes,
        absent=config.absent,
        power=config.balance,
        protocol=config.protocol,
        size=size_at(config, step),
    )


class Store:
    """Photographs and masks for the step: all of them on the GPU where they fit, else the ones of a batch at a time."""

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        self._dataset, self._device = dataset, device
        self._all: tuple[Tensor, Tensor] | None = None
        if device.type == "cuda" and _bytes(dataset) < RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
            self._all = dataset.tensors(device)

    @property
    def resident(self) -> bool:
        """Whether every step's inputs have the same photos and masks."""
        return self._all is not None

    def inputs(self, batch: Batch, size: int) -> Inputs:
        """The batch on the device, with the photographs that it points into; size: side of the views."""
        there = batch.to(self._device)
        if self._all is not None:
            return Inputs(*self._all, there.index, there.class_id, there.parameters, size)
        rows = [stored(self._dataset, i) for i in batch.index.flatten().tolist()]
        photos, masks = (self._send(np.stack(arrays)) for arrays in zip(*rows, strict=True))
        own = torch.arange(batch.index.numel(), device=self._device).view_as(batch.index)
        return Inputs(photos, masks, own, there.class_id, there.parameters, size)

    def _send(self, array: NDArray[np.uint8]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else tensor


def stored(dataset: Dataset, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Photograph (3, s, s) and labels (s, s) of number i as a cache, or a mixture of caches, holds them."""
    while isinstance(dataset, Mixture):
        dataset, i = dataset.member_of(i)
    assert isinstance(dataset, Cache)
    return dataset.photos[i], dataset.masks[i]


def _bytes(dataset: Dataset) -> int:
    return len(dataset) * sum(array.nbytes for array in stored(dataset, 0))

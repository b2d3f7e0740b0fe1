"""Photographs encoded once, so that many support sets can be learned from them and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.data.dataset import Dataset, label_of
from dgpnet.images import IGNORE
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.metrics import confusion, foreground_iou
from dgpnet.network import Memory, Points
from dgpnet.segmenter import Segmenter
from dgpnet.segmenter.streams import batches
from dgpnet.segmenter.support import read_examples

#: For each branch of the network: features (1, K, P, D) and outputs (1, K, P, 1, E) of K examples.


@dataclass(frozen=True, eq=False)
class Queries:
    """A few photographs to segment: what the encoder says of them, and the truth at their own size.

    features: {stride: (N, D, H, W)} · inside: (N,) part of the network's square that each photograph fills ·
    truths: N of (H, W) uint8, 1 where the class is, 255 ignore
    """

    features: dict[int, Tensor]
    inside: list[tuple[int, int]]
    truths: list[NDArray[np.uint8]]


def photographs_of(dataset: Dataset, class_id: int) -> list[int]:
    """Those that show the class."""
    return sorted({i for i, c in dataset.pairs if c == class_id})


def encode_examples(segmenter: Segmenter, dataset: Dataset, photographs: Sequence[int], class_id: int) -> Points:
    """What learners learn from, of each photograph, with the masks of one class."""
    masks = (dataset.mask(i) == label_of(class_id) for i in photographs)
    (shots,), _ = read_examples((dataset.photo(i) for i in photographs), masks, ["object"], segmenter.network.config)
    return Points.joined(segmenter.engine.runs(shots))


@torch.no_grad()
def encode_queries(
    segmenter: Segmenter, dataset: Dataset, photographs: Sequence[int], class_id: int
) -> Iterator[Queries]:
    """Photographs in batches as the segmenter takes them."""
    for group in batches(photographs, segmenter.batch(1)):
        prepared = [segmenter.engine.read(dataset.photo(i)) for i in group]
        features = segmenter.network.encoder(segmenter.engine.as_input([one.photo for one in prepared]))
        inside = [(one.photo.shape[0], one.photo.shape[1]) for one in prepared]
        yield Queries(features, inside, [_truth(dataset.mask(i), class_id) for i in group])


def _truth(mask: NDArray[np.uint8], class_id: int) -> NDArray[np.uint8]:
    return np.where(mask == IGNORE, IGNORE, mask == label_of(class_id)).astype(np.uint8)


@torch.no_grad()
def learn(segmenter: Segmenter, points: Points, budget: int | None = None) -> Memory:
    """As `Segmenter.learn` does, with a budget of one's own."""
    return segmenter.network.learn_points(points, budget=budget)


@torch.no_grad()
def iou(segmenter: Segmenter, memory: Memory, queries: Sequence[Queries]) -> float:
    """Intersection over union of the class, each summed over all queries at their own size."""
    counts = torch.zeros(4, dtype=torch.int64)
    for group in queries:
        logits = segmenter.network.decode(group.features, segmenter.network.maps(memory, group.features), 1)
        log_odds = logits[:, :, 1] - logits[:, :, 0]
        for odds, (height, width), truth in zip(log_odds, group.inside, group.truths, strict=True):
            odds = F.interpolate(odds[None, :, :height, :width], truth.shape, mode="bilinear", align_corners=False)
            counts += confusion(odds[0, 0].cpu() > 0, torch.from_numpy(truth))
    return float(foreground_iou(counts))


def gaussian(memory: Memory) -> list[str]:
    """The branches that are Gaussian processes."""
    return [name for name, one in memory.learned.items() if isinstance(one, LearnedGaussian)]


def memory_bytes(memory: Memory) -> tuple[int, int]:
    """Bytes that a concept holds, those of the Gaussian processes and those of the other learners."""
    sizes = {
        name: sum(t.numel() * t.element_size() for t in one.tensors().values()) for name, one in memory.learned.items()
    }
    processes = sum(sizes[name] for name in gaussian(memory))
    return processes, sum(sizes.values()) - processes

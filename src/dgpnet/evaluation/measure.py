"""One batch of episodes through the network and against the truth, all on one device and without waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet import processor
from dgpnet.augment import normalise
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.data.episodes import Episode
from dgpnet.errors import Error
from dgpnet.images import IGNORE
from dgpnet.metrics import confusion, error_histogram
from dgpnet.segmenter.calibration import Calibration, expected_iou, overlaps

#: What a network may compute in.
PRECISIONS = ("float32", "bf16")
#: Support photographs (B, K, 3, s, s), their masks (B, K, s, s) and queries (B, 3, s, s) to logits (B, 2, s, s): a
#: DGPNet, or anything that does the same.
Network = Callable[[Tensor, Tensor, Tensor], Tensor]
#: Pixels that are scored at once.
PIXELS = 1 << 23


@dataclass(frozen=True)
class Loaded:
    """The photographs that some episodes take, on one device: photos (N, 3, s, s) and masks (N, s, s) uint8 as the
    network sees them, truths the label masks (H, W) of the queries at their own size; by number in the dataset."""

    photos: Tensor
    masks: Tensor
    place: dict[int, int]
    truths: dict[int, Tensor]

    def to(self, device: torch.device) -> Loaded:
        """The same on a device; from pinned memory the copy does not wait."""
        photos, masks = (t.to(device, non_blocking=True) for t in (self.photos, self.masks))
        truths = {query: truth.to(device, non_blocking=True) for query, truth in self.truths.items()}
        return Loaded(photos, masks, self.place, truths)


def load(
    dataset: Dataset, episodes: Sequence[Episode], shots: int, *, pin: bool, executor: Executor | None = None
) -> Loaded:
    """Reads what the episodes take with `shots` supports each out of a cached dataset, into (pinned) memory."""
    queries = sorted({e.query for e in episodes})
    numbers = sorted({*queries, *(s for e in episodes for s in e.supports[:shots])})
    photos, masks = dataset.tensors()
    chosen = torch.tensor(numbers)
    truths = [torch.from_numpy(mask) for mask in (executor.map if executor else map)(dataset.mask, queries)]
    tensors = [photos[chosen], masks[chosen], *truths]
    if pin:
        tensors = [t.pin_memory() for t in tensors]
    place = {number: row for row, number in enumerate(numbers)}
    return Loaded(tensors[0], tensors[1], place, dict(zip(queries, tensors[2:], strict=True)))


@dataclass(frozen=True)
class Measured:
    """E episodes: counts (E, 4) int64 as from `metrics.confusion`, score (E,) float the predicted IoU, and how right
    and wrong pixels lie over the predicted uncertainty, histogram (2, bins) int64 of all episodes together."""

    counts: Tensor
    score: Tensor
    histogram: Tensor


@torch.inference_mode()
def measure(
    network: Network,
    loaded: Loaded,
    episodes: Sequence[Episode],
    shots: int,
    *,
    calibration: Calibration,
    precision: str = "float32",
    batch: int = 32,
    advance: Callable[[int], None] | None = None,
) -> Measured:
    """Segments the query of each episode from its first `shots` supports and compares at the query's own size.

    batch: photographs, supports included, in one pass of the network.
    advance: called with how many more episodes were measured, or handed to the device.
    """
    device = loaded.photos.device
    counts = torch.zeros(len(episodes), 4, dtype=torch.int64, device=device)
    scores = torch.zeros(len(episodes), dtype=torch.float64, device=device)
    histogram: Tensor | None = None
    for rows, log_odds, target in segmented(network, loaded, episodes, shots, precision=precision, batch=batch):
        found = log_odds > 0
        mask = found.long()
        probability = calibration.probability(log_odds[None])
        uncertainty = calibration.uncertainty(probability, mask)
        part = error_histogram(uncertainty, mask != target, target != IGNORE)
        histogram = part if histogram is None else histogram + part
        shared = torch.vmap(overlaps, in_dims=(1, 0, 0))(probability, uncertainty, mask)
        expected = expected_iou(shared.sum(1), target[0].numel())
        counts[rows] = confusion(found, target)
        scores[rows] = calibration.rated(expected).double()
        if advance:
            advance(len(rows))
    if histogram is None:
        raise Error("There are no episodes to measure: give at least one.")
    return Measured(counts, scores, histogram)


def segmented(
    network: Network, loaded: Loaded, episodes: Sequence[Episode], shots: int, *, precision: str, batch: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields, for episodes whose queries have the same size (H, W): their rows (b,), the log-odds of the foreground
    (b, H, W) float32, and the target (b, H, W) uint8 in {0, 1, 255}."""
    device = loaded.photos.device
    if precision == "bf16" and device.type == "cpu":
        processor.require_half()
    sizes = [tuple(loaded.truths[e.query].shape) for e in episodes]
    order = sorted(range(len(episodes)), key=lambda row: sizes[row])  # queries of one size are scored together
    labels = _there([label_of(e.class_id) for e in episodes], device).byte()
    for rows in _pieces(order, batch // (shots + 1)):
        index = _there(
            [[loaded.place[n] for n in (*episodes[r].supports[:shots], episodes[r].query)] for r in rows], device
        )
        photos = normalise(loaded.photos[index])
        masks = (loaded.masks[index[:, :shots]] == labels[_there(rows, device), None, None, None]).float()
        with torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext():
            logits = network(photos[:, :shots], masks, photos[:, shots]).float()
        for size, run in groupby(range(len(rows)), key=lambda i: sizes[rows[i]]):
            for part in _pieces(list(run), PIXELS // (size[0] * size[1])):
                resized = F.interpolate(logits[part[0] : part[-1] + 1], size=size, mode="bilinear", align_corners=False)
                truth = torch.stack([loaded.truths[episodes[rows[i]].query] for i in part])
                here = _there([rows[i] for i in part], device)
                target = torch.where(truth == IGNORE, truth, (truth == labels[here, None, None]).byte())
                yield here, resized[:, 1] - resized[:, 0], target


def _pieces(items: list[int], length: int) -> Iterator[list[int]]:
    """The items in order, at most `length` (and at least one) at a time."""
    length = max(1, length)
    return (items[start : start + length] for start in range(0, len(items), length))


def _there(numbers: list[Any], device: torch.device) -> Tensor:
    """Whole numbers as an int64 tensor on a device, without waiting for it."""
    tensor = torch.tensor(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

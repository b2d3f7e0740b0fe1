"""Fitting what makes a network's probabilities honest, on episodes of classes or photographs it was not trained on.

One pass over the episodes counts, for each query, how its pixels lie over the log-odds of the foreground; everything
is fitted to these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.data.dataset import Dataset
from dgpnet.data.episodes import Episode
from dgpnet.errors import Error
from dgpnet.evaluation.measure import load, segmented
from dgpnet.images import IGNORE
from dgpnet.metrics import fit_monotone
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import NOTHING, Calibration, Curve

#: Of the histogram of log-odds that curves are fitted to.
BINS = 1024
#: Log-odds beyond ± this share the outermost bins.
_REACH = 24.0
#: Bins of the log-odds that one knot of a curve stands for.
_CURVE_BINS = 16
_SCORE_KNOTS = 16

Counts = NDArray[np.int64]


def fit(
    network: DGPNet,
    dataset: Dataset,
    episodes: Sequence[Episode],
    *,
    shots: Sequence[int] = (1, 5),
    precision: str = "float32",
    batch: int = 32,
) -> Calibration:
    """The calibration of a network, fitted on these episodes of a cached dataset with each of these shots."""
    if not episodes:
        raise Error("A calibration is fitted on episodes; give some that the network was not trained on.")
    counts = np.concatenate([count(network, dataset, episodes, k, precision, batch) for k in shots])
    if not len(counts):
        raise Error(f"No episode has the {min(shots)} supports to fit a calibration with; ask for fewer shots.")
    return fit_counts(counts)


def fit_counts(counts: Counts) -> Calibration:
    """counts: (E, 2, BINS), pixels of each query that are background and foreground in truth, by their log-odds."""
    temperature = fit_temperature(counts.sum(axis=0))
    background, foreground = (_curve(counts.sum(axis=0), temperature, label) for label in (0, 1))
    honest = Calibration(temperature, background, foreground)
    expected, iou = _overlap(counts, honest)
    return Calibration(temperature, background, foreground, Curve(*fit_monotone(expected, iou, knots=_SCORE_KNOTS)))


def found_share(counts: Counts) -> NDArray[np.float64]:
    """(E,) the part of each query's pixels that is found to be foreground. counts: (E, 2, BINS)."""
    pixels = counts.sum(axis=1)
    return np.asarray(pixels[:, centres() > 0].sum(axis=1) / np.maximum(pixels.sum(axis=1), 1))


def log_odds_counts(log_odds: Tensor, target: Tensor) -> Tensor:
    """log_odds (b, H, W) and target (b, H, W) in {0, 1, 255} -> (b, 2, BINS) int64: pixels by truth and log-odds."""
    place = ((log_odds + _REACH) * (BINS / (2 * _REACH))).long().clamp_(0, BINS - 1)
    index = place + (target == 1) * BINS
    counts = torch.zeros(len(log_odds), 2 * BINS, dtype=torch.int64, device=log_odds.device)
    counts.scatter_add_(1, index.flatten(1), (target != IGNORE).flatten(1).long())
    return counts.view(-1, 2, BINS)


def centres() -> NDArray[np.float64]:
    """(BINS,) the log-odds in the middle of each bin."""
    return np.asarray((np.arange(BINS, dtype=np.float64) + 0.5) * (2 * _REACH / BINS) - _REACH)


def fit_temperature(counts: Counts) -> float:
    """The temperature, in [1/20, 20], under which the truth is most likely. counts: (2, BINS).

    The likelihood is concave in 1/temperature: thirty steps of halving where its slope changes sign.
    """
    z, (background, foreground) = centres(), counts
    low, high = 1 / 20, 20.0
    for _ in range(30):
        inverse = (low + high) / 2
        probability = 1 / (1 + np.exp(-inverse * z))
        slope = float((z * (foreground * (1 - probability) - background * probability)).sum())
        low, high = (inverse, high) if slope > 0 else (low, inverse)
    return 2 / (low + high)


def _curve(counts: Counts, temperature: float, label: int) -> Curve:
    """How often pixels given this label are wrong, against how probable the network finds it. counts: (2, BINS)."""
    here = (centres() > 0) == (label == 1)
    doubt = 1 / (1 + np.exp(np.abs(centres()[here]) / temperature))
    total, wrong = counts[:, here].sum(axis=0), counts[1 - label, here]
    group = np.arange(here.sum()) // _CURVE_BINS
    pixels, errors, doubts = (np.bincount(group, weights=w) for w in (total, wrong, total * doubt))
    some = pixels > 0
    if not some.any():
        return Curve()
    return Curve(*fit_monotone(doubts[some] / pixels[some], errors[some] / pixels[some], pixels[some]))


def _overlap(counts: Counts, honest: Calibration) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected and true IoU of each query, (E,) each, from its counts (E, 2, BINS)."""
    z = centres()
    found = z > 0
    doubt = 1 / (1 + np.exp(np.abs(z) / honest.temperature))
    wrong = np.where(found, _applied(honest.foreground, doubt), _applied(honest.background, doubt))
    total = counts.sum(axis=1)
    floor = NOTHING * total.sum(axis=1)
    intersection = (total * found * (1 - wrong)).sum(axis=1)
    union = (total * np.where(found, 1.0, wrong)).sum(axis=1)
    hit = counts[:, 1, found].sum(axis=1)
    either = total[:, found].sum(axis=1) + counts[:, 1, ~found].sum(axis=1)
    return (intersection + floor) / np.maximum(union + floor, 1e-12), np.where(
        either > 0, hit / np.maximum(either, 1), 1.0
    )


def _applied(curve: Curve, values: NDArray[np.float64]) -> NDArray[np.float64]:
    mapped: NDArray[np.float64] = curve(torch.from_numpy(values)).numpy()
    return mapped


@torch.inference_mode()
def count(
    network: DGPNet, dataset: Dataset, episodes: Sequence[Episode], shots: int, precision: str, batch: int
) -> Counts:
    """(E, 2, BINS), as `fit_counts` takes them, of the episodes that have so many supports."""
    device = next(network.parameters()).device
    network.eval()
    some = [e for e in episodes if len(e.supports) >= shots]
    parts = []
    with ThreadPoolExecutor() as readers:
        for start in range(0, len(some), 128):
            unit = some[start : start + 128]
            loaded = load(dataset, unit, shots, pin=device.type == "cuda", executor=readers).to(device)
            counts = torch.zeros(len(unit), 2, BINS, dtype=torch.int64, device=device)
            for rows, log_odds, target in segmented(network, loaded, unit, shots, precision=precision, batch=batch):
                counts[rows] = log_odds_counts(log_odds, target)
            parts.append(counts.cpu().numpy())
    return np.concatenate(parts) if parts else np.zeros((0, 2, BINS), np.int64)

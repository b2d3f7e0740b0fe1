"""How good masks are (intersection over union) and how far their uncertainty can be trusted (calibration).

Everything that is gathered over many photographs is integers or one number an episode, so that parts computed by
several processes add up to exactly what one process gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dgpnet.errors import Error

HISTOGRAM_BINS = 1024
#: The histogram's bins are even in the logit of the uncertainty, where most pixels are far from 1/2.
_LOGIT_RANGE = 16.0

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def confusion(predicted: Tensor, target: Tensor) -> Tensor:
    """Pixel counts of a binary mask against the truth, ignore pixels left out.

    predicted: (..., H, W) bool. target: (..., H, W) uint8, 0 background, 1 foreground, 255 ignore.
    Returns (..., 4) int64: true positives, false positives, false negatives, true negatives. No host synchronisation.
    """
    if predicted.shape != target.shape:
        raise Error(
            f"A prediction of shape {tuple(predicted.shape)} cannot be compared with a target of shape"
            f" {tuple(target.shape)}: resize the prediction to the target's size first."
        )
    foreground, background, found = target == 1, target == 0, predicted.bool()
    cells = (found & foreground, found & background, ~found & foreground, ~found & background)
    return torch.stack([cell.sum(dim=(-2, -1)) for cell in cells], dim=-1)


def foreground_iou(counts: ArrayLike) -> Floats:
    """IoU of the foreground from counts (..., 4) as `confusion` gives them; 1 where neither mask has any."""
    tp, fp, fn, _ = np.moveaxis(np.asarray(counts, dtype=np.int64), -1, 0)
    union = tp + fp + fn
    return np.asarray(np.where(union > 0, tp / np.maximum(union, 1), 1.0))


@dataclass(frozen=True)
class Scores:
    """What the field reports for one set of episodes; IoUs lie in [0, 1]."""

    miou: float
    fb_iou: float
    per_class: dict[int, float]
    interval: tuple[float, float]
    """95 % interval of `miou`: percentiles over bootstrap resamples of the episodes."""
    episodes: int


class IoU:
    """Intersections and unions summed per class over all episodes; then one IoU a class, and their mean."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets every episode."""
        self._classes: list[NDArray[np.int64]] = []
        self._counts: list[Counts] = []

    def update(self, classes: ArrayLike, counts: ArrayLike) -> None:
        """Adds episodes: classes (E,) the class of each, counts (E, 4) from `confusion`."""
        classes, counts = np.atleast_1d(np.asarray(classes, np.int64)), np.atleast_2d(np.asarray(counts, np.int64))
        if counts.shape != (len(classes), 4):
            raise Error(f"counts of shape {counts.shape} do not fit {len(classes)} classes: give one row of four each.")
        self._classes.append(classes)
        self._counts.append(counts)

    def compute(self, *, resamples: int = 1000, seed: int = 0) -> Scores:
        """The scores of all episodes added so far; `resamples` bootstrap draws from `seed` give the interval."""
        if not self._classes:
            raise Error("No episode was scored: call update at least once before compute.")
        classes, counts = np.concatenate(self._classes), np.concatenate(self._counts)
        names, index = np.unique(classes, return_inverse=True)
        per_class = _class_iou(index, counts, len(names))
        return Scores(
            miou=float(per_class.mean()),
            fb_iou=_fb_iou(counts),
            per_class={int(name): float(value) for name, value in zip(names, per_class, strict=True)},
            interval=_bootstrap(index, counts, len(names), resamples, seed),
            episodes=len(classes),
        )


def _class_iou(index: NDArray[np.int64], counts: Counts, classes: int) -> Floats:
    """(classes,) IoU of each class, summed over its episodes; NaN for a class without any."""
    intersection = np.bincount(index, weights=counts[:, 0], minlength=classes)
    union = np.bincount(index, weights=counts[:, :3].sum(axis=1), minlength=classes)
    present = np.bincount(index, minlength=classes) > 0
    iou = np.where(union > 0, intersection / np.maximum(union, 1), 1.0)
    return np.asarray(np.where(present, iou, np.nan))


def _fb_iou(counts: Counts) -> float:
    """Mean of the IoUs of foreground and background over all episodes, whatever the class."""
    tp, fp, fn, tn = (int(total) for total in counts.sum(axis=0))
    wrong = fp + fn
    return float((tp / max(tp + wrong, 1) + tn / max(tn + wrong, 1)) / 2)


def _bootstrap(
    index: NDArray[np.int64], counts: Counts, classes: int, resamples: int, seed: int
) -> tuple[float, float]:
    """95 % percentile interval of the mean IoU over episodes drawn with replacement."""
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for i in range(resamples):
        drawn = rng.integers(len(index), size=len(index))
        means[i] = np.nanmean(_class_iou(index[drawn], counts[drawn], classes))
    low, high = np.percentile(means, (2.5, 97.5)) if resamples else (math.nan, math.nan)
    return float(low), float(high)


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation, as over seeds; the deviation of a single value is NaN, not 0."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else math.nan


# --- uncertainty of pixels ------------------------------------------------------------------------------------------


def error_histogram(uncertainty: Tensor, wrong: Tensor, valid: Tensor) -> Tensor:
    """Counts right and wrong pixels by predicted uncertainty.

    uncertainty: any shape, float in [0, 1]; wrong, valid: bool of that shape; pixels that are not valid are left out.
    Returns (2, HISTOGRAM_BINS) int64, row 0 right pixels, row 1 wrong ones. No host synchronisation.
    """
    position = (torch.logit(uncertainty.float(), eps=1e-7) + _LOGIT_RANGE) * (HISTOGRAM_BINS / (2 * _LOGIT_RANGE))
    index = position.long().clamp_(0, HISTOGRAM_BINS - 1) + wrong.long() * HISTOGRAM_BINS
    counts = torch.zeros(2 * HISTOGRAM_BINS, dtype=torch.int64, device=uncertainty.device)
    return counts.scatter_add_(0, index.flatten(), valid.flatten().long()).view(2, HISTOGRAM_BINS)


def histogram_centres() -> Floats:
    """(HISTOGRAM_BINS,) the uncertainty in the middle of each bin of `error_histogram`."""
    logits = (np.arange(HISTOGRAM_BINS) + 0.5) * (2 * _LOGIT_RANGE / HISTOGRAM_BINS) - _LOGIT_RANGE
    return np.asarray(1 / (1 + np.exp(-logits)))


def auroc(histogram: ArrayLike) -> float:
    """Probability that a wrong pixel has a higher uncertainty than a right one (ties count half); NaN without both.

    histogram: (2, bins) counts of right and wrong pixels, bins in rising order of uncertainty.
    """
    right, wrong = np.asarray(histogram, dtype=np.float64)
    if right.sum() == 0 or wrong.sum() == 0:
        return math.nan
    below = np.cumsum(right) - right / 2
    return float((wrong * below).sum() / (right.sum() * wrong.sum()))


@dataclass(frozen=True)
class ReliabilityBin:
    """Pixels of similar predicted uncertainty: what was predicted on average, and how often they were wrong."""

    predicted: float
    observed: float
    pixels: int


@dataclass(frozen=True)
class CalibrationScores:
    """Quality of the predicted probability that a pixel's label is wrong."""

    auroc: float
    ece: float
    """Expected calibration error: mean over pixels of |predicted − observed| error rate of the pixel's bin."""
    error_rate: float
    bins: tuple[ReliabilityBin, ...]


class Reliability:
    """Streaming comparison of predicted uncertainty with the errors that were made."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets every pixel."""
        self._histogram: Counts = np.zeros((2, HISTOGRAM_BINS), np.int64)

    def update(self, histogram: ArrayLike) -> None:
        """Adds pixels: histogram (2, HISTOGRAM_BINS) from `error_histogram`."""
        self._histogram += np.asarray(histogram, np.int64)

    def compute(self, *, bins: int = 15) -> CalibrationScores:
        """The scores of all pixels added so far; `bins` of even width in the uncertainty for the reliability."""
        totals = self._histogram.sum(axis=0)
        if totals.sum() == 0:
            raise Error("No pixel was scored; call update with a histogram that counts some before compute.")
        reliability = _reliability(self._histogram, bins)
        pixels = sum(b.pixels for b in reliability)
        return CalibrationScores(
            auroc=auroc(self._histogram),
            ece=sum(b.pixels * abs(b.predicted - b.observed) for b in reliability) / pixels,
            error_rate=float(self._histogram[1].sum() / totals.sum()),
            bins=reliability,
        )


def _reliability(histogram: Counts, bins: int) -> tuple[ReliabilityBin, ...]:
    """Gathers the fine bins into `bins` of even width; empty ones are left out."""
    centres, totals = histogram_centres(), histogram.sum(axis=0)
    coarse = np.minimum((centres * bins).astype(int), bins - 1)
    pixels = np.bincount(coarse, weights=totals, minlength=bins)
    predicted = np.bincount(coarse, weights=totals * centres, minlength=bins)
    observed = np.bincount(coarse, weights=histogram[1], minlength=bins)
    return tuple(
        ReliabilityBin(float(predicted[b] / pixels[b]), float(observed[b] / pixels[b]), int(pixels[b]))
        for b in np.flatnonzero(pixels)
    )


# --- one number an image --------------------------------------------------------------------------------------------


def ranks(values: ArrayLike) -> Floats:
    """(N,) ranks from 1; equal values share the mean of theirs."""
    _, index, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index])


def rank_correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation in [−1, 1]; NaN where one of the two does not vary."""
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale > 0 else math.nan


# --- monotone fits --------------------------------------------------------------------------------------------------


def isotonic(x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Floats:
    """The non-decreasing values closest to y in weighted least squares, at y's places (pool adjacent violators).

    x, y, weight: (N,); equal x get equal values. Returns (N,) fitted values in the order given.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    weight = np.ones_like(y) if weight is None else np.asarray(weight, np.float64)
    if len(x) == 0 or not len(x) == len(y) == len(weight) or (weight <= 0).any():
        raise Error(
            f"{len(x)} x, {len(y)} y and {len(weight)} weights given: give as many of each, at least one, with"
            " positive weights."
        )
    _, index = np.unique(x, return_inverse=True)
    total = np.bincount(index, weights=weight)
    value = np.bincount(index, weights=weight * y) / total
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, how many distinct x)
    for mean, mass in zip(value.tolist(), total.tolist(), strict=True):
        size = 1
        while blocks and blocks[-1][0] >= mean:
            last_mean, last_mass, last_size = blocks.pop()
            mean = (mean * mass + last_mean * last_mass) / (mass + last_mass)
            mass, size = mass + last_mass, size + last_size
        blocks.append((mean, mass, size))
    fitted = np.repeat([b[0] for b in blocks], [b[2] for b in blocks])
    return np.asarray(fitted[index])


def fit_monotone(
    x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, *, knots: int | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots (x, y) of a non-falling piecewise linear map from x to the mean of y. x, y, weight: (N,).

    With `knots` the data are first gathered into that many groups of even weight in rising x, which keeps the fit from
    following noise; without, every distinct x is a knot.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    weight = np.ones_like(y) if weight is None else np.asarray(weight, np.float64)
    if knots is not None:
        x, y, weight = _gather(x, y, weight, knots)
    fitted = isotonic(x, y, weight)
    # As float32, the precision that the map is used in: there, close knots must not fall together.
    places, first = np.unique(x.astype(np.float32), return_index=True)
    return tuple(places.tolist()), tuple(fitted[first].tolist())


def _gather(x: Floats, y: Floats, weight: Floats, groups: int) -> tuple[Floats, Floats, Floats]:
    """Means of x and y, and sums of the weight, over at most `groups` groups of even weight in rising x."""
    order = np.argsort(x, kind="stable")
    x, y, weight = x[order], y[order], weight[order]
    position = (np.cumsum(weight) - weight / 2) / weight.sum()
    _, group = np.unique(np.minimum((position * groups).astype(int), groups - 1), return_inverse=True)
    mass: Floats = np.bincount(group, weights=weight).astype(np.float64)
    return np.bincount(group, weights=weight * x) / mass, np.bincount(group, weights=weight * y) / mass, mass

"""What is found in one photograph, at the photograph's own size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.segmenter.calibration import Calibration, expected_iou, overlaps

#: Numbers of one map that are computed at once: large photographs are rendered in bands of rows.
BAND = 1 << 22


@dataclass(frozen=True, eq=False)
class Segmentation:
    """What was found in a photograph of size (H, W), with C classes.

    mask          uint8 (H, W): 0 background, 1 … C
    probability   float32 (C + 1, H, W), background first; sums to 1
    uncertainty   float32 (H, W) in [0, 1]: the calibrated probability that this pixel's label is wrong
    novelty       float32 (H, W) in [0, 1]: posterior over prior standard deviation; "nothing like this was shown"
    score         in [0, 1], higher is better: the expected IoU
    """

    mask: NDArray[np.uint8]
    probability: NDArray[np.float32]
    uncertainty: NDArray[np.float32]
    novelty: NDArray[np.float32]
    score: float


@dataclass(frozen=True, eq=False)
class Maps:
    """What the network says of a photograph, at its own resolution: log_odds (C, h, w), novelty (h, w), float32."""

    log_odds: Tensor
    novelty: Tensor


@dataclass(frozen=True, eq=False)
class Rendered:
    """Maps at a photograph's size: those that were asked for (empty where not), and numbers about all of them."""

    mask: Tensor
    probability: Tensor
    uncertainty: Tensor
    novelty: Tensor
    score: float
    areas: tuple[int, ...]
    mean_uncertainty: float
    mean_novelty: float

    def segmentation(self) -> Segmentation:
        """As arrays."""
        return Segmentation(
            mask=self.mask.cpu().numpy(),
            probability=self.probability.cpu().numpy(),
            uncertainty=self.uncertainty.cpu().numpy(),
            novelty=self.novelty.cpu().numpy(),
            score=self.score,
        )


EVERYTHING = frozenset({"mask", "probability", "uncertainty", "novelty"})


def render(
    maps: Maps,
    size: tuple[int, int],
    calibration: Calibration,
    *,
    threshold: float | None = None,
    keep: Collection[str] = EVERYTHING,
) -> Rendered:
    """Labels, probabilities, uncertainty and score at `size` (H, W).

    threshold: the probability that a class needs to be given to a pixel; by default the most probable label wins.
    keep: which maps to return; the others are computed band by band and let go.
    """
    classes, (height, width) = len(maps.log_odds), size
    rows = max(1, BAND // (width * (classes + 1)))
    bands: list[dict[str, Tensor]] = []
    expected = maps.log_odds.new_zeros(2, classes, dtype=torch.float64)
    sums = expected.new_zeros(classes + 1)
    for top in range(0, height, rows):
        band = slice(top, min(top + rows, height))
        probability = calibration.probability(resample(maps.log_odds, size, band))
        mask = _labels(probability, threshold)
        uncertainty = calibration.uncertainty(probability, mask)
        expected = expected + overlaps(probability, uncertainty, mask)
        areas = [(mask == c).sum() for c in range(1, classes + 1)]
        sums = sums + torch.stack([*areas, uncertainty.sum()]).double()
        found = {"mask": mask.byte(), "probability": probability, "uncertainty": uncertainty}
        if "novelty" in keep:
            found["novelty"] = resample(maps.novelty[None], size, band)[0]
        bands.append({name: found[name] for name in keep})
    pixels = height * width
    score = calibration.score(expected_iou(expected, pixels))
    numbers = torch.cat([sums, maps.novelty.double().mean()[None], score[None]]).tolist()
    whole = {name: torch.cat([band[name] for band in bands], -2) for name in keep}
    return Rendered(
        **{name: whole.get(name, torch.empty(0)) for name in EVERYTHING},
        score=numbers[-1],
        areas=tuple(int(area) for area in numbers[:-3]),
        mean_uncertainty=numbers[-3] / pixels,
        mean_novelty=numbers[-2],
    )


def resample(maps: Tensor, size: tuple[int, int], rows: slice) -> Tensor:
    """Rows start … stop − 1 of the maps (C, h, w) resized bilinearly to `size` (H, W): (C, stop − start, W).

    The same as `torch.nn.functional.interpolate` on the whole, without ever holding the whole.
    """
    top, bottom, down = _neighbours(maps.shape[1], size[0], rows, maps)
    left, right, across = _neighbours(maps.shape[2], size[1], slice(0, size[1]), maps)
    lines = maps[:, rows] if maps.shape[1] == size[0] else torch.lerp(maps[:, top], maps[:, bottom], down[:, None])
    return lines if maps.shape[2] == size[1] else torch.lerp(lines[:, :, left], lines[:, :, right], across)


def _neighbours(old: int, new: int, part: slice, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each new place in `part`, the two old places it lies between and its share of the way, each (n,)."""
    place = (torch.arange(part.start, part.stop, device=like.device, dtype=torch.float64) + 0.5) * (old / new) - 0.5
    place = place.clamp(0, old - 1)
    first = place.long()
    return first, (first + 1).clamp(max=old - 1), (place - first).to(like.dtype)


def _labels(probability: Tensor, threshold: float | None) -> Tensor:
    """probability: (C + 1, ...) -> (...) int64."""
    best, label = (probability[1], 0) if len(probability) == 2 else probability[1:].max(0)
    enough = best > probability[0] if threshold is None else best >= threshold
    return torch.where(enough, label + 1, 0)

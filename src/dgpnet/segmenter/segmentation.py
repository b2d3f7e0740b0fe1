"""What is found in one photograph, at the photograph's own size."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.annotations.legend import Legend
from dgpnet.network.dgpnet import Answer
from dgpnet.network.graphs import Call, Several, directly
from dgpnet.pictures import Picture, overlay
from dgpnet.segmenter.calibration import NOTHING, PRESENT, Calibration, Evidence, expected_iou, overlaps
from dgpnet.segmenter.coupling import leaning
from dgpnet.segmenter.kinship import Kinship
from dgpnet.segmenter.landing import landed

#: Numbers that are held at once, enough for a batch of 16 at 384²: what needs more is computed in bands of rows.
BAND = 20 << 20
#: Classes that a segmentation names in its one line.
LISTED = 6
#: Longest side of the picture that a notebook shows, in pixels.
NOTEBOOK = 800
#: Keeps a division by nothing finite.
TINY = 1e-9
#: Numbers that it takes to judge a pixel, for each class and the background.
EACH = 4


@dataclass(frozen=True, eq=False)
class Segmentation:
    """What was found in a photograph of size (H, W), with C classes. `Concept.segment` makes it:

        >>> found
        Segmentation(64 × 48: mug ...%; score ...)
        >>> found.probability.shape
        (2, 48, 64)

    mask          uint8 (H, W): 0 background, 1 … C; of several classes that are more probable than the background, a
                  pixel whose evidence is level has the one that its neighbourhood has
    probability   float32 (C + 1, H, W), background first; sums to 1
    uncertainty   float32 (H, W) in [0, 1]: the calibrated probability that this pixel's label is wrong
    novelty       float32 (H, W) in [0, 1]: posterior over prior standard deviation; "nothing like this was shown"
    score         in [0, 1], higher is better: the expected IoU of the mask; the probability that it is right to have
                  nothing of a class that was left out or not found
    likeness      in [0, 1], higher is better: how much what was found looks like what was painted; 1 if nothing was
                  found, 0 for networks without plain similarity
    presence      in [0, 1]: the probability that any of the classes is in the photograph; 1 where the model cannot tell
    class_scores, class_likeness, class_presence   the same of each class by itself, C numbers
    classes       C names
    photo         uint8 (H, W, 3): the photograph itself, as viewers show it
    """

    mask: NDArray[np.uint8]
    probability: NDArray[np.float32]
    uncertainty: NDArray[np.float32]
    novelty: NDArray[np.float32]
    score: float
    likeness: float
    presence: float
    class_scores: tuple[float, ...]
    class_likeness: tuple[float, ...]
    class_presence: tuple[float, ...]
    legend: Legend
    photo: NDArray[np.uint8]

    @property
    def classes(self) -> tuple[str, ...]:
        """C names."""
        return self.legend.names

    def shares(self) -> tuple[float, ...]:
        """The part of the photograph that each class has.

        Returns:
            C numbers in [0, 1].

        Example:
            >>> all(0 <= share <= 1 for share in found.shares())
            True
        """
        counts = np.bincount(self.mask.ravel(), minlength=256)[1 : len(self.classes) + 1]
        return tuple((counts / self.mask.size).tolist())

    def __repr__(self) -> str:
        height, width = self.mask.shape
        parts = [f"{name} {share:.1%}" for name, share in zip(self.classes, self.shares(), strict=True)]
        listed = ", ".join(parts[:LISTED]) + (f" and {len(parts) - LISTED} more" if len(parts) > LISTED else "")
        return f"Segmentation({width} × {height}: {listed}; score {self.score:.2f})"

    def overlay(self) -> Picture:
        """The photograph with what was found drawn in, in the classes' colours.

        Returns:
            a PIL image of the photograph's size.

        Example:
            >>> found.overlay().size
            (64, 48)
        """
        return overlay(self.photo, self.mask, colours=self.legend.colours)

    def _repr_png_(self) -> bytes:
        """What a notebook shows: the overlay, at most NOTEBOOK pixels a side."""
        picture, stream = self.overlay(), io.BytesIO()
        picture.thumbnail((NOTEBOOK, NOTEBOOK))
        picture.save(stream, "PNG")
        return stream.getvalue()


class Maps(NamedTuple):
    """What the network says of a photograph, at its own resolution: log_odds (C, h, w), novelty (h, w), likeness
    (C, h, w), float32; of several photographs, with their number in front."""

    log_odds: Tensor
    novelty: Tensor
    likeness: Tensor

    @staticmethod
    def of(answer: Answer) -> Maps:
        """The maps of N photographs."""
        return Maps(answer.logits[:, :, 1] - answer.logits[:, :, 0], *answer[1:])

    def each(self, change: Callable[[Tensor], Tensor]) -> Maps:
        """The maps, each of them changed."""
        return Maps(*map(change, self))


@dataclass(frozen=True, eq=False)
class Judged:
    """How sure the network is of a photograph, at its own resolution.

    uncertainty   uint8 (h, w): 255 where the label is surely wrong
    score, mean_uncertainty, mean_novelty, likeness, presence   in [0, 1]
    class_scores, class_likeness, class_presence   of each class by itself, C numbers
    """

    uncertainty: NDArray[np.uint8]
    score: float
    mean_uncertainty: float
    mean_novelty: float
    likeness: float
    presence: float
    class_scores: tuple[float, ...]
    class_likeness: tuple[float, ...]
    class_presence: tuple[float, ...]


EVERYTHING = frozenset({"mask", "probability", "uncertainty", "novelty"})


def render(
    maps: Sequence[Maps],
    judged: Sequence[Judged],
    photos: Sequence[NDArray[np.uint8]],
    legend: Legend,
    calibration: Calibration,
    *,
    threshold: float | None = None,
    min_likeness: float = 0.0,
    keep_all: bool = False,
    call: Call = directly,
) -> list[Segmentation]:
    """Labels, probabilities, uncertainty and novelty at the sizes of photographs (H, W, 3), and their scores.

    judged: what `judge` said of the maps · threshold: the probability that a class needs to be given to a pixel; by
    default more than the background has · min_likeness, keep_all: see `leave_out` · call: see `judge`.
    """
    several = landed(
        enlarge(one, (photo.shape[0], photo.shape[1]), calibration, threshold=threshold, call=call)
        for one, photo in zip(maps, photos, strict=True)
    )
    found = []
    for arrays, sure, photo in zip(several, judged, photos, strict=True):
        leave_out(arrays["mask"], sure, min_likeness=min_likeness, keep_all=keep_all)
        found.append(
            Segmentation(
                **arrays,
                score=sure.score,
                likeness=sure.likeness,
                presence=sure.presence,
                class_scores=sure.class_scores,
                class_likeness=sure.class_likeness,
                class_presence=sure.class_presence,
                legend=legend,
                photo=photo,
            )
        )
    return found


def leave_out(mask: NDArray[np.uint8], judged: Judged, *, min_likeness: float, keep_all: bool) -> None:
    """Take classes out of a mask (H, W), in place: those that are probably not there, unless all are to be kept, and
    those that look less like what was painted than `min_likeness`."""
    for c, (likeness, presence) in enumerate(zip(judged.class_likeness, judged.class_presence, strict=True), 1):
        if likeness < min_likeness or (presence < PRESENT and not keep_all):
            mask[mask == c] = 0


def judge(
    maps: Sequence[Maps],
    calibration: Calibration,
    *,
    threshold: float | None = None,
    kin: Kinship | None = None,
    keep_all: bool = False,
    call: Call = directly,
) -> list[Judged]:
    """Scores of photographs, neighbours of one size in one go: a few calls and copies for a whole batch.

    At the network's resolution: enlarging the maps adds no knowledge, and would cost a large photograph seconds.
    kin: of the concept that the maps are of; without it nothing is known of presence · keep_all: as for `leave_out` ·
    call: how to call what is done in one band, where a GPU has a quicker way.
    """
    return [
        judged
        for _, alike in groupby(maps, lambda one: one.log_odds.shape)
        for judged in _judge(list(alike), calibration, threshold, kin, keep_all, call)
    ]


class Weighed(NamedTuple):
    """What the pixels of N photographs of one size, with C classes, come to.

    evidence      of each class, each (N, C)
    found         (N, C) bool: whether any pixel was
    overlaps      (N, C, 2): expected intersection and union, in pixels
    likeness      (N, C + 1): mean of what was found, of all classes first; 1 where nothing was
    uncertainty   (N,) mean · levels: (N, H, W) uint8, 255 where the label is surely wrong
    novelty       (N,) mean
    """

    evidence: Evidence
    found: Tensor
    overlaps: Tensor
    likeness: Tensor
    uncertainty: Tensor
    levels: Tensor
    novelty: Tensor


def weigh(maps: Sequence[Maps], calibration: Calibration, *, threshold: float | None = None) -> Weighed:
    """Photographs of one size."""
    return _weigh(*_together(maps), calibration, threshold)


def _together(maps: Sequence[Maps]) -> tuple[Tensor, Tensor, Tensor]:
    """Log-odds and likeness (C, N, h, w), novelty (N, h, w)."""
    log_odds, likeness = (_stacked([getattr(one, name) for one in maps], 1) for name in ("log_odds", "likeness"))
    return log_odds, likeness, _stacked([one.novelty for one in maps], 0)


def _rows(count: int, classes: int, width: int) -> int:
    """How many rows of so many photographs a band has."""
    return max(1, BAND // (count * width * EACH * (classes + 1)))


def _weigh(
    log_odds: Tensor, likeness: Tensor, novelty: Tensor, calibration: Calibration, threshold: float | None
) -> Weighed:
    """What `_together` gave, in bands of rows, so that memory is bounded."""
    classes, count, height, width = log_odds.shape
    novelty = novelty.mean((1, 2), dtype=torch.float64)
    expected = novelty.new_zeros(count, classes, 2)
    doubt = torch.zeros_like(novelty)
    # Of what was found: likeness, pixels, and their probability; of all pixels: likeness by their probability.
    alike, found, sure, nearly, chance = (novelty.new_zeros(count, classes) for _ in range(5))
    bands: list[Tensor] = []
    lean = _leaning(log_odds, calibration)
    for part in _bands(height, _rows(count, classes, width)):
        band, like = log_odds[:, :, part], likeness[:, :, part]
        probability = calibration.probability(band)
        label = labels(band, calibration, threshold, _resampled(lean, (height, width), part)).long()
        uncertainty = calibration.uncertainty(probability, label)
        expected += torch.vmap(overlaps, in_dims=(1, 0, 0))(probability, uncertainty, label)
        doubt += uncertainty.sum((1, 2))
        for c in range(classes):
            here = label == c + 1
            alike[:, c] += torch.where(here, like[c], 0.0).sum((1, 2))
            found[:, c] += here.sum((1, 2))
            sure[:, c] += torch.where(here, probability[c + 1], 0.0).sum((1, 2))
            nearly[:, c] += (probability[c + 1] * like[c]).sum((1, 2))
            chance[:, c] += probability[c + 1].sum((1, 2))
        bands.append((uncertainty * 255).round().byte())
    pixels = height * width
    evidence = Evidence(
        torch.where(found > 0, alike / found.clamp(min=1), nearly / chance.clamp(min=TINY)),
        torch.where(found > 0, sure / found.clamp(min=1), chance / pixels),
        expected_iou(expected, pixels),
        (found / pixels + NOTHING).log10(),
    )
    of_all, pixels_of_all = (torch.cat([one.sum(1, keepdim=True), one], 1) for one in (alike, found))
    of_found = torch.where(pixels_of_all > 0, of_all / pixels_of_all.clamp(min=1), 1.0).clamp(0, 1)
    return Weighed(evidence, found > 0, expected, of_found, doubt / pixels, torch.cat(bands, 1), novelty)


def _judge(
    maps: list[Maps],
    calibration: Calibration,
    threshold: float | None,
    kin: Kinship | None,
    keep_all: bool,
    call: Call,
) -> list[Judged]:
    classes, height, width = maps[0].log_odds.shape
    inputs = _together(maps)

    def weighed(log_odds: Tensor, likeness: Tensor, novelty: Tensor, *kin: Tensor) -> Several:
        found = _weigh(log_odds, likeness, novelty, calibration, threshold)
        return Several((found.levels, _numbers(found, calibration, kin, keep_all, height * width)))

    known = () if kin is None else tuple(one.to(inputs[0].device) for one in (kin.own, kin.known, kin.shift))
    in_one = call if height <= _rows(len(maps), classes, width) else directly
    levels, numbers = in_one(("judge", calibration, threshold, keep_all), weighed, [*inputs, *known])
    (arrays,) = landed([{"levels": levels, "numbers": numbers}])
    judged = []
    for level, row in zip(arrays["levels"], arrays["numbers"].tolist(), strict=True):
        score, doubt, novel, there, like, *rest = row
        each = [tuple(rest[i * classes : (i + 1) * classes]) for i in range(3)]
        class_likeness, class_scores, class_presence = each
        judged.append(Judged(level, score, doubt, novel, like, there, class_scores, class_likeness, class_presence))
    return judged


def _numbers(weighed: Weighed, calibration: Calibration, kin: Sequence[Tensor], keep_all: bool, pixels: int) -> Tensor:
    """Of N photographs (N, 5 + 3 C): score, uncertainty, novelty, presence and likeness of all, and of each class its
    likeness, score and presence. kin: the parts of a `Kinship`; none where nothing is known."""
    presence, scores = _believed(weighed.evidence, weighed.found, calibration, kin, keep_all)
    # Of all classes together: each counts by its expected union.
    unions = weighed.overlaps[..., 1] + NOTHING * pixels
    together = (
        calibration.rated(expected_iou(weighed.overlaps.sum(1), pixels))
        if calibration.quality is None or not kin
        else (scores * unions).sum(1) / unions.sum(1)
    )
    single = torch.stack([together, weighed.uncertainty, weighed.novelty, 1 - (1 - presence).prod(1)], 1)
    return torch.cat([single, weighed.likeness, scores, presence], 1)


def _believed(
    evidence: Evidence, found: Tensor, calibration: Calibration, kin: Sequence[Tensor], keep_all: bool
) -> tuple[Tensor, Tensor]:
    """Presence and score of each class, (N, C) each. Where a class is left out or was not found, the score is that of
    an empty mask: the probability that this is right."""
    if not kin or calibration.presence is None or calibration.quality is None:
        return torch.ones_like(evidence.overlap), calibration.rated(evidence.overlap)
    own, known, shift = kin
    presence = calibration.presence(evidence, own, known, shift)
    score = calibration.quality(evidence, own, known)
    kept = found if keep_all else found & (presence >= PRESENT)
    return presence, torch.where(kept, score, 1 - presence)


def enlarge(
    maps: Maps,
    size: tuple[int, int],
    calibration: Calibration,
    *,
    threshold: float | None = None,
    keep: Collection[str] = EVERYTHING,
    call: Call = directly,
) -> dict[str, Tensor]:
    """Those maps that are named in `keep`, at `size` (H, W), types as in `Segmentation`. call: see `judge`."""
    classes, (height, width) = len(maps.log_odds), size
    several = 2 if classes > 1 else 1
    rows = max(1, BAND // (width * (several * classes if set(keep) == {"mask"} else EACH * (classes + 1))))
    names = tuple(keep)

    def enlarged(log_odds: Tensor, novelty: Tensor) -> Several:
        lean = _leaning(log_odds, calibration)
        bands = [
            _band(log_odds, novelty, lean, size, part, calibration, threshold, names) for part in _bands(height, rows)
        ]
        return Several(torch.cat(parts, -2) if len(bands) > 1 else parts[0] for parts in zip(*bands, strict=True))

    in_one = call if height <= rows else directly
    found = in_one(("enlarge", calibration, threshold, names, size), enlarged, [maps.log_odds, maps.novelty])
    return dict(zip(names, found, strict=True))


def _band(
    log_odds: Tensor,
    novelty: Tensor,
    lean: Tensor | None,
    size: tuple[int, int],
    rows: slice,
    calibration: Calibration,
    threshold: float | None,
    names: Sequence[str],
) -> list[Tensor]:
    """The maps of these names in some rows."""
    odds = resample(log_odds, size, rows)
    found = {"mask": labels(odds, calibration, threshold, _resampled(lean, size, rows))}
    if "probability" in names or "uncertainty" in names:
        found["probability"] = calibration.probability(odds)
        found["uncertainty"] = calibration.uncertainty(found["probability"], found["mask"].long())
    if "novelty" in names:
        found["novelty"] = resample(novelty[None], size, rows)[0]
    return [found[name] for name in names]


def _bands(height: int, rows: int) -> list[slice]:
    return [slice(top, min(top + rows, height)) for top in range(0, height, rows)]


def _leaning(log_odds: Tensor, calibration: Calibration) -> Tensor | None:
    """Where there are several classes. Of the whole, however large: what a band leans to must not depend on bands."""
    return leaning(log_odds, calibration) if len(log_odds) > 1 else None


def _resampled(lean: Tensor | None, size: tuple[int, int], rows: slice) -> Tensor | None:
    """`resample` of (C, …, h, w)."""
    return None if lean is None else resample(lean.flatten(0, -3), size, rows).unflatten(0, lean.shape[:-2])


def resample(maps: Tensor, size: tuple[int, int], rows: slice) -> Tensor:
    """Rows start … stop − 1 of the maps (C, h, w) resized bilinearly to `size` (H, W): (C, stop − start, W).

    The same as `torch.nn.functional.interpolate` on the whole, without ever holding the whole.
    """
    if rows == slice(0, size[0]):
        return F.interpolate(maps[None], size, mode="bilinear", align_corners=False)[0]
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


def _stacked(tensors: list[Tensor], dim: int) -> Tensor:
    """`torch.stack`, without a copy where there is one, which may be large."""
    return torch.stack(tensors, dim) if len(tensors) > 1 else tensors[0].unsqueeze(dim)


def labels(log_odds: Tensor, calibration: Calibration, threshold: float | None, lean: Tensor | None = None) -> Tensor:
    """log_odds: (C, ...) -> (...) uint8. A class with log-odds above 0 is more probable than the background.

    Of the classes that are probable enough, a pixel has the one with the largest log-odds, or, where `lean` (C, ...) is
    given, with the largest sum of both: so the neighbourhood decides which, but never whether.
    """
    chances = log_odds if threshold is None else calibration.probability(log_odds)[1:]
    enough = chances > 0 if threshold is None else chances >= threshold
    if len(enough) == 1:
        return enough[0].byte()
    sums = log_odds.masked_fill(~enough, -torch.inf)
    best, label = (sums if lean is None else sums.add_(lean)).max(0)
    return torch.where(best > -torch.inf, label.byte() + 1, 0)

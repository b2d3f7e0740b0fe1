"""How well it will go: each example is predicted from the others, and compared with what was painted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.segmentation import Maps, judge, labels
from dgpnet.segmenter.support import Origin, Shot
from dgpnet.segmenter.views import View, joined

#: Examples that are left out, one after the other; of more, evenly spaced ones.
MOST = 16
#: What is expected of a concept before anything is known of it, and for how many examples that counts. How well
#: estimates then tell: docs/results/fitting.md.
BEFORE, COUNTS = 0.75, 0.8
#: For how many examples it counts how much IoU usually differs between photographs, which is most where it is middling.
SPREAD_COUNTS = 2.0
#: Standard deviations that eight of ten photographs lie within.
EIGHTY = 1.28
#: A mask is doubtful where the others are so much surer of theirs, as a score, than it bears them out, as an IoU …
CONTRADICTED = 0.45
#: … and they are so sure at all.
SURE = 0.75


@dataclass(frozen=True)
class LeftOut:
    """An example as the others see it.

    name       of the photograph
    iou        in [0, 1], with what was painted, mean of the classes that it and others show; None where there is none
    classes    C times the IoU of the class; None where it is not shown here, or by no other
    doubtful   whether the others are sure of something else than was painted
    """

    name: str
    iou: float | None
    classes: tuple[float | None, ...]
    doubtful: bool = False


@dataclass(frozen=True)
class Estimate:
    """The IoU to expect in photographs like the examples, from predicting each example by the others.

    mean       of photographs; in [0, 1], as all that follows
    low, high  between which eight of ten photographs should lie
    classes    C times the mean of the class; None where a single example shows it
    examples   those that were left out, at most MOST
    """

    mean: float
    low: float
    high: float
    classes: tuple[float | None, ...]
    examples: tuple[LeftOut, ...]

    @property
    def hardest(self) -> str:
        """The name of the example that the others predict worst."""
        return min((one for one in self.examples if one.iou is not None), key=lambda one: one.iou or 0.0).name

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Names of examples whose masks the others contradict: often it is the mask that is wrong."""
        return tuple(one.name for one in self.examples if one.doubtful)

    def without(self, name: str) -> Estimate | None:
        """The same expectation, with nothing said of the example of that name any more; None where none is left."""
        others = tuple(one for one in self.examples if one.name != name)
        return replace(self, examples=others) if any(one.iou is not None for one in others) else None

    def __str__(self) -> str:
        return f"expect IoU {self.mean:.2f}, {self.low:.2f} to {self.high:.2f}; hardest: {self.hardest}"

    @staticmethod
    def from_json(fields: Mapping[str, Any] | None) -> Estimate | None:
        """Of `dataclasses.asdict`; an Error where it is none."""
        if fields is None:
            return None
        try:
            examples = tuple(
                LeftOut(str(one["name"]), _number(one["iou"]), _numbers(one["classes"]), bool(one["doubtful"]))
                for one in fields["examples"]
            )
            mean, low, high = (float(fields[name]) for name in ("mean", "low", "high"))
            return Estimate(mean, low, high, _numbers(fields["classes"]), examples)
        except (KeyError, TypeError, ValueError) as error:
            raise Error(f"The estimate cannot be read ({error!r:.100}); learn the concept again.") from error


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _numbers(values: Sequence[Any]) -> tuple[float | None, ...]:
    return tuple(map(_number, values))


def left_out(views: Sequence[View], shots: Sequence[Sequence[Shot]], bias: float = 0.0) -> list[LeftOut]:
    """Each example, or MOST of them, predicted from all the others. shots: for each view the K examples · bias: what is
    added to log-odds."""
    origins = [shot.origin for shot in shots[0]]
    chosen = np.linspace(0, len(origins) - 1, min(MOST, len(origins))).round().astype(int).tolist()
    return [_left_out(views, [several[i] for several in shots], i, origins, bias) for i in chosen]


def _left_out(views: Sequence[View], shot: Sequence[Shot], i: int, origins: Sequence[Origin], bias: float) -> LeftOut:
    """The example of that number; shot: it in each view."""
    others = [view.without(i) for view in views]
    seen = [view.engine.maps(view.memory, [one.photo])[0] for view, one in zip(others, shot, strict=True)]
    maps = joined(seen, others, bias)
    return compared(maps, shot, known_to_others(origins, i), views[0].segmenter.calibration)


def known_to_others(origins: Sequence[Origin], i: int) -> list[bool]:
    """C times whether an example besides the one of that number shows the class."""
    return [any(shown) for shown in zip(*(o.shown for j, o in enumerate(origins) if j != i), strict=True)]


def compared(maps: Maps, shot: Sequence[Shot], known: Sequence[bool], calibration: Calibration) -> LeftOut:
    """What was seen in an example against what was painted there; shot, known: as for `ious_of`."""
    mean, each, any_iou = ious_of(maps.log_odds, shot, known)
    (judged,) = judge([maps], calibration)  # of pixels alone: presence is of no concern, it was painted
    contradicted = [
        here and iou is not None and score >= max(SURE, iou + CONTRADICTED)
        for here, iou, score in zip(known, any_iou, judged.class_scores, strict=True)
    ]
    return LeftOut(shot[0].origin.name, mean, each, doubtful=any(contradicted))


def ious_of(
    log_odds: Tensor, shot: Sequence[Shot], known: Sequence[bool]
) -> tuple[float | None, tuple[float | None, ...], tuple[float | None, ...]]:
    """IoU of what was seen in an example, log-odds (C, H, W), with what was painted there.

    shot: the example at several sizes, of which one is (H, W) · known: C times whether the class was known at all.
    Returns the mean over classes that are known and painted, C times the IoU of such, and C times the IoU of what was
    found at all; None where there is none.
    """
    size = log_odds.shape[1:]
    truth = next(one for one in shot if one.photo.shape[:2] == tuple(size))
    painted = torch.from_numpy(truth.masks[:, : size[0], : size[1]]).to(log_odds.device)
    there = ~torch.from_numpy(truth.ignore[: size[0], : size[1]]).to(log_odds.device)
    found = labels(log_odds, Calibration(), None)
    classes = range(1, len(painted) + 1)
    here = torch.stack([(found == c) & there for c in classes])
    both, either = ((here & painted).sum((1, 2)).tolist(), ((here | painted) & there).sum((1, 2)).tolist())
    ious = [hit / of if of else 1.0 for hit, of in zip(both, either, strict=True)]
    shown = painted.any(-1).any(-1).tolist()
    each = tuple(iou if k and s else None for iou, k, s in zip(ious, known, shown, strict=True))
    counted = [iou for iou in each if iou is not None]
    some = here.any(-1).any(-1).tolist()
    return (
        sum(counted) / len(counted) if counted else None,
        each,
        tuple(iou if any_found else None for iou, any_found in zip(ious, some, strict=True)),
    )


def estimate(examples: Sequence[LeftOut], classes: int) -> Estimate | None:
    """What to expect of photographs like these; None where no example could be compared.

    The mean is drawn towards what is usual, the spread too: a handful of examples says little of either.
    """
    ious = [one.iou for one in examples if one.iou is not None]
    if not ious:
        return None
    mean = (sum(ious) + COUNTS * BEFORE) / (len(ious) + COUNTS)
    own = sum((iou - mean) ** 2 for iou in ious)
    variance = (own + SPREAD_COUNTS * usual_variance(mean)) / (len(ious) + SPREAD_COUNTS)
    reach = EIGHTY * math.sqrt(variance * (1 + 1 / len(ious)))
    each = [[v for one in examples if (v := one.classes[c]) is not None] for c in range(classes)]
    return Estimate(
        round(mean, 4),
        round(max(0.0, mean - reach), 4),
        round(min(1.0, mean + reach), 4),
        tuple(round((sum(v) + COUNTS * BEFORE) / (len(v) + COUNTS), 4) if v else None for v in each),
        tuple(examples),
    )


def usual_variance(mean: float) -> float:
    """Of the IoU of photographs, around the mean of a concept: most where that is middling."""
    return 0.29 * mean * (1 - mean) + 0.004

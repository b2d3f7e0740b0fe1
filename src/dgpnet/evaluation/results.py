"""What an evaluation comes to, to print, to store and to read again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dgpnet import pictures
from dgpnet.errors import Error
from dgpnet.evaluation.records import Key, Unit
from dgpnet.files import read_record, write_record
from dgpnet.metrics import (
    CalibrationScores,
    IoU,
    Reliability,
    ReliabilityBin,
    Scores,
    foreground_iou,
    mean_and_std,
    rank_correlation,
)


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation is NaN with a single seed."""

    mean: float
    std: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        return Spread(*mean_and_std(list(values)))

    def percent(self) -> str:
        """As tables print it: `63.5 ± 0.4`, or `63.5`."""
        deviation = "" if math.isnan(self.std) else f" ± {100 * self.std:.1f}"
        return f"{100 * self.mean:.1f}{deviation}"


@dataclass(frozen=True)
class ShotResults:
    """The figures for one number of shots; IoUs in [0, 1].

    miou, fb_iou       over the seeds
    per_class          IoU of each class, mean over the seeds
    interval           95 % interval of the mIoU of all seeds' episodes together, from resampled episodes
    seeds              the figures of each seed
    calibration        how well the uncertainty foretells wrong pixels, over all episodes
    rank_correlation   of the predicted score of an image with its IoU, over all episodes
    """

    miou: Spread
    fb_iou: Spread
    per_class: dict[int, float]
    interval: tuple[float, float]
    seeds: dict[int, Scores]
    calibration: CalibrationScores
    rank_correlation: float


@dataclass(frozen=True)
class Results:
    """about: what was evaluated and how, plain JSON values. classes: id -> name. shots: K -> its figures."""

    about: dict[str, Any]
    classes: dict[int, str]
    shots: dict[int, ShotResults]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; NaN is null."""
        return dict(_plain(asdict(self)))

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Results:
        """What `to_json` gave."""
        try:
            classes = {int(c): str(name) for c, name in fields["classes"].items()}
            shots = {int(k): _shot_results(v) for k, v in fields["shots"].items()}
            return Results(dict(fields["about"]), classes, shots)
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise Error(f"These are no results of an evaluation ({problem!r}); evaluate again.") from problem

    def write(self, path: Path) -> None:
        """`path` as JSON, and the reliability of the uncertainty beside it as a picture; each whole or not at all."""
        for shots, found in self.shots.items():
            suffix = "" if len(self.shots) == 1 else f"-{shots}"
            pictures.save(reliability_picture(found, shots), path.with_name(f"{path.stem}-reliability{suffix}.png"))
        write_record(path, self.to_json())

    @staticmethod
    def read(path: Path) -> Results:
        """The results in a file; an Error where it is not as it was written."""
        fields = read_record(path)
        if fields is None:
            raise Error(f"{path} is missing, damaged or no results of an evaluation; remove it and evaluate again.")
        return Results.from_json(fields)

    def table(self) -> str:
        """Markdown: the figures for each number of shots, and below them the IoU of each class."""
        figures = [
            [
                str(shots),
                found.miou.percent(),
                " to ".join(_figure(100 * end, 1) for end in found.interval),
                found.fb_iou.percent(),
                _figure(found.calibration.auroc, 3),
                _figure(found.calibration.ece, 3),
                _figure(found.rank_correlation, 3),
                str(sum(scores.episodes for scores in found.seeds.values())),
            ]
            for shots, found in sorted(self.shots.items())
        ]
        titles = ["shots", "mIoU", "95 % interval", "FB-IoU", "AUROC", "ECE", "rank correlation", "episodes"]
        by_class = [
            [self.classes.get(c, str(c))]
            + [_figure(100 * found.per_class.get(c, math.nan), 1) for _, found in sorted(self.shots.items())]
            for c in self.class_ids
        ]
        shown = [f"{shots} shot{'s' if shots > 1 else ''}" for shots in sorted(self.shots)]
        return _markdown(titles, figures) + "\n\n" + _markdown(["class", *shown], by_class)

    @property
    def class_ids(self) -> list[int]:
        """Classes that some episode showed."""
        return sorted({c for found in self.shots.values() for c in found.per_class})


def gather(units: Mapping[Key, Unit], about: Mapping[str, Any], classes: Mapping[int, str]) -> Results:
    """The figures of all units, in whatever order and by whatever process they were measured."""
    shots = sorted({k for unit in units.values() for k in unit})
    return Results(dict(about), dict(classes), {k: _gather(units, k) for k in shots})


def _gather(units: Mapping[Key, Unit], shots: int) -> ShotResults:
    seeds: dict[int, IoU] = {}
    together, reliability = IoU(), Reliability()
    scores, ious = [], []
    for key in sorted(units):
        record = units[key].get(shots)
        if record is None:
            continue
        for iou in (seeds.setdefault(key[0], IoU()), together):
            iou.update(record.classes, record.counts)
        reliability.update(record.histogram)
        scores.append(record.scores)
        ious.append(foreground_iou(record.counts))
    by_seed = {seed: iou.compute() for seed, iou in seeds.items()}
    pooled = by_seed[next(iter(by_seed))] if len(by_seed) == 1 else together.compute()
    ids = sorted({c for each in by_seed.values() for c in each.per_class})
    per_class = {c: float(np.mean([s.per_class[c] for s in by_seed.values() if c in s.per_class])) for c in ids}
    return ShotResults(
        miou=Spread.of(each.miou for each in by_seed.values()),
        fb_iou=Spread.of(each.fb_iou for each in by_seed.values()),
        per_class=per_class,
        interval=pooled.interval,
        seeds=by_seed,
        calibration=reliability.compute(),
        rank_correlation=rank_correlation(np.concatenate(scores), np.concatenate(ious)),
    )


def reliability_picture(found: ShotResults, shots: int) -> pictures.Picture:
    """Predicted against observed error rates of pixels."""
    bins = found.calibration.bins
    pixels = sum(b.pixels for b in bins)
    return pictures.reliability_plot(
        [b.predicted for b in bins],
        [b.observed for b in bins],
        [b.pixels / pixels for b in bins],
        title=f"Reliability of the uncertainty, {shots} shot{'s' if shots > 1 else ''}",
        note=f"AUROC {found.calibration.auroc:.3f}\nexpected calibration error {found.calibration.ece:.3f}",
    )


def _shot_results(fields: Mapping[str, Any]) -> ShotResults:
    def spread(value: Mapping[str, Any]) -> Spread:
        return Spread(float(value["mean"]), _number(value["std"]))

    def per_class(value: Mapping[str, Any]) -> dict[int, float]:
        return {int(c): _number(iou) for c, iou in value.items()}

    def scores(value: Mapping[str, Any]) -> Scores:
        low, high = value["interval"]
        return Scores(
            value["miou"],
            value["fb_iou"],
            per_class(value["per_class"]),
            (_number(low), _number(high)),
            value["episodes"],
        )

    quality = fields["calibration"]
    low, high = fields["interval"]
    return ShotResults(
        miou=spread(fields["miou"]),
        fb_iou=spread(fields["fb_iou"]),
        per_class=per_class(fields["per_class"]),
        interval=(_number(low), _number(high)),
        seeds={int(seed): scores(value) for seed, value in fields["seeds"].items()},
        calibration=CalibrationScores(
            auroc=_number(quality["auroc"]),
            ece=_number(quality["ece"]),
            error_rate=_number(quality["error_rate"]),
            bins=tuple(ReliabilityBin(**b) for b in quality["bins"]),
        ),
        rank_correlation=_number(fields["rank_correlation"]),
    )


def _figure(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _markdown(titles: list[str], rows: list[list[str]]) -> str:
    """A table whose columns stand under each other in plain text, too."""
    widths = [max(len(row[c]) for row in (titles, *rows)) for c in range(len(titles))]
    lines = [
        "| " + " | ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) + " |" for row in (titles, *rows)
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor whole numbers as keys."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Several classes at once: how good their masks are, and how often labels change inside one object.

    python -m research.classes --data DATA --new NEW --out classes.json

NEW is a folder of sets as `dgpnet train` takes it, of which the model saw none in training; DATA holds VOC2012/ and
clothing/. Of each set with two classes or more five examples are drawn that show as many classes as they can, and
some queries, with a fixed seed; all classes that the examples show are found at once. Classes that they do not show
are ignored. All that was found is kept: presence plays no part. How strongly classes are coupled is chosen by every
second set of NEW.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from numpy.typing import NDArray
from torch import Tensor

from dgpnet import data
from dgpnet.annotations.outlines import parts
from dgpnet.benchmark.timing import machine
from dgpnet.data.dataset import IDS_OF_A_SET, Dataset, label_of
from dgpnet.files import atomic
from dgpnet.images import IGNORE
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.coupling import PULL, leaning
from dgpnet.segmenter.segmentation import labels, resample

SHOTS = 5
#: Classes of PASCAL of which some are drawn for a trial.
DRAWN = 5
#: Photographs that a class of PASCAL needs.
ENOUGH = 10
#: Pixels near the edge of an object, where a label may change for a reason.
MARGIN = 3
#: Part of an object that has another label than most of it, from which on it counts as mixed.
MIXED = 0.05


@dataclass(frozen=True)
class Trial:
    """Examples and queries, photographs of a dataset, and the classes that the examples show."""

    group: str
    name: str
    dataset: Dataset
    examples: tuple[int, ...]
    queries: tuple[int, ...]
    classes: tuple[int, ...]

    def mask(self, i: int) -> NDArray[np.uint8]:
        """0 background, 1 … C, 255 ignore, other classes among it."""
        numbers = np.full(256, IGNORE, np.uint8)
        numbers[0] = 0
        numbers[[label_of(c) for c in self.classes]] = np.arange(1, len(self.classes) + 1)
        return numbers[self.dataset.mask(i)]


def trials(group: str, dataset: Dataset, queries: int, draws: int, seed: int) -> Iterator[Trial]:
    """One for each set of many, of which every second is to choose by, or so many draws of one set."""
    shown: dict[int, set[int]] = {}
    for photo, class_id in dataset.pairs:
        shown.setdefault(photo, set()).add(class_id)
    sets: dict[int, list[int]] = {}
    for photo in sorted(shown):
        sets.setdefault(min(shown[photo]) // IDS_OF_A_SET, []).append(photo)
    halves = cycle((f"{group}, to choose by", f"{group}, held back"))
    for number, photographs in sets.items():
        name = dataset.classes[min(shown[photographs[0]])].split("/")[0] if len(sets) > 1 else group
        for draw in range(1 if len(sets) > 1 else draws):
            rng = np.random.default_rng([seed, number, draw])
            if (one := _trial(group, name, dataset, photographs, shown, queries, rng)) is not None:
                yield replace(one, group=next(halves)) if len(sets) > 1 else one


def _trial(
    group: str,
    name: str,
    dataset: Dataset,
    photographs: Sequence[int],
    shown: dict[int, set[int]],
    queries: int,
    rng: np.random.Generator,
) -> Trial | None:
    if group == "pascal":  # most of its photographs show one class: few of them at once, so that examples show all
        counts = {c: sum(c in shown[i] for i in photographs) for c in dataset.classes}
        some = set(rng.choice([c for c, n in counts.items() if n >= ENOUGH], DRAWN, replace=False).tolist())
        shown = {i: shown[i] & some for i in photographs if shown[i] & some}
        photographs = sorted(shown)
    order = [photographs[i] for i in rng.permutation(len(photographs))]
    if len(order) < SHOTS + 2:
        return None
    examples: list[int] = []
    known: set[int] = set()
    for _ in range(SHOTS):
        best = max((i for i in order if i not in examples), key=lambda i: len(shown[i] - known))
        examples.append(best)
        known |= shown[best]
    asked = [i for i in order if i not in examples and shown[i] & known][:queries]
    return Trial(group, name, dataset, tuple(examples), tuple(asked), tuple(sorted(known))) if len(known) > 1 else None


def inside(truth: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(H, W): pixels of classes with nothing else within MARGIN."""
    values = torch.from_numpy(truth)[None].float()
    most, least = (F.max_pool2d(sign * values, 2 * MARGIN + 1, 1, MARGIN)[0] * sign for sign in (1, -1))
    within: NDArray[np.bool_] = ((most == least) & (most > 0) & (most < IGNORE)).numpy()
    return within


@dataclass(frozen=True)
class Counted:
    """One query: intersection and union of each class in pixels, and of each object the label changes inside it over
    the root of its area, and the part of what was found of it that has another label than most."""

    overlaps: NDArray[np.int64]
    changes: tuple[float, ...]
    mixed: tuple[float, ...]


def counted(found: NDArray[np.uint8], truth: NDArray[np.uint8], classes: int) -> Counted:
    """found, truth: (H, W), 0 background, 1 … C, 255 ignore."""
    said = truth != IGNORE
    overlaps = np.array(
        [
            [((found == c) & (truth == c)).sum(), (((found == c) | (truth == c)) & said).sum()]
            for c in range(1, classes + 1)
        ]
    )
    changes, mixed = [], []
    within = inside(truth)
    for c in range(1, classes + 1):
        for part in parts(within & (truth == c)):
            height, width = part.pixels.shape
            labels = np.where(part.pixels, found[part.top : part.top + height, part.left : part.left + width], 0)
            if part.area < (2 * MARGIN) ** 2 or not labels.any():
                continue
            several = sum(
                int(((a != b) & (a > 0) & (b > 0)).sum())
                for a, b in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1]))
            )
            of_each = np.bincount(labels.ravel())[1:]
            changes.append(several / part.area**0.5)
            mixed.append(float(1 - of_each.max() / of_each.sum()))
    return Counted(overlaps, tuple(changes), tuple(mixed))


@dataclass(frozen=True)
class Row:
    """One trial: for each pull, none first, mean IoU over the classes that queries show, label changes of an object
    and the part of objects that are mixed, in the mean."""

    group: str
    name: str
    seed: int
    classes: int
    iou: tuple[float, ...]
    changes: tuple[float, ...]
    mixed: tuple[float, ...]


def measured(segmenter: Segmenter, trial: Trial, pulls: Sequence[float], seed: int) -> Row | None:
    """None where the queries show no object."""
    photos, masks = [trial.dataset.photo(i) for i in trial.examples], [trial.mask(i) for i in trial.examples]
    count = len(trial.classes)
    concept = segmenter.learn(photos, masks, classes=[f"class {c}" for c in range(1, count + 1)])
    several: list[list[Counted]] = [[] for _ in pulls]
    shown = np.zeros(count, np.bool_)
    for i in trial.queries:
        (maps,) = concept.maps([concept.prepare(trial.dataset.photo(i))])
        truth = trial.mask(i)
        shown |= np.bincount(truth.ravel(), minlength=256)[1 : count + 1] > 0
        for one, pull in zip(several, pulls, strict=True):
            one.append(counted(found(maps.log_odds, truth.shape, segmenter.calibration, pull), truth, count))
    if not any(query.changes for query in several[0]):
        return None
    figures = [_figures(one, shown) for one in several]
    return Row(trial.group, trial.name, seed, count, *zip(*figures, strict=True))


def found(log_odds: Tensor, size: tuple[int, ...], calibration: Calibration, pull: float) -> NDArray[np.uint8]:
    """Labels (H, W) of log-odds (C, h, w) at `size` (H, W); 0 couples nothing."""
    height, width = size
    lean = resample(leaning(log_odds, calibration, pull=pull), (height, width), slice(0, height)) if pull else None
    large = resample(log_odds, (height, width), slice(0, height))
    mask: NDArray[np.uint8] = labels(large, calibration, None, lean).cpu().numpy()
    return mask


def _figures(queries: Sequence[Counted], shown: NDArray[np.bool_]) -> tuple[float, float, float]:
    sums = np.sum([query.overlaps for query in queries], 0)[shown]
    changes, mixed = ([one for query in queries for one in getattr(query, name)] for name in ("changes", "mixed"))
    figures = (sums[:, 0] / sums[:, 1]).mean(), np.mean(changes), (np.array(mixed) > MIXED).mean()
    iou, changed, of_several = (round(float(one), 4) for one in figures)
    return iou, changed, of_several


def table(rows: Sequence[Row], pulls: Sequence[float]) -> str:
    """By group and pull: mIoU and mixed objects in percent, and the gain with its standard error over sets, or over
    draws where a group is one set."""
    lines = [
        "| | sets | pull | mIoU | gain ± error | worst set | changes | mixed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in dict.fromkeys(row.group for row in rows):
        sets: dict[str, list[Row]] = {}
        for row in rows:
            if row.group == group:
                sets.setdefault(row.name, []).append(row)
        units = list(sets.values()) if len(sets) > 1 else [[row] for row in next(iter(sets.values()))]
        for i, pull in enumerate(pulls):
            ious, before, changes, mixed = (
                [fmean(getattr(row, name)[place] for row in unit) for unit in units]
                for name, place in (("iou", i), ("iou", 0), ("changes", i), ("mixed", i))
            )
            gains = [100 * (a - b) for a, b in zip(ious, before, strict=True)]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            lines.append(
                f"| {group} | {len(units)} | {pull:g} | {100 * fmean(ious):.1f} | {fmean(gains):+.2f} ± {error:.2f} | "
                f"{min(gains):+.1f} | {fmean(changes):.3f} | {100 * fmean(mixed):.1f} |"
            )
    return "\n".join(lines)


def cost(calibration: Calibration, classes: int = 5, side: int = 384, times: int = 50) -> dict[str, float]:
    """Milliseconds for the labels of so many classes at the network's own size, coupled and not, of maps as smooth as
    real ones: the best of `times`, in turn."""
    torch.manual_seed(0)
    log_odds = F.interpolate(4 * torch.randn(1, classes, 24, 24), (side, side), mode="bilinear")[0]
    best = {0.0: float("inf"), PULL: float("inf")}
    for _ in range(times):
        for pull in best:
            start = time.perf_counter()
            found(log_odds, (side, side), calibration, pull)
            best[pull] = min(best[pull], time.perf_counter() - start)
    return {
        f"labels of {classes} classes at {side}², pull {pull:g}, ms": round(1000 * t, 2) for pull, t in best.items()
    }


def main(
    root: Annotated[Path, typer.Option("--data", help="Folder of the unpacked shards.")],
    new: Annotated[Path, typer.Option(help="A folder of sets that the model never saw.")],
    out: Annotated[Path | None, typer.Option(help="Where the rows go, as JSON.")] = None,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "small",
    pulls: Annotated[str, typer.Option(help="How strongly classes are coupled.")] = "1,2,3,4",
    queries: Annotated[int, typer.Option(help="Of each draw, at most.")] = 4,
    draws: Annotated[int, typer.Option(help="Of PASCAL and of clothing, for each seed.")] = 6,
    seeds: int = 3,
    cache: Path | None = None,
) -> None:
    """Find all classes at once, coupled and not, and print a table."""
    segmenter, rows = load(model), []
    several = (0.0, *map(float, pulls.split(",")))
    built = {
        "many": data.build("folder", new, split="test", cache=cache),
        "clothing": data.build("folder", root / "clothing", split="test", cache=cache),
        "pascal": data.build("pascal", root / "VOC2012", split="test", cache=cache),
    }
    for seed in range(seeds):
        for group, dataset in built.items():
            for trial in trials(group, dataset, queries, draws, seed):
                if (row := measured(segmenter, trial, several, seed)) is not None:
                    rows.append(row)
                    typer.echo(f"{seed} {row.name}: {row.iou}", err=True)
    if out is not None:
        with atomic(out) as temporary:
            temporary.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(table(rows, several))
    print(json.dumps({**cost(segmenter.calibration), **machine(segmenter.device)}, indent=1))


if __name__ == "__main__":
    typer.run(main)

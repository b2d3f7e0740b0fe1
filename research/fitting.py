"""What fitting a concept to its examples gains and costs, on whole sets that the models never saw.

    python -m research.fitting --data DATA --new NEW --out docs/results/fitting.json

NEW is a folder of sets as `dgpnet train` takes it, of which the model saw none in training; DATA holds coco/ and
coco-mini-episodes.json, some of whose episodes are measured, too; nothing is chosen by them. Of each set one
class is drawn, some examples and queries, all with a fixed seed. The same examples are learned from with and
without `fit`, and IoU is the mean over queries at their own size. Presence plays no part: all that was found is kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Literal

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from dgpnet import data
from dgpnet.benchmark.timing import machine
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.files import atomic
from dgpnet.images import IGNORE
from dgpnet.metrics import IoU, confusion, foreground_iou, rank_correlation
from dgpnet.segmenter import Concept, Segmenter, load
from dgpnet.segmenter.fitting import SECONDS
from research.encoded import photographs_of

#: Sets of thin and small things, as the data's own page lists them, but for one that the models were trained on.
THIN = (
    "rice_root",
    "track_line",
    "aerial_road_japan",
    "coffee_leaf_spots",
    "ballscrew_pitting",
    "em_particles",
    "pipe_ends",
    "surgical_tools",
    "hieratic_signs",
    "power_line",
    "neurite",
    "cell_junction",
    "suture",
    "running_track",
    "rocket",
    "fabric_defect",
)


@dataclass(frozen=True)
class Row:
    """One class: mean IoU of its queries with one view and fitted, what was to be expected of either, and the price.

    expected, expected_fitted   the estimates; None where there was none
    parts, parts_fitted         of each query: pixels in which found and painted agree, and of either
    wall, processor             seconds that fitting took, by the clock and of all cores together
    cost                        work for a photograph over that of one view · chosen: in words
    """

    kind: str
    name: str
    expected: float | None
    expected_fitted: float | None
    parts: tuple[tuple[int, int], ...]
    parts_fitted: tuple[tuple[int, int], ...]
    wall: float
    processor: float
    cost: float
    chosen: str

    @property
    def ious(self) -> tuple[float, ...]:
        """Of each query."""
        return _ious(self.parts)

    @property
    def ious_fitted(self) -> tuple[float, ...]:
        """Of each query."""
        return _ious(self.parts_fitted)

    @property
    def gain(self) -> float:
        """In IoU."""
        return fmean(self.ious_fitted) - fmean(self.ious)


def sets(dataset: Dataset, others: int) -> dict[str, str]:
    """Set -> "thin" or "other": those of THIN that are here and evenly spaced ones of the rest, in turn."""
    here = list(dict.fromkeys(name.split("/")[0] for name in dataset.classes.values()))
    thin, rest = [name for name in THIN if name in here], [name for name in here if name not in THIN]
    places = np.linspace(0, len(rest) - 1, min(others, len(rest))).round().astype(int)
    in_turn = zip_longest(thin, [rest[i] for i in places])
    return {name: kind for pair in in_turn for name, kind in zip(pair, ("thin", "other"), strict=True) if name}


def measured(
    segmenter: Segmenter, dataset: Dataset, chosen: dict[str, str], shots: int, queries: int, seconds: float, seed: int
) -> Iterator[Row]:
    """A row for each set that has a class with enough photographs."""
    for number, (name, kind) in enumerate(chosen.items()):
        rng = np.random.default_rng([seed, number])
        several = {c: photographs_of(dataset, c) for c, full in dataset.classes.items() if full.split("/")[0] == name}
        enough = [c for c, photographs in several.items() if len(photographs) > shots]
        if not enough:
            continue
        class_id = int(rng.choice(enough))
        drawn = [several[class_id][i] for i in rng.permutation(len(several[class_id]))]
        supports, asked = drawn[:shots], drawn[shots : shots + queries]
        yield compared(segmenter, dataset, kind, class_id, supports, asked, seconds)


def compared(
    segmenter: Segmenter,
    dataset: Dataset,
    kind: str,
    class_id: int,
    supports: Sequence[int],
    asked: Sequence[int],
    seconds: float,
) -> Row:
    """With one view, and fitted."""
    photos, masks = [dataset.photo(i) for i in supports], [_mask(dataset.mask(i), class_id) for i in supports]
    plain = segmenter.learn(photos, masks, classes=["it"])
    wall, processor = time.perf_counter(), time.process_time()
    fitted = segmenter.learn(photos, masks, classes=["it"], fit=True, fit_seconds=seconds)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    assert fitted.fitted is not None
    parts, parts_fitted = (
        tuple(_parts(concept, dataset.photo(i), _mask(dataset.mask(i), class_id)) for i in asked)
        for concept in (plain, fitted)
    )
    return Row(
        kind,
        dataset.classes[class_id],
        _mean(plain),
        _mean(fitted),
        parts,
        parts_fitted,
        round(wall, 1),
        round(processor, 1),
        fitted.fitted.cost,
        fitted.fitted.words,
    )


def _mean(concept: Concept) -> float | None:
    return None if concept.estimate is None else concept.estimate.mean


def _mask(mask: NDArray[np.uint8], class_id: int) -> NDArray[np.uint8]:
    """1 where the class is, 255 where nobody said."""
    return np.where(mask == IGNORE, IGNORE, mask == label_of(class_id)).astype(np.uint8)


def _parts(concept: Concept, photo: NDArray[np.uint8], truth: NDArray[np.uint8]) -> tuple[int, int]:
    found = concept.segment(photo, keep_all=True).mask > 0
    both, *wrong, _ = confusion(torch.from_numpy(found), torch.from_numpy(truth)).tolist()
    return both, both + sum(wrong)


def _counts(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """As `metrics.confusion` gives them, but that what was missed counts as found wrongly."""
    return [(both, either - both, 0, 0) for both, either in parts]


def _ious(parts: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    return tuple(foreground_iou(_counts(parts)).tolist())


def miou(rows: Sequence[Row], parts: Literal["parts", "parts_fitted"]) -> float:
    """Of the classes, each over all its queries, as the field computes it."""
    number = {name: i for i, name in enumerate(dict.fromkeys(row.name for row in rows))}
    iou = IoU()
    for row in rows:
        of_each = getattr(row, parts)
        iou.update([number[row.name]] * len(of_each), _counts(of_each))
    return iou.compute(resamples=0).miou


def read(path: Path) -> list[Row]:
    """Rows that were written before."""
    pairs = ("parts", "parts_fitted")
    return [
        Row(**{**one, **{name: tuple(map(tuple, one[name])) for name in pairs}}) for one in json.loads(path.read_text())
    ]


def beside(before: Sequence[Row], after: Sequence[Row]) -> str:
    """Both tables of the classes that both measured, and how much larger the gains of the second are."""
    sooner = {row.name: row for row in before}
    pairs = [(sooner[row.name], row) for row in after if row.name in sooner]
    more = [100 * (row.gain - other.gain) for other, row in pairs]
    told = f"Gains are larger by {fmean(more):+.1f} ± {stdev(more) / len(more) ** 0.5:.1f}, {len(more)} classes."
    return "\n\n".join([*(table(rows) for rows in zip(*pairs, strict=True)), told])


def table(rows: Sequence[Row]) -> str:
    """By class, and what it comes to, with the standard error of the gain: IoU in percent."""
    lines = [
        "| | queries | one view | `fit` | gain | expected | work | chosen |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        expected = "–" if row.expected_fitted is None else f"{100 * row.expected_fitted:.0f}"
        lines.append(
            f"| {row.name} | {len(row.ious)} | {percent(row.ious)} | {percent(row.ious_fitted)} | "
            f"{100 * row.gain:+.1f} | {expected} | {row.cost:.1f}× | {row.chosen} |"
        )
    for kind in dict.fromkeys(row.kind for row in rows):
        some = [row for row in rows if row.kind == kind]
        before, after = (fmean(fmean(getattr(row, name)) for row in some) for name in ("ious", "ious_fitted"))
        error = f" ± {100 * stdev(row.gain for row in some) / len(some) ** 0.5:.1f}" if len(some) > 1 else ""
        cost = fmean(row.cost for row in some)
        lines.append(
            f"| **{kind}, {len(some)}** | | **{100 * before:.1f}** | **{100 * after:.1f}** | "
            f"**{100 * (after - before):+.1f}{error}** | | {cost:.1f}× | |"
        )
    return "\n".join(lines)


def percent(ious: Sequence[float]) -> str:
    """Their mean."""
    return f"{100 * fmean(ious):.1f}"


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """How well the estimates told, over classes, with and without `fit`; and what fitting cost."""
    told = [(e, fmean(i)) for row in rows for e, i in ((row.expected, row.ious),) if e is not None]
    fitted = [(e, fmean(i)) for row in rows for e, i in ((row.expected_fitted, row.ious_fitted),) if e is not None]
    found = {}
    for name, pairs in (("one view", told), ("fit", fitted)):
        if not pairs:  # one example tells nothing
            continue
        expected, true = (np.array(values) for values in zip(*pairs, strict=True))
        found[f"estimate, {name}: rank correlation"] = rank_correlation(expected, true)
        found[f"estimate, {name}: mean absolute error"] = float(np.abs(expected - true).mean())
    found |= {"mIoU, one view": miou(rows, "parts"), "mIoU, fit": miou(rows, "parts_fitted")}
    found["fitting, seconds by the clock: median"] = float(np.median([row.wall for row in rows]))
    found["fitting, seconds by the clock: most"] = max(row.wall for row in rows)
    found["fitting, seconds of processor: median"] = float(np.median([row.processor for row in rows]))
    found["fitting, seconds of processor: most"] = max(row.processor for row in rows)
    found["worst gain of a class"] = min(row.gain for row in rows)
    return {name: round(value, 3) for name, value in found.items()}


def main(
    new: Annotated[Path | None, typer.Option(help="A folder of sets that the model never saw.")] = None,
    root: Annotated[Path | None, typer.Option("--data", help="Folder of the unpacked shards, for COCO-mini.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the rows go, as JSON.")] = None,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "small",
    others: Annotated[int, typer.Option(help="Sets besides those of thin and small things.")] = 16,
    shots: Annotated[int, typer.Option(help="Examples.", min=1)] = 5,
    queries: Annotated[int, typer.Option(help="Of each class, at most.")] = 6,
    coco: Annotated[int, typer.Option(help="Episodes of COCO-mini.")] = 0,
    fit_seconds: Annotated[float, typer.Option(help="How long a fit may take.")] = SECONDS,
    minutes: Annotated[float, typer.Option(help="Begin no further class after so many.")] = 600.0,
    seed: int = 0,
    cache: Path | None = None,
    rows_of: Annotated[
        tuple[Path, Path] | None, typer.Option("--beside", help="Measure nothing: print these two files of rows.")
    ] = None,
) -> None:
    """Fit, compare, and print a table."""
    if rows_of is not None:
        print(beside(*map(read, rows_of)))
        return
    segmenter, start, rows = load(model), time.monotonic(), []
    sources = []
    if coco and root is not None:
        sources.append(on_coco(segmenter, root, coco, shots, fit_seconds, cache))
    if new is not None:
        held_out = data.build("folder", new, split="test", cache=cache)
        sources.append(measured(segmenter, held_out, sets(held_out, others), shots, queries, fit_seconds, seed))
    for row in chain(*sources):
        rows.append(row)
        typer.echo(f"{row.name}: {percent(row.ious)} → {percent(row.ious_fitted)}, {row.wall:.0f} s", err=True)
        if out is not None:
            with atomic(out) as temporary:
                temporary.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
        if time.monotonic() - start > 60 * minutes:
            break
    print(table(rows))
    print(json.dumps({**summary(rows), **machine(segmenter.device)}, indent=1))


def on_coco(
    segmenter: Segmenter, root: Path, count: int, shots: int, seconds: float, cache: Path | None
) -> Iterator[Row]:
    """Evenly spaced ones of COCO-mini's episodes."""
    scenes = data.build("coco", root / "coco", split="test", cache=cache, min_pixels=1)
    listed = data.episodes_from_file(root / "coco-mini-episodes.json", scenes)
    for place in np.linspace(0, len(listed) - 1, count).round().astype(int):
        one = listed[place]
        yield compared(segmenter, scenes, "COCO-mini", one.class_id, one.supports[:shots], [one.query], seconds)


if __name__ == "__main__":
    typer.run(main)

"""Whether it pays to ask which photographs to annotate: suggested examples against random ones.

    python -m dgpnet.experiments.suggestions --root VOC2012 --out docs/results/suggestions.md

For each class with enough photographs, half of them (at most QUERIES) are only ever segmented. Of the others, `budget`
are chosen as examples: by `Segmenter.suggest`, which sees no mask, and at random, several times. The IoU is summed over
all queries of a class, and its mean over classes is compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import numpy as np
import typer

from dgpnet import data
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.images import IGNORE
from dgpnet.segmenter import Segmenter, load

QUERIES = 60


@dataclass(frozen=True)
class Row:
    """IoU of one class with suggested examples, and with each of the random draws."""

    name: str
    photographs: int
    suggested: float
    random: tuple[float, ...]


def compare(segmenter: Segmenter, dataset: Dataset, *, budget: int, draws: int, seed: int = 0) -> list[Row]:
    """One row for each class that has at least 4 × budget photographs."""
    rows = []
    for class_id, name in dataset.classes.items():
        photographs = sorted({i for i, c in dataset.pairs if c == class_id})
        if len(photographs) < 4 * budget:
            continue
        rng = np.random.default_rng([seed, class_id])
        mixed = [photographs[i] for i in rng.permutation(len(photographs))]
        held_out = min(QUERIES, len(mixed) // 2)
        queries, candidates = mixed[:held_out], mixed[held_out:]
        asked = [candidates[i] for i in segmenter.suggest((dataset.photo(i) for i in candidates), budget=budget)]
        drawn = [[candidates[i] for i in rng.permutation(len(candidates))[:budget]] for _ in range(draws)]
        iou = [_iou(segmenter, dataset, class_id, examples, queries) for examples in (asked, *drawn)]
        rows.append(Row(name, len(photographs), iou[0], tuple(iou[1:])))
    if not rows:
        raise Error(
            f"{dataset.name} has no class with {4 * budget} photographs; take a larger set or a smaller budget."
        )
    return rows


def _iou(
    segmenter: Segmenter, dataset: Dataset, class_id: int, examples: Sequence[int], queries: Sequence[int]
) -> float:
    label = label_of(class_id)
    concept = segmenter.learn([dataset.photo(i) for i in examples], [dataset.mask(i) == label for i in examples])
    intersection = union = 0
    found = concept.segment_all(dataset.photo(i) for i in queries)
    for i, one in zip(queries, found, strict=True):
        truth = dataset.mask(i)
        here, there = (one.mask == 1) & (truth != IGNORE), truth == label
        intersection += int((here & there).sum())
        union += int((here | there).sum())
    return intersection / max(1, union)


def markdown(rows: Sequence[Row], budget: int, command: str) -> str:
    """The table, and how it was made."""
    lines = [
        f"# {budget} suggested examples against {budget} random ones",
        "",
        f"`{command}`",
        "",
        "| class | photographs | suggested | random, mean ± std | gain |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        mean = fmean(row.random)
        lines.append(
            f"| {row.name} | {row.photographs} | {100 * row.suggested:.1f} | "
            f"{100 * mean:.1f} ± {100 * stdev(row.random):.1f} | {100 * (row.suggested - mean):+.1f} |"
        )
    suggested = fmean(row.suggested for row in rows)
    draws = [fmean(values) for values in zip(*(row.random for row in rows), strict=True)]
    lines.append(
        f"| **mean** | | **{100 * suggested:.1f}** | {100 * fmean(draws):.1f} ± {100 * stdev(draws):.1f} | "
        f"**{100 * (suggested - fmean(draws)):+.1f}** |"
    )
    return "\n".join(lines) + "\n"


def main(
    root: Annotated[Path, typer.Option(help="The folder of PASCAL VOC 2012.")],
    out: Annotated[Path, typer.Option(help="The page to write; the figures go beside it as JSON.")],
    model: str = "default",
    fold: Annotated[int | None, typer.Option(help="Only the test classes of this fold.", show_default=False)] = None,
    budget: int = 5,
    draws: int = 10,
    device: str | None = None,
) -> None:
    """Compare suggested with random examples on PASCAL's test photographs."""
    dataset = data.build("pascal", root, fold=fold, split="test")
    rows = compare(load(model, device=device), dataset, budget=budget, draws=draws)
    command = f"python -m dgpnet.experiments.suggestions --root {root.name} --model {model} --budget {budget}"
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic(out) as temporary:
        temporary.write_text(markdown(rows, budget, f"{command} --draws {draws} --out {out.name}"), encoding="utf-8")
    with atomic(out.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    typer.echo(markdown(rows, budget, command))


if __name__ == "__main__":
    typer.run(main)

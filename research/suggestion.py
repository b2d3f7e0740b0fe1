"""Whether it pays to ask which photographs to annotate: suggested examples against random ones.

    python -m research.suggestion --data DATA --out docs/results     # suggest.md and suggest.json

DATA holds VOC2012/. The photographs to choose from are training photographs of a class, the queries validation
photographs of it. Five examples are chosen as `Segmenter.suggest` does, which sees no mask, and at random, several
times. The IoU of a class is summed over its queries at their own size; classes count alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import numpy as np
import torch.nn.functional as F
import typer

from dgpnet import data
from dgpnet.benchmark.timing import machine
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.network import Points
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.suggest import GRID, Pool, order
from research.encoded import encode_examples, encode_queries, iou, learn, photographs_of


@dataclass(frozen=True)
class Trial:
    """How many examples, how many random draws of them, and at most how many photographs of a class."""

    budget: int = 5
    draws: int = 5
    pool: int = 60
    queries: int = 20
    least: int = 10
    """Classes with fewer queries, or a pool of fewer than 4 × budget, are left out."""
    seed: int = 0


@dataclass(frozen=True)
class Comparison:
    """IoU of one class with suggested examples, and with each of the random draws."""

    name: str
    pool: int
    queries: int
    suggested: float
    random: tuple[float, ...]


def compare(segmenter: Segmenter, train: Dataset, test: Dataset, trial: Trial) -> Iterator[Comparison]:
    """One row for each class that has enough photographs."""
    found = 0
    for class_id, name in test.classes.items():
        rng = np.random.default_rng([trial.seed, class_id])
        candidates = _drawn(rng, photographs_of(train, class_id), trial.pool)
        asked = _drawn(rng, photographs_of(test, class_id), trial.queries)
        if len(candidates) < 4 * trial.budget or len(asked) < trial.least:
            continue
        found += 1
        points = encode_examples(segmenter, train, candidates, class_id)
        queries = list(encode_queries(segmenter, test, asked, class_id))
        sets = [suggested(segmenter, points, trial.budget)]
        sets += [_drawn(rng, range(len(candidates)), trial.budget) for _ in range(trial.draws)]
        first, *others = (iou(segmenter, learn(segmenter, points.chosen(one)), queries) for one in sets)
        yield Comparison(name, len(candidates), len(asked), first, tuple(others))
    if not found:
        raise Error(
            f"{test.name} has no class with {4 * trial.budget} training photographs and {trial.least} others; "
            "take a larger set."
        )


def suggested(segmenter: Segmenter, points: Points, budget: int) -> list[int]:
    """What `Segmenter.suggest` answers for the photographs that these points are of: their masks are not looked at."""
    x = points.branches[str(max(segmenter.network.config.levels))][0][0]  # (K, P, D)
    side = int(x.shape[1] ** 0.5)
    grid = F.adaptive_avg_pool2d(x.mT.unflatten(-1, (side, side)), GRID).flatten(2).mT.half()
    return order(segmenter, Pool(grid, list(range(len(x))), {}), budget)


def _drawn(rng: np.random.Generator, photographs: Sequence[int], most: int) -> list[int]:
    return [photographs[i] for i in rng.permutation(len(photographs))[:most]]


def markdown(rows: Sequence[Comparison]) -> str:
    """The table: IoU in percent."""
    lines = [
        "| class | to choose from | queries | suggested | random, mean ± std | gain |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {row.name} | {row.pool} | {row.queries} | {_figures(row.suggested, row.random)} |" for row in rows]
    return "\n".join([*lines, f"| **mean** | | | {_figures(*_means(rows))} |"]) + "\n"


def _means(rows: Sequence[Comparison]) -> tuple[float, list[float]]:
    """Over classes: with suggested examples, and with each of the random draws."""
    draws = zip(*(row.random for row in rows), strict=True)
    return fmean(row.suggested for row in rows), [fmean(values) for values in draws]


def _figures(suggested: float, random: Sequence[float]) -> str:
    mean = fmean(random)
    return f"{100 * suggested:.1f} | {100 * mean:.1f} ± {100 * stdev(random):.1f} | {100 * (suggested - mean):+.1f}"


def verdict(rows: Sequence[Comparison]) -> str:
    """What the table shows, in words: a difference counts from two standard deviations of the random draws on."""
    suggested, random = _means(rows)
    gain, spread = suggested - fmean(random), stdev(random)
    won = sum(row.suggested > fmean(row.random) for row in rows)
    said = "no difference that these figures could tell from chance"
    if abs(gain) > 2 * spread:
        said = "asking pays" if gain > 0 else "random examples are better"
    return (
        f"{100 * gain:+.1f} points for suggested examples, ahead in {won} of {len(rows)} classes; the mean of a "
        f"random draw has a standard deviation of {100 * spread:.1f}: {said}."
    )


def page(rows: Sequence[Comparison], trial: Trial, about: Mapping[str, object]) -> str:
    """docs/results/suggest.md."""
    return f"""# {trial.budget} suggested examples against {trial.budget} random ones

```
python -m research.suggestion --data DATA --out docs/results \\
    --draws {trial.draws} --pool {trial.pool} --queries {trial.queries} --seed {trial.seed}
```

PASCAL-5i-mini. For each class, {trial.pool} training photographs (or all, if fewer) are there to choose from, and up
to {trial.queries} validation photographs are the queries, both drawn with a fixed seed. `Segmenter.suggest` chooses
before any mask exists; {trial.draws} random draws from the same photographs are what it is compared with. IoU in
percent, intersections and unions summed over the queries of a class at their own size. Classes with fewer than
{trial.least} queries or {4 * trial.budget} photographs to choose from are left out.

{markdown(rows)}
{verdict(rows)}

Every photograph to choose from shows the class, and the shipped model was trained on these photographs and classes,
though never on the queries: it needs little from its examples here, and little can be gained by choosing them.

{_words(about)}
"""


def _words(about: Mapping[str, object]) -> str:
    return "Measured with " + ", ".join(f"{name} {value}" for name, value in about.items()) + "."


def main(
    root: Annotated[Path, typer.Option("--data", help="Folder that holds VOC2012.")],
    out: Annotated[Path, typer.Option(help="Folder for suggest.md and suggest.json.")],
    model: str = "default",
    draws: Annotated[int, typer.Option(min=2)] = Trial.draws,
    pool: int = Trial.pool,
    queries: int = Trial.queries,
    seed: int = Trial.seed,
    device: str | None = None,
) -> None:
    """Compare suggested with random examples on PASCAL."""
    start = time.perf_counter()
    trial = Trial(draws=draws, pool=pool, queries=queries, seed=seed)
    train, test = (data.build("pascal", root / "VOC2012", split=split) for split in ("train", "test"))
    segmenter = load(model, device=device)
    rows = []
    for row in compare(segmenter, train, test, trial):
        rows.append(row)
        typer.echo(json.dumps(asdict(row)))
    about = {"model": model, **machine(segmenter.device), "seconds": round(time.perf_counter() - start)}
    text = page(rows, trial, about)
    out.mkdir(parents=True, exist_ok=True)
    with atomic(out / "suggest.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    with atomic(out / "suggest.json") as temporary:
        found = {"protocol": asdict(trial), "about": about, "classes": [asdict(row) for row in rows]}
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    typer.echo(text)


if __name__ == "__main__":
    typer.run(main)

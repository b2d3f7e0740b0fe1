"""Whether it pays to ask which photographs to annotate: suggested examples against random ones.

    python -m dgpnet.experiments.suggestion --data DATA --out docs/results

DATA holds VOC2012/. The photographs to choose from are training photographs of a class, the queries validation
photographs of it. Five examples are chosen as `Segmenter.suggest` does, which sees no mask, and at random, several
times. The IoU of a class is summed over its queries at their own size; classes count alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import numpy as np
import torch.nn.functional as F
import typer

from dgpnet import data
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.experiments.encoded import Points, chosen, encode_examples, encode_queries, iou, learn, photographs_of
from dgpnet.experiments.timing import machine
from dgpnet.files import atomic
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.model import Pool
from dgpnet.segmenter.suggest import GRID


@dataclass(frozen=True)
class Protocol:
    """How many examples, how many random draws of them, and at most how many photographs of a class."""

    budget: int = 5
    draws: int = 5
    pool: int = 60
    queries: int = 20
    least: int = 10
    """Classes with fewer queries, or a pool of fewer than 4 × budget, are left out."""
    seed: int = 0


@dataclass(frozen=True)
class Row:
    """IoU of one class with suggested examples, and with each of the random draws."""

    name: str
    pool: int
    queries: int
    suggested: float
    random: tuple[float, ...]


def compare(segmenter: Segmenter, train: Dataset, test: Dataset, protocol: Protocol) -> Iterator[Row]:
    """One row for each class that has enough photographs."""
    found = 0
    for class_id, name in test.classes.items():
        rng = np.random.default_rng([protocol.seed, class_id])
        candidates = _drawn(rng, photographs_of(train, class_id), protocol.pool)
        asked = _drawn(rng, photographs_of(test, class_id), protocol.queries)
        if len(candidates) < 4 * protocol.budget or len(asked) < protocol.least:
            continue
        found += 1
        points = encode_examples(segmenter, train, candidates, class_id)
        queries = list(encode_queries(segmenter, test, asked, class_id))
        sets = [suggested(segmenter, points, protocol.budget)]
        sets += [_drawn(rng, range(len(candidates)), protocol.budget) for _ in range(protocol.draws)]
        first, *others = (iou(segmenter, learn(segmenter, chosen(points, one)), queries) for one in sets)
        yield Row(name, len(candidates), len(asked), first, tuple(others))
    if not found:
        raise Error(
            f"{test.name} has no class with {4 * protocol.budget} training photographs and {protocol.least} others; "
            "take a larger set."
        )


def suggested(segmenter: Segmenter, points: Points, budget: int) -> list[int]:
    """What `Segmenter.suggest` answers for the photographs that these points are of: their masks are not looked at."""
    x = points[str(max(segmenter.network.config.levels))][0][0]  # (K, P, D)
    side = int(x.shape[1] ** 0.5)
    grid = F.adaptive_avg_pool2d(x.mT.unflatten(-1, (side, side)), GRID).flatten(2).mT.half()
    return segmenter.order(Pool(grid, list(range(len(x))), {}), budget)


def _drawn(rng: np.random.Generator, photographs: Sequence[int], most: int) -> list[int]:
    return [photographs[i] for i in rng.permutation(len(photographs))[:most]]


def markdown(rows: Sequence[Row]) -> str:
    """The table: IoU in percent."""
    lines = [
        "| class | to choose from | queries | suggested | random, mean ± std | gain |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        figures = _figures(row.suggested, row.random)
        lines.append(f"| {row.name} | {row.pool} | {row.queries} | {figures} |")
    draws = [fmean(values) for values in zip(*(row.random for row in rows), strict=True)]
    lines.append(f"| **mean** | | | {_figures(fmean(row.suggested for row in rows), draws)} |")
    return "\n".join(lines) + "\n"


def _figures(suggested: float, random: Sequence[float]) -> str:
    mean = fmean(random)
    return f"{100 * suggested:.1f} | {100 * mean:.1f} ± {100 * stdev(random):.1f} | {100 * (suggested - mean):+.1f}"


def main(
    root: Annotated[Path, typer.Option("--data", help="Folder that holds VOC2012.")],
    out: Annotated[Path, typer.Option(help="Folder for suggest.json.")],
    model: str = "default",
    draws: Annotated[int, typer.Option(min=2)] = Protocol.draws,
    pool: int = Protocol.pool,
    queries: int = Protocol.queries,
    seed: int = Protocol.seed,
    device: str | None = None,
) -> None:
    """Compare suggested with random examples on PASCAL."""
    start = time.perf_counter()
    protocol = Protocol(draws=draws, pool=pool, queries=queries, seed=seed)
    train, test = (data.build("pascal", root / "VOC2012", split=split) for split in ("train", "test"))
    segmenter = load(model, device=device)
    rows = []
    for row in compare(segmenter, train, test, protocol):
        rows.append(row)
        typer.echo(json.dumps(asdict(row)))
    seconds = round(time.perf_counter() - start)
    about = {"protocol": asdict(protocol), "machine": machine(segmenter.device), "seconds": seconds}
    out.mkdir(parents=True, exist_ok=True)
    with atomic(out / "suggest.json") as temporary:
        temporary.write_text(json.dumps({**about, "classes": [asdict(row) for row in rows]}, indent=1) + "\n")
    typer.echo(f"{markdown(rows)}\n{about}")


if __name__ == "__main__":
    typer.run(main)

"""What more examples cost and bring: time, memory and IoU of a concept against how many it was learned from.

    python -m research.examples --data DATA --out docs/results     # examples.md, examples.json, plots

DATA holds VOC2012/. Dogs: training photographs are the examples, validation photographs the queries. Each photograph is
encoded once, so that learning here is what comes after the encoder. The exact posterior is measured as far as it is
sensible, and the segmenter's budget of inducing points from where it makes a difference.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from dgpnet import data, pictures
from dgpnet.benchmark.timing import Effort, Stopwatch, machine, measure_laps
from dgpnet.cli.parsing import numbers
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.network import Memory
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.engine import EXACT_POINTS, INDUCING_POINTS
from dgpnet.segmenter.support import Prepared
from research.encoded import (
    encode_examples,
    encode_queries,
    gaussian,
    iou,
    learn,
    memory_bytes,
    photographs_of,
)
from research.examples_report import BUDGETED, EXACT, CostOfExamples, page, plots

#: Numbers of examples that are learned from.
COUNTS = (1, 5, 10, 20, 50, 100, 200, 500)


def costs(
    segmenter: Segmenter,
    train: Dataset,
    test: Dataset,
    class_id: int,
    *,
    counts: Sequence[int],
    most_exact: int,
    budget: int = INDUCING_POINTS,
    queries: int = 30,
    seed: int = 0,
) -> Iterator[CostOfExamples]:
    """Exact up to `most_exact` examples, and budgeted where there are more points than the budget."""
    rng = np.random.default_rng([seed, class_id])
    candidates, asked = photographs_of(train, class_id), photographs_of(test, class_id)
    if len(candidates) < max(counts) or not asked:
        raise Error(f"{train.name} has {len(candidates)} photographs of the class, {max(counts)} examples are needed.")
    photographs = [candidates[i] for i in rng.permutation(len(candidates))[: max(counts)]]
    points = encode_examples(segmenter, train, photographs, class_id)
    places = [asked[i] for i in rng.permutation(len(asked))[:queries]]
    batches = list(encode_queries(segmenter, test, places, class_id))
    photo = segmenter.engine.read(test.photo(places[0]))
    for count in counts:
        some = points.chosen(range(count))
        size = some.most
        wanted = {EXACT: count <= most_exact, BUDGETED: size > budget}
        for kind in (kind for kind, sensible in wanted.items() if sensible):
            clock = Stopwatch(segmenter.device)
            memory = learn(segmenter, some, budget if kind == BUDGETED else None)
            clock.lap("learn")
            gp_s, similarity_s, query_s = query_times(segmenter, memory, photo)
            gp_bytes, similarity_bytes = memory_bytes(memory)
            yield CostOfExamples(
                kind,
                examples=count,
                points=size,
                automatic=(size > EXACT_POINTS) == (kind == BUDGETED),
                learn_s=clock.milliseconds()["learn"] / 1e3,
                gp_s=gp_s,
                similarity_s=similarity_s,
                query_s=query_s,
                gp_bytes=gp_bytes,
                similarity_bytes=similarity_bytes,
                iou=iou(segmenter, memory, batches),
            )


@torch.no_grad()
def query_times(segmenter: Segmenter, memory: Memory, photo: Prepared) -> list[float]:
    """Seconds of one photograph: the Gaussian processes, the other learners, and all with encoder and decoder."""
    network = segmenter.network
    processes = gaussian(memory)

    def ask(clock: Stopwatch) -> None:
        features = network.encoder(segmenter.engine.as_input([photo.photo]))
        clock.lap("network")
        maps = {}
        for name, branch in network.named_branches().items():
            maps[name] = memory.learned[name].predict(network.branch_features(branch, features))
            clock.lap("gp" if name in processes else "similarity")
        network.decode(features, maps, 1)
        clock.lap("network")

    laps = measure_laps(ask, segmenter.device, Effort(calls=5, seconds=10, warmup=1))
    return [laps.get(name, 0.0) / 1e3 for name in ("gp", "similarity", "total")]


def main(
    root: Annotated[Path, typer.Option("--data", help="Folder that holds VOC2012.")],
    out: Annotated[Path, typer.Option(help="Folder for examples.md, examples.json and the plots.")],
    model: str = "default",
    name: Annotated[str, typer.Option("--class", help="Class to learn.")] = "dog",
    counts: Annotated[str, typer.Option(help="Numbers of examples, separated by commas.")] = ",".join(map(str, COUNTS)),
    most_exact: Annotated[int, typer.Option(help="Examples up to which the exact posterior is measured.")] = 100,
    queries: int = 30,
    device: str | None = None,
) -> None:
    """Measure what examples cost and bring."""
    start = time.perf_counter()
    train, test = (data.build("pascal", root / "VOC2012", split=split) for split in ("train", "test"))
    class_id = {known: c for c, known in train.classes.items()}.get(name)
    if class_id is None:
        raise typer.BadParameter(f"PASCAL has no class {name}; it has {', '.join(train.classes.values())}.")
    segmenter = load(model, device=device)
    many = numbers("--counts", counts)
    found = []
    for cost in costs(segmenter, train, test, class_id, counts=many, most_exact=most_exact, queries=queries):
        found.append(cost)
        typer.echo(json.dumps(asdict(cost)))
    about = {"model": model, **machine(segmenter.device), "seconds": round(time.perf_counter() - start)}
    text = page(found, name, queries, about)
    out.mkdir(parents=True, exist_ok=True)
    with atomic(out / "examples.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    with atomic(out / "examples.json") as temporary:
        temporary.write_text(json.dumps({"about": about, "concepts": [asdict(one) for one in found]}, indent=1) + "\n")
    for plot, picture in plots(found).items():
        pictures.save(picture, out / f"{plot}.png")
    typer.echo(text)


if __name__ == "__main__":
    typer.run(main)

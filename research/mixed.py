"""Which photograph to paint next, in folders of which a third show the thing, or all: criteria against random ones.

    python -m research.mixed --new NEW --out mixed.json
    python -m research.mixed --new NEW --out all.json --one-in 1
    python -m research.mixed --new NEW --out before.json --before     # any mask

NEW is a folder of sets as `dgpnet train` takes it, of which the model saw none in training. Of each set one class is
drawn and one example of it, which is painted. Then four of POOL photographs are chosen to be painted besides, once by
each criterion and several times at random; one in three of them shows the class, or as many as are asked for. IoU is
summed over queries at their own size, of which as many show it, with what is probably not there left out, as a
folder's masks are. What lacks it is of the same set, which is hard to tell apart, or of others; the table has both
kinds by themselves. Criteria are chosen by every second set. Before any mask there is no example, and one criterion.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from dgpnet import data
from dgpnet.benchmark.timing import machine
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.files import atomic
from dgpnet.images import IGNORE
from dgpnet.network import Memory, Points
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.calibration import PRESENT, Calibration
from dgpnet.segmenter.kinship import Kinship, kinship
from dgpnet.segmenter.segmentation import Judged, Maps, enlarge, judge, leave_out
from dgpnet.segmenter.suggest import Pool, cells, order
from dgpnet.segmenter.support import read_examples
from research.encoded import photographs_of
from research.fitting import percent

BUDGET = 4
#: Photographs to choose from, and queries, at most; and how many of a class it takes at least.
POOL, QUERIES, FEWEST = 24, 12, 12
#: Part of a pool that probably shows the class, from which on "presence, unless most have it" goes by variance.
MOST = 0.6

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """What criteria are told of N photographs after the first mask: presence and mean uncertainty (N,), the cosines
    (N, N + 1) of their features to each other's and to those of the first example, and which of some would lower their
    variance the most, times weights (N,) where they are given."""

    presence: Floats
    uncertainty: Floats
    alike: Floats
    telling: Callable[[list[int], Floats | None], list[int]]

    @property
    def everything(self) -> list[int]:
        return list(range(len(self.presence)))


def diverse(score: Floats, alike: Floats, budget: int) -> list[int]:
    """The best by score, each time less what it has in common with what was taken before."""
    taken: list[int] = []
    while len(taken) < min(budget, len(score)):
        near = alike[:, [len(score), *taken]].max(1).clip(0, 1)
        worth = score * (1 - near)
        worth[taken] = -np.inf
        taken.append(int(worth.argmax()))
    return taken


def _best(score: Floats, count: int = BUDGET) -> list[int]:
    return [int(i) for i in np.argsort(-score, kind="stable")[:count]]


def _variance(known: Known) -> list[int]:
    return known.telling(known.everything, None)


def _unless_most_have_it(criterion: Callable[[Known], list[int]]) -> Callable[[Known], list[int]]:
    return lambda known: _variance(known) if (known.presence >= PRESENT).mean() >= MOST else criterion(known)


CRITERIA: dict[str, Callable[[Known], list[int]]] = {
    "variance": _variance,
    "uncertainty": lambda known: _best(known.uncertainty),
    "presence": lambda known: _best(known.presence),
    "presence, diverse": lambda known: diverse(known.presence, known.alike, BUDGET),
    "suggest: presence × variance": lambda known: known.telling(known.everything, known.presence),
    "variance, of the likelier third": lambda known: known.telling(_best(known.presence, 2 * BUDGET), None),
}
CRITERIA |= {
    f"{name}; variance where most have it": _unless_most_have_it(CRITERIA[name])
    for name in ("presence", "presence, diverse")
}


@dataclass(frozen=True)
class Trial:
    """How many photographs there are for each that shows the class; whether to choose before any mask; how many draws
    at random; the seed, and how many sets to leave out at first."""

    one_in: int = 3
    before: bool = False
    draws: int = 3
    seed: int = 0
    skip: int = 0


@dataclass(frozen=True)
class Row:
    """One class: IoU with the first example alone (0 before any mask), by each criterion, and with each random draw;
    and how many of the photographs that each criterion chose show the class. same: how much of what lacks it in the
    pool is of the same set; None where all show it."""

    name: str
    half: str
    first: float
    by: dict[str, float]
    showing: dict[str, int]
    random: tuple[float, ...]
    same: float | None


@dataclass(frozen=True, eq=False)
class Seen:
    """A photograph encoded once: what there is to learn from it and its mask, and what is asked of it."""

    points: Points
    features: dict[int, torch.Tensor]
    inside: tuple[int, int]
    truth: NDArray[np.uint8]
    cells: torch.Tensor


def see(segmenter: Segmenter, photo: NDArray[np.uint8], truth: NDArray[np.uint8]) -> Seen:
    """truth: (H, W) uint8, 1 where the class is, 255 ignore."""
    ((shot,),), _ = read_examples([photo], [truth == 1], ["it"], segmenter.network.config)
    encoded = segmenter.engine.encode(shot.photo)
    inside = shot.photo.shape[0], shot.photo.shape[1]
    points = segmenter.engine.points_of(encoded, shot)
    return Seen(points, encoded.features, inside, truth, cells(segmenter, encoded.features)[0].float())


def look(segmenter: Segmenter, memory: Memory, kin: Kinship | None, seen: Seen) -> tuple[Judged, NDArray[np.uint8]]:
    """What is said of a photograph, and its mask at its own size without what is probably not there."""
    height, width = seen.inside
    answer = Maps.of(segmenter.engine.predictor.look_at(memory, seen.features))
    maps = answer.each(lambda one: one[0, ..., :height, :width])
    (judged,) = judge([maps], segmenter.calibration, kin=kin)
    size = seen.truth.shape[0], seen.truth.shape[1]
    mask = enlarge(maps, size, segmenter.calibration, keep=["mask"])["mask"].numpy()
    leave_out(mask, judged, min_likeness=0.0, keep_all=False)
    return judged, mask


def iou(segmenter: Segmenter, memory: Memory, queries: Sequence[Seen]) -> float:
    """Summed over all queries; what is found where the class is not counts against it."""
    both = either = 0
    kin = kinship(memory, segmenter.calibration.presence)
    for seen in queries:
        _, mask = look(segmenter, memory, kin, seen)
        said, truth = seen.truth != IGNORE, seen.truth == 1
        both += int(((mask > 0) & truth).sum())
        either += int((((mask > 0) | truth) & said).sum())
    return both / either if either else 1.0


def known(segmenter: Segmenter, memory: Memory, first: Seen, pool: Sequence[Seen]) -> Known:
    """What the first mask makes of the others."""
    kin = kinship(memory, segmenter.calibration.presence)
    judged = [look(segmenter, memory, kin, seen)[0] for seen in pool]
    vectors = torch.stack([seen.cells.mean(0) for seen in (*pool, first)])
    vectors = torch.nn.functional.normalize(vectors - vectors.mean(0), dim=1)
    features = torch.stack([seen.cells for seen in pool])

    def telling(some: list[int], weights: Floats | None) -> list[int]:
        weighed = None if weights is None else torch.from_numpy(weights[some]).float()
        return order(segmenter, Pool(features[some], some, {}, weighed), BUDGET, memory)

    return Known(
        np.array([one.presence for one in judged]),
        np.array([one.mean_uncertainty for one in judged]),
        (vectors[:-1] @ vectors.T).double().numpy(),
        telling,
    )


def mixture(
    dataset: Dataset, class_id: int, one_in: int, rng: np.random.Generator
) -> tuple[int, list[tuple[int, bool]], list[tuple[int, bool]]] | None:
    """The first example, the photographs to choose from and the queries, each with whether it shows the class, as one
    in so many does. What lacks it is of the same set as far as there is enough, else of others."""
    name = dataset.classes[class_id].split("/")[0]
    showing = [int(i) for i in rng.permutation(photographs_of(dataset, class_id))]
    if len(showing) < FEWEST:
        return None
    first, *showing = showing
    count = min(POOL // one_in, max(2 * BUDGET, 2 * len(showing) // 3))
    chosen, asked = showing[:count], showing[count:][: QUERIES // one_in]
    siblings = {i for i, c in dataset.pairs if dataset.classes[c].split("/")[0] == name}
    own, others = rng.permutation(sorted(siblings)), rng.permutation(sorted({i for i, _ in dataset.pairs} - siblings))
    without = (i for i in own if not (dataset.mask(i) == label_of(class_id)).any())
    lacking = [int(i) for i in islice(chain(without, others), (one_in - 1) * (len(chosen) + len(asked)))]
    lacking = [lacking[i] for i in rng.permutation(len(lacking))]
    more = (one_in - 1) * len(chosen)
    pool, queries = (
        [*((i, True) for i in there), *((i, False) for i in away)]
        for there, away in ((chosen, lacking[:more]), (asked, lacking[more:]))
    )
    return first, pool, queries


def measured(
    segmenter: Segmenter, dataset: Dataset, class_id: int, half: str, trial: Trial, rng: np.random.Generator
) -> Row | None:
    """None for a class with too few photographs."""
    drawn = mixture(dataset, class_id, trial.one_in, rng)
    if drawn is None:
        return None
    number, pool, queries = drawn
    name = dataset.classes[class_id].split("/")[0]
    siblings = {i for i, c in dataset.pairs if dataset.classes[c].split("/")[0] == name}
    lacking = [i in siblings for i, there in pool if not there]

    def seen(i: int, there: bool) -> Seen:
        truth = dataset.mask(i)
        wanted = np.where(truth == IGNORE, IGNORE, (truth == label_of(class_id)) & there).astype(np.uint8)
        return see(segmenter, dataset.photo(i), wanted)

    first, candidates, asked = seen(number, True), [seen(*one) for one in pool], [seen(*one) for one in queries]
    given = [] if trial.before else [first.points]

    @cache
    def learned(which: tuple[int, ...]) -> float:
        points = [*given, *(candidates[i].points for i in which)]
        return round(iou(segmenter, segmenter.engine.remember_points(points), asked), 4)

    if trial.before:
        pool_seen = Pool(torch.stack([one.cells for one in candidates]), list(range(len(candidates))), {})
        chosen = {"coverage": order(segmenter, pool_seen, BUDGET)}
    else:
        told = known(segmenter, segmenter.engine.remember_points(given), first, candidates)
        chosen = {name: criterion(told) for name, criterion in CRITERIA.items()}
    return Row(
        dataset.classes[class_id],
        half,
        learned(()) if given else 0.0,
        {name: learned(tuple(sorted(which))) for name, which in chosen.items()},
        {name: sum(pool[i][1] for i in which) for name, which in chosen.items()},
        tuple(learned(tuple(sorted(rng.permutation(len(pool))[:BUDGET].tolist()))) for _ in range(trial.draws)),
        fmean(lacking) if lacking else None,
    )


def rows_of(segmenter: Segmenter, dataset: Dataset, trial: Trial) -> Iterator[Row]:
    """One class a set, of those with enough photographs, after the first few."""
    sets: dict[str, list[int]] = {}
    for class_id, name in dataset.classes.items():
        if len(photographs_of(dataset, class_id)) >= FEWEST:
            sets.setdefault(name.split("/")[0], []).append(class_id)
    for number, classes in islice(enumerate(sets.values()), trial.skip, None):
        rng = np.random.default_rng([trial.seed, number])
        half = ("to choose by", "held back")[number % 2]
        row = measured(segmenter, dataset, int(rng.choice(classes)), half, trial, rng)
        if row is not None:
            yield row


def table(rows: Sequence[Row], one_in: int) -> str:
    """IoU in percent, and the gain over random draws with its standard error over classes."""
    lines = ["| | | IoU | over random ± error | showing it, of 4 |", "|---|---|---|---|---|"]
    halves = [(half, [row for row in rows if row.half == half]) for half in ("to choose by", "held back")]
    if all(some for _, some in halves):
        halves.append(("all", list(rows)))
    halves += [
        ("the rest of other sets alone", [row for row in rows if row.same == 0]),
        ("the rest of the same set alone", [row for row in rows if row.same == 1]),
    ]
    for half, some in halves:
        if not some:
            continue
        lines.append(
            f"| {half}, {len(some)} classes | the first example alone | {percent([r.first for r in some])} | | |"
        )
        lines.append(f"| | random | {percent([fmean(row.random) for row in some])} | | {BUDGET / one_in:.1f} |")
        for name in some[0].by:
            gains = [100 * (row.by[name] - fmean(row.random)) for row in some]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            lines.append(
                f"| | {name} | {percent([row.by[name] for row in some])} | {fmean(gains):+.1f} ± {error:.1f} | "
                f"{fmean(row.showing[name] for row in some):.1f} |"
            )
    return "\n".join(lines)


def believing(segmenter: Segmenter, beside: Path) -> Segmenter:
    """With presence and quality from such a file as lies beside the models that ship."""
    told = Calibration.from_json(json.loads(beside.read_bytes()))
    calibration = replace(segmenter.calibration, presence=told.presence, quality=told.quality)
    return Segmenter(segmenter.network, calibration=calibration, dtype=segmenter.dtype)


def read(path: Path) -> list[Row]:
    """What `main` wrote."""
    return [Row(**{**one, "random": tuple(one["random"])}) for one in json.loads(path.read_bytes())]


def main(
    new: Annotated[Path, typer.Option(help="A folder of sets that the model never saw.")],
    out: Annotated[Path | None, typer.Option(help="Where the rows go, as JSON.")] = None,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "small",
    beliefs: Annotated[Path | None, typer.Option(help="JSON with presence and quality, for a model without.")] = None,
    one_in: Annotated[int, typer.Option(min=1, help="One photograph in so many shows the class.")] = 3,
    before: Annotated[bool, typer.Option("--before", help="Choose before any mask.")] = False,
    draws: Annotated[int, typer.Option(min=2)] = 3,
    minutes: Annotated[float, typer.Option(help="Begin no further class after so many.")] = 600.0,
    seed: int = 0,
    skip: Annotated[int, typer.Option(min=0, help="Leave so many sets out at first.")] = 0,
    also: Annotated[list[Path] | None, typer.Option(help="What other runs wrote, for the table.")] = None,
    cache: Path | None = None,
) -> None:
    """Choose by each criterion, learn, compare, and print a table."""
    segmenter, start, rows = load(model), time.monotonic(), list[Row]()
    if beliefs is not None:
        segmenter = believing(segmenter, beliefs)
    dataset = data.build("folder", new, split="test", cache=cache)
    measuring = rows_of(segmenter, dataset, Trial(one_in, before, draws, seed, skip))
    while time.monotonic() - start < 60 * minutes and (row := next(measuring, None)) is not None:
        rows.append(row)
        typer.echo(f"{row.name}: {row.first} {row.by}", err=True)
        if out is not None:
            with atomic(out) as temporary:
                temporary.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
    print(table([*(row for path in also or () for row in read(path)), *rows], one_in))
    print(json.dumps(machine(segmenter.device)))


if __name__ == "__main__":
    typer.run(main)

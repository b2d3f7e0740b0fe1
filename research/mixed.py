"""Which photograph to paint next, in folders of which a third show the thing: criteria against random ones.

    python -m research.mixed --new NEW --out mixed.json

NEW is a folder of sets as `dgpnet train` takes it, of which the model saw none in training. Of each set one class is
drawn and one example of it, which is painted. Then four of POOL photographs are chosen to be painted besides, once by
each criterion and several times at random; a third of them show the class. IoU is summed over queries at their own
size, of which a third show the class, too, with what is probably not there left out, as a folder's masks are.
Criteria are chosen by every second set.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
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
from dgpnet.segmenter.calibration import PRESENT
from dgpnet.segmenter.kinship import Kinship, kinship
from dgpnet.segmenter.segmentation import Judged, Maps, enlarge, judge, leave_out
from dgpnet.segmenter.suggest import Pool, cells, order
from dgpnet.segmenter.support import read_examples
from research.encoded import photographs_of
from research.fitting import percent

BUDGET = 4
#: Photographs to choose from, and queries at most; a third of each show the class.
POOL, QUERIES = 24, 12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """What criteria are told of N photographs after the first mask: presence and mean uncertainty (N,), and the cosines
    (N, N + 1) of their features to each other's and to those of the first example."""

    presence: Floats
    uncertainty: Floats
    alike: Floats


def diverse(score: Floats, alike: Floats, budget: int) -> list[int]:
    """The best by score, each time less what it has in common with what was taken before."""
    taken: list[int] = []
    while len(taken) < min(budget, len(score)):
        near = alike[:, [len(score), *taken]].max(1).clip(0, 1)
        worth = score * (1 - near)
        worth[taken] = -np.inf
        taken.append(int(worth.argmax()))
    return taken


def _best(score: Floats) -> list[int]:
    return [int(i) for i in np.argsort(-score, kind="stable")[:BUDGET]]


CRITERIA: dict[str, Callable[[Known], list[int]]] = {
    "uncertainty": lambda known: _best(known.uncertainty),
    "presence": lambda known: _best(known.presence),
    "presence near one half × uncertainty, diverse": lambda known: diverse(
        known.presence * (1 - known.presence) * known.uncertainty, known.alike, BUDGET
    ),
}


@dataclass(frozen=True)
class Row:
    """One class: IoU with the first example alone, by each criterion, and with each random draw; and how many of the
    photographs that each criterion chose show the class."""

    name: str
    half: str
    first: float
    by: dict[str, float]
    showing: dict[str, int]
    random: tuple[float, ...]


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
    return Known(
        np.array([one.presence for one in judged]),
        np.array([one.mean_uncertainty for one in judged]),
        (vectors[:-1] @ vectors.T).double().numpy(),
    )


def probable(segmenter: Segmenter, pool: Pool, memory: Memory, presence: Floats) -> list[int]:
    """As `Concept.suggest`, of the photographs that probably show the class; after these, the likeliest others."""
    likeliest = [int(i) for i in np.argsort(-presence, kind="stable")]
    some = likeliest[: max(1, int((presence >= PRESENT).sum()))]
    best = order(segmenter, Pool(pool.features[some], some, {}), BUDGET, memory)
    return (best + [i for i in likeliest if i not in best])[:BUDGET]


def mixture(
    dataset: Dataset, class_id: int, rng: np.random.Generator
) -> tuple[int, list[tuple[int, bool]], list[tuple[int, bool]]] | None:
    """The first example, the photographs to choose from and the queries, each with whether it shows the class. What
    lacks it is of the same set as far as there is enough, else of others."""
    name = dataset.classes[class_id].split("/")[0]
    showing = [int(i) for i in rng.permutation(photographs_of(dataset, class_id))]
    if len(showing) < 1 + POOL // 3 + 3:
        return None
    first, chosen, asked = showing[0], showing[1 : 1 + POOL // 3], showing[1 + POOL // 3 :][: QUERIES // 3]
    siblings = {i for i, c in dataset.pairs if dataset.classes[c].split("/")[0] == name}
    own = [i for i in rng.permutation(sorted(siblings)) if not (dataset.mask(i) == label_of(class_id)).any()]
    others = rng.permutation(sorted({i for i, _ in dataset.pairs} - siblings))
    lacking = [int(i) for i in (*own, *others)][: 2 * (len(chosen) + len(asked))]
    lacking = [lacking[i] for i in rng.permutation(len(lacking))]
    pool, queries = (
        [*((i, True) for i in there), *((i, False) for i in away)]
        for there, away in ((chosen, lacking[: 2 * len(chosen)]), (asked, lacking[2 * len(chosen) :]))
    )
    return first, pool, queries


def measured(
    segmenter: Segmenter, dataset: Dataset, class_id: int, half: str, draws: int, rng: np.random.Generator
) -> Row | None:
    """None for a class with too few photographs."""
    drawn = mixture(dataset, class_id, rng)
    if drawn is None:
        return None
    number, pool, queries = drawn

    def seen(i: int, there: bool) -> Seen:
        truth = dataset.mask(i)
        wanted = np.where(truth == IGNORE, IGNORE, (truth == label_of(class_id)) & there).astype(np.uint8)
        return see(segmenter, dataset.photo(i), wanted)

    first, candidates, asked = seen(number, True), [seen(*one) for one in pool], [seen(*one) for one in queries]
    memory = segmenter.engine.remember_points([first.points])

    def learned(which: Sequence[int]) -> float:
        points = [first.points, *(candidates[i].points for i in which)]
        return round(iou(segmenter, segmenter.engine.remember_points(points), asked), 4)

    told = known(segmenter, memory, first, candidates)
    features = Pool(torch.stack([one.cells for one in candidates]), list(range(len(candidates))), {})
    chosen = {"suggest": order(segmenter, features, BUDGET, memory)}
    chosen["suggest, of those where it probably is"] = probable(segmenter, features, memory, told.presence)
    chosen |= {name: criterion(told) for name, criterion in CRITERIA.items()}
    return Row(
        dataset.classes[class_id],
        half,
        round(iou(segmenter, memory, asked), 4),
        {name: learned(which) for name, which in chosen.items()},
        {name: sum(pool[i][1] for i in which) for name, which in chosen.items()},
        tuple(learned(rng.permutation(len(pool))[:BUDGET].tolist()) for _ in range(draws)),
    )


def rows_of(segmenter: Segmenter, dataset: Dataset, draws: int, seed: int) -> Iterator[Row]:
    """One class a set, of those with enough photographs."""
    sets: dict[str, list[int]] = {}
    for class_id, name in dataset.classes.items():
        if len(photographs_of(dataset, class_id)) >= 1 + POOL // 3 + 3:
            sets.setdefault(name.split("/")[0], []).append(class_id)
    for number, classes in enumerate(sets.values()):
        rng = np.random.default_rng([seed, number])
        half = ("to choose by", "held back")[number % 2]
        row = measured(segmenter, dataset, int(rng.choice(classes)), half, draws, rng)
        if row is not None:
            yield row


def table(rows: Sequence[Row]) -> str:
    """IoU in percent, and the gain over random draws with its standard error over classes."""
    lines = ["| | | IoU | over random ± error | showing it, of 4 |", "|---|---|---|---|---|"]
    for half in ("to choose by", "held back"):
        some = [row for row in rows if row.half == half]
        if not some:
            continue
        lines.append(
            f"| {half}, {len(some)} classes | the first example alone | {percent([r.first for r in some])} | | |"
        )
        lines.append(f"| | random | {percent([fmean(row.random) for row in some])} | | {BUDGET / 3:.1f} |")
        for name in some[0].by:
            gains = [100 * (row.by[name] - fmean(row.random)) for row in some]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            lines.append(
                f"| | {name} | {percent([row.by[name] for row in some])} | {fmean(gains):+.1f} ± {error:.1f} | "
                f"{fmean(row.showing[name] for row in some):.1f} |"
            )
    return "\n".join(lines)


def main(
    new: Annotated[Path, typer.Option(help="A folder of sets that the model never saw.")],
    out: Annotated[Path | None, typer.Option(help="Where the rows go, as JSON.")] = None,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "small",
    draws: Annotated[int, typer.Option(min=2)] = 3,
    minutes: Annotated[float, typer.Option(help="Begin no further class after so many.")] = 600.0,
    seed: int = 0,
    cache: Path | None = None,
) -> None:
    """Choose by each criterion, learn, compare, and print a table."""
    segmenter, start, rows = load(model), time.monotonic(), []
    for row in rows_of(segmenter, data.build("folder", new, split="test", cache=cache), draws, seed):
        rows.append(row)
        typer.echo(f"{row.name}: {row.first} {row.by}", err=True)
        if out is not None:
            with atomic(out) as temporary:
                temporary.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
        if time.monotonic() - start > 60 * minutes:
            break
    print(table(rows))
    print(json.dumps(machine(segmenter.device)))


if __name__ == "__main__":
    typer.run(main)

"""Cells of tables from what was tested: percent with their spread, Mean Δ, and whether the paper's orderings hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from dgpnet.reproduce.archive import Archive
from dgpnet.reproduce.plan import PlannedTest, Planner
from dgpnet.reproduce.tables import Ordering, Table

#: Half widths of 95 % intervals in standard errors, by degrees of freedom from 1 on (Student's t). The last one serves
#: all further ones: a little too wide.
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)


@dataclass(frozen=True)
class Value:
    """A cell of ours in percent, the mean over folds, trainings and draws of episodes.

    spread: standard deviation over draws
    half_interval: half width of the 95 % interval, from the episodes
    training_spread: standard deviation over trainings
    networks: the mean of each network, by fold and seed
    """

    mean: float
    spread: float | None
    half_interval: float
    training_spread: float | None = None
    networks: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.spread is None else f" ± {self.spread:.1f}")


@dataclass(frozen=True)
class Checked:
    """An ordering of the paper in our figures: mean gain over the columns both rows have, and how much is noise.

    episode_noise, training_noise: half widths of the gain's 95 % interval, from the tested episodes and from the
        trainings, where there are several
    """

    better: str
    worse: str
    gain: float
    episode_noise: float
    training_noise: float | None
    columns: int
    agreeing: int

    @property
    def noise(self) -> float:
        """Half width of the wider interval."""
        return max(self.episode_noise, self.training_noise or 0.0)

    @property
    def noise_of(self) -> str:
        """Where the wider interval comes from."""
        return "episodes" if self.noise == self.episode_noise else "trainings"

    @property
    def holds(self) -> bool:
        """Whether the paper's ordering is ours too."""
        return self.gain > 0

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        noise = f"± {self.noise:.1f}" + ("" if self.training_noise is None else f" by the {self.noise_of}")
        doubt = f"; within the noise of the {self.noise_of}" if abs(self.gain) < self.noise else ""
        where = f"in {self.agreeing} of {self.columns} columns" if self.columns > 1 else "in one column"
        return f"{self.better} over {self.worse}: {verdict} ({self.gain:+.1f}, {where}; {noise}{doubt})"


def value(archive: Archive, tests: Sequence[PlannedTest]) -> Value | None:
    """The cell that these tests (one for each fold and training) make; None until all are done."""
    found = [(test, archive.finding(test)) for test in tests]
    done = [(test, finding) for test, finding in found if finding is not None]
    if not done or len(done) < len(found):
        return None
    draws = [100 * fmean(each) for each in zip(*(finding.miou for _, finding in done), strict=True)]
    halves: dict[int, list[float]] = {}
    trainings: dict[int, list[float]] = {}
    networks = {}
    for test, finding in done:
        seed, mean = test.run.config.seed, 100 * fmean(finding.miou)
        halves.setdefault(test.fold, []).append(100 * finding.half_interval)
        trainings.setdefault(seed, []).append(mean)
        networks[f"fold {test.fold}, seed {seed}"] = mean
    # Folds are independent: the deviations of their mean add up in squares. The trainings of a fold share its episodes.
    half = math.hypot(*map(fmean, halves.values())) / len(halves)
    return Value(
        fmean(draws), _deviation(draws), half, _deviation([fmean(each) for each in trainings.values()]), networks
    )


def _deviation(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def fill(table: Table, planner: Planner, archive: Archive) -> dict[str, tuple[Value | None, ...]]:
    """Our figures: row label -> one value a column."""
    return {
        row.label: tuple(value(archive, planner.cell(row, column)) for column in table.columns)
        for row in table.rows
        if row.changes is not None
    }


def mean_delta(values: Mapping[str, Sequence[Value | None]], label: str, base: str) -> float | None:
    """Mean gain of row `label` over row `base` in the columns that both have; None where there is none."""
    pairs = _pairs(values, label, base)
    return fmean(a.mean - b.mean for a, b in pairs) if pairs else None


def check(ordering: Ordering, values: Mapping[str, Sequence[Value | None]]) -> Checked | None:
    """Whether an ordering of the paper is ours too; None until both rows have a column in common."""
    pairs = _pairs(values, ordering.better, ordering.worse)
    if not pairs:
        return None
    gains = [a.mean - b.mean for a, b in pairs]
    noise = fmean(math.hypot(a.half_interval, b.half_interval) for a, b in pairs)
    agreeing = sum(gain > 0 for gain in gains)
    return Checked(ordering.better, ordering.worse, fmean(gains), noise, _training_noise(pairs), len(gains), agreeing)


def _training_noise(pairs: Sequence[tuple[Value, Value]]) -> float | None:
    """Half width of the mean gain's 95 % interval, from the gains of each network over the other row's of the same fold
    and seed; None where networks were trained once."""
    if any(value.training_spread is None for pair in pairs for value in pair):
        return None
    gains: dict[str, list[float]] = {}
    for a, b in pairs:
        for network, mean in a.networks.items():
            gains.setdefault(network, []).append(mean - b.networks[network])
    # One gain a network: its figures in several columns are not independent.
    each = [fmean(of_network) for of_network in gains.values()]
    return STUDENT[min(len(each) - 1, len(STUDENT)) - 1] * stdev(each) / math.sqrt(len(each))


def _pairs(values: Mapping[str, Sequence[Value | None]], one: str, other: str) -> list[tuple[Value, Value]]:
    rows = zip(values.get(one, ()), values.get(other, ()), strict=True) if other in values and one in values else ()
    return [(a, b) for a, b in rows if a is not None and b is not None]

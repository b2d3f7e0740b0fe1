"""Cells of tables from what was tested: percent with their spread, Mean Δ, and whether the paper's orderings hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dgpnet.reproduce.archive import Archive
from dgpnet.reproduce.plan import PlannedTest, Planner
from dgpnet.reproduce.tables import Ordering, Table


@dataclass(frozen=True)
class Value:
    """A cell of ours in percent: mean over folds and seeds, deviation over seeds, half width of the 95 % interval."""

    mean: float
    spread: float | None
    half_interval: float

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.spread is None else f" ± {self.spread:.1f}")


@dataclass(frozen=True)
class Checked:
    """An ordering of the paper in our figures: mean gain over the columns both rows have, and how much is noise."""

    better: str
    worse: str
    gain: float
    noise: float
    columns: int
    agreeing: int

    @property
    def holds(self) -> bool:
        """Whether the paper's ordering is ours too."""
        return self.gain > 0

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        doubt = "; within the noise of the episodes" if abs(self.gain) < self.noise else ""
        where = f"in {self.agreeing} of {self.columns} columns" if self.columns > 1 else "in one column"
        return f"{self.better} over {self.worse}: {verdict} ({self.gain:+.1f}, {where}; ± {self.noise:.1f}{doubt})"


def value(archive: Archive, tests: Sequence[PlannedTest]) -> Value | None:
    """The cell that these tests (one a fold) make; None until all are done."""
    found = [archive.finding(test) for test in tests]
    done = [finding for finding in found if finding is not None]
    if not done or len(done) < len(found):
        return None
    seeds = [100 * fmean(folds) for folds in zip(*(finding.miou for finding in done), strict=True)]
    spread = stdev(seeds) if len(seeds) > 1 else None
    # Folds are independent: the deviations of their mean add up in squares.
    half = 100 * math.sqrt(sum(finding.half_interval**2 for finding in done)) / len(done)
    return Value(fmean(seeds), spread, half)


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
    return Checked(ordering.better, ordering.worse, fmean(gains), noise, len(gains), agreeing)


def _pairs(values: Mapping[str, Sequence[Value | None]], one: str, other: str) -> list[tuple[Value, Value]]:
    rows = zip(values.get(one, ()), values.get(other, ()), strict=True) if other in values and one in values else ()
    return [(a, b) for a, b in rows if a is not None and b is not None]

"""What was measured, as the tables need it: cells in percent with their spread, Mean Δ, and whether orderings hold.

A folder of results has `runs/<key>/` for each trained network and `tests/<key>.json` for each test.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

from dgpnet.files import atomic
from dgpnet.reproduce.plan import Plan, Planner, Run, Test
from dgpnet.reproduce.tables import Ordering, Table

RUNS, TESTS = "runs", "tests"


@dataclass(frozen=True)
class Measured:
    """The outcome of one test: mIoU in [0, 1] of each seed, and the half width of the first's 95 % interval."""

    miou: tuple[float, ...]
    fb_iou: tuple[float, ...]
    half_interval: float
    seconds: float
    photographs: float


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


class Results:
    """A folder with what has been done so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_folder(self, run: Run) -> Path:
        """Where a run is trained."""
        return self.folder / RUNS / run.key

    def trained(self, run: Run) -> Path | None:
        """The network of a run that is done."""
        record = self.run_folder(run) / "done.json"
        if not record.is_file():
            return None
        path = self.run_folder(run) / json.loads(record.read_text(encoding="utf-8"))["model"]
        return path if path.is_file() else None

    def record_run(self, run: Run, model: Path, seconds: float) -> None:
        """Mark a run as done."""
        folder = self.run_folder(run)
        content = {
            "model": str(model.relative_to(folder)),
            "run": run.describe(),
            "seconds": seconds,
            "photographs": run.photographs,
        }
        _write(folder / "done.json", content)

    def measured(self, test: Test) -> Measured | None:
        """The outcome of a test that is done."""
        path = self._test_path(test)
        if not path.is_file():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))["measured"]
        return Measured(tuple(content.pop("miou")), tuple(content.pop("fb_iou")), **content)

    def record_test(self, test: Test, measured: Measured) -> None:
        """Keep the outcome of a test."""
        path = self._test_path(test)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {**test.about(), "run": test.run.key, "network": test.run.describe()}
        _write(path, {**about, "measured": asdict(measured)})

    def left(self, plan: Plan) -> Plan:
        """The part of a plan that is not done: its tests, and the runs that they or a picture still need."""
        tests = tuple(test for test in plan.tests if self.measured(test) is None)
        runs = tuple(run for run in plan.runs if self.trained(run) is None)
        return Plan(plan.scale, plan.entries, runs, tests, plan.left_out, plan.wanted)

    def rate(self, kind: str, default: float) -> float:
        """Seconds a photograph took here so far (`kind`: runs or tests), or the default where nothing is done."""
        records = self.folder.glob(f"{RUNS}/*/done.json" if kind == RUNS else f"{TESTS}/*.json")
        contents = [json.loads(path.read_text(encoding="utf-8")) for path in records]
        contents = [content.get("measured", content) for content in contents]
        photographs = sum(content["photographs"] for content in contents)
        return sum(content["seconds"] for content in contents) / photographs if photographs else default

    def value(self, tests: Sequence[Test]) -> Value | None:
        """The cell that these tests (one a fold) make; None until all are done."""
        found = [self.measured(test) for test in tests]
        done = [measured for measured in found if measured is not None]
        if not done or len(done) < len(found):
            return None
        seeds = [100 * fmean(folds) for folds in zip(*(measured.miou for measured in done), strict=True)]
        spread = stdev(seeds) if len(seeds) > 1 else None
        # Folds are independent: the deviations of their mean add up in squares.
        half = 100 * math.sqrt(sum(measured.half_interval**2 for measured in done)) / len(done)
        return Value(fmean(seeds), spread, half)

    def _test_path(self, test: Test) -> Path:
        return self.folder / TESTS / f"{test.key}.json"


def fill(table: Table, planner: Planner, results: Results) -> dict[str, tuple[Value | None, ...]]:
    """Our figures: row label -> one value a column."""
    return {
        row.label: tuple(results.value(planner.cell(row, column)) for column in table.columns)
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


def _write(path: Path, content: object) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

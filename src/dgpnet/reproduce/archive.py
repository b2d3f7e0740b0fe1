"""A folder with what is done: `runs/<key>/` for each trained network and `tests/<key>.json` for each test.

What is damaged counts as not there: what it stands for is done again. Several commands may work in one folder: each
record is written whole, and a run is worked on by whoever holds its lock.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dgpnet.files import atomic, lock, make_folder, read_record, write_record
from dgpnet.reproduce.plan import Plan, PlannedRun, PlannedTest
from dgpnet.training.config import TrainConfig
from dgpnet.training.run import CONFIG

#: Its folders.
RUNS, TESTS = "runs", "tests"
#: In a run's folder, beside the lock that training itself takes: held while the run is trained and tested.
LOCK = ".reproduce.lock"


@dataclass(frozen=True)
class Finding:
    """The outcome of one test: mIoU in [0, 1] of each seed, and the half width of the first's 95 % interval."""

    miou: tuple[float, ...]
    fb_iou: tuple[float, ...]
    half_interval: float
    seconds: float
    photographs: float


class Archive:
    """A folder with what has been done so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_folder(self, run: PlannedRun) -> Path:
        """Where a run is trained."""
        return self.folder / RUNS / run.key

    def alone(self, run: PlannedRun) -> AbstractContextManager[None]:
        """Keeps other commands from a run; InUse where one is at it."""
        folder = self.run_folder(run)
        make_folder(folder)
        return lock(folder / LOCK, str(folder))

    def trained(self, run: PlannedRun) -> Path | None:
        """The network of a run that is done."""
        folder = self.run_folder(run)
        model = (read_record(folder / "done.json") or {}).get("model")
        return folder / model if isinstance(model, str) and (folder / model).is_file() else None

    def move(self, run: PlannedRun) -> None:
        """Let a run that was begun with data or weights in other places, which do not matter, go on from this one's."""
        path = self.run_folder(run) / CONFIG
        try:
            begun = TrainConfig.from_json(path.read_bytes().decode())
        except (OSError, ValueError):  # not begun, or damaged: training will say so
            return
        if begun != run.config and replace(run, config=begun).key == run.key:
            with atomic(path, sync=True) as temporary:
                temporary.write_text(run.config.to_json(), encoding="utf-8")

    def record_run(self, run: PlannedRun, model: Path, seconds: float) -> None:
        """Mark a run as done."""
        folder = self.run_folder(run)
        content = {
            "model": str(model.relative_to(folder)),
            "run": run.describe(),
            "seconds": seconds,
            "photographs": run.photographs,
        }
        write_record(folder / "done.json", content)

    def finding(self, test: PlannedTest) -> Finding | None:
        """The outcome of a test that is done."""
        try:
            content = (read_record(self._test_path(test)) or {})["measured"]
            return Finding(tuple(content.pop("miou")), tuple(content.pop("fb_iou")), **content)
        except (KeyError, TypeError, AttributeError):
            return None

    def record_test(self, test: PlannedTest, finding: Finding) -> None:
        """Keep the outcome of a test."""
        path = self._test_path(test)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {**test.about(), "run": test.run.key, "network": test.run.describe()}
        write_record(path, {**about, "measured": asdict(finding)})

    def left(self, plan: Plan) -> Plan:
        """The part of a plan that is not done: its tests, and the runs that they or a picture still need."""
        tests = tuple(test for test in plan.tests if self.finding(test) is None)
        runs = tuple(run for run in plan.runs if self.trained(run) is None)
        return Plan(plan.scale, plan.exhibits, runs, tests, plan.left_out, plan.wanted)

    def rate(self, kind: str, default: float) -> float:
        """Seconds a photograph took here so far (`kind`: runs or tests), or the default where nothing is done."""
        records = map(read_record, self.folder.glob(f"{RUNS}/*/done.json" if kind == RUNS else f"{TESTS}/*.json"))
        found = [record.get("measured", record) for record in records if record]
        photographs, seconds = (sum(content.get(name, 0.0) for content in found) for name in ("photographs", "seconds"))
        return seconds / photographs if photographs else default

    def _test_path(self, test: PlannedTest) -> Path:
        return self.folder / TESTS / f"{test.key}.json"

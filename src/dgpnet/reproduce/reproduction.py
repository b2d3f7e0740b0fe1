"""The whole way from names of tables to files: plan, work, write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgpnet import pictures, weights
from dgpnet.benchmark import bench, report
from dgpnet.errors import Error
from dgpnet.evaluation import Contender, episode_grid, varied_episodes
from dgpnet.files import InUse, lock
from dgpnet.reproduce import render, work
from dgpnet.reproduce.archive import Archive
from dgpnet.reproduce.plan import Plan, Planner
from dgpnet.reproduce.tables import EXHIBITS, Exhibit, Grid, Runtimes, Table
from dgpnet.reproduce.work import Say, Worker
from dgpnet.training import Running

#: The folder that finished tables go to.
TABLES = "tables"


@dataclass(frozen=True)
class Reproduction:
    """Tables and figures of the paper in one folder: `tables/`, `runs/`, `tests/`, and `README.md` that shows them all.

    command: what a reader types to get the same.
    """

    planner: Planner
    out: Path
    command: str
    running: Running
    say: Say

    @property
    def archive(self) -> Archive:
        """What is done so far."""
        return Archive(self.out)

    def plan(self, exhibits: Sequence[Exhibit]) -> Plan:
        """What `exhibits` need."""
        return self.planner.plan(exhibits)

    def work(self, exhibits: Sequence[Exhibit]) -> list[str]:
        """Do what is left for `exhibits` and write them; returns a sentence for each failure."""
        plan = self.plan(exhibits)
        work.verify(plan, self.archive)
        self.out.mkdir(parents=True, exist_ok=True)
        worker = Worker(self.archive, self.running, self.say)
        failures = worker.work(
            plan, done=lambda run: self.write_tables([e for e in exhibits if run in self.planner.runs(e)])
        )
        self.write_tables(exhibits)
        for exhibit in exhibits:
            try:
                if isinstance(exhibit, Grid):
                    self.write_grid(exhibit, worker)
                elif isinstance(exhibit, Runtimes):
                    self.write_runtimes(exhibit, worker)
            except (Error, RuntimeError, OSError) as problem:
                failures.append(f"{exhibit.name}: {problem}")
                self.say(f"failed: {exhibit.name}: {problem}")
        self.write_index()
        return failures

    def write_tables(self, exhibits: Sequence[Exhibit]) -> None:
        """Every table among `exhibits` of which at least one cell is known."""
        for exhibit in exhibits:
            if isinstance(exhibit, Table):
                one = render.filled(exhibit, self.planner, self.archive)
                if one.begun:
                    render.write(one, self.out / TABLES, self.command)

    def write_grid(self, grid: Grid, worker: Worker) -> None:
        """A qualitative figure, once its networks are trained."""
        tests = self.planner.grid(grid)
        models = [self.archive.trained(test.run) for test in tests]
        trained = [model for model in models if model is not None]
        if len(trained) < len(models):
            return
        first = tests[0]
        dataset = work.open_test(first, first.run.config.network.size, self.running.cache)
        folder = self.out / TABLES
        folder.mkdir(parents=True, exist_ok=True)
        contenders = [
            Contender(model.title, weights.load(path, device=worker.device), model.shots)
            for model, path in zip(grid.models, trained, strict=True)
        ]
        episodes = varied_episodes(dataset, max(model.shots for model in grid.models), grid.episodes)
        picture = episode_grid(contenders, dataset, episodes, uncertainty=grid.uncertainty)
        pictures.save(picture, folder / f"{grid.name}.png")
        text = render.grid_markdown(grid, self.planner.setup(grid), self.command)
        render.write_text(folder / f"{grid.name}.md", text)

    def write_runtimes(self, exhibit: Runtimes, worker: Worker) -> None:
        """The run-time table, measured by the benchmark; by one command at a time, as they would slow each other."""
        try:
            with lock(self.out / ".runtimes.lock", exhibit.name):
                self._measure(exhibit, worker)
        except InUse:
            self.say(f"{exhibit.name}: another command is measuring them")

    def _measure(self, exhibit: Runtimes, worker: Worker) -> None:
        workload = bench.workload_for(worker.device, quick=worker.device.type == "cpu")
        found = bench.run(workload, self.out / TABLES / exhibit.name, sections=("machine", "runtimes"), say=self.say)
        text = report.markdown(found, self.command).replace("# Speed", "## Speed", 1)
        render.write_text(self.out / TABLES / f"{exhibit.name}.md", text)
        render.write_text(self.out / TABLES / f"{exhibit.name}.json", json.dumps(found, indent=1) + "\n")

    def write_index(self) -> None:
        """One page that shows every table written so far, in the paper's order."""
        pages = [self.out / TABLES / f"{name}.md" for name in EXHIBITS]
        texts = [page.read_text(encoding="utf-8") for page in pages if page.is_file()]
        joined = "\n".join(text.replace("](", f"]({TABLES}/") for text in texts)
        render.write_text(self.out / "README.md", f"# The paper's tables, ours beside theirs\n\n{joined}")

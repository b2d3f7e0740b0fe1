"""Doing what a plan asks for: train, test, keep; what fails is said and the rest goes on.

Commands that work in one folder divide the runs: each takes those that nobody else is at.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from dgpnet import data, weights
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.evaluation import EvaluationOptions, evaluate
from dgpnet.files import InUse
from dgpnet.reproduce.archive import RUNS, TESTS, Archive, Finding
from dgpnet.reproduce.plan import Plan, PlannedRun, PlannedTest
from dgpnet.training import NonFinite, Running, train

Say = Callable[[str], None]

#: Seconds a photograph of 384² takes to train on and to test with on one H200, until a folder knows better.
TRAIN_SECONDS, TEST_SECONDS = 0.0019, 0.0015
#: Seconds between looks at the runs that other commands are at.
BETWEEN_LOOKS = 2.0


@dataclass(frozen=True)
class Cost:
    """What is left to do, and how long it will take."""

    runs: int
    tests: int
    train_seconds: float
    test_seconds: float

    def __str__(self) -> str:
        total = self.train_seconds + self.test_seconds
        return (
            f"{self.runs} networks to train ({duration(self.train_seconds)}), {self.tests} tests "
            f"({duration(self.test_seconds)}): about {duration(total)}"
        )


def cost(plan: Plan, archive: Archive) -> Cost:
    """Of what is not done yet: by the speed seen in the folder so far, or else that of one H200."""
    left = archive.left(plan)
    training = sum(run.photographs for run in left.runs) * archive.rate(RUNS, TRAIN_SECONDS)
    testing = sum(test.photographs for test in left.tests) * archive.rate(TESTS, TEST_SECONDS)
    return Cost(len(left.runs), len(left.tests), training, testing)


def duration(seconds: float) -> str:
    """In the unit that people would use."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def describe(plan: Plan, archive: Archive) -> list[str]:
    """The plan in words: what is trained and tested, what is done already, what is left out, what it costs."""
    lines = [f"Scale {plan.scale.name}: {', '.join(exhibit.name for exhibit in plan.exhibits)}"]
    tests = by_run(plan.tests)
    for run in plan.runs:
        state = "done" if archive.trained(run) else "to train"
        own = tests.get(run.key, [])
        done = sum(archive.finding(test) is not None for test in own)
        lines.append(f"  {run.key}  {state:8}  tests {done}/{len(own)}  {run.describe()}")
    if plan.wanted > len(plan.runs):
        lines.append(f"{plan.wanted - len(plan.runs)} further uses of these networks are shared between tables")
    lines += [f"Note: {reason}" for reason in plan.left_out]
    if plan.runs and not any(run.weights for run in plan.runs) and plan.scale.name != "synthetic":
        lines.append("Note: no --encoder-weights: image encoders start at random, which the paper's do not")
    lines.append(f"Left to do: {cost(plan, archive)}")
    return lines


def verify(plan: Plan, archive: Archive) -> None:
    """Refuse, before any work, what is left of a plan where its data are missing or too few."""
    left = archive.left(plan)
    sources = {repr((s, run.config.shots)): (s, run.config.shots) for run in left.runs for s in run.config.sources}
    for source, shots in sources.values():
        dataset = data.build(source.dataset, source.root or None, fold=source.fold, split="train", **source.options)
        data.trainable(dataset, max(shots))
    hardest: dict[str, PlannedTest] = {}
    for test in left.tests:
        place = repr((test.dataset, test.root, test.fold, test.classes, test.options))
        if place not in hardest or hardest[place].shots < test.shots:
            hardest[place] = test
    for test in hardest.values():
        data.check(_open(test), test.shots)


@dataclass(frozen=True)
class Worker:
    """Carries out plans in one folder."""

    archive: Archive
    running: Running
    say: Say

    def work(self, plan: Plan, done: Callable[[PlannedRun], None] | None = None) -> list[str]:
        """Train and test all that is left; returns a sentence for each failure. `done` hears of each finished run.

        What other commands are at is gone past, and come back to until it is done: by them, or here if they were ended.
        """
        failures: list[str] = []
        tests = by_run(self.archive.left(plan).tests)
        left = [run for run in plan.runs if run.key in tests or self.archive.trained(run) is None]
        headings = {run.key: f"[{n}/{len(left)}] {run.key}: {run.describe()}" for n, run in enumerate(left, 1)}
        told = False
        while left:
            held = []
            for run in left:
                try:
                    with self.archive.alone(run):
                        failures += self._finish(run, tests.get(run.key, []), headings[run.key], done)
                except InUse:
                    held.append(run)
            if len(held) == len(left):
                if not told:
                    whose = "network that another command is" if len(held) == 1 else "networks that other commands are"
                    self.say(f"waiting for {len(held)} {whose} training")
                told = True
                time.sleep(BETWEEN_LOOKS)
            left = held
        return failures

    def _finish(
        self, run: PlannedRun, tests: list[PlannedTest], heading: str, done: Callable[[PlannedRun], None] | None
    ) -> list[str]:
        """Train and test what is left by now of a run that nobody else is at; a sentence where that fails."""
        left = [test for test in tests if self.archive.finding(test) is None]
        if not left and self.archive.trained(run) is not None:
            return []  # another command did it meanwhile
        self.say(heading)
        try:
            model = self.train(run)
            for group in together(left):
                self.test(model, group)
        except (Error, NonFinite, RuntimeError, OSError) as problem:
            self.say(f"failed: {problem}")
            return [f"{run.key} ({run.describe()}): {problem}"]
        if done is not None:
            done(run)
        return []

    def train(self, run: PlannedRun) -> Path:
        """The run's network, trained now unless it is there."""
        found = self.archive.trained(run)
        if found is not None:
            return found
        folder = self.archive.run_folder(run)
        running = replace(self.running, pictures_every=0, checkpoint_every=max(500, run.config.iterations // 10))
        self.archive.move(run)
        begin = time.perf_counter()
        model = train(run.config, folder, running)
        self.archive.record_run(run, model, time.perf_counter() - begin)
        # A finished run needs no way back, and its optimiser state is three times the network.
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return model

    def test(self, model: Path, tests: list[PlannedTest]) -> None:
        """Measure tests that differ in their shots only, in one go."""
        first = tests[0]
        config = first.run.config
        network = weights.load(model, device=self.device)
        dataset = open_test(first, config.network.size, self.running.cache)
        options = EvaluationOptions(
            shots=tuple(test.shots for test in tests),
            episodes=first.episodes,
            seeds=tuple(range(first.seeds)),
            precision=config.precision,
        )
        begin = time.perf_counter()
        found = evaluate(network, dataset, options)
        seconds = time.perf_counter() - begin
        photographs = sum(test.photographs for test in tests)
        for test in tests:
            shot = found.shots[test.shots]
            low, high = shot.interval
            finding = Finding(
                miou=tuple(scores.miou for scores in shot.seeds.values()),
                fb_iou=tuple(scores.fb_iou for scores in shot.seeds.values()),
                half_interval=(high - low) / 2,
                seconds=seconds * test.photographs / photographs,
                photographs=test.photographs,
            )
            self.archive.record_test(test, finding)
            self.say(f"    {test.dataset} fold {test.fold}, {test.shots}-shot: {100 * shot.miou.mean:.1f} mIoU")

    @property
    def device(self) -> torch.device:
        """Where networks are tested."""
        return find_device(self.running.device)


def by_run(tests: Iterable[PlannedTest]) -> dict[str, list[PlannedTest]]:
    """Tests by the key of the run that they measure."""
    found: dict[str, list[PlannedTest]] = {}
    for test in tests:
        found.setdefault(test.run.key, []).append(test)
    return found


def together(tests: Iterable[PlannedTest]) -> list[list[PlannedTest]]:
    """Tests grouped so that those of one group differ in their shots only."""

    def same(test: PlannedTest) -> tuple[object, ...]:
        return test.dataset, test.fold, test.classes, test.episodes, test.seeds

    return [list(group) for _, group in groupby(sorted(tests, key=same), key=same)]


def open_test(test: PlannedTest, size: int, cache: Path | None) -> data.Dataset:
    """The photographs that a test draws from, at the network's size."""
    return _open(test, size=size, cache=cache)


def _open(test: PlannedTest, **how: Any) -> data.Dataset:
    classes = list(test.classes) or None
    return data.build(
        test.dataset, test.root or None, fold=test.fold, split="test", classes=classes, **how, **test.options
    )

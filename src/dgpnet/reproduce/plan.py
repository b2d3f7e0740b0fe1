"""From tables to the least work that fills them: which networks to train, which episodes to test, what it costs.

A run is known by a hash of all that decides its outcome (paths do not), so that tables which need the same network
share it, and a folder that holds its result already is not worked on again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dgpnet.data import DATASETS
from dgpnet.errors import Error
from dgpnet.files import file_digest
from dgpnet.reproduce.scales import Scale, Setup
from dgpnet.reproduce.tables import Changes, Column, Exhibit, Grid, Row, Table
from dgpnet.training.config import Source, TrainConfig, plain, recipe, with_settings
from dgpnet.weights import read_encoder

#: Hexadecimal digits of a run's name: enough for every run that anybody will ever make.
KEY = 12


@dataclass(frozen=True)
class EncoderFile:
    """ImageNet weights of one encoder: where they lie, what they are whatever the file is called, their strides."""

    path: str
    digest: str
    stride_on: str


@dataclass(frozen=True)
class Places:
    """Where data and encoder weights lie on this machine.

    roots: folder by dataset; the one under "" serves all others
    weights: by encoder
    """

    roots: Mapping[str, str]
    weights: Mapping[str, EncoderFile]

    def root(self, dataset: str) -> str:
        """The folder of a dataset; empty where none was given."""
        return self.roots.get(dataset, self.roots.get("", ""))

    def can_start(self, encoder: str) -> bool:
        """Whether a network with this encoder starts as it should: from weights, or at random like all others."""
        return not self.weights or encoder in self.weights


def places(roots: Sequence[str] = (), weights: Sequence[str | Path] = (), *, allow_pickle: bool = False) -> Places:
    """Places from `DIR` or `dataset=DIR`, and from files or folders of encoder weights, which say whose they are."""
    folders = dict(_named(text) for text in roots)
    for path in (*folders.values(), *weights):
        if not Path(path).exists():
            raise Error(
                f"{path} does not exist: give the folder of the data with --root, weights with --encoder-weights."
            )
    found = {}
    for path in weights:
        read = read_encoder(path, allow_pickle=allow_pickle)
        found[read.name] = EncoderFile(str(path), digest(Path(path)), read.stride_on)
    return Places(folders, found)


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    return (name, path) if equals and name in DATASETS else ("", text)


def digest(path: Path) -> str:
    """Short hash of a file's content, or of all files in a folder."""
    found = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        found.update(bytes.fromhex(file_digest(file)))
    return found.hexdigest()[:KEY]


@dataclass(frozen=True)
class PlannedRun:
    """One network to train. `weights` is the digest of the encoder weights that it starts from."""

    config: TrainConfig
    weights: str = ""

    @cached_property
    def key(self) -> str:
        """The run's name: equal for equal outcomes."""
        content = plain(self.config)
        content["encoder_weights"] = self.weights
        for source in content["sources"]:
            source["root"] = ""
        return _hash(content)

    @property
    def photographs(self) -> float:
        """How many photographs of 384² go through the network."""
        config = self.config
        shots = sum(config.shots) / len(config.shots)
        return config.iterations * config.episodes * (shots + 1) * (config.network.size / 384) ** 2

    def describe(self) -> str:
        """One line for the plan."""
        config, network = self.config, self.config.network
        variant = ", ".join(_differences(plain(network), plain(TrainConfig().network)))
        source = config.sources[0]
        return (
            f"{source.dataset} without fold {source.fold}, {'/'.join(map(str, config.shots))}-shot, "
            f"{config.iterations:,} iterations, {network.encoder}{f' ({variant})' if variant else ''}"
            f"{f', seed {config.seed}' if config.seed else ''}"
        )


@dataclass(frozen=True)
class PlannedTest:
    """Episodes on which a run is measured; `seeds` draws of them."""

    run: PlannedRun
    dataset: str
    root: str
    fold: int
    classes: tuple[str, ...]
    shots: int
    episodes: int
    seeds: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The test's name."""
        return _hash({"run": self.run.key, **self.about()})

    def about(self) -> dict[str, Any]:
        """What is tested, as JSON values."""
        names = ("dataset", "fold", "classes", "shots", "episodes", "seeds", "options")
        return {name: plain(getattr(self, name)) for name in names}

    @property
    def photographs(self) -> float:
        """How many photographs of 384² go through the network."""
        return self.episodes * self.seeds * (self.shots + 1) * (self.run.config.network.size / 384) ** 2


@dataclass(frozen=True)
class Plan:
    """What to do for some exhibits: each run and each test once, and what the scale or the weights leave out."""

    scale: Scale
    exhibits: tuple[Exhibit, ...]
    runs: tuple[PlannedRun, ...]
    tests: tuple[PlannedTest, ...]
    left_out: tuple[str, ...]
    wanted: int
    """Runs that the tables ask for, counted once for each table: more than there are where tables share."""


@dataclass(frozen=True)
class Planner:
    """Makes runs and tests for the cells of tables."""

    scale: Scale
    places: Places
    settings: tuple[str, ...] = ()
    """`field=value` changes to every training configuration."""

    def plan(self, exhibits: Iterable[Exhibit]) -> Plan:
        """The work for `exhibits`."""
        exhibits = tuple(exhibits)
        runs: dict[str, PlannedRun] = {}
        tests: dict[str, PlannedTest] = {}
        left_out: dict[str, list[str]] = {}
        wanted = 0
        for exhibit in exhibits:
            own = {run.key: run for run in self.runs(exhibit)}
            wanted += len(own)
            runs |= own
            tests |= {test.key: test for test in self._tests(exhibit)}
            for reason in self._left_out(exhibit):
                left_out.setdefault(reason, []).append(exhibit.name)
        reasons = tuple(f"{reason} ({', '.join(names)})" for reason, names in left_out.items())
        return Plan(self.scale, exhibits, tuple(runs.values()), tuple(tests.values()), reasons, wanted)

    def cell(self, row: Row, column: Column) -> tuple[PlannedTest, ...]:
        """The tests, one for each fold and training, whose mean is the cell; none where it is not ours to fill."""
        setup = self.scale.setups.get(column.benchmark)
        if row.changes is None or setup is None or not self._encodable(row.changes):
            return ()
        if column.fold is not None and column.fold not in setup.folds:
            return ()
        folds = setup.folds if column.fold is None else (column.fold,)
        return tuple(
            self.test(setup, fold, column.shots, row.changes, training)
            for fold in folds
            for training in range(self.scale.trainings)
        )

    def setup(self, grid: Grid) -> Setup:
        """What a grid shows: its own benchmark, or the first of the scale where that one is not part of it."""
        return self.scale.setups.get(grid.benchmark) or next(iter(self.scale.setups.values()))

    def grid(self, grid: Grid) -> tuple[PlannedTest, ...]:
        """The networks of a grid, in the order of its models, with the episodes that it shows."""
        setup = self.setup(grid)
        fold = setup.folds[0]
        tests = (self.test(setup, fold, model.shots, model.changes) for model in grid.models)
        return tuple(replace(test, episodes=grid.episodes, seeds=1) for test in tests)

    def test(self, setup: Setup, fold: int, shots: int, changes: Changes, training: int = 0) -> PlannedTest:
        """The test of the network with `changes` on one fold; of all its trainings on the same episodes."""
        run = self.run(setup, fold, self.scale.trained_at(shots), changes, training)
        root = self.places.root(setup.test_on)
        return PlannedTest(
            run=run,
            dataset=setup.test_on,
            root=root,
            fold=fold,
            classes=setup.classes.get(fold, ()),
            shots=shots,
            episodes=setup.episodes,
            seeds=self.scale.seeds,
            options=setup.options,
        )

    def run(self, setup: Setup, fold: int, shots: int, changes: Changes, training: int = 0) -> PlannedRun:
        """A training of the network with `changes`: the paper's recipe without the classes of `fold`.

        training: counted from 0, whose seed is the configuration's own.
        """
        base = recipe("paper", setup.train_on)
        network = base.network.but(**{**changes, **self.scale.network, "size": setup.size})
        weights = self.places.weights.get(network.encoder)
        if weights is not None:
            network = network.but(stride_on=weights.stride_on)
        root = self.places.root(setup.train_on)
        config = replace(
            base,
            sources=(Source(setup.train_on, root, fold=fold, options=setup.options),),
            network=network,
            encoder_weights=weights.path if weights else "",
            shots=(shots,),
            iterations=setup.iterations,
            episodes=self.scale.batch,
        )
        config = with_settings(config, self.settings)
        config = replace(config, seed=config.seed + training)
        return PlannedRun(config, weights.digest if weights else "")

    def runs(self, exhibit: Exhibit) -> Iterable[PlannedRun]:
        """The networks that an exhibit needs, some of them more than once."""
        tests = self.grid(exhibit) if isinstance(exhibit, Grid) else self._tests(exhibit)
        return (test.run for test in tests)

    def _tests(self, exhibit: Exhibit) -> Iterable[PlannedTest]:
        if not isinstance(exhibit, Table):
            return ()
        return (test for row in exhibit.rows for column in exhibit.columns for test in self.cell(row, column))

    def _encodable(self, changes: Changes) -> bool:
        encoder = {**changes, **self.scale.network}.get("encoder", "resnet50")
        return self.places.can_start(encoder)

    def _left_out(self, exhibit: Exhibit) -> Iterable[str]:
        if isinstance(exhibit, Grid) and exhibit.benchmark not in self.scale.setups:
            yield f"{exhibit.benchmark} is not part of scale {self.scale.name}: shown on {self.setup(exhibit).title}"
        if not isinstance(exhibit, Table):
            return
        for name in dict.fromkeys(column.benchmark for column in exhibit.columns):
            if name not in self.scale.setups:
                yield f"{name} is not part of scale {self.scale.name}: columns left out"
        ours = [row.changes for row in exhibit.rows if row.changes is not None]
        for encoder in dict.fromkeys(changes.get("encoder", "resnet50") for changes in ours):
            if not self._encodable({"encoder": encoder}):
                yield f"rows with {encoder} left out: they need its ImageNet weights (--encoder-weights)"


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:KEY]


def _differences(config: Mapping[str, Any], default: Mapping[str, Any]) -> Iterable[str]:
    return (
        f"{name} {value}"
        for name, value in config.items()
        if value != default[name] and name not in ("encoder", "size", "stride_on")
    )

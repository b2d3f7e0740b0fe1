"""How large a reproduction is: which data, how many folds, iterations, episodes and seeds stand behind each benchmark.

`full` is the paper's own. `mini` is what the PASCAL-5i-mini shards allow in minutes on one GPU. `synthetic` needs no
data and runs on a laptop: it shows the machinery, its figures mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dgpnet.errors import Error
from dgpnet.reproduce.tables import Changes

#: Of PASCAL and of COCO.
FOLDS = (0, 1, 2, 3)


@dataclass(frozen=True)
class Setup:
    """What stands behind one of the paper's benchmarks.

    train_on, test_on: names that `data.build` knows
    classes: the tested classes' names by fold, where not all have enough photographs, and a fold without any is not
        there; empty for all classes of every fold
    options: what the dataset takes beyond root and fold
    """

    title: str
    train_on: str
    test_on: str
    folds: tuple[int, ...]
    iterations: int
    episodes: int
    size: int
    classes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def with_folds(self, folds: tuple[int, ...]) -> Setup:
        """The same on other folds."""
        absent = [fold for fold in folds if self.classes and fold not in self.classes]
        if absent:
            raise Error(
                f"{self.title} has no classes with enough photographs in fold {', '.join(map(str, absent))}: "
                f"choose --folds from {','.join(map(str, self.classes))}."
            )
        return replace(self, folds=folds)


@dataclass(frozen=True)
class Scale:
    """Benchmarks by the paper's name for them, and what all runs have in common.

    seeds: draws of the test episodes for each trained network
    trainings: networks trained for each fold of a cell, from seeds that follow one another
    five_shot_models: 2 to 10 shots are tested with a network trained at 5 (the paper), or with the one trained at 1
    network: changes to every configuration
    """

    name: str
    setups: Mapping[str, Setup]
    seeds: int
    five_shot_models: bool
    batch: int = 8
    trainings: int = 1
    network: Changes = field(default_factory=dict)

    def trained_at(self, shots: int) -> int:
        """The shots at which the network that is tested with `shots` was trained."""
        return 5 if self.five_shot_models and shots > 1 else 1

    def changed(
        self,
        *,
        iterations: int | None = None,
        episodes: int | None = None,
        folds: tuple[int, ...] | None = None,
        seeds: int | None = None,
        trainings: int | None = None,
    ) -> Scale:
        """The same scale with some numbers replaced in all of its benchmarks."""
        counts = {"iterations": iterations, "episodes": episodes, "seeds": seeds, "trainings": trainings}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise Error(f"The option --{name} must be at least 1, got {value}.")
        if folds is not None and (not folds or not set(folds) <= set(FOLDS)):
            raise Error(f"The option --folds takes numbers out of 0,1,2,3, got {','.join(map(str, folds)) or 'none'}.")
        setups = {
            name: replace(
                setup.with_folds(folds or setup.folds),
                iterations=iterations or setup.iterations,
                episodes=episodes or setup.episodes,
            )
            for name, setup in self.setups.items()
        }
        return replace(self, setups=setups, seeds=seeds or self.seeds, trainings=trainings or self.trainings)


FULL = Scale(
    "full",
    {
        "pascal": Setup("PASCAL-5i", "pascal", "pascal", FOLDS, 20_000, 5_000, 384),
        "coco": Setup("COCO-20i", "coco", "coco", FOLDS, 40_000, 20_000, 512),
        "coco2pascal": Setup("COCO→PASCAL", "coco", "coco2pascal", FOLDS, 40_000, 5_000, 512),
    },
    seeds=5,
    five_shot_models=True,
)

MINI = Scale(
    "mini",
    {
        "pascal": Setup(
            "PASCAL-5i-mini",
            "pascal",
            "pascal",
            (1,),
            1_500,
            1_000,
            384,
            MappingProxyType({1: ("cat", "chair", "cow"), 2: ("dog", "horse", "person"), 3: ("sheep", "sofa")}),
        )
    },
    seeds=1,
    five_shot_models=False,
)

SYNTHETIC = Scale(
    "synthetic",
    {
        "pascal": Setup(
            "synthetic shapes", "synthetic", "synthetic", (0,), 20, 16, 64, options={"photographs": 200, "side": 64}
        )
    },
    seeds=1,
    five_shot_models=False,
    batch=2,
    network=MappingProxyType({"encoder": "resnet18", "features": 32, "encodings": 8, "decoder_width": 16}),
)

SCALES: Mapping[str, Scale] = MappingProxyType({scale.name: scale for scale in (MINI, FULL, SYNTHETIC)})


def named(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise Error(f"No scale is called {name!r}: choose from {', '.join(SCALES)}.")
    return SCALES[name]

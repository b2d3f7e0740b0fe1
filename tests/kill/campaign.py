"""Commands that are killed at random times, started again, and must come to what an undisturbed one comes to.

The commands run in children of a process that has imported everything once, so that kills fall into their work.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import lightning_fabric  # noqa: F401 - commands import it late, and kills should fall into their work
import torch
import torch.utils.tensorboard

import dgpnet.segmenter.folder
import dgpnet.training.loop  # noqa: F401
from dgpnet import cli
from dgpnet.evaluation import run
from dgpnet.network.encoders import ENCODERS
from tests.training.tiny import TinyEncoder

#: Seconds after which a command counts as hanging.
PATIENCE = 120
#: Kills of one job at the most; then it is left to end, and the next job begins anew.
KILLS_OF_A_JOB = 8


@dataclass(frozen=True)
class Campaign:
    """prepare: puts what the command starts from into an empty folder. words: the command, for that folder.
    outcome: what it left there, to compare."""

    prepare: Callable[[Path], object]
    words: Callable[[Path], Sequence[str]]
    outcome: Callable[[Path], object]

    def kill(self, folder: Path, kills: int, seed: int) -> None:
        """Undisturbed first; then jobs with kills at any time until there were so many, each equal to the first."""
        ended(start(["--version"], folder / "said"), folder)  # the first one waits for the imports
        expected, seconds = self._undisturbed(folder / "whole")
        lots, left, job = random.Random(seed), kills, 0
        while left > 0:
            place = folder / f"killed-{job}"
            left -= self._killed(place, min(left, KILLS_OF_A_JOB), seconds, lots)
            assert self.outcome(place) == expected, f"job {job} differs from the undisturbed one: {place}"
            assert not [path for path in place.rglob(".*.part*")], "half-written files are left"
            shutil.rmtree(place)
            job += 1

    def _undisturbed(self, place: Path) -> tuple[object, float]:
        """What the command comes to, and how many seconds it takes."""
        self._prepare(place)
        began = time.monotonic()
        ended(start(self.words(place), place / "said"), place)
        return self.outcome(place), time.monotonic() - began

    def _killed(self, place: Path, most: int, seconds: float, lots: random.Random) -> int:
        """One job, killed until it ends by itself or was killed so often; returns the kills."""
        self._prepare(place)
        for kill in range(most):
            process = start(self.words(place), place / "said")
            process.join(lots.uniform(0, 0.7 * seconds))  # some of the work is done already
            if process.exitcode is not None:
                ended(process, place)
                return kill
            process.kill()
            process.join()
        ended(start(self.words(place), place / "said"), place)
        return most

    def _prepare(self, place: Path) -> None:
        place.mkdir(parents=True)
        self.prepare(place)


def start(words: Sequence[str], said: Path) -> ForkServerProcess:
    """`dgpnet WORDS` in a new process; what it says goes to a file."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_command, args=(list(words), said))
    process.start()
    return process


def ended(process: ForkServerProcess, place: Path) -> None:
    """Wait until the command has done its work."""
    process.join(PATIENCE)
    hangs = process.exitcode is None
    if hangs:
        process.kill()
    assert process.exitcode == 0, f"{'hangs' if hangs else process.exitcode}: {(place / 'said').read_text()[-2000:]}"


def _command(words: list[str], said: Path) -> None:
    """`dgpnet WORDS` in this process; what it says goes to a file."""
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    torch.set_num_threads(1)
    ENCODERS["tiny"] = lambda stride_on: TinyEncoder()
    run.UNIT = 4  # so that much of an evaluation is finished when it is killed
    sys.exit(cli.run(words))

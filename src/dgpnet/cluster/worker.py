"""What a worker does with a chunk of photographs, in whichever process it lives."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.files import record_of
from dgpnet.segmenter.photographs import JOURNALS, RECORD
from dgpnet.segmenter.portable import portable, traveller
from dgpnet.segmenter.rounds import Round
from dgpnet.segmenter.stages import Done, Failed, Plan, Task, Unwritable, told


@dataclass(frozen=True)
class Answer:
    """What became of a chunk. stopped: why no use is in going on, in a sentence; `done` counts all the same."""

    done: tuple[Done, ...] = ()
    failed: tuple[Failed, ...] = ()
    stopped: str | None = None


class Worker:
    """A plan on a device, made once for any number of chunks."""

    def __init__(self, plan: bytes, device: str) -> None:
        """plan: of `packed`. An Error where the device or the output folder is not there."""
        self.plan: Plan = pickle.loads(plan)
        self._check_folder()
        where = find_device(device)
        if where.type == "cuda" and where.index is not None:
            torch.cuda.set_device(where)  # streams, graphs and Triton's kernels are the current device's
        self.stages = self.plan.stages(where)

    def _check_folder(self) -> None:
        """The output folder must be the one that the driver writes to, and not one of that name on another disk."""
        found = Round.of(record_of(self.plan.out.read(f"{RECORD}/{JOURNALS[0]}")) or {})
        if found is None or found.made_with != self.plan.made_with:
            raise Error(
                f"{self.plan.out} is not the same folder on {socket.gethostname()}; give --out a folder that all "
                "machines share, by its full path."
            )

    def work(self, tasks: Sequence[Task], go_on: Callable[[], bool] = lambda: True) -> Answer:
        """Results are on the disk before they are told of. go_on: asked before each photograph."""
        done: list[Done] = []
        failed: list[Failed] = []
        stopped = None
        try:
            self.stages.run(_while(tasks, go_on), done=done.append, failed=failed.append, advance=lambda count: None)
        except Unwritable as error:
            stopped = str(error)
        try:
            if files := [file for one in done for file in one.files]:
                self.plan.out.keep(files)
        except OSError as error:
            done, stopped = [], told(error, self.plan.out)
        return Answer(tuple(replace(one, files=()) for one in done), tuple(failed), stopped)


def _while(tasks: Sequence[Task], go_on: Callable[[], bool]) -> Iterator[Task]:
    for task in tasks:
        if not go_on():
            return
        yield task


def packed(plan: Plan) -> bytes:
    """A plan for any process on any machine."""
    return portable(replace(plan, concept=traveller(plan.concept)))

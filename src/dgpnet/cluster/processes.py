"""A process for each of several devices of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event

import torch

from dgpnet import checks
from dgpnet.cluster.team import Chunk, Report, Team, answered
from dgpnet.cluster.worker import Worker, packed
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.segmenter.stages import Plan

#: Seconds between two looks at whether something has happened.
MOMENT = 0.5


class Processes(Team):
    """A worker process for each device; a device that is named twice has two."""

    def __init__(self, devices: Sequence[str]) -> None:
        """devices: "cuda:0", "cuda:1" …, or "0", "1" …; "cpu", whose threads are shared out among its processes."""
        named = [checks.kind("device", one, str) for one in checks.each("devices", devices)]
        self.devices = [str(find_device(one)) for one in named]
        if not self.devices:
            raise Error("devices is a list of at least one device, like cpu or cuda:0; given none.")
        # A started interpreter and not a fork: neither CUDA nor a pool of threads survives one.
        self._context = multiprocessing.get_context("spawn")
        self._members: list[_Member] = []
        self._halting: Event | None = None

    def open(self, plan: Plan) -> tuple[int, int]:
        self._plan = packed(plan)
        self._halting = self._context.Event()
        self._members = [self._start(device) for device in self.devices]
        return max(plan.batch(torch.device(device).type) for device in self.devices), len(self.devices)

    def _start(self, device: str) -> _Member:
        ours, theirs = self._context.Pipe()
        threads = max(1, torch.get_num_threads() // len(self.devices))
        arguments = (theirs, self._plan, device, threads, self._halting)
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        with _without_interrupts():
            process.start()
        theirs.close()
        return _Member(process, ours, device)

    def free(self) -> bool:
        return any(member.idle for member in self._members)

    def give(self, chunk: Chunk) -> None:
        member = next(member for member in self._members if member.idle)
        member.chunk = chunk
        with suppress(OSError):  # it is dead, which `wait` finds
            member.pipe.send(chunk.tasks)

    def busy(self) -> bool:
        return any(member.chunk is not None for member in self._members)

    def wait(self) -> Sequence[Report]:
        ready = wait([member.pipe for member in self._members], MOMENT)
        reports: list[Report] = []
        for member in [member for member in self._members if member.pipe in ready]:
            try:
                said = member.pipe.recv()
            except (EOFError, OSError):
                reports.append((member.chunk, None))
                member.end()
                place = self._members.index(member)
                self._members[place : place + 1] = [] if self._stopping() else [self._start(member.device)]
                continue
            if answer := answered(said):
                reports.append((member.chunk, answer))
                member.chunk = None
            member.ready = True
        return reports

    def _stopping(self) -> bool:
        return self._halting is not None and self._halting.is_set()

    def halt(self) -> None:
        if self._halting is not None:
            self._halting.set()

    def close(self) -> None:
        self.halt()
        for member in self._members:
            member.end()
        self._members = []


@dataclass
class _Member:
    """A worker process, as the driver knows it. ready: whether it has its model · chunk: what it is at."""

    process: SpawnProcess
    pipe: Connection
    device: str
    ready: bool = False
    chunk: Chunk | None = None

    @property
    def idle(self) -> bool:
        return self.ready and self.chunk is None

    def end(self) -> None:
        self.pipe.close()
        if self.idle:
            self.process.join(1)  # it ends by itself when nobody talks to it any more
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, plan: bytes, device: str, threads: int, halting: Event) -> None:
    """What a worker process does: an answer to every chunk, until nobody asks."""
    torch.set_num_threads(threads)

    def go_on() -> bool:
        parent = multiprocessing.parent_process()
        return not halting.is_set() and parent is not None and parent.is_alive()

    try:
        worker = Worker(plan, device)
        pipe.send(None)
        while True:
            pipe.send(worker.work(pipe.recv(), go_on))
    except (EOFError, BrokenPipeError):
        os._exit(0)
    except Error as error:
        pipe.send(error)
    except Exception:
        pipe.send(traceback.format_exc())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C, which reaches all: the driver ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

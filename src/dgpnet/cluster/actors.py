"""Actors of a Ray cluster, each with the concept on a GPU, or on a few processors where there is none.

Plain actors and not a pipeline of Ray Data: which photographs share a batch, what is done again after a death and
when to stop doing so, and that nothing is told of before it is on the disk, are promises of the job, and Ray Data
leaves none of these to whoever uses it. `Concept.map` is for those who have a dataset of Ray Data.

Workers write to the output folder by themselves, and only what is told of a photograph comes back to the driver.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from dgpnet import checks
from dgpnet.cluster.team import Chunk, Report, Team, answered
from dgpnet.cluster.worker import Answer, Worker, packed
from dgpnet.errors import Error
from dgpnet.segmenter.datasets import found, machines, share_of
from dgpnet.segmenter.stages import Plan, Task, Unwritable

#: Seconds between two looks at whether something has happened, and between two at how large the cluster is.
MOMENT, LOOK = 0.5, 5.0
#: Seconds to wait for a cluster that has room for no worker at all.
PATIENCE = 600.0
#: Bytes of shared memory of a cluster that is started here: plan and answers, and no photographs, go through it.
SHARED = 256 << 20


class Actors(Team):
    """Workers of a Ray cluster, as many as it has room for; where it grows or shrinks meanwhile, more or fewer."""

    def __init__(self, address: str = "auto", *, per_gpu: int = 1, processors: int | None = None) -> None:
        """address: of the cluster ("10.0.0.1:6379"); "local": one of this machine alone, for this job alone; "auto":
        the one that this machine is part of, or else a local one.
        per_gpu: workers that share a GPU; two where reading and writing take longer than the network.
        processors: that a worker takes where there is no GPU; by default PROCESSORS, or PyTorch's threads if fewer.
        """
        self.address = checks.kind("address", address, str)
        self.per_gpu = checks.whole("per_gpu", per_gpu, 1, 64)
        self.processors = None if processors is None else checks.whole("processors", processors, 1, 1024)
        self._members: list[_Member] = []
        self._halting = False
        self._started = False

    def open(self, plan: Plan) -> tuple[int, int]:
        self._ray = found()
        self._halting = False
        if not self._ray.is_initialized():
            connect(self._ray, self.address)
            self._started = True
        self._share = share_of(self._ray, self.per_gpu, self.processors)
        self._plan = self._ray.put(packed(plan))
        self._looked, self._lively = -LOOK, time.monotonic()
        self._look()
        return plan.batch("cuda" if "num_gpus" in self._share else "cpu"), max(1, len(self._members))

    def _room(self) -> int:
        """How many workers the cluster has room for; at least one, which then waits for a machine to come."""
        kind, each = ("GPU", 1 / self.per_gpu) if "num_gpus" in self._share else ("CPU", self._share["num_cpus"])
        return max(1, sum(int(one.get(kind, 0) / each + 1e-6) for one in machines(self._ray)))

    def _look(self) -> None:
        """Start as many workers as there is room for."""
        if self._halting or time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        share = {"num_cpus": 0, **self._share}
        kind = self._ray.remote(_Actor).options(
            max_restarts=0, max_task_retries=0, max_concurrency=2, scheduling_strategy="SPREAD", **share
        )
        for _ in range(self._room() - len(self._members)):
            actor = kind.remote(self._plan, self._share.get("num_cpus"), os.getcwd())
            self._members.append(_Member(actor, actor.prepare.remote()))

    def free(self) -> bool:
        return any(member.idle for member in self._members)

    def give(self, chunk: Chunk) -> None:
        member = next(member for member in self._members if member.idle)
        member.chunk, member.awaited = chunk, member.actor.work.remote(chunk.tasks)

    def busy(self) -> bool:
        return any(member.chunk is not None for member in self._members)

    def wait(self) -> Sequence[Report]:
        self._look()
        awaited = {member.awaited: member for member in self._members if member.awaited is not None}
        ready, _ = self._ray.wait(list(awaited), num_returns=1, timeout=MOMENT) if awaited else ([], [])
        reports: list[Report] = []
        for reference in ready:
            member = awaited[reference]
            try:
                said = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError:
                raise
            except self._ray.exceptions.RayError:  # it died, or its machine, or what it said was lost with that
                reports.append((member.chunk, None))
                self._dismiss(member)
                continue
            member.awaited = None
            if answer := answered(said):
                reports.append((member.chunk, answer))
                member.chunk = None
        if ready or self.busy():
            self._lively = time.monotonic()
        elif time.monotonic() - self._lively > PATIENCE:
            raise Unwritable(f"For {PATIENCE:.0f} seconds no machine of the Ray cluster had room for a worker.")
        return reports

    def _dismiss(self, member: _Member) -> None:
        self._members.remove(member)
        with suppress(Exception):  # it may be dead, or out of reach
            self._ray.kill(member.actor)

    def halt(self) -> None:
        self._halting = True
        for member in list(self._members):
            if member.chunk is None:
                self._dismiss(member)
            else:
                member.actor.halt.remote()

    def close(self) -> None:
        for member in list(self._members):
            self._dismiss(member)
        if self._started:
            self._ray.shutdown()
            self._started = False


@dataclass
class _Member:
    """An actor, as the driver knows it. awaited: what it is asked at present · chunk: what it is at."""

    actor: Any
    awaited: Any
    chunk: Chunk | None = None

    @property
    def idle(self) -> bool:
        return self.awaited is None


class _Actor:
    """A worker in a process of Ray's. What goes wrong is an answer too: Ray knows nothing of our kinds of errors."""

    def __init__(self, plan: bytes, threads: int | None, folder: str) -> None:
        """folder: where the driver is, which relative paths begin at."""
        self._plan = plan
        self._halting = threading.Event()
        if threads is not None:
            torch.set_num_threads(threads)
        with suppress(OSError):
            os.chdir(folder)

    def prepare(self) -> Error | str | None:
        try:
            self._worker = Worker(self._plan, "auto")
        except Error as error:
            return error
        except Exception:
            return traceback.format_exc()
        return None

    def work(self, tasks: tuple[Task, ...]) -> Answer | str:
        try:
            return self._worker.work(tasks, lambda: not self._halting.is_set())
        except Exception:
            return traceback.format_exc()

    def halt(self) -> None:
        self._halting.set()


def connect(ray: Any, address: str) -> None:
    """Join the cluster of this address; see `Actors`."""
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with _same_signals():
        if address != "local":
            try:
                ray.init(address=address, **how)
                return
            except (ConnectionError, ValueError, RuntimeError) as error:
                if address != "auto":
                    raise Error(f"There is no Ray cluster at {address[:100]} ({error!s:.200}); check it.") from error
        # Reached from this machine alone.
        own = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": SHARED}
        ray.init(address="local", **own, **how)


@contextmanager
def _same_signals() -> Iterator[None]:
    """Ray ends the process in its own way where it is asked to terminate; here that is done as for Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)

"""Work in the background that somebody may watch and stop: finding, fitting, exports, imports."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dgpnet.errors import Error
from dgpnet.serving import Problem

#: Jobs that are remembered once they have ended.
REMEMBERED = 50
#: Exports, imports and fits that may run or wait at a time.
MOST = 8
#: Seconds between two words about how far a job is.
PACE = 0.2
#: What ends a job.
ENDED = ("done", "failed", "cancelled")

_log = logging.getLogger("dgpnet.studio")


class Cancelled(Exception):
    """Somebody does not want the job any more."""


@dataclass(eq=False)
class Job:
    """A piece of work. done, total: how far it is · detail: what went wrong · result: plain JSON values."""

    kind: str
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    state: str = "queued"
    done: int = 0
    total: int = 0
    detail: str | None = None
    result: dict[str, Any] | None = None
    began: float = field(default_factory=time.monotonic)
    told: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def ended(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in ENDED

    @property
    def seconds_left(self) -> float | None:
        """How long it will take, going by how long it took so far."""
        if self.state != "running" or not 0 < self.done < self.total:
            return None
        return (time.monotonic() - self.began) / self.done * (self.total - self.done)

    def check(self) -> None:
        """Raise Cancelled where somebody has stopped it."""
        if self.stop.is_set():
            raise Cancelled


class Jobs:
    """All jobs. told: called with each that has changed."""

    def __init__(self, told: Callable[[Job], object]) -> None:
        self._told = told
        self._jobs: dict[str, Job] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._closed = False

    def all(self) -> list[Job]:
        """Those that are remembered, the latest last."""
        with self._lock:
            return list(self._jobs.values())

    def running(self) -> Job | None:
        """One that runs or waits now."""
        return next((job for job in reversed(self.all()) if not job.ended), None)

    def get(self, name: str) -> Job:
        """The job of this id; a Problem where there is none."""
        with self._lock:
            found = self._jobs.get(name)
        if found is None:
            raise Problem(404, "There is no such job.")
        return found

    def add(self, kind: str) -> Job:
        """A job that somebody else drives."""
        job = Job(kind)
        with self._lock:
            ended = [one.id for one in self._jobs.values() if one.ended]
            for name in ended[: max(0, len(self._jobs) - REMEMBERED)]:
                del self._jobs[name]
            self._jobs[job.id] = job
        self._told(job)
        return job

    def start(self, kind: str, work: Callable[[Job], dict[str, Any]]) -> Job:
        """Begin work on a thread of its own; what it returns is the result. A Problem where too much is under way."""
        with self._lock:
            self._threads = {name: one for name, one in self._threads.items() if one.is_alive()}
            if self._closed or len(self._threads) >= MOST:
                raise Problem(503, "Too much is under way already; try again soon.", headers={"retry-after": "5"})
        job = self.add(kind)
        thread = threading.Thread(target=self._run, args=(job, work), name=kind, daemon=True)
        with self._lock:
            self._threads[job.id] = thread
        thread.start()
        return job

    def advance(self, job: Job, done: int, total: int) -> None:
        """Tell how far a job is, not too often."""
        job.done, job.total = done, total
        now = time.monotonic()
        if job.state == "queued":
            job.state, job.began, job.told = "running", now, 0.0
        if now - job.told > PACE:
            job.told = now
            self._told(job)

    def end(
        self, job: Job, state: str = "done", *, detail: str | None = None, result: dict[str, Any] | None = None
    ) -> None:
        """Tell how a job ended."""
        if not job.ended:
            job.detail, job.result, job.state = detail, result, state
            self._told(job)

    def cancel(self, name: str) -> Job:
        """Stop a job, as soon as it notices; one that has ended stays as it is."""
        job = self.get(name)
        job.stop.set()
        return job

    def close(self) -> None:
        """Stop all of them, and wait for a while."""
        with self._lock:
            self._closed = True
            jobs, threads = list(self._jobs.values()), list(self._threads.values())
        for job in jobs:
            job.stop.set()
        for thread in threads:
            thread.join(10)

    def _run(self, job: Job, work: Callable[[Job], dict[str, Any]]) -> None:
        try:
            job.check()
            job.state, job.began = "running", time.monotonic()
            self._told(job)
            self.end(job, result=work(job))
        except Cancelled:
            self.end(job, "cancelled")
        except (Error, Problem) as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            self.end(job, "failed", detail=f"{getattr(error, 'detail', error)} {notes}".strip())
        except OSError as error:
            self.end(job, "failed", detail=f"{error.filename or 'The system'}: {error.strerror or error}.")
        except Exception:
            _log.exception("A job failed")
            self.end(job, "failed", detail="It failed by a fault of the program; the server's terminal says more.")

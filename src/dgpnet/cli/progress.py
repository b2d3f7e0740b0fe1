"""Progress on stderr: a bar on a terminal, a plain line now and then otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(what: str, *, quiet: bool = False, rate: bool = True) -> Iterator[Advance]:
    """Yield `advance(done, total)`, to be called as often as one likes. rate: say how many are done a second."""
    if quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar(what, rate) as advance:
            yield advance
    else:
        yield _lines(what, rate)


@contextmanager
def _bar(what: str, rated: bool) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None, rate="")
        speed = _Speed()

        def advance(done: int, total: int) -> None:
            said = f"{speed.at(done):.1f} a second" if rated else ""
            bar.update(task, completed=done, total=total, rate=said)

        yield advance


def _lines(what: str, rated: bool) -> Advance:
    last = time.monotonic()
    speed = _Speed()

    def advance(done: int, total: int) -> None:
        nonlocal last
        now, rate = time.monotonic(), speed.at(done)
        if done == total or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            left = f", {_duration((total - done) / rate)} left" if done < total and rate > 0 else ""
            said = f" ({rate:.1f} a second{left})" if rated else ""
            print(f"{what}: {done} of {total}{said}", file=sys.stderr, flush=True)

    return advance


class _Speed:
    """How many are done a second, those left out that an earlier run had done."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._first: tuple[float, int] | None = None

    def at(self, done: int) -> float:
        """Now that so many are done."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        start, before = self._first if done > self._first[1] else (self._start, 0)
        return (done - before) / max(now - start, 1e-9)


def _duration(seconds: float) -> str:
    minutes, hours = round(seconds / 60), seconds / 3600
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes} min" if minutes < 100 else f"{hours:.1f} h"

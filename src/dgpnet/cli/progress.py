"""Progress on stderr: a bar on a terminal, a plain line now and then otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Advance]:
    """Yield `advance(done, total)`, to be called as often as one likes."""
    if quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar(what) as advance:
            yield advance
    else:
        yield _lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str) -> Advance:
    start = time.monotonic()
    last = start

    def advance(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            rate = done / max(now - start, 1e-9)
            print(f"{what}: {done} of {total} ({rate:.1f} a second)", file=sys.stderr, flush=True)

    return advance

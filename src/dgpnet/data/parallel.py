"""The same function on many items, in processes."""

import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from dgpnet.files import at_once

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]


def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield (number of the item, result) as they come, in no certain order.

    workers: 1 runs here, None takes the processors there are. An exception in a process is raised here.
    """
    workers = min(at_once() if workers is None else workers, len(items))
    if workers <= 1:
        yield from ((n, function(item)) for n, item in enumerate(items))
        return
    # Fork passes the function (and a dataset of 100,000 names inside it) without pickling it, and starts at once.
    forks = sys.platform == "linux"
    context = multiprocessing.get_context("fork" if forks else None)
    processes: dict[Connection, Any] = {}
    try:
        for w in range(workers):
            receiver, sender = context.Pipe(duplex=False)
            # A fork has our ends of the pipes too. It closes them, so that sending fails when this process is killed;
            # else it would wait for a reader for ever, and keep the locks that it inherited.
            ends = [*processes, receiver] if forks else []
            process = context.Process(target=_work, args=(function, items, w, workers, sender, ends), daemon=True)
            process.start()
            sender.close()
            processes[receiver] = process
        open_ends = set(processes)
        while open_ends:
            for end in wait(list(open_ends)):
                assert isinstance(end, Connection)
                try:
                    number, result, failure = end.recv()
                except EOFError as ended:
                    processes[end].join()
                    if processes[end].exitcode:
                        code = processes[end].exitcode
                        raise RuntimeError(
                            f"A worker process died with exit code {code}; memory may be short."
                        ) from ended
                    open_ends.discard(end)
                    continue
                if failure is not None:
                    raise RuntimeError(f"A worker process failed:\n{failure}")
                yield number, result
    finally:
        for end, process in processes.items():
            end.close()
            process.terminate()
            process.join()


def _work(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    first: int,
    step: int,
    sender: Connection,
    ends: Sequence[Connection],
) -> None:
    """Send (number, result, None) for every `step`-th item, or (number, None, traceback) and stop. ends: to close."""
    for end in ends:
        end.close()
    with suppress(BrokenPipeError):  # nobody listens any more
        _send(function, items, range(first, len(items), step), sender)
    sender.close()


def _send(function: Callable[[Any], Any], items: Sequence[Any], numbers: range, sender: Connection) -> None:
    for number in numbers:
        try:
            result = function(items[number])
        except Exception:
            sender.send((number, None, traceback.format_exc()))
            return
        sender.send((number, result, None))

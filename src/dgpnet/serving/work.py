"""Work of one model, one piece after the other and the most urgent first, on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import insort
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from dgpnet.errors import Error
from dgpnet.serving.problems import Problem

Result = TypeVar("Result")

#: Seconds between two looks at whether whoever waits for an answer is still there.
LOOK = 0.25

_log = logging.getLogger("dgpnet.serving")


@dataclass(order=True)
class _Piece:
    """Something to do: the lowest priority first, then in the order in which it came."""

    priority: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    key: Hashable = field(compare=False)
    wanted: Callable[[], bool] | None = field(compare=False)


class Worker:
    """A thread that does one piece of work at a time.

    name: of the thread · most: pieces that may wait; another one is answered by 503
    """

    def __init__(self, name: str, *, most: int = 1000) -> None:
        self.most = most
        self._pieces: list[_Piece] = []
        self._numbers = count()
        self._lock = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(
        self,
        work: Callable[[], Result],
        *,
        priority: int = 0,
        key: Hashable = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Future[Result]:
        """Have `work` done; `.result()` of what comes back is what it returned, or raises what it raised.

        priority: the lower, the sooner. key: what it is about; an earlier piece of the same key that has not begun is
        dropped, since this one takes its place. wanted: asked before it begins; False drops it. What is dropped is
        cancelled (`.cancelled()`), and `.cancel()` drops what has not begun. A Problem (503) where too much waits.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise Problem(503, "The server is about to stop.")
            self._pieces = [one for one in self._pieces if not one.future.cancelled()]
            if key is not None:
                self._drop(key)
            if len(self._pieces) >= self.most:
                raise Problem(503, "Too much is waiting to be done; try again soon.", headers={"retry-after": "2"})
            insort(self._pieces, _Piece(priority, next(self._numbers), work, future, key, wanted))
            self._lock.notify_all()
        return future

    def let_pass(self, priority: int) -> None:
        """For work of this priority that takes long, between two parts of it: what is more urgent is done now."""
        while True:
            with self._lock:
                if not self._pieces or self._pieces[0].priority >= priority:
                    return
                piece = self._pieces.pop(0)
            _do(piece)

    def drop(self, key: Hashable) -> None:
        """Drop what waits under this key."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        for one in self._pieces:
            if one.key == key:
                one.future.cancel()
        self._pieces = [one for one in self._pieces if one.key != key]

    @property
    def waiting(self) -> int:
        """How many pieces wait."""
        with self._lock:
            return sum(not one.future.cancelled() for one in self._pieces)

    def close(self, patience: float = 10.0) -> None:
        """Drop what waits and let what is being done end, for so many seconds at most; nothing is taken any more."""
        with self._lock:
            self._closed = True
            for one in self._pieces:
                one.future.cancel()
            self._pieces.clear()
            self._lock.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(patience)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pieces or self._closed)
                if self._closed:
                    return
                piece = self._pieces.pop(0)
            _do(piece)
            del piece  # what it holds is not to live until the next one comes


def _do(piece: _Piece) -> None:
    if piece.wanted is not None and not piece.wanted():
        piece.future.cancel()
    if not piece.future.set_running_or_notify_cancel():
        return
    try:
        result = piece.work()
    except BaseException as error:
        if not isinstance(error, Error | Problem):
            _log.exception("A piece of work failed")
        piece.future.set_exception(error)
    else:
        piece.future.set_result(result)


async def answered(request: Request, future: Future[Result]) -> Result:
    """What the work gives, for a request that waits for it; dropped where the asker has gone and it has not begun."""
    waiting = asyncio.wrap_future(future)
    try:
        while not (await asyncio.wait([waiting], timeout=LOOK))[0]:
            if await request.is_disconnected():
                raise ClientDisconnect
    finally:
        future.cancel()  # nothing, where it is done
    if waiting.cancelled():
        raise Problem(503, "Something newer took the place of this request.", headers={"retry-after": "1"})
    return waiting.result()

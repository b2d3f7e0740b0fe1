"""Server-sent events: what happens is told to every page that listens, and told again to one that was away."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from dgpnet.serving.problems import Problem

#: Seconds without an event after which a line is sent all the same, to notice that a listener has gone.
HEARTBEAT = 15.0
#: Milliseconds after which a browser connects again.
RETRY = 1000


class Hub:
    """Events in one line, of which every listener has reached some place.

    kept: events that are held; who is further behind is told to load everything anew · most: listeners at a time
    However many listen and however slow they are, nothing is held but these events.
    """

    def __init__(self, *, kept: int = 2000, most: int = 100) -> None:
        self.most = most
        self._events: deque[bytes] = deque(maxlen=kept)
        self._sent = 0
        self._run = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._listeners: set[_Listener] = set()
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def send(self, event: Mapping[str, Any]) -> None:
        """Tell everybody, from any thread; event: plain JSON values, with a "type"."""
        with self._lock:
            self._sent += 1
            self._events.append(self._told(self._sent, event))
            listeners = list(self._listeners)
        for one in listeners:
            one.wake()

    def close(self) -> None:
        """Let everybody go, so that the server can stop."""
        self._closed = True
        for one in list(self._listeners):
            one.wake()

    def response(
        self, request: Request, *, gone: Callable[[], object] = lambda: None, **hello: Any
    ) -> StreamingResponse:
        """The answer to a listener: from where its Last-Event-ID (or `last` in the address) says on, or from now on.

        gone: called when the listener has left. hello: what the first event says besides its type and `boot`.
        """
        if self.listeners >= self.most:
            raise Problem(503, "Too many pages listen already; close some.", headers={"retry-after": "10"})
        last = request.headers.get("last-event-id") or request.query_params.get("last")
        stream = self.stream(last, gone=gone, **hello)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def stream(
        self, last: str | None = None, *, gone: Callable[[], object] = lambda: None, **hello: Any
    ) -> AsyncIterator[bytes]:
        """Events as they are sent. The first is {"type": "hello"}, with `boot`, which names this run of the server; a
        {"type": "reload"} comes where some were missed for good.

        last: the id of the last event that was heard.
        """
        listener = _Listener()
        with self._lock:
            self._listeners.add(listener)
            reached = self._reached(last)
            begin = self._sent if reached is None else reached
        try:
            yield b"retry: %d\n" % RETRY + self._told(begin, {"type": "hello", "boot": self._run, **hello})
            if reached is None and last:
                yield self._told(begin, {"type": "reload"})
            while not self._closed:
                events, begin, missed = self._after(begin)
                if missed:
                    yield self._told(begin, {"type": "reload"})
                elif events:
                    yield b"".join(events)
                elif not await listener.woken(HEARTBEAT):
                    yield b": still here\n\n"
        finally:
            self._listeners.discard(listener)
            gone()

    def _told(self, number: int, event: Mapping[str, Any]) -> bytes:
        """An event as it is written. Its id means nothing to another run of the server."""
        data = json.dumps(event, separators=(",", ":"))
        return f"id: {self._run}-{number}\ndata: {data}\n\n".encode()

    def _reached(self, last: str | None) -> int | None:
        """The place of a listener in line; None where its events are not held."""
        run, _, number = (last or "").partition("-")
        if run != self._run or not number.isdecimal() or len(number) > 15:
            return None
        oldest = self._sent - len(self._events)
        return int(number) if oldest <= int(number) <= self._sent else None

    def _after(self, begin: int) -> tuple[list[bytes], int, bool]:
        """Events since a place, the new place, and whether some are not held any more."""
        with self._lock:
            new = self._sent - begin
            if new > len(self._events):
                return [], self._sent, True
            return [self._events[i] for i in range(len(self._events) - new, len(self._events))], self._sent, False


class _Listener:
    """One who waits on the event loop, woken from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._event.set)

    async def woken(self, patience: float) -> bool:
        """Whether somebody did, within so many seconds."""
        try:
            await asyncio.wait_for(self._event.wait(), patience)
        except TimeoutError:
            return False
        self._event.clear()
        return True

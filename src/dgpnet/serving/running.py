"""Where a server listens, and how it runs and stops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dgpnet import checks
from dgpnet.errors import Error
from dgpnet.serving.access import LOOPBACK

#: Seconds that the head of a request may take to come, and what still comes of a request that is answered.
HEAD = 10.0
#: Seconds for which requests that are under way may go on when the server stops.
GRACE = 5
#: Ports after the one that is taken which are tried.
FURTHER = 50


def listen(host: str, port: int, *, further: bool = False) -> socket.socket:
    """A socket that listens at an address of this machine.

    port: 0 for any that is free. further: take the next free one where it is taken; otherwise an Error names that.
    """
    checks.whole("port", port, 0, 65_535)
    try:
        return _bound(host, port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            free = _next_free(host, port)
            if further and free is not None:
                return free
            if free is None:
                raise Error(f"Port {port} of {host} is taken, as are those after it; choose another.") from problem
            other = free.getsockname()[1]
            free.close()
            raise Error(
                f"Port {port} of {host} is taken, maybe by another one of these servers; add --port {other}, "
                "which is free."
            ) from problem
        if problem.errno in (errno.EACCES, errno.EPERM):
            raise Error(f"Port {port} may not be taken by this user; choose one from 1024 on.") from problem
        raise Error(
            f"{checks.shown(host)} is no address of this machine ({problem.strerror}); try 127.0.0.1."
        ) from problem


def _next_free(host: str, port: int) -> socket.socket | None:
    for other in range(port + 1, min(port + 1 + FURTHER, 65_536)):
        try:
            return _bound(host, other)
        except OSError:
            continue
    return None


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name != "nt":  # where it would let two programs have one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(128)
    except BaseException:
        bound.close()
        raise
    return bound


def address(place: socket.socket, token: str | None = None) -> str:
    """What to open in a browser on this machine."""
    host, port = place.getsockname()[:2]
    host = "localhost" if host in ("0.0.0.0", "::", *LOOPBACK) else f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


def serve(
    app: ASGIApp,
    place: socket.socket,
    *,
    ready: Callable[[], object] = lambda: None,
    stop: Sequence[Callable[[], object]] = (),
) -> None:
    """Answer requests until Ctrl-C, or a polite kill; requests that are under way are ended first.

    ready: called once requests are answered. stop: called when it is to end: what lets streams go (`Hub.close`), and
    closes files.
    """
    server = _Server(app, ready, stop)
    try:
        server.run([place])
    except KeyboardInterrupt:
        pass  # this is how it ends
    finally:
        server.stopping()
        place.close()


@contextmanager
def serving(app: ASGIApp, *, stop: Sequence[Callable[[], object]] = ()) -> Iterator[str]:
    """A server on a thread for the length of a block: its address without a slash at the end."""
    place, up = listen("127.0.0.1", 0), threading.Event()
    server = _Server(app, up.set, stop)
    thread = threading.Thread(target=server.run, args=([place],), name="server", daemon=True)
    thread.start()
    try:
        if not up.wait(30):
            raise RuntimeError("The server did not start.")
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        place.close()


class _Server(uvicorn.Server):
    """Tells when it is ready and when it is to end."""

    def __init__(self, app: ASGIApp, ready: Callable[[], object], stop: Sequence[Callable[[], object]]) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self._ready, self._stop = ready, list(stop)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self.stopping)
        await super().shutdown(sockets)

    def stopping(self) -> None:
        """Call what is to be called at the end, once."""
        stop, self._stop = self._stop, []
        for one in stop:
            one()


class _Protocol(H11Protocol):
    """Uvicorn's, without patience for requests of which the head never ends and for what follows an answer."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._mind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._calm()

    def _mind(self) -> None:
        """Begin to wait where nothing is being answered, and stop where something is."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._calm()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(HEAD, self.transport.close)

    def _calm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

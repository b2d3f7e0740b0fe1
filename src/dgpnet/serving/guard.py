"""The door of a server: what every request passes before an application hears it, and every answer on its way out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dgpnet.serving.access import Access
from dgpnet.serving.problems import Problem, problem_of

#: What a page of ours may do: load its own files and talk to its own server. No script stands in a page itself.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
#: What stands in every answer, unless the application has put something else there.
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: Seconds for which a browser keeps the cookie with the token: a month.
REMEMBERED = 30 * 24 * 3600

_log = logging.getLogger("dgpnet.serving")


@dataclass(frozen=True)
class Limits:
    """How much is taken.

    body      bytes of a request's body, by method and path
    patience  seconds that a body may take to begin with; every further `pace` bytes give it one more
    open      requests at a time; more are answered by 503
    """

    body: Callable[[str, str], int] = lambda method, path: 1 << 20
    patience: float = 20.0
    pace: int = 20_000
    open: int = 256


class Guard:
    """An application behind the door.

    app: what answers · access: who may ask · limits: how much · public: paths that need no token (a health check)
    """

    def __init__(
        self, app: ASGIApp, access: Access, limits: Limits | None = None, *, public: Collection[str] = ()
    ) -> None:
        self.app = app
        self.access = access
        self.limits = limits or Limits()
        self.public = frozenset(public)
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        self._open += 1
        try:
            early = self._before(scope)
            if early is not None:
                await early(scope, receive, answer)
                return
            await self.app(scope, _Body(receive, self._most(scope), self.limits), answer)
        except Problem as problem:
            if answer.begun:
                raise
            await problem.response(as_page=_opened_by_hand(scope))(scope, receive, answer)
        except Exception as error:
            if answer.begun and not answer.ended:
                raise  # the connection is cut, so that nobody takes the part for the whole
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if not answer.begun:
                await problem_of(error).response()(scope, receive, answer)
        finally:
            self._open -= 1

    def _before(self, scope: Scope) -> Response | None:
        """What is answered without the application: a token in the address becomes a cookie. Or a Problem."""
        headers = Headers(scope=scope)
        if self._open > self.limits.open:
            raise Problem(503, "The server has its hands full; try again in a moment.", headers={"retry-after": "1"})
        self.access.check_source(headers)
        if self.access.token is None or scope["path"] in self.public:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and scope["method"] in ("GET", "HEAD") and self.access.is_token(given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # Of this server: a path that begins with two slashes would be another one's name.
            path = "/" + scope["path"].lstrip("/\\")
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(
                self.access.cookie, self.access.token, max_age=REMEMBERED, httponly=True, samesite="lax", path="/"
            )
            return answer
        if not self.access.admits(headers):
            raise Problem(
                401,
                "A token is needed: open the address that the server printed when it started, which ends in ?token=…, "
                "or send it as `Authorization: Bearer …`.",
                headers={"www-authenticate": "Bearer"},
            )
        return None

    def _most(self, scope: Scope) -> int:
        """Bytes that the body may have; a Problem where it says itself that it has more."""
        most = self.limits.body(scope["method"], scope["path"])
        said = Headers(scope=scope).get("content-length", "")
        if said.isdecimal() and int(said[:20]) > most:
            raise too_large(most)
        return most


def too_large(most: int) -> Problem:
    """The Problem of a body with more than so many bytes."""
    return Problem(413, f"A request to this address has at most {most:,} bytes.", limit=most)


class _Body:
    """A request's body as it arrives, cut off where it is too large or too slow."""

    def __init__(self, receive: Receive, most: int, limits: Limits) -> None:
        self.receive = receive
        self.most = most
        self.limits = limits
        self.size = 0
        self.whole = False
        self.start = time.monotonic()

    async def __call__(self) -> Message:
        if self.whole:
            return await self.receive()  # whoever asks now waits for the client to leave
        end = self.start + self.limits.patience + self.size / self.limits.pace
        try:
            message = await asyncio.wait_for(self.receive(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            raise Problem(408, "The body of the request came too slowly.") from None
        self.size += len(message.get("body", b""))
        self.whole = message["type"] != "http.request" or not message.get("more_body", False)
        if self.size > self.most:
            raise too_large(self.most)
        return message


class _Answer:
    """An answer on its way out, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.begun = self.ended = False
        self.start = time.perf_counter()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            taken = f"total;dur={1000 * (time.perf_counter() - self.start):.1f}"
            headers["server-timing"] = ", ".join(filter(None, [headers.get("server-timing"), taken]))
        await self.send(message)
        self.begun = True
        self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)


def _opened_by_hand(scope: Scope) -> bool:
    """Whether a person looks at the answer: a browser that opened the address."""
    return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")

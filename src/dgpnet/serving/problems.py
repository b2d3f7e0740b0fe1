"""What went wrong, told as problem JSON (RFC 9457): {type, title, status, detail}, and never a word of our insides."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from dgpnet.errors import Error, shortened

#: What the body of an error calls itself.
PROBLEM = "application/problem+json"


class Problem(HTTPException):
    """An answer other than what was asked for.

    status: the HTTP status · detail: a sentence for people · headers: further ones · more: further fields of the body
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, shortened(detail), dict(headers or {}))
        self.more = more

    def response(self, *, as_page: bool = False) -> Response:
        """The answer. as_page: for a person who opened an address in the browser."""
        title = _phrase(self.status_code)
        if as_page:
            lines = f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(self.detail)}</p>\n"
            page = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>dgpnet</title>\n{lines}'
            return Response(page, self.status_code, self.headers, "text/html; charset=utf-8")
        body = {"type": "about:blank", "title": title, "status": self.status_code, "detail": self.detail, **self.more}
        return Response(json.dumps(body).encode(), self.status_code, self.headers, PROBLEM)


def explain(app: Starlette) -> None:
    """Let an application tell all of its errors as problem JSON; an `Error` is the asker's fault, and 400."""

    async def told(request: Request, error: Exception) -> Response:
        return problem_of(error).response()

    for kind in (HTTPException, RequestValidationError, ClientDisconnect, Error, Exception):
        app.add_exception_handler(kind, told)


def problem_of(error: BaseException) -> Problem:
    """The problem that an exception is; of an unforeseen one nothing but that it was one."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Error):
        return Problem(400, str(error), **_notes(error))
    if isinstance(error, RequestValidationError):
        faults = [fault_of(one) for one in error.errors()[:10]]
        return Problem(422, "; ".join(faults) + ".", errors=faults)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, _sentence(error), headers=error.headers)
    if isinstance(error, ClientDisconnect):
        return Problem(400, "The connection was closed before the request was complete.")
    return Problem(500, "The server failed at this request, which is its own fault; its terminal says more.")


def fault_of(fault: Mapping[str, Any]) -> str:
    """One of pydantic's faults in words: where it is, and what is wrong. What was sent is not repeated."""
    return f"{place_of(fault.get('loc', ()))}: {fault.get('msg', 'wrong')}"


def place_of(place: Sequence[str | int]) -> str:
    """Where in a request something is: "body.runs.3"."""
    return shortened(".".join(map(str, place)), 100)


def _notes(error: Error) -> dict[str, Any]:
    notes = list(getattr(error, "__notes__", ()))
    return {"errors": notes} if notes else {}


def _sentence(error: HTTPException) -> str:
    """Starlette's own say no more than the status."""
    if error.status_code == 404:
        return "There is nothing at this address."
    if error.status_code == 405:
        return "This address does not take this method."
    return str(error.detail)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

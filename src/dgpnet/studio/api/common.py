"""What the resources share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from dgpnet.studio.project import Record
from dgpnet.studio.studio import Studio


def _studio(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


Here = Annotated[Studio, Depends(_studio)]


def _record(
    studio: Here, id: Annotated[str, Path(max_length=100, description="What the list of photographs calls it.")]
) -> Record:
    return studio.project.record(id)


Photo = Annotated[Record, Depends(_record)]


def cached(request: Request, content: bytes, kind: str, etag: str) -> Response:
    """A picture that a browser keeps, and asks for again by its etag."""
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if has(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


def has(request: Request, etag: str) -> bool:
    """Whether the asker has it already."""
    given = request.headers.get("if-none-match", "")
    return etag in [one.strip().removeprefix("W/") for one in given.split(",")]

"""Photographs: the list, each one, and pictures of them."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from dgpnet.errors import Error
from dgpnet.images import open_photo
from dgpnet.segmenter.entries import stamp
from dgpnet.serving import Problem
from dgpnet.studio import counting, describe, models, pictures
from dgpnet.studio.api.common import Here, Photo, cached, has
from dgpnet.studio.project import Record
from dgpnet.studio.studio import Studio

router = APIRouter(prefix="/photographs", tags=["photographs"])
Size = Annotated[int, Query(ge=16, le=640, description="The longest side, in pixels; a little more may come back.")]
#: What pictures with sharp edges are.
PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
#: What photographs are.
JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}}


@router.get("")
def photographs(
    studio: Here,
    sort: Annotated[
        Literal["name", "score", "-score", "presence", "-presence", "area", "-area", "novelty", "-novelty"],
        Query(description="Least first, with a minus most first; of novelty the other way round."),
    ] = "name",
    state: Annotated[
        Literal["untouched", "painted", "found", "broken", "accepted", "rejected", "empty"] | None, Query()
    ] = None,
    of: Annotated[int | None, Query(alias="class", ge=1, le=254, description="Only those that show it.")] = None,
    folder: Annotated[str | None, Query(max_length=4000)] = None,
    query: Annotated[str | None, Query(max_length=1000, description="Only those with this in their names.")] = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    find: Annotated[str | None, Query(max_length=100, description="Tell the position of this one.")] = None,
) -> models.Photographs:
    """A part of the list."""
    project = studio.project
    records = counting.chosen(project, state=state, value=of, folder=folder, query=query, sort=sort)
    position = next((i for i, one in enumerate(records) if one.id == find), None) if find is not None else None
    items = [describe.photograph(project, project.look(one)) for one in records[offset : offset + limit]]
    return models.Photographs(total=len(records), items=items, position=position)


@router.get("/{id}")
def photograph(studio: Here, record: Photo) -> models.Photograph:
    """One of them. One that could not be read is looked at again."""
    if record.problem is not None:
        studio.project.look_again(record)
    return describe.photograph(studio.project, studio.project.look(record))


@router.put("/{id}/review")
def review(studio: Here, record: Photo, body: models.ReviewBody) -> models.Photograph:
    """Accept or reject the mask, or take that back."""
    studio.project.review(record, body.review)
    return describe.photograph(studio.project, record)


@router.get("/{id}/image", response_class=Response, responses={200: {"content": {"image/*": {}}}})
def image(request: Request, studio: Here, record: Photo) -> Response:
    """The photograph: the file itself where browsers show it, otherwise made over."""
    path = studio.project.path(record)
    etag = _etag("image", *stamp(path))
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if has(request, etag):
        return Response(status_code=304, headers=headers)
    try:
        kind = pictures.viewable(path)
        if kind is None:
            content, kind = pictures.made_over(path)
            return Response(content, media_type=kind, headers=headers)
        if record.checked != record.stamp or record.stamp is None:
            open_photo(path)  # a browser would show half of a damaged file
            studio.project.look(record).checked = record.stamp
    except Error as error:
        raise _unreadable(studio, record, error) from None
    return FileResponse(path, media_type=kind, headers=headers)


@router.get("/{id}/thumbnail", response_class=Response, responses=JPEG)
def thumbnail(request: Request, studio: Here, record: Photo, size: Size = 160) -> Response:
    """The photograph, small."""
    path = studio.project.path(record)
    mark, side = stamp(path), pictures.size_for(size)
    etag = _etag("small", *mark, side)
    if has(request, etag):
        return cached(request, b"", "image/jpeg", etag)
    try:
        content = studio.thumbnails.get(path, record.id, mark, side)
    except Error as error:
        raise _unreadable(studio, record, error) from None
    return cached(request, content, "image/jpeg", etag)


@router.get("/{id}/overlay", response_class=Response, responses=PNG)
def overlay(
    request: Request,
    studio: Here,
    record: Photo,
    size: Size = 160,
    v: Annotated[str, Query(max_length=1000, description="Whatever; another one gets past a browser's memory.")] = "",
) -> Response:
    """The mask in its classes' colours, small, see-through elsewhere."""
    colours = {one.value: one.colour for one in studio.project.classes.every}
    side, current = pictures.size_for(size), studio.project.current_etag(record)
    etag = _etag("overlay", current, side, sorted(colours.items()))
    if current is not None and has(request, etag):
        return cached(request, b"", "image/png", etag)
    _, _, mask = studio.project.pixels(record, "current")
    return cached(request, pictures.overlaid(mask, colours, side), "image/png", etag)


def _etag(*parts: object) -> str:
    return f'"{hashlib.blake2b(repr(parts).encode(), digest_size=9).hexdigest()}"'


def _unreadable(studio: Studio, record: Record, error: Error) -> Problem:
    studio.project.broken(record, str(error))
    return Problem(409, f"This photograph cannot be read: {error}")

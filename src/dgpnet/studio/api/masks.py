"""Masks: as PNG and as runs, whole and in rectangles; strokes, maps, and regions that are proposed for clicks."""

from __future__ import annotations

import io
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Header, Query
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dgpnet.colours import PALETTE
from dgpnet.errors import Error
from dgpnet.images import COMPRESSION, IGNORE, read_mask
from dgpnet.serving import Problem, answered
from dgpnet.studio import describe, models, pictures
from dgpnet.studio.api.common import Here, Photo, cached, has
from dgpnet.studio.paintings import Mask
from dgpnet.studio.project import Project, Record
from dgpnet.studio.strokes import Rectangle, Stroke, decoded, encoded
from dgpnet.studio.studio import Studio

router = APIRouter(prefix="/photographs/{id}", tags=["masks"])
IfMatch = Annotated[str | None, Header(description="The ETag of the mask that was seen.")]
IfNoneMatch = Annotated[str | None, Header(description="`*`: only where there is no mask yet.")]
Part = Annotated[int | None, Query(ge=0, le=1_000_000)]
#: What maps are.
GREY: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
#: What masks are.
BOTH: dict[int | str, dict[str, Any]] = {200: {"model": models.MaskRuns, "content": {"image/png": {}}}}
#: What a whole mask is sent as.
WHOLE = {
    "requestBody": {
        "required": True,
        "content": {
            "image/png": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": models.WholeBody.model_json_schema()},
        },
    }
}


@router.get("/mask", response_class=Response, responses=BOTH)
def mask(
    request: Request,
    studio: Here,
    record: Photo,
    source: Annotated[
        Literal["current", "painted", "found"], Query(description="`current`: painted, or else found.")
    ] = "current",
    x: Part = None,
    y: Part = None,
    width: Part = None,
    height: Part = None,
) -> Response:
    """A mask as runs, or as a PNG of the classes' values where `Accept` says image/png; a part of it where asked."""
    project = studio.project
    size = project.size(record)
    place = _place(size, x, y, width, height)
    origin, etag, pixels = project.pixels(record, source, place)
    headers = {"etag": etag, "cache-control": "private, no-cache", "vary": "accept"}
    if has(request, etag) and place is None:
        return Response(status_code=304, headers=headers)
    if "image/png" in request.headers.get("accept", ""):
        return Response(_png(project, pixels), media_type="image/png", headers=headers)
    corner = (0, 0) if place is None else (place.x, place.y)
    body = models.MaskRuns.model_construct(
        x=corner[0],
        y=corner[1],
        width=pixels.shape[1],
        height=pixels.shape[0],
        runs=encoded(pixels),
        source=origin,
        etag=etag,
    )
    return Response(body.model_dump_json(), media_type="application/json", headers=headers)


@router.patch("/mask")
def stroke(studio: Here, record: Photo, body: models.StrokeBody, if_match: IfMatch = None) -> models.MaskChanged:
    """Paint a stroke. It is on the disk when this is answered."""
    project = studio.project
    place = Rectangle(body.x, body.y, body.width, body.height).check(project.size(record))
    drawn = Stroke.of(place, body.runs, project.classes.values)
    painting = project.stroke(record, drawn, body.base, if_match, body.stroke, body.runs)
    studio.painted(record, body.client, (body.x, body.y, body.width, body.height))
    return models.MaskChanged(etag=painting.etag, photograph=describe.photograph(project, record))


@router.put("/mask", openapi_extra=WHOLE)
async def whole(
    request: Request, studio: Here, record: Photo, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> models.MaskChanged:
    """Put a whole mask in place of what there is (If-Match), or where there is nothing yet (If-None-Match: *)."""
    kind, content = request.headers.get("content-type", "").split(";")[0].strip(), await request.body()
    return await run_in_threadpool(_put, studio, record, kind, content, if_match, (if_none_match or "").strip() == "*")


@router.delete("/mask")
def unpaint(
    studio: Here,
    record: Photo,
    client: Annotated[str, Query(max_length=100)] = "",
    if_match: IfMatch = None,
) -> models.MaskChanged:
    """Take back all that was painted on this photograph."""
    studio.project.delete(record, if_match)
    studio.painted(record, client)
    etag = studio.project.current_etag(record)
    return models.MaskChanged(etag=etag, photograph=describe.photograph(studio.project, record))


@router.get("/uncertainty", response_class=Response, responses=GREY)
def uncertainty(request: Request, studio: Here, record: Photo) -> Response:
    """Where what was found may be wrong: a small grey PNG, 255 where it surely is."""
    found = studio.project.finds.get(record.key)
    if found is None:
        raise Problem(404, "Nothing was looked for in this photograph yet.")
    return cached(request, pictures.grey(studio.project.finds.uncertainty(found)), "image/png", found.etag)


@router.get("/probability", response_class=Response, responses=GREY)
async def probability(
    request: Request, studio: Here, record: Photo, of: Annotated[int, Query(alias="class", ge=1, le=254)]
) -> Response:
    """How probable a class is: a small grey PNG, 255 where it surely is."""
    levels = await answered(request, studio.mind.probability(record, of))
    return Response(pictures.grey(levels), media_type="image/png")


@router.post("/propose")
async def propose(request: Request, studio: Here, record: Photo, body: models.ProposalBody) -> models.Proposal:
    """The region of the thing that was clicked."""
    height, width = await run_in_threadpool(studio.project.size, record)
    points = [(body.x, body.y, True), *((one.x, one.y, one.positive) for one in body.more)]
    if any(x >= width or y >= height for x, y, _ in points):
        raise Problem(422, f"The photograph is {width} × {height} pixels; click inside it.")
    places = [(x + 0.5, y + 0.5, positive) for x, y, positive in points]
    x, y, wide, high, runs = await answered(request, studio.mind.propose(record, places, body.of))
    return models.Proposal(x=x, y=y, width=wide, height=high, runs=runs)


def _place(size: tuple[int, int], *given: int | None) -> Rectangle | None:
    """The part that is asked for."""
    if all(one is None for one in given):
        return None
    x, y, width, height = given
    if x is None or y is None or width is None or height is None:
        raise Problem(422, "A part of a mask has x, y, width and height.")
    return Rectangle(x, y, width, height).check(size)


def _png(project: Project, pixels: Mask) -> bytes:
    """Values in a palette of the classes' colours."""
    from PIL import Image

    palette = PALETTE.copy()
    palette[IGNORE] = 0xE0
    for one in project.classes.every:
        palette[one.value] = one.colour
    image, stream = Image.fromarray(pixels), io.BytesIO()
    image.putpalette(palette.tobytes())
    image.save(stream, "PNG", compress_level=COMPRESSION)
    return stream.getvalue()


def _put(studio: Studio, record: Record, kind: str, content: bytes, match: str | None, new: bool) -> models.MaskChanged:
    project, client = studio.project, ""
    height, width = project.size(record)
    if kind == "image/png":
        pixels = _read(content, (height, width))
    elif kind == "application/json":
        try:
            body = models.WholeBody.model_validate_json(content)
        except ValidationError as error:
            faults = [f"body.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:10]]
            raise Problem(422, "; ".join(faults) + ".", errors=faults) from None
        if (body.height, body.width) != (height, width):
            raise Problem(422, f"The photograph is {width} × {height} pixels; the mask is not.")
        pixels, client = decoded(body.runs, height * width)[0].reshape(height, width), body.client
    else:
        raise Problem(415, "A mask is sent as image/png or as application/json.")
    painting = project.put(record, pixels, match, new=new)
    studio.painted(record, client)
    return models.MaskChanged(etag=painting.etag, photograph=describe.photograph(project, record))


def _read(content: bytes, size: tuple[int, int]) -> Mask:
    """A PNG of values; a Problem where it is none."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if (image.height, image.width) != size:
                raise Problem(422, f"The photograph is {size[1]} × {size[0]} pixels; the mask is not.")
            raw = read_mask(image)
    except Error as error:
        raise Problem(422, f"This is no mask: {error}") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise Problem(422, "This is no mask: it is no PNG that can be read.") from None
    if raw.dtype == bool:
        return raw.astype(np.uint8)
    if raw.dtype != np.uint8:
        raise Problem(422, "A mask has one channel of 8 bits: the values of classes.")
    return np.array(raw, np.uint8)

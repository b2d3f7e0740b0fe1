"""The project: what there is in all, and what happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from dgpnet.studio import describe, models
from dgpnet.studio.api.common import Here

router = APIRouter(tags=["project"])


@router.get("/project")
def project(studio: Here) -> models.Project:
    """Everything but the photographs themselves."""
    return describe.project(studio)


@router.get("/summary")
def summary(studio: Here) -> models.Summary:
    """Counts and areas, with numbers to plot."""
    return describe.summary(studio)


@router.post("/scan")
def scan(studio: Here, body: models.Nothing | None = None) -> models.Scan:
    """Look for photographs that were added to the folder, or taken away."""
    new, gone = studio.project.scan()
    studio.counts_changed()
    studio.mind.follow()
    return models.Scan(new=new, gone=gone, total=len(studio.project.records()))


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def events(
    request: Request,
    studio: Here,
    client: Annotated[str, Query(max_length=100, description="As in `visible`.")] = "",
    last: Annotated[str | None, Query(max_length=100, description="The id of the last event that was heard.")] = None,
) -> StreamingResponse:
    """What happens, as it happens (server-sent events)."""
    # When a page has gone, what it showed is not found first any more.
    gone = (lambda: studio.mind.see_first(client, [])) if client else (lambda: None)
    return studio.hub.response(request, gone=gone)


@router.post("/visible", status_code=204)
async def visible(studio: Here, body: models.Visible) -> None:
    """Say what is on the screen: things are found there first."""
    await run_in_threadpool(studio.mind.see_first, body.client, body.ids)

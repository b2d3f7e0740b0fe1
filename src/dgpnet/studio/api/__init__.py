"""The API behind the page, one file a resource. All that the page can do, other programs can do here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

import dgpnet
from dgpnet.serving import Limits, explain
from dgpnet.studio import models
from dgpnet.studio.api import classes, concepts, jobs, masks, photographs, projects
from dgpnet.studio.studio import Studio

#: Where the API begins.
BASE = "/api/v1"
#: The page's files.
PAGE = Path(__file__).parents[1] / "page"
#: Bytes that requests may have: files that are imported, masks, and everything else.
FILE, MASK, OTHER = 2 << 30, 64 << 20, 1 << 20

DESCRIPTION = """
Photographs, what is painted on them, and what a model that learned from it finds in the others.

Errors are problem JSON (RFC 9457). Masks have ETags: a change that begins from a found mask, a whole new mask and a
deletion say by `If-Match` which mask they have seen. `GET /events` tells of everything that happens (server-sent
events): `photograph`, `mask`, `classes`, `project`, `concept`, `job`, `reload`.
"""


def application(studio: Studio) -> FastAPI:
    """The application of a studio, to be put behind a `Guard`."""
    problem = {
        "model": models.ProblemBody,
        "description": "What went wrong.",
        "content": {"application/problem+json": {}},
    }
    responses: dict[int | str, dict[str, Any]] = {"4XX": problem, "5XX": problem}
    app = FastAPI(
        title="dgpnet studio",
        version=dgpnet.__version__,
        description=DESCRIPTION,
        openapi_url=f"{BASE}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=responses,
    )
    explain(app)
    app.state.studio = studio
    for part in (projects, photographs, masks, classes, concepts, jobs):
        app.include_router(part.router, prefix=BASE)
    app.mount("/", _Page(directory=PAGE, html=True))
    return app


def limits() -> Limits:
    """How much a request may bring."""
    return Limits(body=_most)


def _most(method: str, path: str) -> int:
    if path == f"{BASE}/imports":
        return FILE
    return MASK if path.endswith("/mask") else OTHER


class _Page(StaticFiles):
    """The page's files; browsers ask each time whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "no-cache"
        return answer

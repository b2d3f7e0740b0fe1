"""Work in the background: jobs, exports, imports."""

from __future__ import annotations

import secrets
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse

from dgpnet.files import make_folder
from dgpnet.serving import Problem
from dgpnet.studio import describe, models
from dgpnet.studio.api.common import Here

router = APIRouter(tags=["jobs"])
JobId = Annotated[str, Path(max_length=40)]
#: What archives are.
ZIP: dict[int | str, dict[str, Any]] = {200: {"content": {"application/zip": {}}}}
#: What is imported.
FILE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/jobs")
def jobs(studio: Here) -> list[models.Job]:
    """Those that run, and the last that have ended."""
    return [describe.job(one) for one in studio.jobs.all()]


@router.get("/jobs/{job}")
def one(studio: Here, job: JobId) -> models.Job:
    """How far a job is."""
    return describe.job(studio.jobs.get(job))


@router.delete("/jobs/{job}")
def stop(studio: Here, job: JobId) -> models.Job:
    """Stop a job."""
    return describe.job(studio.jobs.cancel(job))


@router.post("/exports", status_code=202)
def export(studio: Here, body: models.ExportBody) -> models.Job:
    """Write masks, summary, report and annotations, as `dgpnet segment` does, and an archive of these."""
    options = body.model_dump(exclude={"only"})
    return describe.job(studio.export(body.only, options))


@router.get("/exports/{job}/archive", response_class=FileResponse, responses=ZIP)
def archive(studio: Here, job: JobId) -> FileResponse:
    """What an export wrote, as a ZIP."""
    path = studio.archive(job)
    return FileResponse(path, media_type="application/zip", filename=f"{studio.project.folder.resolve().name}.zip")


@router.post("/imports", status_code=202, openapi_extra=FILE)
async def take(
    request: Request,
    studio: Here,
    name: Annotated[str, Query(min_length=1, max_length=300, description="The file's; its ending tells what it is.")],
) -> models.Job:
    """Make painted masks of a file that another program wrote: .json, .xml, or a ZIP of a support set."""
    if "\0" in name:
        raise Problem(422, "This is no name of a file.")
    folder = studio.project.root / "incoming"
    await run_in_threadpool(make_folder, folder)
    path = folder / f"{secrets.token_hex(6)}.part"
    try:
        await _save(request, path)
        return describe.job(studio.take(path, FilePath(name).name))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _save(request: Request, path: FilePath) -> None:
    with path.open("xb") as file:
        async for part in request.stream():
            await run_in_threadpool(file.write, part)

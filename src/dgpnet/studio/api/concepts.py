"""What the model learns, and what it would like to learn next."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from dgpnet.serving import Problem, answered
from dgpnet.studio import describe, models
from dgpnet.studio.api.common import Here

router = APIRouter(tags=["concept"])


@router.get("/concept")
def concept(studio: Here) -> models.Concept:
    """What is learned; 404 before anything is."""
    found = describe.concept(studio)
    if found is None:
        raise Problem(404, "Nothing is learned yet.")
    return found


@router.post("/concept")
async def learn(request: Request, studio: Here, body: models.Nothing | None = None) -> models.Concept:
    """Learn what is painted. From then on what is found follows what is painted by itself."""
    await answered(request, studio.mind.learn())
    return concept(studio)


@router.post("/concept/fit", status_code=202)
def fit(studio: Here, body: models.FitBody | None = None) -> models.Job:
    """Fit the model to what is painted, in the background."""
    if any(job.kind == "fit" and not job.ended for job in studio.jobs.all()):
        raise Problem(409, "The model is being fitted already.")
    return describe.job(studio.mind.fit((body or models.FitBody()).seconds))


@router.get("/suggestion")
async def suggestion(request: Request, studio: Here) -> models.Suggestion:
    """The photograph that it is best to paint next."""
    record, reason = await answered(request, studio.mind.suggest())
    found = None if record is None else describe.photograph(studio.project, studio.project.look(record))
    return models.Suggestion(photograph=found, reason=reason)

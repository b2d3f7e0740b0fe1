"""A machine learning back end of Label Studio: the small HTTP that it speaks with one.

GET  /health    whether anybody is there (Label Studio waits one second)
POST /setup     the labelling interface; answered by the version of what is learned (three seconds)
POST /webhook   what annotators did; answered at once, and learned soon after (one second)
POST /predict   tasks; answered by regions for each, or for what was clicked in one (a hundred seconds)
GET  /versions
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI
from pydantic import BaseModel, Field, JsonValue
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

import dgpnet
from dgpnet.backends.interface import Interface
from dgpnet.backends.learning import Mind, record_of
from dgpnet.backends.projects import Project
from dgpnet.checks import shown
from dgpnet.errors import Error
from dgpnet.serving import Limits, Problem, answered, explain

#: Bytes that requests may have. Tasks bring along everything that was painted and predicted on them before.
TASKS, ANNOTATION, OTHER = 256 << 20, 64 << 20, 1 << 20
#: Seconds for which what was just painted is waited for: of the three that Label Studio gives a setup …
SETUP = 2.0
#: … and of the hundred that it gives predictions, as which photographs are looked at.
LEARNING, PREDICTING = 30.0, 80.0

_log = logging.getLogger("dgpnet.backends")

Number = Annotated[int, Field(ge=0, lt=1 << 63)]


class Setup(BaseModel):
    """A project is connected, or about to ask for predictions."""

    project: str = Field(max_length=100, description="Number and time of creation, 12.1700000000.")
    interface: str = Field(alias="schema", description="The labelling interface, XML.")


class Task(BaseModel):
    id: Number
    data: dict[str, Any]


class Parameters(BaseModel):
    context: dict[str, Any] | None = None


class Predict(BaseModel):
    project: str = Field(max_length=100)
    label_config: str
    tasks: list[Task]
    params: Parameters = Parameters()


class Told(BaseModel):
    """A webhook's project; more is told of it."""

    id: Number
    created_at: datetime
    label_config: str = ""


class Webhook(BaseModel):
    """What happened; which fields there are depends on the action."""

    action: str = Field(max_length=100)
    project: Told | None = None
    task: Any = None
    tasks: Any = None
    annotation: Any = None
    annotations: Any = None


def application(mind: Mind) -> FastAPI:
    """The back end, to be put behind a `Guard`."""
    app = FastAPI(title="dgpnet", version=dgpnet.__version__, openapi_url=None, docs_url=None, redoc_url=None)
    explain(app)

    @app.get("/")
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "dgpnet"}

    @app.post("/setup")
    async def setup(body: Setup) -> dict[str, str | None]:
        project = mind.project(*_place(body.project))
        try:
            project.set_interface(body.interface)
        except Error as error:  # Label Studio shows no more of it than that it failed
            _log.warning("Project %d cannot be connected: %s", project.number, error)
            raise
        if project.missed:
            mind.follow(project)
        settled = await run_in_threadpool(mind.settled, project, SETUP)
        return {"model_version": _version(project) if settled else None}

    @app.get("/versions")
    async def versions() -> dict[str, list[str]]:
        return {"versions": [one for one in map(_version, mind.projects.values()) if one is not None]}

    @app.post("/webhook")
    async def webhook(body: Webhook) -> dict[str, str]:
        act = ACTIONS.get(body.action)
        if act is None:
            return {"status": "not minded"}
        if body.project is None:
            raise Problem(422, "The webhook tells no more than that something happened; let it send its payload.")
        project = mind.project(body.project.id, int(body.project.created_at.timestamp()))
        if body.project.label_config:
            project.set_interface(body.project.label_config)
        await run_in_threadpool(act, mind, project, body)
        return {"status": "heard"}

    @app.post("/predict")
    async def predict(request: Request, body: Predict) -> dict[str, JsonValue]:
        project = mind.project(*_place(body.project))
        project.set_interface(body.label_config)
        interface = project.interface
        context = body.params.context
        if context is not None and context.get("result"):
            return {"results": [await _proposed(request, mind, project, interface, body.tasks[:1], context)]}
        await run_in_threadpool(mind.settled, project, LEARNING)
        return {"results": await _predicted(request, mind, project, interface, body.tasks)}

    return app


def limits() -> Limits:
    """How much a request may bring."""
    sizes = {"/predict": TASKS, "/webhook": ANNOTATION}
    return Limits(body=lambda method, path: sizes.get(path, OTHER))


async def _predicted(
    request: Request, mind: Mind, project: Project, interface: Interface, tasks: list[Task]
) -> list[Any]:
    """A list of predictions for each task. It is empty where nothing is learned yet, where the photograph cannot be
    had, and where time is up: Label Studio asks for these again when predictions are wanted next."""
    learned, end = project.learned, time.monotonic() + PREDICTING
    found: list[Any] = [[] for _ in tasks]
    if learned is None:
        return found
    failed: list[Error] = []
    for number, task in enumerate(tasks):
        if time.monotonic() > end:
            mind.tell(
                f"{len(tasks) - number} of {len(tasks)} tasks are left for next time; retrieve predictions again."
            )
            break
        try:
            photo = await run_in_threadpool(mind.server.photograph, task.data.get(interface.variable))
            found[number] = [await answered(request, mind.predict(learned, interface, task.id, photo))]
        except Error as error:
            _log.warning("Task %d: %s", task.id, error)
            failed.append(error)
    if failed and len(failed) == len(tasks):
        raise failed[0]
    return found


async def _proposed(
    request: Request, mind: Mind, project: Project, interface: Interface, tasks: list[Task], context: dict[str, Any]
) -> Any:
    """The region that was clicked at."""
    drawn = context["result"]
    if not tasks or not isinstance(drawn, list):
        raise Problem(422, "A region is proposed for a task, and clicks or strokes on it.")
    photo = await run_in_threadpool(mind.server.photograph, tasks[0].data.get(interface.variable))
    return await answered(request, mind.propose(project.learned, interface, tasks[0].id, photo, drawn))


def _place(project: str) -> tuple[int, int]:
    """Number and time of creation of a project: "12.1700000000"."""
    number, _, created = project.partition(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in (number, created)):
        raise Problem(422, f"A project is told by its number and its time, 12.1700000000; given {shown(project)}.")
    return int(number), int(created)


def _version(project: Project) -> str | None:
    return None if project.learned is None else project.learned.version


# -- what webhooks tell ------------------------------------------------------------------------------------------------


def _painted(mind: Mind, project: Project, body: Webhook) -> None:
    """One annotation, or several with their tasks."""
    annotations = body.annotation if isinstance(body.annotation, list) else [body.annotation]
    tasks = body.task if isinstance(body.task, list) else [body.task]
    if len(tasks) != len(annotations):
        raise Problem(422, "A webhook tells as many tasks as annotations.")
    interface = project.interface
    for task, annotation in zip(tasks, annotations, strict=True):
        record = record_of(task, annotation, interface)
        if record is None:
            project.drop([annotation["id"]])
        else:
            project.keep(record)
    mind.follow(project)


def _unpainted(mind: Mind, project: Project, body: Webhook) -> None:
    project.drop(_ids(body.annotations))
    mind.follow(project)


def _tasks_gone(mind: Mind, project: Project, body: Webhook) -> None:
    project.drop_tasks(_ids(body.tasks))
    mind.follow(project)


def _train(mind: Mind, project: Project, body: Webhook) -> None:
    mind.fit(project)


def _interface_changed(mind: Mind, project: Project, body: Webhook) -> None:
    mind.follow(project)


def _ids(several: Any) -> list[int]:
    found = [one.get("id") for one in several if isinstance(one, dict)] if isinstance(several, list) else []
    return [one for one in found if type(one) is int]


#: What is done about each thing that happens in Label Studio; about others nothing.
ACTIONS: dict[str, Callable[[Mind, Project, Webhook], None]] = {
    "ANNOTATION_CREATED": _painted,
    "ANNOTATIONS_CREATED": _painted,
    "ANNOTATION_UPDATED": _painted,
    "ANNOTATIONS_DELETED": _unpainted,
    "TASKS_DELETED": _tasks_gone,
    "PROJECT_UPDATED": _interface_changed,
    "START_TRAINING": _train,
}

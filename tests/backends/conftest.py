"""A back end with the smallest network, and what it needs of Label Studio: photographs, tokens and an export."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations import Item, Legend
from dgpnet.annotations.labelstudio import regions_of
from dgpnet.annotations.writing import Style
from tests.tiny import scene, tiny_segmenter

httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("fastapi", reason="the labelstudio extra is not installed")

from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse, RedirectResponse, Response  # noqa: E402
from starlette.types import Receive, Scope, Send  # noqa: E402

from dgpnet.backends.label_studio import application, limits  # noqa: E402
from dgpnet.backends.learning import Mind  # noqa: E402
from dgpnet.backends.server import Server  # noqa: E402
from dgpnet.segmenter import Segmenter  # noqa: E402
from dgpnet.serving import Access, Guard, serving  # noqa: E402

SIZE = (48, 64)
"""(H, W) of all photographs here."""
#: A personal access token has three parts, and is exchanged for one that does not live long.
KEY, BEARER = "head.body.signature", "bearer"
CREATED = "2026-01-02T03:04:05.678Z"
PROJECT = "7.1767323045"
CONFIG = """<View>
  <Header value="Paint"/>
  <Image name="picture" value="$photo"/>
  <BrushLabels name="paint" toName="picture">
    <Label value="mug"/><Label value="tea spoon" background="#ff0000"/>
  </BrushLabels>
  <KeyPointLabels name="click" toName="picture" smart="true"><Label value="mug"/></KeyPointLabels>
</View>"""
POLYGONS = CONFIG.replace("BrushLabels", "PolygonLabels")


def png(array: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


@dataclass
class LabelStudio:
    """A stand-in for the server that is not ours, which `make backends` tries with the real one.

    Photograph n is `scene(n)`, for whoever has the token. kept: task and annotation by the annotation's number, of
    project 7. asked: paths, in order.
    """

    url: str = ""
    kept: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bearers: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, who = request.url.path, request.headers.get("authorization")
        self.asked.append(path)
        if path == "/api/token/refresh/":
            self.bearers += 1
            right = (await request.json()) == {"refresh": KEY}
            return JSONResponse({"access": f"{BEARER}{self.bearers}"} if right else {}, 200 if right else 401)
        if who != f"Bearer {BEARER}{self.bearers}":
            return Response(status_code=401)
        if path == "/api/projects/7/export":
            return JSONResponse([{**task, "annotations": [one]} for task, one in self.kept.values()])
        if path.startswith("/data/upload/"):
            return Response(png(scene(int(path.rpartition("/")[2].partition(".")[0]), SIZE)[0]))
        if path == "/data/elsewhere":
            return RedirectResponse("http://127.0.0.1:1/secret", 303)
        return Response(status_code=404)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests may take longer to learn than Label Studio would wait."""
    monkeypatch.setattr("dgpnet.backends.label_studio.SETUP", 100.0)


@pytest.fixture(scope="session")
def segmenter() -> Segmenter:
    return tiny_segmenter()


@pytest.fixture
def studio() -> Iterator[LabelStudio]:
    one = LabelStudio()
    with serving(one) as one.url:
        yield one


@dataclass
class Desk:
    """What Label Studio does with a back end."""

    client: Any
    mind: Mind
    studio: LabelStudio

    def setup(self, config: str = CONFIG, project: str = PROJECT) -> Any:
        body = {"project": project, "schema": config, "hostname": "http://evil.example", "access_token": "x"}
        return self.client.post("setup", json={**body, "extra_params": None})

    def webhook(self, action: str, config: str = CONFIG, project: int = 7, **payload: Any) -> Any:
        for one in payload.get("annotations", []):
            self.studio.kept.pop(one["id"], None)
        gone = [one["id"] for one in payload.get("tasks", [])]
        self.studio.kept = {key: one for key, one in self.studio.kept.items() if one[0]["id"] not in gone}
        about = {"id": project, "created_at": CREATED, "label_config": config, "title": "Mugs"}
        return self.client.post("webhook", json={"action": action, "project": about, **payload})

    def paint(self, n: int, mask: NDArray[np.uint8] | None = None, action: str = "CREATED", **more: Any) -> Any:
        """Annotation 100 + n of task n."""
        names = {key: more.pop(key) for key in ("config", "project") if key in more}
        painted = {**annotation(n, mask), **more}
        if "project" not in names:
            self.studio.kept[painted["id"]] = task(n), painted
        return self.webhook(f"ANNOTATION_{action}", task=task(n), annotation=painted, **names)

    def predict(self, *tasks: int, config: str = CONFIG, context: Any = None, project: str = PROJECT) -> Any:
        params = {"login": None, "password": None, "context": context}
        several = [task(n) for n in tasks]
        body = {"tasks": several, "project": project, "label_config": config, "params": params}
        return self.client.post("predict", json=body)


@contextmanager
def desk_of(
    segmenter: Segmenter, root: Path, studio: LabelStudio, *, key: str | None = KEY, **more: Any
) -> Iterator[Desk]:
    root.mkdir(exist_ok=True)
    mind = Mind(segmenter, root, Server(studio.url, key), fit_seconds=1, **more)
    guard = Guard(application(mind), Access.of("127.0.0.1"), limits())
    with ExitStack() as stack:
        address = stack.enter_context(serving(guard, stop=[mind.close]))
        yield Desk(stack.enter_context(httpx.Client(base_url=address, timeout=120)), mind, studio)


@pytest.fixture
def told() -> list[str]:
    """What the terminal says."""
    return []


@pytest.fixture
def restart(
    segmenter: Segmenter, tmp_path: Path, studio: LabelStudio, told: list[str]
) -> Iterator[Callable[..., Desk]]:
    """A back end on the same folder, in place of the one before."""
    with ExitStack() as stack:

        def start(**more: Any) -> Desk:
            stack.close()
            opened = desk_of(segmenter, tmp_path / "kept", studio, tell=told.append, **more)
            return stack.enter_context(opened)

        yield start


@pytest.fixture
def desk(restart: Callable[..., Desk]) -> Desk:
    return restart()


def task(n: int) -> dict[str, Any]:
    return {"id": n, "data": {"photo": f"/data/upload/7/{n}.png"}, "project": 7, "annotations": [], "predictions": []}


def annotation(n: int, mask: NDArray[np.uint8] | None = None) -> dict[str, Any]:
    """Of task n, painted by brush: its scene's mask, unless there is another."""
    item = Item("", scene(n, SIZE)[1] if mask is None else mask)
    legend = Legend.of(["mug", "tea spoon"])
    regions = list(regions_of(item, legend, Style(), from_name="paint", to_name="picture"))
    when = "2026-01-02T03:04:06Z"
    return {"id": 100 + n, "task": n, "result": regions, "was_cancelled": False, "updated_at": when}

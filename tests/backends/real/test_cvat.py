"""CVAT's own code with our function: it decodes the masks, and its driver speaks to a stand-in for a server."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

pytest.importorskip("cvat_sdk", reason="`make backends` has CVAT's library")

from cvat_sdk import auto_annotation, make_client, masks

from dgpnet.backends.cvat import Clicking, Finding, create
from dgpnet.segmenter import Concept
from dgpnet.serving import serving
from tests.tiny import scene, tiny_checkpoint, tiny_segmenter

SIZE = (48, 64)


@dataclass(frozen=True)
class Context:
    frame_name: str = "mug.jpg"
    conf_threshold: float | None = None
    conv_mask_to_poly: bool = False


@pytest.fixture(scope="module")
def concept() -> Concept:
    """Of two classes."""
    photos, painted = zip(*[scene(n, SIZE, classes=2) for n in (0, 1)], strict=True)
    return tiny_segmenter().learn(photos, painted, classes=["mug", "tea spoon"])


def decoded(shapes: list[Any], size: tuple[int, int]) -> NDArray[np.uint8]:
    """What shapes cover, as CVAT reads them, by their labels' numbers."""
    found = np.zeros(size, np.uint8)
    for shape in shapes:
        assert shape.type.value == "mask" and shape.frame == 0 and not hasattr(shape, "id")
        found[masks.decode_mask(shape.points, image_width=size[1], image_height=size[0])] = shape.label_id
    return found


@pytest.mark.parametrize("n", range(4))
def test_masks_of_several_classes_are_decoded_as_they_were_found(concept: Concept, n: int):
    photo = Image.fromarray(scene(10 + n, SIZE, classes=2)[0])
    shapes = Finding(concept).detect(Context(), photo)
    expected = concept.segment(photo).mask
    assert np.array_equal(decoded(shapes, SIZE), expected)
    assert sorted(shape.label_id for shape in shapes) == [v for v in (1, 2) if (expected == v).any()]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_that_lie_on_their_side_have_masks_as_viewers_show_them(concept: Concept, orientation: int):
    """CVAT turns photographs itself; one that still says how it lies is turned here."""
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(scene(3, SIZE, classes=2)[0]).save(file, "PNG", exif=exif)
    with Image.open(file) as image:
        shapes = Finding(concept).detect(Context(), image)
    expected = concept.segment(file.getvalue()).mask
    assert expected.shape == (SIZE if orientation < 5 else SIZE[::-1])
    assert np.array_equal(decoded(shapes, expected.shape), expected)


def test_what_is_not_there_has_no_shape(concept: Concept):
    assert Finding(concept).detect(Context(conf_threshold=1.0), Image.new("RGB", (64, 48))) == []


def test_the_threshold_is_heeded(concept: Concept):
    photo = Image.fromarray(scene(12, SIZE, classes=2)[0])
    found = concept.segment(photo)
    scores = dict(enumerate(found.class_scores, 1))
    for least in (0.0, min(scores.values()), max(scores.values()), 1.0):
        shapes = Finding(concept).detect(Context(conf_threshold=least), photo)
        wanted = [v for v, score in scores.items() if score >= least and (found.mask == v).any()]
        assert sorted(shape.label_id for shape in shapes) == wanted


def test_polygons_come_where_they_are_asked_for(concept: Concept):
    photo = Image.fromarray(scene(12, SIZE, classes=2)[0])
    shapes = Finding(concept).detect(Context(conv_mask_to_poly=True), photo)
    assert shapes
    for shape in shapes:
        assert shape.type.value == "polygon" and len(shape.points) % 2 == 0 and len(shape.points) >= 6


def test_a_click_has_a_region():
    function = Clicking(tiny_segmenter())
    assert function.spec.min_pos_points == 1
    photo, painted = scene(3, SIZE)
    seen = function.preprocess_image(None, Image.fromarray(photo))
    y, x = (float(places.mean()) for places in np.nonzero(painted))

    @dataclass(frozen=True)
    class Prompts:
        pos_points = ((x, y),)
        neg_points = ((63.5, 47.5),)
        bounding_box = None

    (shape,) = function.detect(None, seen, Prompts())
    region = masks.decode_mask(shape.points, image_width=64, image_height=48)
    assert region[int(y), int(x)] and not region[47, 63]


# -- the driver --------------------------------------------------------------------------------------------------------


class Server:
    """The answers of a CVAT server to the driver, as its API describes them, and what it was sent."""

    def __init__(self, photos: list[NDArray[np.uint8]], labels: list[str]) -> None:
        self.photos, self.labels = photos, labels
        self.sent: list[tuple[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path, method = request.url.path.rstrip("/"), request.method
        answer: Response
        if path == "/api/server/about":
            answer = JSONResponse(
                {"name": "CVAT", "description": "", "version": "2.80.0", "logo_url": "", "subtitle": ""}
            )
        elif path == "/api/tasks/12" and method == "GET":
            answer = JSONResponse(self._task())
        elif path == "/api/labels":
            answer = JSONResponse({"count": 1, "next": None, "previous": None, "results": self._labels()})
        elif path == "/api/tasks/12/data/meta":
            answer = JSONResponse(self._meta())
        elif path == "/api/tasks/12/data":
            answer = Response(self._chunk(), media_type="application/zip")
        elif path == "/api/tasks/12/annotations" and method in ("PATCH", "PUT"):
            body = await request.json()
            self.sent.append((method, body))
            answer = JSONResponse({"version": 1, "tags": [], "shapes": [], "tracks": []})
        else:
            answer = JSONResponse({"detail": f"nothing at {method} {path}"}, 404)
        await answer(scope, receive, send)

    def _task(self) -> dict[str, Any]:
        return {
            "id": 12,
            "name": "Mugs",
            "url": "http://localhost/api/tasks/12",
            "mode": "annotation",
            "dimension": "2d",
            "subset": "",
            "organization": None,
            "organization_id": None,
            "project_id": None,
            "target_storage": None,
            "source_storage": None,
            "overlap": 0,
            "segment_size": len(self.photos),
            "size": len(self.photos),
            "data": 5,
            "data_chunk_size": 72,
            "data_compressed_chunk_type": "imageset",
            "data_original_chunk_type": "imageset",
            "status": "annotation",
            "bug_tracker": "",
            "created_date": "2026-01-02T03:04:05Z",
            "updated_date": "2026-01-02T03:04:05Z",
            "jobs": {"count": 1, "completed": 0, "validation": 0, "url": "http://localhost/api/jobs?task_id=12"},
            "labels": {"url": "http://localhost/api/labels?task_id=12"},
        }

    def _labels(self) -> list[dict[str, Any]]:
        return [
            {"id": 70 + i, "name": name, "color": "#ff0000", "attributes": [], "type": "any", "sublabels": [],
             "has_parent": False, "parent_id": None, "task_id": 12}
            for i, name in enumerate(self.labels)
        ]  # fmt: skip

    def _meta(self) -> dict[str, Any]:
        return {
            "chunk_size": 72,
            "chunks_updated_date": "2026-01-02T03:04:05Z",
            "size": len(self.photos),
            "image_quality": 70,
            "start_frame": 0,
            "stop_frame": len(self.photos) - 1,
            "frame_filter": "",
            "deleted_frames": [],
            "included_frames": None,
            "frames": [
                {"width": photo.shape[1], "height": photo.shape[0], "name": f"{i}.png", "related_files": 0}
                for i, photo in enumerate(self.photos)
            ],
        }

    def _chunk(self) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for i, photo in enumerate(self.photos):
                content = io.BytesIO()
                Image.fromarray(photo).save(content, "PNG")
                archive.writestr(f"{i:06}.png", content.getvalue())
        return file.getvalue()


def test_the_driver_sends_what_the_concept_finds(concept: Concept, tmp_path: Path):
    photos = [scene(20 + n, SIZE, classes=2)[0] for n in range(3)]
    server = Server(photos, ["mug", "other", "tea spoon"])
    with serving(server) as address, make_client(address, access_token="not-a-secret") as client:
        client.config.cache_dir = tmp_path / "cache"
        auto_annotation.annotate_task(client, 12, Finding(concept))
    ((method, body),) = server.sent
    assert method == "PATCH" and body["tags"] == []
    for n, photo in enumerate(photos):
        found = np.zeros(SIZE, np.uint8)
        for shape in body["shapes"]:
            if shape["frame"] == n:
                mask = masks.decode_mask(shape["points"], image_width=SIZE[1], image_height=SIZE[0])
                found[mask] = {70: 1, 72: 2}[shape["label_id"]]
                assert shape["type"] == "mask" and shape["source"] == "auto"
        assert np.array_equal(found, concept.segment(photo).mask)


def test_its_command_line_takes_the_module_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from cvat_cli.__main__ import main

    model = tiny_checkpoint(tmp_path / "tiny.safetensors")
    photo, painted = scene(0, SIZE)
    file = tmp_path / "mug.concept"
    create(model=str(model)).segmenter.learn([photo], [painted], classes=["mug"]).save(file)
    server = Server([scene(21, SIZE)[0]], ["mug"])
    monkeypatch.setenv("CVAT_ACCESS_TOKEN", "not-a-secret")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["task", "auto-annotate", "12", "--function-module", "dgpnet.backends.cvat", "--clear-existing"]
    words += ["-p", f"concept=str:{file}", "-p", f"model=str:{model}", "-p", "threshold=float:0.5"]
    with serving(server) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        assert not main(["--server-host", f"http://{host}", "--server-port", port, *words])
    ((method, body),) = server.sent
    assert method == "PUT" and {shape["label_id"] for shape in body["shapes"]} <= {70}
    assert json.dumps(body)


def test_an_agent_takes_both_functions(concept: Concept):
    from cvat_cli._internal.agent import get_function_driver_class

    kinds = {
        get_function_driver_class(one.spec).FUNCTION_KIND for one in (Finding(concept), Clicking(tiny_segmenter()))
    }
    assert kinds == {"detector", "interactor"}


def test_the_command_prints_what_cvats_own_takes(concept: Concept, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from cvat_cli._internal.commands_all import COMMANDS
    from cvat_cli._internal.common import configure_common_arguments

    from dgpnet.cli import run

    parser = argparse.ArgumentParser()
    configure_common_arguments(parser)
    COMMANDS.configure_parser(parser)

    model = tiny_checkpoint(tmp_path / "tiny.safetensors")
    concept.save(tmp_path / "two cups.concept")
    for words in (["backend", "cvat", str(tmp_path / "two cups.concept")], ["backend", "cvat"]):
        assert run([*words, "--model", str(model)]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  cvat-cli ")]
        assert len(lines) == (3 if len(words) == 3 else 2)
        for line in lines:
            parser.parse_args(shlex.split(line)[1:])

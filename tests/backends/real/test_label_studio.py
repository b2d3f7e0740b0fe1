"""Label Studio itself, with our back end behind it: `make backends`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dgpnet

pytest.importorskip("label_studio_sdk", reason="`make backends` has Label Studio's library")

from label_studio_sdk.label_interface import LabelInterface

from dgpnet.backends.interface import Interface
from dgpnet.cli import run
from dgpnet.images import read_mask
from tests.backends.real import label_studio as real

pytestmark = pytest.mark.skipif(
    not real.PROGRAM, reason="$LABEL_STUDIO does not name the program; `make backends` does"
)

#: The two that are painted first.
PAINTED = (0, 5)


@pytest.fixture(scope="module")
def photos() -> list[real.Photograph]:
    return real.photographs()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real.label_studio(tmp_path_factory.mktemp("label-studio")) as address:
        yield address


@pytest.fixture(scope="module")
def key(url: str) -> str:
    return real.personal_token(url)


@pytest.fixture(scope="module")
def segmenter() -> dgpnet.Segmenter:
    return dgpnet.load("small", device="cpu")


def iou(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    union = (one | other).sum()
    return float((one & other).sum() / union) if union else 1.0


def found_by(concept: dgpnet.Concept, photo: real.Photograph) -> NDArray[np.bool_]:
    return concept.segment(photo.content).mask == 1


def test_two_are_painted_the_others_are_found_and_a_killed_back_end_goes_on(
    url: str,
    key: str,
    photos: list[real.Photograph],
    segmenter: dgpnet.Segmenter,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: Any,
):
    desk = real.Desk.open(url, key, photos)
    others = [n for n in range(len(photos)) if n not in PAINTED]
    kept = tmp_path / "kept"

    def learned() -> dgpnet.Concept:
        (file,) = kept.glob("*/learned.concept")
        return dgpnet.Concept.load(file, segmenter)

    def held_against(concept: dgpnet.Concept, numbers: list[int]) -> list[NDArray[np.bool_]]:
        """What Label Studio has under the concept's version is what the concept finds."""
        masks = []
        for n in numbers:
            prediction = desk.predictions(n)[f"dgpnet-{concept.fingerprint[:16]}"]
            mask = real.mask_of(prediction.result, photos[n].mask.shape)
            assert iou(mask, found_by(concept, photos[n])) == 1.0
            assert prediction.score == pytest.approx(concept.segment(photos[n].content).score, abs=1e-4)
            masks.append(mask)
        return masks

    port = real.free_port()
    with real.backend(url, desk.key, kept, port) as (address, child):
        number = desk.connect(address)
        desk.retrieve()
        assert all(desk.predictions(n) == {} for n in others)  # nothing is painted yet

        annotations = [desk.paint(n, photos[n].mask) for n in PAINTED]
        desk.retrieve()
        concept = learned()
        assert concept.examples == 2
        first = held_against(concept, others)
        scratch = segmenter.learn([photos[n].content for n in PAINTED], [photos[n].mask for n in PAINTED])
        assert min(iou(found_by(scratch, photos[n]), mask) for n, mask in zip(others, first, strict=True)) > 0.99
        truth = [iou(mask, photos[n].mask == 1) for n, mask in zip(others, first, strict=True)]
        with capsys.disabled():
            print(f"\ncoins in ten photographs from two: mean IoU {np.mean(truth):.3f}")

        half = photos[PAINTED[1]].mask.copy()
        half[:, : half.shape[1] // 2] = 0
        desk.repaint(annotations[1], half)
        desk.retrieve()
        changed = learned()
        assert changed.fingerprint != concept.fingerprint
        second = held_against(changed, others)
        assert any(not np.array_equal(one, other) for one, other in zip(first, second, strict=True))

        proposed = desk.post(f"/api/ml/{number}/interactive-annotating", json=click(desk, photos[1], 1))
        (region,) = proposed["data"]["result"]
        assert real.mask_of([region], photos[1].mask.shape).any()
        child.kill()

    desk.paint(1, photos[1].mask)  # nobody is there to hear of it
    with real.backend(url, desk.key, kept, port) as (_, child):
        desk.retrieve()
        resumed = learned()
        assert resumed.examples == 3
        held_against(resumed, [n for n in others if n != 1])

        desk.client.ml.train(id=number)
        assert child.stderr is not None
        assert any("fitted to 3" in line for line in child.stderr)
        desk.retrieve()
        held_against(learned(), [2, 3])

        desk.client.annotations.delete(id=annotations[1])
        desk.retrieve()
        assert learned().examples == 2

    # What it exports is a support set, and what was learned a file for every command.
    (tmp_path / "photos").mkdir()
    for photo in photos:
        (tmp_path / "photos" / photo.name).write_bytes(photo.content)
    (tmp_path / "export.json").write_text(json.dumps(desk.export()))
    words = ["learn", "export.json", "--images", "photos/", "--out", "coin.concept", "--model", "small"]
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0
    assert dgpnet.Concept.load("coin.concept", segmenter).examples == 2
    (file,) = kept.glob("*/learned.concept")
    assert run(["segment", str(file), "photos/", "--out", "found/", "--model", "small"]) == 0
    for n in others:
        mask = read_mask(tmp_path / "found" / "masks" / f"coins-{n + 1:02}.png")
        assert iou(mask > 0, found_by(learned(), photos[n])) > 0.99


def test_a_token_goes_with_the_address(url: str, key: str, photos: list[real.Photograph], tmp_path: Path):
    """To the webhooks too, which have no place for a password of their own."""
    desk = real.Desk.open(url, key, photos[:2], "With a token")
    with real.backend(url, desk.key, tmp_path / "kept", 0, "--token", "random") as (address, _):
        assert "@" in address
        desk.connect(address)
        desk.paint(0, photos[0].mask)
        desk.retrieve()
        assert len(desk.predictions(1)) == 1


def click(desk: real.Desk, photo: real.Photograph, n: int) -> dict[str, Any]:
    """In the middle of a coin."""
    rows, columns = np.nonzero(photo.mask)
    middle = len(rows) // 2
    height, width = photo.mask.shape
    value = {"x": 100 * (columns[middle] + 0.5) / width, "y": 100 * (rows[middle] + 0.5) / height, "width": 1}
    region = {"type": "keypointlabels", "value": {**value, "keypointlabels": ["coin"]}, "is_positive": True}
    region |= {"original_width": width, "original_height": height, "from_name": "click", "to_name": "image"}
    return {"task": desk.tasks[n], "context": {"result": [region]}}


@pytest.mark.parametrize(
    "config",
    [
        real.CONFIG,
        real.CONFIG.replace("BrushLabels", "PolygonLabels"),
        '<View><Header value="a"/><View><Image name="i" value="$photo"/></View><BrushLabels name="b" toName="i">'
        '<Label value="A &amp; B"/><Label value="long" alias="short"/></BrushLabels></View>',
    ],
)
def test_interfaces_are_read_as_label_studios_own_library_reads_them(config: str):
    ours, theirs = Interface.parse(config), LabelInterface(config)
    control = theirs.get_control(ours.tools[0].name)
    assert control.tag.lower() == ours.tools[0].kind and control.to_name == [ours.image]
    assert theirs.get_object(ours.image).value == f"${ours.variable}"
    aliases = {label.attr.get("alias") or name for name, label in control.labels_attrs.items()}
    assert aliases == set(ours.tools[0].labels)


def test_the_photographs_are_what_they_say(photos: list[real.Photograph]):
    from PIL import Image, ImageOps

    assert len({photo.content for photo in photos}) == 12
    for photo in photos:
        with Image.open(io.BytesIO(photo.content)) as image:
            shown = ImageOps.exif_transpose(image)
            assert shown.size == photo.mask.shape[::-1]

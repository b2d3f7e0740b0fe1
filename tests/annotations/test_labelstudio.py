"""Label Studio exports: strokes and shapes, addresses of photographs, and predictions that come back."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgpnet import images
from dgpnet.annotations import Item, brush, export, read_support, shapes
from dgpnet.errors import Error

SIZE = (20, 40)


def region(kind: str, label: str, **value: Any) -> dict[str, Any]:
    return {
        "id": "r",
        "type": kind,
        "original_height": SIZE[0],
        "original_width": SIZE[1],
        "image_rotation": 0,
        "value": {**value, kind: [label]},
    }


def stroke(mask: np.ndarray, label: str = "mug") -> dict[str, Any]:
    return region(
        "brushlabels", label, format="rle", rle=list(brush.encode(shapes.crop(mask.astype(bool)), mask.shape))
    )


def task(*regions: dict[str, Any], image: str = "a.jpg") -> dict[str, Any]:
    return {"id": 3, "data": {"image": image}, "annotations": [{"result": list(regions), "was_cancelled": False}]}


def box(top: int, left: int, bottom: int, right: int) -> np.ndarray:
    mask = np.zeros(SIZE, np.uint8)
    mask[top:bottom, left:right] = 1
    return mask


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Callable[[Any], Path]:
    photo("a.jpg", SIZE)

    def write(data: Any) -> Path:
        path = tmp_path / "export.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write


def test_strokes_and_shapes_are_drawn_in_order(written: Callable[[Any], Path]) -> None:
    data = task(
        stroke(box(0, 0, 5, 5), "a stroke"),
        region("polygonlabels", "b polygon", points=[[25, 0], [50, 0], [50, 25], [25, 25]], closed=True),
        region("rectanglelabels", "c rectangle", x=0, y=50, width=25, height=25, rotation=0),
        region("ellipselabels", "d ellipse", x=75, y=50, radiusX=10, radiusY=40, rotation=0),
        stroke(box(0, 3, 5, 5), "__ignore__"),
        {"type": "choices", "value": {"choices": ["blurred"]}},
    )
    support = read_support(written([data]))
    assert support.format == "labelstudio"
    assert support.classes == ("a stroke", "b polygon", "c rectangle", "d ellipse")
    mask = support.examples[0].mask
    assert (mask[0:5, 0:3] == 1).all()
    assert (mask[0:5, 3:5] == 255).all()
    assert (mask[0:5, 10:20] == 2).all()
    assert (mask == 2).sum() == 50
    assert (mask[10:15, 0:10] == 3).all()
    assert (mask == 3).sum() == 50
    assert abs(int((mask == 4).sum()) - np.pi * 4 * 8) < 8


def test_a_rectangle_turns_about_its_corner(written: Callable[[Any], Path]) -> None:
    turned = region("rectanglelabels", "mug", x=50, y=0, width=25, height=25, rotation=90)
    mask = read_support(written([task(turned)])).examples[0].mask
    np.testing.assert_array_equal(mask, box(0, 15, 10, 20))


@pytest.mark.parametrize(
    "address",
    [
        "a.jpg",
        "/data/upload/4/0a1b2c3d-a.jpg",
        "/data/upload/4/a.jpg",
        "/data/local-files/?d=some/where/a.jpg",
        "https://example.org/photos/a.jpg?token=1",
        "s3://bucket/photos/a.jpg",
        "/data/local-files/?d=some%20where%2Fa.jpg",
        "C:/photos/a.jpg",
    ],
)
@pytest.mark.parametrize("place", ["a.jpg", "images/a.jpg"])
def test_addresses_are_looked_up_by_name(tmp_path: Path, photo: Callable[..., Path], address: str, place: str) -> None:
    photo(place, SIZE)
    (tmp_path / "export.json").write_text(json.dumps([task(stroke(box(0, 0, 5, 5)), image=address)]))
    assert read_support(tmp_path / "export.json").examples[0].photo == tmp_path / place


def test_the_last_version_counts_and_unfinished_tasks_do_not(written: Callable[[Any], Path]) -> None:
    several = task(stroke(box(0, 0, 1, 1)))
    several["annotations"] += [
        {"result": [stroke(box(2, 2, 4, 4))]},
        {"result": [stroke(box(0, 0, 9, 9))], "was_cancelled": True},
    ]
    unfinished = {"data": {"image": "b.jpg"}, "annotations": [], "predictions": [{"result": [stroke(box(0, 0, 1, 1))]}]}
    (example,) = read_support(written([several, unfinished])).examples
    np.testing.assert_array_equal(example.mask, box(2, 2, 4, 4))


def test_a_finished_task_without_regions_is_a_negative(
    written: Callable[[Any], Path], photo: Callable[..., Path]
) -> None:
    photo("b.jpg", SIZE)
    examples = read_support(written([task(image="b.jpg"), task(stroke(box(0, 0, 5, 5)))])).examples
    assert [example.mask.any() for example in examples] == [False, True]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_strokes_of_either_orientation_lie_on_the_photograph(
    tmp_path: Path, photo: Callable[..., Path], orientation: int
) -> None:
    photo("a.jpg", SIZE, orientation)
    stored = box(1, 2, 4, 6)
    shown = images.orient(stored, orientation)
    for drawn in [shown] + ([stored] if orientation >= 5 else []):
        height, width = drawn.shape
        data = task({**stroke(drawn), "original_height": height, "original_width": width})
        (tmp_path / "export.json").write_text(json.dumps([data]))
        np.testing.assert_array_equal(read_support(tmp_path / "export.json").examples[0].mask, shown)


@pytest.mark.parametrize("instances", [False, True])
@pytest.mark.parametrize("polygons", [False, True])
def test_what_goes_out_comes_back(
    tmp_path: Path, photo: Callable[..., Path], blobs: Callable[..., np.ndarray], instances: bool, polygons: bool
) -> None:
    masks = {
        "a.jpg": blobs((30, 41), 2, ignore=True),
        "trip/b & c.jpg": blobs((25, 20), 2),
        "c.jpg": np.zeros((9, 9), np.uint8),
    }
    for name, mask in masks.items():
        photo(f"photos/{name}", mask.shape)
    items = [Item(name, mask, 0.75) for name, mask in masks.items()]
    path = export("labelstudio", tmp_path, ["spoon", "mug"], items, instances=instances, polygons=polygons)
    assert json.loads(path.read_text())[0]["predictions"][0]["score"] == 0.75
    support = read_support(path, photos=tmp_path / "photos", classes=["spoon", "mug"])
    for example, mask in zip(support.examples, masks.values(), strict=True):
        np.testing.assert_array_equal(example.mask, mask)


GOOD = task(stroke(box(0, 0, 5, 5)))


def put(key: str, value: Any, of_value: bool = False) -> list[Any]:
    data = copy.deepcopy(GOOD)
    found = data["annotations"][0]["result"][0]
    (found["value"] if of_value else found)[key] = value
    return [data]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[{", "not JSON"),
        ([GOOD, 3], "expected an object"),
        ([GOOD, {"id": 4}], "'data' is missing"),
        ([GOOD, {"id": 4, "data": {"image": "a.jpg"}, "annotations": 3}], "'annotations' is 3"),
        ([GOOD, {"id": 4, "data": {"text": "hello"}, "annotations": [{"result": []}]}], "address of a photograph"),
        ([GOOD, {"id": 4, "data": {"image": "a.jpg"}, "annotations": [{}]}], "'result' is missing"),
        ([task(stroke(box(0, 0, 5, 5)), image="../../etc/passwd.jpg")], "leads outside"),
        ([task(stroke(box(0, 0, 5, 5)), image="/etc/passwd.jpg")], "leads outside"),
        ([task(stroke(box(0, 0, 5, 5)), image="/data/local-files/?d=../../b.jpg")], "leads outside"),
        ([task(stroke(box(0, 0, 5, 5)), image="no.jpg")], "no photograph 'no.jpg'"),
        (put("original_width", 41), "annotated at 41 x 20"),
        (put("original_width", 2**40), "annotated at"),
        (put("image_rotation", 90), "rotated in Label Studio"),
        (put("rle", [1, 2, 3], True), "cut off"),
        (put("rle", [0] * 100, True), "hold 0 values, expected 3200"),
        (put("rle", [255] * 100, True), "hold 4294967295 values"),
        (put("rle", [256], True), "not a list of bytes"),
        (put("rle", ["a"], True), "not a list of bytes"),
        (put("rle", "abc", True), "'rle' is 'abc'"),
        (put("brushlabels", ["mug", "spoon"], True), "expected exactly one"),
        (put("brushlabels", "mug", True), "expected exactly one"),
        ([task(stroke(box(0, 0, 0, 0)))], "1 regions cover no pixel"),
        ([task(region("polygonlabels", "mug", points=[[0, 0], [300, 0], [300, 300]]))], "outside the photograph"),
        ([task(region("keypointlabels", "mug", x=1, y=1, width=1))], "1 regions enclose nothing"),
        ([task(region("rectanglelabels", "mug", x="1", y=1, width=1, height=1))], "'x' is '1', expected a number"),
        ([task()], "anything but background"),
    ],
)
def test_a_broken_file_is_refused_in_one_sentence(written: Callable[[Any], Path], data: Any, reason: str) -> None:
    with pytest.raises(Error, match=reason) as caught:
        read_support(written(data))
    assert "export.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["/data/upload/4/0a1b2c3d-my%20mug.jpg", "my%20mug.jpg", "?d=x/my%20mug.jpg"])
def test_addresses_with_spaces_are_understood(tmp_path: Path, photo: Callable[..., Path], address: str) -> None:
    photo("my mug.jpg", SIZE)
    (tmp_path / "export.json").write_text(json.dumps([task(stroke(box(0, 0, 5, 5)), image=address)]))
    assert read_support(tmp_path / "export.json").examples[0].photo == tmp_path / "my mug.jpg"


def test_a_folder_of_local_files_is_looked_up_from_its_end(tmp_path: Path, photo: Callable[..., Path]) -> None:
    for trip in ("one", "two"):
        photo(f"{trip}/a.jpg", SIZE)
    tasks = [task(stroke(box(0, 0, 5, 5)), image=f"/data/local-files/?d=all/{trip}/a.jpg") for trip in ("one", "two")]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    photos = [example.photo for example in read_support(tmp_path / "export.json").examples]
    assert photos == [tmp_path / "one/a.jpg", tmp_path / "two/a.jpg"]


def test_what_encloses_nothing_and_what_was_done_twice_is_said(written: Callable[[Any], Path]) -> None:
    data = task(stroke(box(0, 0, 5, 5)), region("keypointlabels", "mug", x=1, y=1, width=1), stroke(box(0, 0, 0, 0)))
    data["annotations"] *= 2
    told = " ".join(read_support(written([data])).notes)
    assert "1 tasks were annotated several times; the last annotation counts" in told
    assert "1 regions enclose nothing (key points, lines) and are left out" in told
    assert "1 regions cover no pixel and are left out" in told


def test_json_min_is_told_from_json(written: Callable[[Any], Path]) -> None:
    with pytest.raises(Error, match="JSON-MIN; export the project again, as JSON"):
        read_support(written([{"image": "a.jpg", "id": 1, "annotator": 1, "annotation_id": 2, "label": []}]))

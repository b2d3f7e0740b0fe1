"""labelme files: every shape that encloses something, and what can be wrong with a file."""

import base64
import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dgpnet import images
from dgpnet.annotations import Item, export, read_support
from dgpnet.errors import Error

SIZE = (20, 30)


def png(mask: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(mask).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def shape(label: str, kind: str | None, points: Any, **more: Any) -> dict[str, Any]:
    return {"label": label, "shape_type": kind, "points": points, **more}


def document(*shapes: dict[str, Any], **more: Any) -> dict[str, Any]:
    size = {"imageHeight": SIZE[0], "imageWidth": SIZE[1]}
    return {"version": "5.4.1", "imagePath": "a.jpg", "imageData": "ignored", **size, "shapes": list(shapes), **more}


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Callable[[Any], Path]:
    photo("a.jpg", SIZE)

    def write(data: Any) -> Path:
        path = tmp_path / "a.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write


def test_every_shape_is_drawn_in_order(written: Callable[[Any], Path]) -> None:
    data = document(
        shape("a polygon", "polygon", [[1, 1], [4, 1], [4, 3], [1, 3]]),
        shape("b old polygon", None, [[1, 10], [3.4, 10], [3.9, 11.9], [1, 12]]),
        shape("c rectangle", "rectangle", [[10, 8], [6, 2]]),
        shape("d circle", "circle", [[20, 10], [20, 16]]),
        shape("e mask", "mask", [[19, 9], [21, 10]], mask=png(np.array([[1, 0, 1], [0, 1, 0]], np.uint8))),
        shape("__ignore__", "rectangle", [[0, 18], [30, 20]]),
        shape("_background_", "rectangle", [[0, 18], [5, 20]]),
    )
    support = read_support(written(data))
    assert support.format == "labelme"
    assert support.classes == ("a polygon", "b old polygon", "c rectangle", "d circle", "e mask")
    mask = support.examples[0].mask
    assert (mask == 1).sum() == 12
    assert (mask[10:12, 1:4] == 2).all()
    assert (mask[2:8, 6:10] == 3).all()
    assert abs(int((mask == 4).sum()) - np.pi * 36) < 6
    np.testing.assert_array_equal(mask[9:11, 19:22], [[5, 4, 5], [4, 5, 4]])
    assert (mask[18:, 5:] == 255).all()
    assert not mask[18:, :5].any()


def test_a_folder_of_files_is_one_set(
    written: Callable[[Any], Path], tmp_path: Path, photo: Callable[..., Path]
) -> None:
    written(document(shape("mug", "rectangle", [[1, 1], [5, 5]])))
    photo("photos/b.jpg", (9, 9))
    (tmp_path / "json").mkdir()
    other = document(
        shape("fork", "rectangle", [[1, 1], [5, 5]]), imagePath="..\\photos\\b.jpg", imageHeight=9, imageWidth=9
    )
    (tmp_path / "json/b.json").write_text(json.dumps(other))
    photo("photos/c.jpg", (9, 9))
    negative = {"imagePath": "c.jpg", "shapes": []}
    (tmp_path / "photos/c.json").write_text(json.dumps(negative))
    support = read_support(tmp_path)
    assert support.classes == ("fork", "mug")
    assert [np.unique(example.mask).tolist() for example in support.examples] == [[0, 2], [0, 1], [0]]
    # Alone, json/b.json points outside its folder.
    with pytest.raises(Error, match="leads outside"):
        read_support(tmp_path / "json")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_files_of_either_orientation_lie_on_the_photograph(
    tmp_path: Path, photo: Callable[..., Path], orientation: int
) -> None:
    photo("a.jpg", SIZE, orientation)
    stored = np.zeros(SIZE, np.uint8)
    stored[2:5, 3:10] = 1
    shown = images.orient(stored, orientation)
    for drawn in [shown] + ([stored] if orientation >= 5 else []):
        height, width = drawn.shape
        y, x = np.nonzero(drawn)
        corners = [[int(x.min()), int(y.min())], [int(x.max()) + 1, int(y.max()) + 1]]
        data = document(shape("mug", "rectangle", corners), imageHeight=height, imageWidth=width)
        (tmp_path / "a.json").write_text(json.dumps(data))
        np.testing.assert_array_equal(read_support(tmp_path / "a.json").examples[0].mask, shown)


@pytest.mark.parametrize("instances", [False, True])
@pytest.mark.parametrize("polygons", [False, True])
def test_what_goes_out_comes_back(
    tmp_path: Path, photo: Callable[..., Path], blobs: Callable[..., np.ndarray], instances: bool, polygons: bool
) -> None:
    masks = {
        "a.jpg": blobs((30, 41), 2, ignore=True),
        "trip/b.jpg": blobs((25, 20), 2),
        "c.jpg": np.zeros((9, 9), np.uint8),
    }
    for name, mask in masks.items():
        photo(f"photos/{name}", mask.shape)
    items = [Item(name, mask) for name, mask in masks.items()]
    path = export("labelme", tmp_path, ["spoon", "mug"], items, instances=instances, polygons=polygons)
    support = read_support(path, photos=tmp_path / "photos", classes=["spoon", "mug"])
    read = {example.photo.relative_to(tmp_path / "photos").as_posix(): example.mask for example in support.examples}
    assert read.keys() == masks.keys()
    for name, mask in masks.items():
        np.testing.assert_array_equal(read[name], mask)


def test_files_beside_their_photographs_need_no_folder(tmp_path: Path, photo: Callable[..., Path]) -> None:
    mask = np.eye(9, dtype=np.uint8)
    photo("labelme/trip/a.jpg", mask.shape)
    path = export("labelme", tmp_path, ["line"], [Item("trip/a.jpg", mask)])
    np.testing.assert_array_equal(read_support(path).examples[0].mask, mask)
    document = json.loads((path / "trip/a.json").read_text())
    assert document["imagePath"] == "a.jpg"
    assert document["shapes"][0]["points"] == [[0, 0], [8, 8]]  # the first and the last pixel, as labelme has them


GOOD = document(shape("mug", "mask", [[1, 1], [2, 2]], mask=png(np.ones((2, 2), np.uint8))))


def put(key: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    data["shapes"][0][key] = value
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"shapes": ', "not JSON"),
        (GOOD | {"shapes": {}}, "'shapes' is {}, expected a list"),
        (GOOD | {"shapes": [3]}, "expected an object"),
        (put("label", None), "'label' is None, expected text"),
        (GOOD | {"imagePath": None}, "'imagePath' is None"),
        (GOOD | {"imagePath": "../b.jpg"}, "leads outside"),
        (GOOD | {"imagePath": "/etc/passwd"}, "leads outside"),
        (GOOD | {"imagePath": "no.jpg"}, "no photograph 'no.jpg'"),
        (GOOD | {"imageWidth": 31}, "annotated at 31 x 20"),
        (put("points", [[1, 1]]), "1 shapes have too few points"),
        (put("points", 3), "'points' is 3"),
        (put("points", [[1, 1], [29, 19]]), "its mask is 2 x 2 pixels, its box 29 x 19"),
        (put("points", [[29, 19], [30, 20]]), "leaves the photograph"),
        (put("mask", None), "'mask' is None"),
        (put("mask", "!!!"), "not a PNG"),
        (put("mask", png(np.ones((40, 40), np.uint8))), "larger than the photograph"),
        (put("mask", png(np.zeros((2, 2), np.uint8))), "1 shapes cover no pixel"),
        (put("shape_type", "line"), "1 points and lines enclose nothing"),
        (put("shape_type", "polygon"), "1 shapes have too few points"),
        (GOOD | {"shapes": [shape("mug", "circle", [[1, 1], 3])]}, "not numbers"),
        (GOOD | {"shapes": [shape("mug", "circle", [[1, 1], [1, 1]])]}, "1 shapes cover no pixel"),
        (GOOD | {"shapes": [shape("mug", "circle", [[90, 90], [91, 91]])]}, "outside the photograph"),
        (GOOD | {"shapes": [shape("mug", "polygon", [[1, 1], [90, 1], [90, 9]])]}, "outside the photograph"),
        (GOOD | {"shapes": []}, "anything but background"),
    ],
)
def test_a_broken_file_is_refused_in_one_sentence(written: Callable[[Any], Path], data: Any, reason: str) -> None:
    with pytest.raises(Error, match=reason) as caught:
        read_support(written(data))
    assert "a.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_broken_file_of_a_folder_is_named_with_the_others(written: Callable[[Any], Path], tmp_path: Path) -> None:
    written(GOOD)
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text(json.dumps(GOOD | {"imagePath": "no.jpg"}))
    with pytest.raises(Error, match="2 problems") as caught:
        read_support(tmp_path)
    assert "b.json" in str(caught.value)
    assert "c.json" in caught.value.__notes__[0]


def test_turned_rectangles_of_other_versions_are_read(written: Callable[[Any], Path]) -> None:
    """labelme 6 and X-AnyLabeling."""
    corners = [[5, 5], [10, 10], [5, 15], [0, 10]]
    for kind in ("oriented_rectangle", "rotation"):
        mask = read_support(written(document(shape("mug", kind, corners)))).examples[0].mask
        assert mask.sum() == pytest.approx(50, abs=6)


def test_points_lines_and_specks_are_counted_and_left_out(written: Callable[[Any], Path]) -> None:
    data = document(
        shape("mug", "rectangle", [[1, 1], [5, 5]], group_id=3, flags={"difficult": True}),
        shape("mug", "point", [[1, 1]]),
        shape("mug", "linestrip", [[1, 1], [5, 5], [9, 1]]),
        shape("mug", "polygon", [[1.2, 1.2], [1.3, 1.2], [1.3, 1.3]]),
        shape("mug", "polygon", [[1.2, 1.2], [1.3, 1.2]]),
    )
    support = read_support(written(data))
    assert (support.examples[0].mask == 1).sum() == 16
    told = " ".join(support.notes)
    assert "2 points and lines enclose nothing and are left out" in told
    assert "1 shapes cover no pixel" in told
    assert "1 shapes have too few points" in told


def test_outlines_with_whole_corners_hold_their_border_pixels(written: Callable[[Any], Path]) -> None:
    """As labelme itself draws them."""
    square = shape("mug", "polygon", [[2, 1], [2, 3], [5, 3], [5, 1]])
    support = read_support(written(document(square)))
    assert (support.examples[0].mask[1:4, 2:6] == 1).all()
    assert (support.examples[0].mask == 1).sum() == 12
    assert "whole numbers" in support.notes[0]
    by_hand = shape("mug", "polygon", [[10.5, 10], [12, 10], [12, 12]])
    mask = read_support(written(document(square, by_hand))).examples[0].mask  # correcting one leaves the others
    assert (mask[:5] == 1).sum() == 12


@pytest.mark.parametrize("path", ["..\\photos\\a.jpg", "../a.jpg", "C:\\me\\a.jpg", "/srv/me/a.jpg"])
def test_a_photograph_beside_the_file_is_found_by_its_own_name(written: Callable[[Any], Path], path: str) -> None:
    assert len(read_support(written(GOOD | {"imagePath": path})).examples) == 1


@pytest.mark.parametrize("label", ["", " ", "a\nb", "\ud800", "a" * 100_000, "\x07"])
def test_names_that_cannot_be_shown_are_refused(written: Callable[[Any], Path], label: str) -> None:
    with pytest.raises(Error, match="is no name for a class") as caught:
        read_support(written(put("label", label)))
    assert len(str(caught.value)) <= 500

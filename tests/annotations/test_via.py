"""Files of the VGG Image Annotator, versions 1 to 3."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgpnet.annotations import read_support
from dgpnet.errors import Error

SIZE = (20, 40)
SQUARE = {"name": "polygon", "all_points_x": [2, 2, 5, 5], "all_points_y": [1, 3, 3, 1]}


def region(shape: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {"shape_attributes": shape, "region_attributes": attributes}


def picture(*regions: dict[str, Any]) -> dict[str, Any]:
    return {"a.jpg99": {"filename": "a.jpg", "size": 99, "regions": list(regions), "file_attributes": {}}}


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Callable[[Any], Path]:
    photo("a.jpg", SIZE)

    def write(data: Any) -> Path:
        path = tmp_path / "via_region_data.json"
        path.write_text(json.dumps(data))
        return path

    return write


def test_every_shape_that_encloses_something_is_drawn_in_order(written: Callable[[Any], Path]) -> None:
    data = picture(
        region(SQUARE, label="a polygon"),
        region({"name": "rect", "x": 10, "y": 2, "width": 4, "height": 6}, label="b box"),
        region({"name": "circle", "cx": 25, "cy": 10, "r": 6}, label="c circle"),
        region({"name": "ellipse", "cx": 36, "cy": 10, "rx": 2, "ry": 8, "theta": 0}, label="d ellipse"),
        region({"name": "polyline", "all_points_x": [1, 2], "all_points_y": [1, 2]}, label="d ellipse"),
        region({"name": "point", "cx": 1, "cy": 1}, label="d ellipse"),
    )
    for document in (data, {"_via_settings": {}, "_via_img_metadata": data, "_via_attributes": {}}):
        support = read_support(written(document))
        assert support.format == "via"
        assert support.classes == ("a polygon", "b box", "c circle", "d ellipse")
        mask = support.examples[0].mask
        assert (mask[1:4, 2:6] == 1).all()  # whole corners are pixels, their border belongs to the shape
        assert (mask == 1).sum() == 12
        assert (mask[2:8, 10:14] == 2).all()
        assert abs(int((mask == 3).sum()) - np.pi * 36) < 8
        assert abs(int((mask == 4).sum()) - np.pi * 16) < 8
        assert any("2 points and lines enclose nothing" in note for note in support.notes)


def test_regions_of_version_1_are_numbered(written: Callable[[Any], Path]) -> None:
    data = picture()
    data["a.jpg99"]["regions"] = {"0": region(SQUARE, name="mug")}
    assert read_support(written(data)).classes == ("mug",)


def test_version_3_is_put_together_from_its_tables(written: Callable[[Any], Path]) -> None:
    data = {
        "project": {"pid": "x"},
        "config": {},
        "attribute": {"1": {"aname": "kind", "options": {"0": "mug", "1": "spoon"}, "type": 4}},
        "file": {"7": {"fid": 7, "fname": "a.jpg"}},
        "view": {"3": {"fid_list": [7]}},
        "metadata": {
            "a": {"vid": "3", "xy": [7, 2, 1, 2, 3, 5, 3, 5, 1], "av": {"1": "1"}},
            "b": {"vid": "3", "xy": [2, 10, 2, 4, 6], "av": {"1": "0"}},
            "c": {"vid": "3", "xy": [6, 10, 2, 4, 6], "av": {"1": "0"}},
        },
    }
    support = read_support(written(data))
    assert support.classes == ("mug", "spoon")
    mask = support.examples[0].mask
    assert ((mask == 1).sum(), (mask == 2).sum()) == (24, 12)
    data["metadata"]["a"]["vid"] = "9"
    with pytest.raises(Error, match="of no photograph in the file"):
        read_support(written(data))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ([{"fruit": "apple"}, {"fruit": "pear", "ripe": "yes"}], ("apple", "pear")),
        ([{"label": "apple", "ripe": "no"}, {"label": "pear", "ripe": "yes"}], ("apple", "pear")),
        ([{"Class": {"apple": True, "pear": False}}, {"Class": {"pear": True}}], ("apple", "pear")),
        ([{}, {}], ("object",)),
    ],
)
def test_the_attribute_that_names_the_class_is_found(
    written: Callable[[Any], Path], attributes: list[dict[str, Any]], expected: tuple[str, ...]
) -> None:
    shapes = [SQUARE, SQUARE | {"all_points_x": [12, 12, 15, 15]}]
    data = picture(*(region(shape, **each) for shape, each in zip(shapes, attributes, strict=True)))
    assert read_support(written(data)).classes == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (picture(region(SQUARE, colour="red", ripe="no")), "which of the attributes colour, ripe is the class"),
        (picture(region(SQUARE, label="mug"), region(SQUARE)), "it has no 'label'"),
        (picture(region({"name": "polygon", "all_points_x": [1]}, label="mug")), "'all_points_y' is missing"),
        (picture(region(SQUARE | {"all_points_x": [1]}, label="mug")), "it has 1 x and 4 y"),
        (picture(region({"name": "rect", "x": 1, "y": 1, "width": 99, "height": 1}, label="mug")), "outside"),
        (picture(region({"name": "circle", "cx": 1, "cy": "1", "r": 1}, label="mug")), "'cy' is '1'"),
        (picture(), "no annotated photograph"),
        ({**picture(region(SQUARE, label="mug")), "b": {"filename": "a.jpg", "regions": []}}, "there twice"),
        ({"b": {"filename": "../a.jpg", "regions": [region(SQUARE, label="mug")]}}, None),
        ({"b": {"filename": "b.jpg", "regions": [region(SQUARE, label="mug")]}}, "no photograph 'b.jpg'"),
    ],
)
def test_what_cannot_be_decided_is_asked(written: Callable[[Any], Path], data: Any, reason: str | None) -> None:
    if reason is None:  # found by its own name, beside the file
        assert len(read_support(written(data)).examples) == 1
        return
    with pytest.raises(Error, match=reason):
        read_support(written(data))

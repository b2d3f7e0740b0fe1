"""CVAT for images 1.1: what CVAT writes is read, what is broken is named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgpnet.annotations import Item, Legend, cvat, export
from dgpnet.annotations.reading import IGNORED, Request
from dgpnet.errors import Error

Write = Callable[..., Path]
LABELS = """<meta><task><labels>
<label><name>mug</name><color>#ff0000</color><attributes/></label>
<label><name>spoon</name><color>#00ff00</color><attributes/></label>
</labels></task></meta>"""


def document(*shapes: str, labels: str = LABELS, size: str = 'width="30" height="20"') -> str:
    image = f'<image id="0" name="a.jpg" {size}>{"".join(shapes)}</image>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>{labels}{image}</annotations>'


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Write:
    """written(text) puts annotations.xml beside images/a.jpg of 20 x 30 pixels."""

    def write(text: str) -> Path:
        photo("images/a.jpg", (20, 30))
        path = tmp_path / "annotations.xml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def labels_of(path: Path) -> np.ndarray:
    (draw,) = cvat.read(Request(path)).drawings
    return draw()[1]


def test_it_is_recognised_by_how_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    for text, ours in (
        (document(), True),
        ("\ufeff <annotations>", True),
        ("<annotation><folder/></annotation>", False),
    ):
        path.write_text(text)
        assert cvat.recognises(path) == ours


def test_every_shape_is_drawn(written: Write) -> None:
    path = written(
        document(
            '<box label="mug" xtl="1" ytl="1" xbr="5" ybr="4" z_order="0"/>',
            '<polygon label="spoon" points="6.50,1.50;9.50,1.50;9.50,4.50;6.50,4.50" z_order="0"/>',
            '<ellipse label="mug" cx="20.0" cy="10.0" rx="6" ry="3"/>',
            '<mask label="spoon" rle="0, 2, 1, 1" left="1" top="10" width="2" height="2"/>',
            '<tag label="mug"/>',
        )
    )
    found = cvat.read(Request(path))
    assert found.names == ("mug", "spoon")
    labels = labels_of(path)
    assert (labels[1:4, 1:5] == 1).all()
    assert (labels[2:4, 7:9] == 2).all()
    assert abs(int((labels[:, 12:] == 1).sum()) - np.pi * 18) < 5
    np.testing.assert_array_equal(labels[10:12, 1:3], [[2, 2], [0, 2]])


def test_later_shapes_and_higher_ones_lie_on_top(written: Write) -> None:
    box = '<box label="{}" xtl="1" ytl="1" xbr="5" ybr="4" z_order="{}"/>'
    assert (labels_of(written(document(box.format("mug", 1), box.format("spoon", 0))))[1:4, 1:5] == 1).all()
    assert (labels_of(written(document(box.format("mug", 0), box.format("spoon", 0))))[1:4, 1:5] == 2).all()


def test_a_box_is_turned_about_its_middle(written: Write) -> None:
    box = '<box label="mug" xtl="10" ytl="8" xbr="20" ybr="12" rotation="90"/>'
    expected = np.zeros((20, 30), int)
    expected[5:15, 13:17] = 1
    np.testing.assert_array_equal(labels_of(written(document(box))), expected)


def test_labels_without_a_list_are_those_drawn(written: Write) -> None:
    path = written(document('<box label="b" xtl="1" ytl="1" xbr="5" ybr="4"/>', labels=""))
    assert cvat.read(Request(path)).names == ("b",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (document('<polygon label="mug" points="1,1;2,2"/>'), "at least 3 points"),
        (document('<polygon label="mug" points="1,1;2,x;3,3"/>'), "not numbers"),
        (document('<polygon label="mug" points="1,1;200,2;3,3"/>'), "outside the photograph"),
        (document('<box label="mug" xtl="1" ytl="1" xbr="nan" ybr="4"/>'), "'xbr' is 'nan'"),
        (document('<mask label="mug" rle="1, 2" left="0" top="0" width="2" height="2"/>'), "do not add up to the 4"),
        (
            document('<mask label="mug" rle="9999999999999999999999" left="0" top="0" width="1" height="1"/>'),
            "rle|add up",
        ),
        (document('<mask label="mug" rle="-1, 5" left="0" top="0" width="2" height="2"/>'), "do not add up"),
        (document('<mask label="mug" rle="a" left="0" top="0" width="2" height="2"/>'), "not a list of whole numbers"),
        (document('<mask label="mug" rle="4" left="29" top="0" width="2" height="2"/>'), "leaves the photograph"),
        (document(size='width="40000" height="20"'), "annotated at 40000 x 20"),
        (document(size='width="x" height="20"'), "'width' is 'x'"),
    ],
)
def test_a_broken_shape_is_named(written: Write, text: str, reason: str) -> None:
    with pytest.raises(Error, match=reason) as caught:
        labels_of(written(text))
    assert "image a.jpg" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<annotations><image", "is not XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotations/>', "declares its own XML entities"),
    ],
)
def test_a_file_that_is_no_such_xml_is_refused(written: Write, text: str, reason: str) -> None:
    with pytest.raises(Error, match=reason):
        cvat.read(Request(written(text)))


def test_a_file_without_images_says_so(written: Write) -> None:
    (problem,) = cvat.read(Request(written("<annotations/>"))).problems
    assert "holds no <image>" in problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).map(lambda name: "c" + name),
        min_size=1,
        max_size=3,
        unique=True,
    )
)
def test_names_come_back_if_xml_can_hold_them(tmp_path: Path, photo: Callable[..., Path], names: list[str]) -> None:
    photo("a & <b>.jpg", (2, 4))
    mask = np.array([[0, 1, 1, 255], [0, min(2, len(names)), len(names), 0]], np.uint8)
    found = cvat.read(Request(export("cvat", tmp_path, Legend.of(names), [Item("a & <b>.jpg", mask)]), tmp_path))
    if all(name.isprintable() for name in names):
        assert found.names == tuple(names)
    assert len(found.names) == len(names)
    ((_, labels),) = (draw() for draw in found.drawings)
    np.testing.assert_array_equal(np.where(labels == IGNORED, 255, labels), mask)

"""Made-up annotation files, whole and broken: each gives a support set, or one sentence."""

import copy
import json
import os
import shutil
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dgpnet.annotations import SupportSet, brush, read_support, shapes
from dgpnet.annotations.runs import counts_of
from dgpnet.annotations.shapes import Patch
from dgpnet.errors import LONGEST, Error

pytestmark = pytest.mark.fuzz

#: `make fuzz` asks for many more, and for others each time.
EXAMPLES = int(os.environ.get("DGPNET_FUZZ", "25"))
fuzzed = settings(max_examples=EXAMPLES, derandomize="DGPNET_FUZZ" not in os.environ, deadline=None)

SIZE = (12, 16)

names = st.sampled_from(["mug", "spoon", "mug #1", "Tasse: groß", "杯", "background", "__ignore__", 'a"b', "{n}"])
numbers = st.floats(-1, 17, width=16) | st.integers(0, 16)
points = st.lists(st.tuples(numbers, numbers).map(list), min_size=0, max_size=8)
masks = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).random(SIZE) > 0.6)


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    edges = np.flatnonzero(np.diff(mask.T.ravel().astype(int), prepend=0, append=2))
    return {"size": list(SIZE), "counts": np.diff([0, *edges]).tolist()}


segmentations = (
    st.lists(points.map(lambda xy: [number for pair in xy for number in pair]), max_size=3)
    | masks.map(run_lengths)
    | st.none()
)


@st.composite
def coco(draw: st.DrawFn) -> Any:
    categories = [{"id": n, "name": name} for n, name in enumerate(draw(st.lists(names, min_size=1, max_size=3)))]
    annotation = st.fixed_dictionaries(
        {
            "image_id": st.just(1),
            "category_id": st.integers(0, len(categories) - 1),
            "segmentation": segmentations,
            "iscrowd": st.sampled_from([0, 0, 1]),
        }
    )
    return {
        "images": [{"id": 1, "file_name": "a.png", "height": SIZE[0], "width": SIZE[1]}],
        "categories": categories,
        "annotations": [{"id": n, **entry} for n, entry in enumerate(draw(st.lists(annotation, max_size=4)))],
    }


@st.composite
def labelme(draw: st.DrawFn) -> Any:
    kinds = st.sampled_from(["polygon", "rectangle", "circle", "line", "point", "oriented_rectangle", "mask", None])
    shape = st.fixed_dictionaries(
        {"label": names, "shape_type": kinds, "points": points, "mask": st.just("iVBORw0KGgo=")}
    )
    return {"imagePath": draw(st.sampled_from(["a.png", "..\\a.png", "C:\\x\\a.png"])), "imageHeight": SIZE[0]} | {
        "imageWidth": SIZE[1],
        "shapes": draw(st.lists(shape, max_size=4)),
    }


@st.composite
def labelstudio(draw: st.DrawFn) -> Any:
    percent = st.floats(-1, 101, width=16)
    box = st.fixed_dictionaries({key: percent for key in ("x", "y", "width", "height", "rotation")})
    ellipse = st.fixed_dictionaries({key: percent for key in ("x", "y", "radiusX", "radiusY")})
    polygon = st.lists(st.tuples(percent, percent).map(list), max_size=6).map(lambda xy: {"points": xy})
    stroke = masks.map(lambda mask: {"rle": list(brush.encode(shapes.crop(mask), SIZE))})
    value = st.builds(lambda form, name: form | {"brushlabels": [name]}, box | ellipse | polygon | stroke, names)
    region = value.map(lambda found: {"original_height": SIZE[0], "original_width": SIZE[1], "value": found})
    address = draw(st.sampled_from(["a.png", "/data/upload/1/0a1b2c3d-a.png", "s3://b/c/a.png", "?d=x%20y/a.png"]))
    return [{"data": {"image": address}, "annotations": [{"result": draw(st.lists(region, max_size=4))}]}]


@st.composite
def via(draw: st.DrawFn) -> Any:
    polygon = points.map(
        lambda xy: {"name": "polygon", "all_points_x": [x for x, _ in xy], "all_points_y": [y for _, y in xy]}
    )
    circle = st.fixed_dictionaries({"name": st.just("circle"), "cx": numbers, "cy": numbers, "r": numbers})
    box = st.fixed_dictionaries({"name": st.just("rect")} | {key: numbers for key in ("x", "y", "width", "height")})
    region = st.fixed_dictionaries(
        {"shape_attributes": polygon | circle | box, "region_attributes": names.map(lambda name: {"label": name})}
    )
    metadata = {"a.png1": {"filename": "a.png", "regions": draw(st.lists(region, max_size=4))}}
    return {"_via_img_metadata": metadata} if draw(st.booleans()) else metadata


@st.composite
def panoptic(draw: st.DrawFn) -> Any:
    segments = [{"id": n, "category_id": draw(st.integers(0, 1))} for n in range(draw(st.integers(0, 4)))]
    return {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 0, "name": "mug"}, {"id": 1, "name": "spoon"}],
        "annotations": [{"image_id": 1, "file_name": "segments.png", "segments_info": segments}],
    }


FORMATS: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "coco": coco,
    "labelme": labelme,
    "labelstudio": labelstudio,
    "via": via,
    "panoptic": panoptic,
}
ODD = st.sampled_from([None, True, -1, 0, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf")]) | (
    st.sampled_from(["", "a" * 100_000, "\ud800", "\0", "../a.png", "/etc/passwd", "mug", "1", "a.png"])
    | st.sampled_from([[], {}, [[]], [[[[0]]]], {"id": 1}])
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside a document."""
    found, open_ = [], [document]
    while open_:
        container = open_.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                open_.append(container[key])
    return found


@st.composite
def changed(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document with a few of its values replaced, removed or there twice."""
    document = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(1, 3))):
        inside = places(document)
        if not inside:
            break
        container, key = inside[draw(st.integers(0, len(inside) - 1))]
        change = draw(st.sampled_from(["replace", "remove", "repeat"]))
        if change == "replace":
            container[key] = copy.deepcopy(draw(ODD))
        elif change == "remove":
            del container[key]
        elif isinstance(container, list):
            container += [copy.deepcopy(container[key])] * draw(st.integers(1, 3))
    return document


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few of them changed, left out or put in, or cut off."""
    data = bytearray(draw(texts))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


def written(document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    Image.new("RGB", SIZE[::-1]).save(folder / "a.png")
    Image.fromarray(np.arange(SIZE[0] * SIZE[1], dtype=np.uint8).reshape(SIZE) % 3).save(folder / "segments.png")
    (folder / "images").mkdir()
    (folder / "labels").mkdir()
    Image.new("RGB", SIZE[::-1]).save(folder / "images/a.png")
    return folder


def one_set_or_one_sentence(path: Path) -> SupportSet | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            support = read_support(path)
        except Error as error:
            said = [str(error), *getattr(error, "__notes__", ())]
            assert all(len(sentence) <= LONGEST for sentence in said)
            assert str(error)[-1] in ".?", error
            "".join(said).encode()
            return None
    for example in support.examples:
        assert example.mask.shape == SIZE
        assert set(np.unique(example.mask)) <= {*range(len(support.classes) + 1), 255}
    assert all(len(note) <= LONGEST for note in support.notes)
    return support


@pytest.mark.parametrize("format_", FORMATS)
def test_whole_files_are_read_or_refused(folder: Path, format_: str) -> None:
    @fuzzed
    @given(FORMATS[format_]())
    def test(document: Any) -> None:
        (folder / "whole.json").write_bytes(written(document))
        support = one_set_or_one_sentence(folder / "whole.json")
        assert support is None or support.format == format_

    test()


@pytest.mark.parametrize("format_", FORMATS)
def test_files_with_odd_values_are_read_or_refused(folder: Path, format_: str) -> None:
    @fuzzed
    @given(changed(FORMATS[format_]()))
    def test(document: Any) -> None:
        (folder / "odd.json").write_bytes(written(document))
        one_set_or_one_sentence(folder / "odd.json")

    test()


@pytest.mark.parametrize("format_", FORMATS)
def test_files_with_odd_bytes_are_read_or_refused(folder: Path, format_: str) -> None:
    @fuzzed
    @given(damaged(FORMATS[format_]().map(written)))
    def test(data: bytes) -> None:
        (folder / "bytes.json").write_bytes(data)
        one_set_or_one_sentence(folder / "bytes.json")

    test()


lists = st.lists(names, min_size=1, max_size=3)
listings = (
    lists.map(lambda found: "names:\n" + "".join(f"  {n}: {json.dumps(name)}\n" for n, name in enumerate(found)))
    | lists.map(lambda found: f"nc: 3\nnames: {json.dumps(found)}\n")
    | lists.map(lambda found: "names:\n" + "".join(f"- {name}\n" for name in found))
)
lines = st.builds(
    lambda number, xy: " ".join(map(str, (number, *xy))),
    st.integers(0, 3),
    st.lists(st.floats(-0.125, 1.125, width=16) | st.integers(0, 1), max_size=12),
)


@fuzzed
@given(listing=listings, labels=st.lists(lines, max_size=4).map("\n".join), harm=st.booleans(), data=st.data())
def test_yolo_folders_are_read_or_refused(
    folder: Path, listing: str, labels: str, harm: bool, data: st.DataObject
) -> None:
    contents = [listing.encode(), labels.encode()]
    if harm:
        contents = [data.draw(damaged(st.just(content))) for content in contents]
    (folder / "data.yaml").write_bytes(contents[0])
    (folder / "labels/a.txt").write_bytes(contents[1])
    one_set_or_one_sentence(folder / "data.yaml")


ODD_TEXT = st.sampled_from(
    ["", "nan", "inf", "-1", "1e308", "9" * 5000, "a" * 100_000, "1,2;x", "0, 0", ",;", "../a.png"]
)


@st.composite
def cvat(draw: st.DrawFn) -> bytes:
    """CVAT's XML with any shapes; now and then an attribute is odd, or not there."""
    pair = st.tuples(numbers, numbers).map(lambda xy: f"{xy[0]},{xy[1]}")
    outline = st.lists(pair, max_size=6).map(lambda pairs: {"points": ";".join(pairs)})
    box, ellipse = (
        st.fixed_dictionaries({key: numbers.map(str) for key in keys})
        for keys in (("xtl", "ytl", "xbr", "ybr", "rotation"), ("cx", "cy", "rx", "ry", "rotation"))
    )
    whole = masks.map(
        lambda mask: {
            "rle": ", ".join(map(str, counts_of(Patch(0, 0, mask), SIZE).tolist())),
            **{"left": "0", "top": "0", "width": str(SIZE[1]), "height": str(SIZE[0])},
        }
    )
    kinds = {"polygon": outline, "polyline": outline, "box": box, "ellipse": ellipse, "mask": whole}
    root = ElementTree.Element("annotations")
    labels = ElementTree.SubElement(ElementTree.SubElement(ElementTree.SubElement(root, "meta"), "task"), "labels")
    for name in draw(st.lists(names, max_size=3, unique=True)):
        label = ElementTree.SubElement(labels, "label")
        ElementTree.SubElement(label, "name").text = name
        ElementTree.SubElement(label, "color").text = draw(st.sampled_from(["#ff0000", "red", "", "#12345"]))
    image = ElementTree.SubElement(
        root, "image", {"id": "0", "name": "a.png", "width": str(SIZE[1]), "height": str(SIZE[0])}
    )
    for kind in draw(st.lists(st.sampled_from(list(kinds)), max_size=4)):
        attributes = {"label": draw(names), "z_order": "0", **draw(kinds[kind])}
        if draw(st.integers(0, 3)) == 0:
            attributes[draw(st.sampled_from(sorted(attributes)))] = draw(ODD_TEXT)
        ElementTree.SubElement(image, kind, attributes)
    return ElementTree.tostring(root)


@pytest.mark.parametrize("harm", [False, True])
def test_xml_files_are_read_or_refused(folder: Path, harm: bool) -> None:
    @fuzzed
    @given(damaged(cvat()) if harm else cvat())
    def test(data: bytes) -> None:
        (folder / "it.xml").write_bytes(data)
        support = one_set_or_one_sentence(folder / "it.xml")
        assert support is None or support.format == "cvat"

    test()


values = st.lists(st.sampled_from([0, 1, 2, 3, 7, 128, 254, 255]), min_size=1, max_size=3)
listed = (
    st.dictionaries(names, st.sampled_from([0, 1, 255, 65535, 70000, "#ff0000", [255, 0, 0], [1, 2], None]), max_size=3)
    | st.lists(names, max_size=3)
    | st.dictionaries(st.sampled_from(["0", "1", "2", "7", "255", "x"]), names, max_size=3)
)


@fuzzed
@given(
    classes=listed.map(written) | damaged(listed.map(written)) | st.none(),
    palette=st.booleans(),
    shown=st.lists(values, min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_folders_of_masks_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, classes: bytes | None, palette: bool, shown: list[list[int]], seed: int
) -> None:
    root = tmp_path_factory.mktemp("masks")
    for place in ("images", "masks"):
        (root / place).mkdir()
    for number, some in enumerate(shown):
        Image.new("RGB", SIZE[::-1]).save(root / f"images/{number}.png")
        picture = Image.fromarray(np.random.default_rng(seed).choice(some, SIZE).astype(np.uint8))
        if palette:
            picture.putpalette(np.random.default_rng(seed).integers(0, 256, 768).astype(np.uint8).tobytes())
        picture.save(root / f"masks/{number}.png")
    if classes is not None:
        (root / "classes.json").write_bytes(classes)
    one_set_or_one_sentence(root)
    shutil.rmtree(root)

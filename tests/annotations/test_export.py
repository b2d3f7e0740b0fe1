"""Writing: one by one, whole or not at all, and back again."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as pycoco

from dgpnet.annotations import FORMATS, Item, Legend, coco, export, read_support
from dgpnet.colours import PALETTE
from dgpnet.errors import Error

LEGEND = Legend(
    ("mug #1", "yes", "tea: \U0001f375 'n' \"milk\""),
    (3, 1, 7),
    ((10, 200, 30), (1, 2, 3), (250, 0, 9)),
    unused=((5, "fork"), (9, "null")),
)
ONE = np.array([[0, 1], [0, 0]], np.uint8)


def read_back(format_: str, path: Path, photos: Path, classes: int) -> list[np.ndarray]:
    """Masks by the photographs' names, with 1..C and 255."""
    if format_ == "voc":
        return [np.asarray(Image.open(file)) for file in sorted((path / "SegmentationClass").rglob("*.png"))]
    return [example.mask for example in sorted(read_support(path, photos=photos).examples, key=lambda one: one.photo)]


@pytest.mark.parametrize("format_", FORMATS)
def test_memory_does_not_grow_with_the_number_of_photographs(
    tmp_path: Path, format_: str, blobs: Callable[..., np.ndarray]
) -> None:
    mask = np.kron(blobs((20, 20)), np.ones((12, 12), np.uint8))  # large, so that the buffers are full in both cases

    def peak(count: int) -> int:
        tracemalloc.start()
        export(format_, tmp_path, ["a", "b"], (Item(f"{n}.jpg", mask, 0.5) for n in range(count)))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(3)
    assert peak(60) < 1.1 * peak(30) + 20_000


@pytest.mark.parametrize("format_", ["coco", "labelstudio", "cvat"])
def test_a_file_that_was_cut_off_does_not_appear(tmp_path: Path, format_: str) -> None:
    def items() -> Iterator[Item]:
        yield Item("a.jpg", np.ones((4, 4), np.uint8))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(format_, tmp_path, ["a"], items())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_job_is_written_too(tmp_path: Path, format_: str) -> None:
    assert export(format_, tmp_path / "new", ["a"], []).exists()


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (64, 48)])
def test_full_masks_and_thin_photographs(
    tmp_path: Path, photo: Callable[..., Path], format_: str, polygons: bool, size: tuple[int, int]
) -> None:
    mask = np.ones(size, np.uint8)
    photo("photos/a.jpg", size)
    path = export(format_, tmp_path, ["a"], [Item("a.jpg", mask)], polygons=polygons)
    np.testing.assert_array_equal(read_back(format_, path, tmp_path / "photos", 1), [mask])


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("instances", [False, True])
def test_what_goes_out_comes_back(
    tmp_path: Path,
    photo: Callable[..., Path],
    blobs: Callable[..., np.ndarray],
    format_: str,
    polygons: bool,
    instances: bool,
) -> None:
    masks = {"a.jpg": blobs((40, 51), 2, ignore=format_ != "yolo"), "trip/b.jpg": blobs((25, 20), 2)}
    items = [Item(photo(f"photos/{name}", mask.shape) and name, mask) for name, mask in masks.items()]
    path = export(format_, tmp_path, ["cup", "mug"], items, polygons=polygons, instances=instances)
    found = read_back(format_, path, tmp_path / "photos", 2)
    for read, mask in zip(found, masks.values(), strict=True):
        np.testing.assert_array_equal(read, mask)


def test_small_parts_are_left_out_where_parts_count(tmp_path: Path) -> None:
    mask = np.zeros((20, 20), np.uint8)
    mask[2:10, 2:10] = 1
    mask[15, 15] = 1

    def areas(**options: int) -> list[int]:
        path = export("coco", tmp_path, ["a"], [Item("a.jpg", mask)], **options)
        return [annotation["area"] for annotation in json.loads(path.read_text())["annotations"]]

    assert areas(instances=True) == [64, 1]
    assert areas(instances=True, min_area=2) == [64]
    assert areas(min_area=2) == [65]


@pytest.mark.parametrize("format_", ["coco", "labelme", "yolo", "labelstudio", "cvat"])
def test_simplified_outlines_are_shorter_and_nearly_the_same(
    tmp_path: Path, photo: Callable[..., Path], format_: str
) -> None:
    y, x = np.mgrid[0:200, 0:200]
    mask = (np.hypot(y - 100, x - 100) < 80).astype(np.uint8)
    photo("photos/a.jpg", mask.shape)

    def written(simplify: float) -> tuple[int, np.ndarray]:
        path = export(format_, tmp_path, ["a"], [Item("a.jpg", mask)], polygons=True, simplify=simplify)
        files = [path] if path.is_file() else [*path.rglob("*.txt"), *path.rglob("*.json")]
        return sum(file.stat().st_size for file in files), read_back(format_, path, tmp_path / "photos", 1)[0]

    exact, fewer = written(0), written(1)
    np.testing.assert_array_equal(exact[1], mask)
    assert fewer[0] < exact[0] / 2
    assert (fewer[1] & mask).sum() > 0.97 * (fewer[1] | mask).sum()


def test_coco_keeps_numbers_names_and_colours_and_says_a_score_for_each_annotation(tmp_path: Path) -> None:
    mask = np.array([[1, 2], [3, 255]], np.uint8)
    items = [Item("a.jpg", mask, 0.5, scores=(0.1, 0.2, 0.3)), Item("b.jpg", mask, 0.5), Item("c.jpg", mask)]
    data = json.loads(export("coco", tmp_path, LEGEND, items).read_text())
    assert data["licenses"] == []  # some parsers fail without
    assert [(entry["id"], entry["name"]) for entry in data["categories"]] == [
        *zip(LEGEND.values, LEGEND.names, strict=True),
        *LEGEND.unused,
    ]
    assert data["categories"][0]["color"] == [10, 200, 30]
    said = [(a["image_id"], a["category_id"], a["iscrowd"], a.get("score")) for a in data["annotations"]]
    assert said[:4] == [(1, 3, 1, None), (1, 3, 0, 0.1), (1, 1, 0, 0.2), (1, 7, 0, 0.3)]
    assert {score for *_, score in said[5:8]} == {0.5}
    assert {score for *_, score in said[8:]} == {None}


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30))
def test_run_lengths_are_compressed_as_cocos_own_tools_do(counts: list[int]) -> None:
    theirs = pycoco.frPyObjects({"counts": counts, "size": [1, sum(counts)]}, 1, sum(counts))["counts"]
    assert coco._compressed(np.array(counts)) == theirs


def test_yolo_counts_from_zero_without_gaps_and_survives_any_name(tmp_path: Path) -> None:
    import yaml

    mask = np.array([[1, 0, 2], [0, 0, 0], [3, 0, 1]], np.uint8)
    path = export("yolo", tmp_path, LEGEND, [Item("a.jpg", mask)])
    lines = (path / "labels/train/a.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "1", "0", "3"]  # a line for each part
    listing = yaml.safe_load((path / "data.yaml").read_text(encoding="utf-8"))
    assert "path" not in listing
    assert listing["names"] == dict(enumerate(["yes", "mug #1", "fork", LEGEND.names[2], "null"]))


@pytest.mark.parametrize(
    "name",
    ["1.0", "null", " spaced ", "a: b", "- a", "#", "{x}", "\t\x07", "\x85\u2028\ufeff", "é\U0001f600", "\\u0041"],
)
def test_yaml_reads_every_name(tmp_path: Path, name: str) -> None:
    import yaml

    path = export("yolo", tmp_path, [name], [])
    assert yaml.safe_load((path / "data.yaml").read_text(encoding="utf-8"))["names"] == {0: name}


def test_label_studio_has_the_prefix_and_a_labelling_interface(tmp_path: Path) -> None:
    mask = np.array([[1, 255]], np.uint8)
    items = [Item("a b/c%.jpg", mask, 0.5, scores=(0.7, 0, 0))]
    path = export("labelstudio", tmp_path, LEGEND, items, prefix="mugs/")
    (task,) = json.loads(path.read_text())
    assert task["data"]["image"] == "/data/local-files/?d=mugs/a%20b/c%25.jpg"
    (prediction,) = task["predictions"]
    assert prediction["score"] == 0.5
    assert [region.get("score") for region in prediction["result"]] == [None, 0.7]
    view = ElementTree.fromstring((tmp_path / "labelstudio.xml").read_text(encoding="utf-8"))
    labels = {label.get("value"): label.get("background") for label in view.iter("Label")}
    assert list(labels) == [*LEGEND.names, "fork", "null", "__ignore__"]
    assert labels["mug #1"] == "#0ac81e"
    tool = view.find("BrushLabels")
    assert tool is not None and (tool.get("name"), tool.get("toName")) == ("label", "image")


def test_voc_tells_classes_by_the_legends_colours(tmp_path: Path) -> None:
    mask = np.array([[0, 1], [2, 255]], np.uint8)
    legend = Legend(("mug", "spoon"), (4, 1), ((10, 200, 30), (1, 2, 3)))
    path = export("voc", tmp_path, legend, [Item("trip/a.jpg", mask)])
    picture = Image.open(path / "SegmentationClass/trip/a.png")
    np.testing.assert_array_equal(np.asarray(picture), [[0, 4], [1, 255]])
    assert picture.convert("RGB").getpixel((1, 0)) == (10, 200, 30)
    assert (path / "labelmap.txt").read_text().splitlines()[1:] == [
        "background:0,0,0::",
        "mug:10,200,30::",
        "spoon:1,2,3::",
        "__ignore__:{},{},{}::".format(*PALETTE[255]),
    ]
    assert (path / "ImageSets/Segmentation/default.txt").read_text() == "trip/a\n"


def test_classes_painted_alike_get_colours_of_their_own_where_colours_tell_them(tmp_path: Path) -> None:
    legend = Legend(("a", "b", "c"), (300, 2, 3), ((9, 9, 9), (9, 9, 9), (0, 0, 0)))
    mask = np.array([[1, 2, 3]], np.uint8)
    path = export("voc", tmp_path, legend, [Item("a.jpg", mask)])
    picture = Image.open(path / "SegmentationClass/a.png").convert("RGB")
    assert len({(0, 0, 0), *(picture.getpixel((x, 0)) for x in range(3))}) == 4


ODD = "caf\udce9 \x01.jpg"  # a name that is not UTF-8, as Python gives it, and a control character


@pytest.mark.parametrize("format_", FORMATS)
def test_odd_names_break_no_writer(tmp_path: Path, photo: Callable[..., Path], format_: str) -> None:
    photo(f"photos/{ODD}", ONE.shape)
    path = export(format_, tmp_path, ["a"], [Item(ODD, ONE)])
    if format_ == "labelstudio":
        address = json.loads(path.read_text())[0]["data"]["image"]
        assert unquote(address, errors="surrogateescape").endswith(f"?d={ODD}")
    np.testing.assert_array_equal(read_back(format_, path, tmp_path / "photos", 1)[0] > 0, ONE > 0)


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "yolo"])
def test_photographs_that_differ_in_their_suffix_are_two(tmp_path: Path, format_: str) -> None:
    names = ["a.jpg", "a.png"]
    path = export(format_, tmp_path, ["a"], [Item(name, np.full((1, 1), n, np.uint8)) for n, name in enumerate(names)])
    if format_ == "labelme":
        said = {file.name: json.loads(file.read_text())["imagePath"] for file in path.iterdir()}
        assert said == {"a.json": "a.jpg", "a.png.json": "a.png"}
    elif format_ == "voc":
        assert (path / "ImageSets/Segmentation/default.txt").read_text() == "a\na.png\n"
        assert np.asarray(Image.open(path / "SegmentationClass/a.png.png")).tolist() == [[1]]
    else:
        assert all(name in path.read_text() for name in names)


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    nothing = np.zeros((2, 2), np.uint8)
    with pytest.raises(Error, match="'coco', 'labelme', 'yolo', 'labelstudio', 'cvat' or 'voc'"):
        export("tfrecord", tmp_path, ["a"], [])
    with pytest.raises(Error, match=r"a\.jpg: the mask has the value 2"):
        export("coco", tmp_path, ["a"], [Item("a.jpg", np.full((2, 2), 2, np.uint8))])
    with pytest.raises(Error, match=r"a\.jpg: a mask is \(H, W\) uint8"):
        export("coco", tmp_path, ["a"], [Item("a.jpg", np.zeros((2, 2)))])
    with pytest.raises(Error, match=r"a\.jpg: 2 scores for 1 classes"):
        export("coco", tmp_path, ["a"], [Item("a.jpg", nothing, scores=(0.5, 0.5))])
    for simplify in (-1, float("nan"), "1"):
        with pytest.raises(Error, match="simplify is a number"):
            export("coco", tmp_path, ["a"], [], simplify=simplify)
    with pytest.raises(Error, match="min_area is a whole number"):
        export("coco", tmp_path, ["a"], [], min_area=0.5)
    with pytest.raises(Error, match=r"Two photographs .* a\.png is one of them"):  # its readers know them by the stem
        export("yolo", tmp_path, ["a"], [Item(name, nothing) for name in ("a.jpg", "a.png")])
    for format_ in ("labelme", "yolo", "voc"):
        with pytest.raises(Error, match="leads outside"):
            export(format_, tmp_path, ["a"], [Item("../a.jpg", nothing)])

"""COCO files: masks in every notation, judged by COCO's own tools, and everything that can be wrong with a file."""

import copy
import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pycocotools import mask as pycoco

from dgpnet import images
from dgpnet.annotations import Item, coco, export, read_support, shapes
from dgpnet.annotations.reading import Notes
from dgpnet.annotations.shapes import Work
from dgpnet.errors import Error

SIZE = (8, 10)
SQUARE = [2, 1, 6, 1, 6, 4.1, 2, 4]


def document(*annotations: dict[str, Any], **image: Any) -> dict[str, Any]:
    return {
        "images": [{"id": 7, "file_name": "a.jpg", "height": SIZE[0], "width": SIZE[1], **image}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 5, "name": "cat"}],
        "annotations": [{"id": number, "image_id": 7, **entry} for number, entry in enumerate(annotations, 1)],
    }


def box(top: int, left: int, bottom: int, right: int) -> np.ndarray:
    mask = np.zeros(SIZE, np.uint8)
    mask[top:bottom, left:right] = 1
    return mask


def compressed(mask: np.ndarray) -> dict[str, Any]:
    rle = pycoco.encode(np.asfortranarray(mask))
    return {"size": list(rle["size"]), "counts": rle["counts"].decode()}


def plain(mask: np.ndarray) -> dict[str, Any]:
    first, *rest = (len(list(run)) for _, run in groupby([0, *mask.T.ravel()]))
    return {"size": list(mask.shape), "counts": [first - 1, *rest]}


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Callable[[Any], Path]:
    photo("a.jpg", SIZE)

    def write(data: Any) -> Path:
        path = tmp_path / "labels.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write


def test_every_notation_gives_the_same_mask(written: Callable[[Any], Path]) -> None:
    dog, cat = box(1, 2, 4, 6), box(5, 0, 8, 10)
    for first, second in (([SQUARE], compressed(cat)), (plain(dog), plain(cat)), (compressed(dog), compressed(cat))):
        data = document({"category_id": 18, "segmentation": first}, {"category_id": 5, "segmentation": second})
        support = read_support(written(data))
        assert (support.format, support.classes) == ("coco", ("dog", "cat"))
        np.testing.assert_array_equal(support.examples[0].mask, dog + 2 * cat)


def test_several_parts_are_one_object(written: Callable[[Any], Path]) -> None:
    data = document({"category_id": 18, "segmentation": [SQUARE, [7, 5, 9, 5, 9, 7, 7, 7.1]]})
    (example,) = read_support(written(data), classes=["dog"]).examples
    np.testing.assert_array_equal(example.mask, box(1, 2, 4, 6) + box(5, 7, 7, 9))


def test_crowds_are_ignored_below_objects_and_small_objects_lie_on_large_ones(written: Callable[[Any], Path]) -> None:
    data = document(
        {"category_id": 5, "segmentation": compressed(box(2, 2, 4, 4))},
        {"category_id": 18, "segmentation": compressed(box(0, 0, 5, 6))},
        {"category_id": 18, "segmentation": compressed(box(0, 0, 8, 8)), "iscrowd": 1},
    )
    expected = box(0, 0, 8, 8) * 255
    expected[0:5, 0:6] = 1
    expected[2:4, 2:4] = 2
    np.testing.assert_array_equal(read_support(written(data)).examples[0].mask, expected)


def test_an_image_without_annotation_is_a_negative(written: Callable[[Any], Path], photo: Callable[..., Path]) -> None:
    photo("b.jpg", (5, 5))
    data = document({"category_id": 18, "segmentation": [SQUARE]})
    data["categories"].pop()
    data["images"].append({"id": 8, "file_name": "b.jpg"})
    examples = read_support(written(data)).examples
    assert [example.mask.any() for example in examples] == [True, False]


def test_cocos_own_tree_is_understood(tmp_path: Path, photo: Callable[..., Path]) -> None:
    photo("train2017/a.jpg", SIZE)
    (tmp_path / "annotations").mkdir()
    data = document({"category_id": 18, "segmentation": [SQUARE]})
    (tmp_path / "annotations/instances_train2017.json").write_text(json.dumps(data))
    for path in (tmp_path, tmp_path / "annotations/instances_train2017.json"):
        assert read_support(path, classes=["dog"]).examples[0].photo == tmp_path / "train2017/a.jpg"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_annotations_of_either_orientation_lie_on_the_photograph(
    tmp_path: Path, photo: Callable[..., Path], orientation: int
) -> None:
    photo("a.jpg", SIZE, orientation)
    stored = box(1, 2, 4, 6)
    shown = images.orient(stored, orientation)
    notations = [(shown, shown)] + ([(stored, shown)] if orientation >= 5 else [])
    for drawn, expected in notations:
        height, width = drawn.shape
        data = document({"category_id": 18, "segmentation": compressed(drawn)}, height=height, width=width)
        (tmp_path / "labels.json").write_text(json.dumps(data))
        (example,) = read_support(tmp_path / "labels.json", classes=["dog"]).examples
        np.testing.assert_array_equal(example.mask, expected)


@given(arrays(bool, st.tuples(st.integers(1, 30), st.integers(1, 30))))
def test_run_lengths_agree_with_cocos_own_tools(mask: np.ndarray) -> None:
    theirs = pycoco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]
    entry = {"segmentation": {"size": list(mask.shape), "counts": theirs.decode()}}
    covered = coco.covers(entry, mask.shape, "", Work(), Notes())
    assert (covered is not None) == mask.any()
    if covered is not None:
        np.testing.assert_array_equal(shapes.paint(mask.shape[::-1], [(1, covered)]).T, mask)


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
    items = [Item(name, mask, 0.5) for name, mask in masks.items()]
    path = export("coco", tmp_path / "out", ["mug", "spoon"], iter(items), instances=instances, polygons=polygons)
    support = read_support(path, photos=tmp_path / "photos")
    assert support.classes == ("mug", "spoon")
    for example, mask in zip(support.examples, masks.values(), strict=True):
        np.testing.assert_array_equal(example.mask, mask)


def test_instances_are_the_parts(tmp_path: Path, photo: Callable[..., Path]) -> None:
    mask = box(0, 0, 2, 2) + box(4, 4, 8, 9)
    for instances, count in ((False, 1), (True, 2)):
        path = export("coco", tmp_path, ["coin"], [Item("a.jpg", mask, 0.25)], instances=instances)
        annotations = json.loads(path.read_text())["annotations"]
        assert len(annotations) == count
        assert sum(a["area"] for a in annotations) == mask.sum()
    assert annotations[1]["bbox"] == [4, 4, 5, 4]
    assert annotations[1]["score"] == 0.25
    assert annotations[1]["iscrowd"] == 0


def test_cocos_own_tools_read_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pycocotools.coco import COCO

    mask = box(0, 0, 2, 2) + 2 * box(4, 4, 8, 9)
    path = export("coco", tmp_path, ["mug", "spoon"], [Item("a.jpg", mask)], instances=True)
    index = COCO(str(path))
    drawn = sum(
        index.annToMask(annotation) * annotation["category_id"] for annotation in index.loadAnns(index.getAnnIds())
    )
    np.testing.assert_array_equal(drawn, mask)


GOOD = document({"category_id": 18, "segmentation": [SQUARE]})
del GOOD["categories"][1]


def broken(change: Callable[[dict[str, Any]], Any]) -> Any:
    data = copy.deepcopy(GOOD)
    change(data)
    return data


def put(key: str, value: Any, of: str = "annotations") -> Any:
    return broken(lambda data: data[of][0].__setitem__(key, value))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("not json", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ({"images": [], "categories": []}, "'annotations' is missing"),
        (broken(lambda data: data.__setitem__("images", {})), "'images' is {}, expected a list"),
        (broken(lambda data: data.__setitem__("categories", [3])), "expected an object"),
        (put("file_name", 3, "images"), "'file_name' is 3, expected text"),
        (put("file_name", "b.jpg", "images"), "no photograph 'b.jpg'"),
        (put("file_name", "../../etc/passwd", "images"), "leads outside"),
        (put("file_name", "/etc/passwd", "images"), "leads outside"),
        (put("file_name", "C:\\photos\\b.jpg", "images"), "leads outside"),
        (put("file_name", "a" * 5000, "images"), "no photograph|leads outside"),
        (put("width", 11, "images"), "annotated at 11 x 8 pixels, but .*a.jpg has 10 x 8"),
        (put("width", "10", "images"), "'width' is '10', expected a number"),
        (put("image_id", 9), "image_id 9"),
        (put("category_id", 9), "category_id 9"),
        (put("category_id", True), "'category_id' is True"),
        (put("segmentation", []), "only a box"),
        (put("segmentation", None), "only a box"),
        (put("segmentation", [[1, 2, 3]]), "even length"),
        (put("segmentation", [[1, 2, 3, 4]]), "1 annotations have fewer than 3 corners"),
        (put("segmentation", [["a"] * 6]), "not numbers"),
        (put("segmentation", [[900, 900, 990, 900, 990, 990]]), "outside the photograph"),
        (put("segmentation", [[1e9, 1, 6, 1, 6, 4]]), "outside the photograph"),
        (put("segmentation", [[float("nan")] * 6]), "outside the photograph"),
        (put("segmentation", [[2.5, 2, 2.5, 2, 2.5, 2]]), "1 annotations cover no pixel"),
        (put("segmentation", {"size": [8, 10], "counts": [0, 81]}), "do not add up"),
        (put("segmentation", {"size": [8, 10], "counts": [100, -20]}), "do not add up"),
        (put("segmentation", {"size": [8, 10], "counts": [2**70, 1]}), "counts"),
        (put("segmentation", {"size": [8, 10], "counts": [0.5, 79.5]}), "neither a list"),
        (put("segmentation", {"size": [8, 10], "counts": "ab\u0101"}), "compressed text"),
        (put("segmentation", {"size": [8, 10], "counts": ""}), "compressed text"),
        (put("segmentation", {"size": [8, 10], "counts": "P" * 40 + "0"}), "no image is large enough"),
        (put("segmentation", {"size": [8, 10], "counts": "oooo1"}), "do not add up"),
        (put("segmentation", {"size": [2**31, 2**31], "counts": [2**62]}), "run lengths are for size"),
    ],
)
def test_a_broken_file_is_refused_in_one_sentence(written: Callable[[Any], Path], data: Any, reason: str) -> None:
    with pytest.raises(Error, match=reason) as caught:
        read_support(written(data))
    assert "labels.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_good_file_is_good(written: Callable[[Any], Path]) -> None:
    assert len(read_support(written(GOOD)).examples) == 1


def test_a_link_out_of_the_folder_is_refused(
    written: Callable[[Any], Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "a.jpg"
    (tmp_path / "a.jpg").rename(outside)
    (tmp_path / "a.jpg").symlink_to(outside)
    with pytest.raises(Error, match="leads outside"):
        read_support(written(GOOD))

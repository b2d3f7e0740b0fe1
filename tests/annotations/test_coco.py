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
from dgpnet.annotations.legend import Legend
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
        assert coco._encoded(shapes.crop(mask), mask.shape)["counts"] == theirs.decode()


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
        ('{"images": [], "annotations": [], "categories": [], "images": []}', "'images' stands twice"),
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


def test_outlines_with_whole_corners_hold_their_border_pixels(written: Callable[[Any], Path]) -> None:
    """OpenCV's findContours gives a box from (1, 2) to (3, 5) this outline, of pixels."""
    data = document({"category_id": 18, "segmentation": [[2, 1, 2, 3, 5, 3, 5, 1]]})
    support = read_support(written(data))
    np.testing.assert_array_equal(support.examples[0].mask, box(1, 2, 4, 6))
    assert any("1 outlines are whole numbers" in note for note in support.notes)
    ours = read_support(written(data | {"info": {"description": "dgpnet"}}))  # walks along the sides of pixels
    np.testing.assert_array_equal(ours.examples[0].mask, box(1, 2, 3, 5))


def crowd(mask: np.ndarray, category: int = 18) -> dict[str, Any]:
    return {"category_id": category, "segmentation": compressed(mask), "iscrowd": 1}


def test_crowds_are_objects_where_a_file_has_nothing_else(written: Callable[[Any], Path]) -> None:
    path = written(document(crowd(box(0, 0, 3, 3)), crowd(box(5, 5, 8, 8), 5)))
    support = read_support(path)
    np.testing.assert_array_equal(support.examples[0].mask, box(0, 0, 3, 3) + 2 * box(5, 5, 8, 8))
    assert "2 crowds (iscrowd: 1) are taken for objects" in support.notes[0]
    with pytest.raises(Error, match="anything but background"):
        read_support(path, crowds="ignore")
    with pytest.raises(Error, match="'objects' or 'ignore'"):
        read_support(path, crowds="perhaps")


def test_crowds_beside_objects_are_ignore_and_that_is_said(written: Callable[[Any], Path]) -> None:
    path = written(document({"category_id": 18, "segmentation": [SQUARE]}, crowd(box(5, 5, 8, 8))))
    support = read_support(path)
    np.testing.assert_array_equal(support.examples[0].mask, box(1, 2, 4, 6) + 255 * box(5, 5, 8, 8))
    assert any("1 crowds" in note and "--crowds objects" in note for note in support.notes)
    both = read_support(path, crowds="objects")
    np.testing.assert_array_equal(both.examples[0].mask, box(1, 2, 4, 6) + box(5, 5, 8, 8))


def test_what_has_no_mask_is_counted_and_left_out(written: Callable[[Any], Path]) -> None:
    tiny = [2.5, 2, 2.5, 2, 2.5, 2]
    useless = [{"category_id": 18, "segmentation": each} for each in ([], None, [], [[1, 2, 3, 4]], [tiny])]
    support = read_support(written(document({"category_id": 18, "segmentation": [SQUARE, tiny]}, *useless)))
    np.testing.assert_array_equal(support.examples[0].mask, box(1, 2, 4, 6))
    told = " ".join(support.notes)
    assert "3 annotations have no mask, only a box, and are left out" in told
    assert "1 annotations have fewer than 3 corners" in told
    assert "1 annotations cover no pixel" in told
    assert "1 categories have no annotation and are left out: cat" in told


@pytest.mark.parametrize("number", [0, 70_000, "dog"])
def test_category_ids_are_the_values_unless_a_mask_has_no_room_for_them(
    written: Callable[[Any], Path], number: Any
) -> None:
    data = document({"category_id": 5, "segmentation": [SQUARE]})
    assert read_support(written(data)).legend.values == (5,)
    data = document({"category_id": number, "segmentation": [SQUARE]})
    data["categories"] = [{"id": number, "name": "dog"}]
    support = read_support(written(data))
    assert support.legend.values == (1,)
    assert any("given anew" in note for note in support.notes)


@pytest.mark.parametrize(
    "segmentation",
    [
        [[[2, 1], [6, 1], [6, 4.1], [2, 4]]],
        SQUARE,
        [compressed(box(1, 2, 4, 6))],
        {"size": [8.0, 10.0], "counts": [float(n) for n in plain(box(1, 2, 4, 6))["counts"]]},
    ],
)
def test_further_notations_that_tools_write(written: Callable[[Any], Path], segmentation: Any) -> None:
    support = read_support(written(document({"category_id": 18, "segmentation": segmentation})))
    np.testing.assert_array_equal(support.examples[0].mask, box(1, 2, 4, 6))


def test_what_stands_twice_is_one_or_refused(written: Callable[[Any], Path]) -> None:
    for key in ("images", "categories", "annotations"):
        data = copy.deepcopy(GOOD)
        data[key] = data[key] * 2
        assert any("twice" in note for note in read_support(written(data)).notes), key
        other = copy.deepcopy(data[key][0]) | {"name": "x", "file_name": "x", "category_id": 18, "area": 3}
        data[key] = [data[key][0], other]
        with pytest.raises(Error, match="its id stands for two"):
            read_support(written(data))


def test_two_categories_of_one_name_are_one_class(written: Callable[[Any], Path]) -> None:
    data = document({"category_id": 18, "segmentation": [SQUARE]}, {"category_id": 5, "segmentation": [SQUARE]})
    data["categories"][1]["name"] = "dog"
    support = read_support(written(data))
    assert support.classes == ("dog",)
    assert any("have the name of another" in note for note in support.notes)


def test_a_photograph_is_annotated_once(written: Callable[[Any], Path]) -> None:
    data = copy.deepcopy(GOOD)
    data["images"].append({**data["images"][0], "id": 8})
    with pytest.raises(Error, match=r"a\.jpg is annotated twice"):
        read_support(written(data))


@pytest.mark.parametrize(
    "splits",
    [
        {"train/_annotations.coco.json": "train/{}", "valid/_annotations.coco.json": "valid/{}"},
        {"annotations/instances_Train.json": "images/Train/{}", "annotations/instances_Test.json": "images/Test/{}"},
        {"annotations/instances_train2017.json": "train2017/{}", "annotations/instances_val2017.json": "val2017/{}"},
        {"annotations/instances_default.json": "images/{}"},
    ],
)
def test_layouts_of_other_tools_are_read_with_all_their_splits(
    tmp_path: Path, photo: Callable[..., Path], splits: dict[str, str]
) -> None:
    """Roboflow's, CVAT's and Datumaro's, COCO's own."""
    expected = []
    for number, (file, place) in enumerate(splits.items()):
        name = f"{number}.jpg"
        expected.append(photo(place.format(name), SIZE))
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        data = document({"category_id": 18, "segmentation": [SQUARE]}, file_name=name)
        data["categories"].insert(0, {"id": 0, "name": "dogs-and-cats"})
        (tmp_path / file).write_text(json.dumps(data))
    (tmp_path / "README.json").write_text('{"made": "by hand"}')
    assert sorted(example.photo for example in read_support(tmp_path).examples) == sorted(expected)
    for (file, _), path in zip(splits.items(), expected, strict=True):
        assert [example.photo for example in read_support(tmp_path / file).examples] == [path]


def test_splits_with_other_categories_are_not_mixed(tmp_path: Path) -> None:
    for number, name in enumerate(("dog", "cat")):
        data = copy.deepcopy(GOOD) | {"categories": [{"id": 18, "name": name}]}
        (tmp_path / f"{number}.json").write_text(json.dumps(data))
    with pytest.raises(Error, match=r"2 COCO files with different categories; name one: .*0\.json"):
        read_support(tmp_path)


def test_a_photograph_is_found_by_its_own_name_or_where_images_says(
    written: Callable[[Any], Path], tmp_path: Path
) -> None:
    data = copy.deepcopy(GOOD)
    data["images"][0]["file_name"] = "C:\\photos\\a.jpg"
    assert read_support(written(data)).examples[0].photo == tmp_path / "a.jpg"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a.jpg").rename(tmp_path / "elsewhere/a.jpg")
    with pytest.raises(Error, match="--images"):
        read_support(written(GOOD))
    assert read_support(written(GOOD), photos=tmp_path / "elsewhere").classes == ("dog",)


@pytest.mark.parametrize("colour", [[1, 2, 250], "#0102fa"])
def test_colours_of_categories_are_kept(written: Callable[[Any], Path], colour: Any) -> None:
    data = document(
        {"category_id": 18, "segmentation": [SQUARE]}, {"category_id": 5, "segmentation": [[1, 6, 3, 6.5, 3, 8]]}
    )
    data["categories"][0]["color"] = colour
    data["categories"][1]["color"] = [1, 2, 300]  # none, so the palette's
    legend = read_support(written(data)).legend
    assert legend.colours == ((1, 2, 250), Legend.of(["cat"], [5]).colours[0])

"""COCO files, their folds, and pickled lists."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dgpnet.annotations import read_support
from dgpnet.data import build
from dgpnet.data.coco import IDS, class_mask, plain_pickle, read_coco
from dgpnet.errors import Error

IDENTITY = {c: c for c in range(1, 91)}


def box(x: float, y: float, width: float, height: float) -> list[float]:
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def thing(category: int, *polygons: list[float], area: float | None = None, crowd: bool = False) -> dict:
    sizes = [abs(p[-4] - p[0]) * abs(p[-3] - p[1]) for p in polygons]
    return {
        "category_id": category,
        "segmentation": list(polygons),
        "area": sum(sizes) if area is None else area,
        "iscrowd": int(crowd),
    }


def test_smaller_objects_lie_above_larger_ones_whatever_the_order() -> None:
    large, small = thing(1, box(0, 0, 10, 10)), thing(2, box(2, 2, 3, 3))
    for objects in ([large, small], [small, large]):
        mask = class_mask(10, 12, objects, IDENTITY, "full")
        assert (mask[2:5, 2:5] == 2).all()
        assert (mask == 1).sum() == 100 - 9
        assert (mask[:, 10:] == 0).all()


def test_crowds_are_ignore_and_below_everything() -> None:
    counts = [0, 12 * 10]  # all of it, as uncompressed run lengths
    crowd = {"category_id": 1, "segmentation": {"size": [10, 12], "counts": counts}, "area": 1, "iscrowd": 1}
    mask = class_mask(10, 12, [thing(3, box(0, 0, 4, 4)), crowd], IDENTITY, "full")
    assert (mask[:4, :4] == 3).all()
    assert (mask == 255).sum() == 120 - 16


def test_compressed_run_lengths_are_read() -> None:
    from pycocotools import mask as rle

    found = np.zeros((10, 12), np.uint8, order="F")
    found[3:5, 6:9] = 1
    coded = rle.encode(found)
    entry = {"category_id": 7, "segmentation": {"size": [10, 12], "counts": coded["counts"].decode()}, "area": 6}
    assert np.array_equal(class_mask(10, 12, [entry], IDENTITY, "full"), found * 7)


def test_first_polygon_is_a_variant_by_name() -> None:
    objects = [thing(5, box(0, 0, 3, 3), box(6, 6, 3, 3))]
    assert (class_mask(10, 10, objects, IDENTITY, "full") == 5).sum() == 18
    first = class_mask(10, 10, objects, IDENTITY, "first-polygon")
    assert (first == 5).sum() == 9
    assert (first[:3, :3] == 5).all()


def test_degenerate_polygons_are_left_out() -> None:
    assert not class_mask(5, 5, [thing(1, [1, 1, 3, 3], area=4)], IDENTITY, "full").any()


def test_training_and_segmenting_read_a_file_alike(tmp_path: Path, save: Callable[..., None]) -> None:
    """One parser, one way to draw; only what crowds and whole corners are is a matter of their own."""
    save(tmp_path / "images/a.png", np.zeros((30, 40, 3), np.uint8))
    crowd = {"size": [30, 40], "counts": [0, 90, 1110]}
    objects = [
        {"category_id": 7, "segmentation": [[1.3, 2, 20.7, 3, 18, 25.1], [30, 1, 39, 1, 35, 9.2]]},
        {"category_id": 3, "segmentation": [[5, 5, 12.5, 6, 9, 14]]},
        {"category_id": 3, "segmentation": [], "bbox": [0, 0, 3, 3]},
        {"category_id": 3, "segmentation": crowd, "iscrowd": 1},
    ]
    data = {
        "images": [{"id": 1, "file_name": "a.png", "height": 30, "width": 40}],
        "categories": [{"id": 3, "name": "cup"}, {"id": 7, "name": "dog"}],
        "annotations": [{"id": n, "image_id": 1, **entry} for n, entry in enumerate(objects)],
    }
    (tmp_path / "annotations.json").write_text(json.dumps(data))
    support = read_support(tmp_path / "annotations.json")
    dataset = read_coco("x", tmp_path / "annotations.json", tmp_path / "images", cache=tmp_path / "c", workers=1)
    assert tuple(dataset.classes.values()) == support.classes
    np.testing.assert_array_equal(support.legend.applied(support.examples[0].mask), dataset.mask(0))


@pytest.fixture
def mini(tmp_path: Path, save: Callable[..., None]) -> Path:
    """Photograph n shows COCO's n-th category on 50 × 50 = 2,500 pixels and person on 40 × 40."""
    root = tmp_path / "coco"
    images, annotations = [], []
    for n, category in enumerate(IDS[:12]):
        save(root / "images" / f"{n:012d}.jpg", np.full((60, 100, 3), 20 * n, np.uint8))
        images.append({"id": 1000 + n, "file_name": f"{n:012d}.jpg", "height": 60, "width": 100})
        annotations.append({"image_id": 1000 + n, **thing(category, box(0, 0, 50, 50))})
        annotations.append({"image_id": 1000 + n, **thing(1, box(55, 0, 40, 40))})
    categories = [{"id": c, "name": f"thing-{c}"} for c in IDS[:12]]
    (root / "annotations").mkdir()
    (root / "annotations" / "instances.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    return root


def test_folds_take_every_fourth_category_in_cocos_order(mini: Path, tmp_path: Path) -> None:
    test = build("coco", mini, fold=1, split="test", cache=tmp_path / "c")
    assert list(test.classes) == [IDS[1], IDS[5], IDS[9]]
    training = build("coco", mini, fold=1, split="train", cache=tmp_path / "c")
    assert not set(training.classes) & set(test.classes)
    assert len(training.classes) == 9
    assert training.fingerprint() == test.fingerprint()
    assert test.class_first


def test_cocos_category_ids_skip_ten_numbers() -> None:
    assert len(IDS) == 80
    assert (IDS[11], IDS[-1]) == (13, 90)


def test_a_subset_of_the_categories_keeps_their_folds(mini: Path, tmp_path: Path) -> None:
    file = mini / "annotations" / "instances.json"
    data = json.loads(file.read_text())
    data["categories"] = [c for c in data["categories"] if c["id"] != 2]
    data["annotations"] = [a for a in data["annotations"] if a["category_id"] != 2]
    file.write_text(json.dumps(data))
    assert list(build("coco", mini, fold=1, split="test", cache=tmp_path / "c").classes) == [IDS[5], IDS[9]]


def test_pairs_have_2048_pixels(mini: Path, tmp_path: Path) -> None:
    dataset = build("coco", mini, cache=tmp_path / "c")
    assert sorted((dataset.path(p), c) for p, c in dataset.pairs) == [(f"{n:012d}.jpg", IDS[n]) for n in range(12)]
    assert len(build("coco", mini, cache=tmp_path / "c", min_pixels=1600).pairs) == 12 + 11


def test_masks_are_made_once(mini: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build("coco", mini, cache=tmp_path / "c")
    monkeypatch.setattr(sys.modules["dgpnet.data.coco"], "class_mask", None)
    again = build("coco", mini, cache=tmp_path / "c")
    assert all(np.array_equal(first.mask(i), again.mask(i)) for i in range(12))


def test_a_photograph_of_another_size_and_a_missing_one_are_named(mini: Path, tmp_path: Path, save) -> None:
    dataset = build("coco", mini, cache=tmp_path / "c")  # counts the pixels
    save(mini / "images" / "000000000003.jpg", np.zeros((5, 5, 3), np.uint8))
    (mini / "images" / "000000000004.jpg").unlink()
    with pytest.raises(Error, match=r"(?s)2 photographs cannot be used, .*0003.jpg is 5 × 5.*0004.jpg"):
        build("coco", mini, cache=tmp_path / "c", size=16)
    assert len(dataset) == 12


def test_a_file_name_outside_its_folder_is_refused(mini: Path, tmp_path: Path) -> None:
    file = mini / "annotations" / "instances.json"
    file.write_text(file.read_text().replace("000000000003.jpg", "../../secret.jpg"))
    with pytest.raises(Error, match="outside the folder"):
        build("coco", mini, cache=tmp_path / "c")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"images": [], "annotations": [{"image_id": 3}], "categories": []}'])
def test_what_is_no_coco_file_is_refused(mini: Path, tmp_path: Path, text: str) -> None:
    (mini / "annotations" / "instances.json").write_text(text)
    with pytest.raises(Error, match="is no COCO file"):
        build("coco", mini, cache=tmp_path / "c")


def test_objects_that_cannot_be_rasterised_are_all_named(mini: Path, tmp_path: Path) -> None:
    file = mini / "annotations" / "instances.json"
    data = json.loads(file.read_text())
    for n in (0, 6):
        data["annotations"][n]["segmentation"] = {"counts": "x"}
    file.write_text(json.dumps(data))
    with pytest.raises(Error, match=r"(?s)000000000000.jpg has an object.*000000000003.jpg has an object"):
        build("coco", mini, cache=tmp_path / "c", workers=1)


def test_the_usual_layout(mini: Path, tmp_path: Path) -> None:
    root = tmp_path / "usual"
    for part in ("train2014", "val2014"):
        (root / "annotations").mkdir(parents=True, exist_ok=True)
        (root / "annotations" / f"instances_{part}.json").write_bytes(
            (mini / "annotations/instances.json").read_bytes()
        )
        (root / part).symlink_to(mini / "images")
    assert len(build("coco", root, fold=0, split="test", cache=tmp_path / "c")) == 12
    with pytest.raises(Error, match=r"no annotations/instances_train2014.json"):
        build("coco", tmp_path / "coco" / "images")


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_pickled_lists(mini: Path, tmp_path: Path, as_dictionary: bool) -> None:
    listed = {0: ["val2014/000000000000.jpg", "val2014/000000000001.jpg"], 1: ["val2014/000000000001.jpg"], 2: []}
    data = listed if as_dictionary else [(name, c) for c, names in listed.items() for name in names]
    for fold in range(4):
        path = tmp_path / "lists" / "val" / f"fold{fold}.pkl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(data))
    dataset = build("coco", mini, fold=0, split="test", lists=tmp_path / "lists", cache=tmp_path / "c")
    assert [(dataset.path(p), c) for p, c in dataset.pairs] == [("000000000000.jpg", 1), ("000000000001.jpg", 1)]
    everything = build("coco", mini, split="test", lists=tmp_path / "lists", cache=tmp_path / "c")
    assert len(everything.pairs) == 3
    path.write_bytes(pickle.dumps({0: ["999.jpg"]}))
    with pytest.raises(Error, match=r"999.jpg with class 0"):
        build("coco", mini, fold=3, split="test", lists=tmp_path / "lists", cache=tmp_path / "c")
    with pytest.raises(Error, match=r"no train/fold0.pkl"):
        build("coco", mini, fold=3, lists=tmp_path / "lists", cache=tmp_path / "c")


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize("value", [Evil(), np.arange(3), {"a": np.float64(1)}, Path("x")])
def test_a_pickle_of_anything_else_is_refused_unread(tmp_path: Path, value: object) -> None:
    path = tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(Error, match="it asks for"):
        plain_pickle(path)


def test_a_pickle_of_plain_containers_is_read(tmp_path: Path) -> None:
    value = {0: ["a", ("b", 1)], "x": {1, 2}, "y": None, "z": 1.5}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path = tmp_path / f"{protocol}.pkl"
        path.write_bytes(pickle.dumps(value | ({"x": [1]} if protocol < 4 else {}), protocol))
        assert plain_pickle(path)[0] == ["a", ("b", 1)]


def test_an_unknown_variant_is_refused(mini: Path, tmp_path: Path) -> None:
    with pytest.raises(Error, match="full or first-polygon"):
        build("coco", mini, variant="last-polygon", cache=tmp_path / "c")


@pytest.mark.slow
def test_the_mini_episodes(data_root: Path, tmp_path: Path) -> None:
    """All 300 can be read, and every photograph shows its class."""
    import tarfile

    from dgpnet.data import episodes_from_file

    with tarfile.open(data_root / "coco-mini.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    dataset = build("coco", tmp_path, split="test", min_pixels=1, cache=tmp_path / "c")
    found = episodes_from_file(data_root / "coco-mini-episodes.json", dataset)
    assert len(found) == 300
    assert sum(len(e.supports) == 10 for e in found) == 165
    masks = {i: dataset.mask(i) for e in found for i in (e.query, *e.supports)}
    assert all((masks[i] == e.class_id).any() for e in found for i in (e.query, *e.supports))

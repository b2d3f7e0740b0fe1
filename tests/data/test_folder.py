"""Anybody's own sets."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dgpnet.data import build, label_of
from dgpnet.errors import Error


def test_a_set_is_images_masks_and_classes(own_set: Path, tmp_path: Path) -> None:
    dataset = build("folder", own_set, cache=tmp_path / "c", min_pixels=1)
    assert dataset.name == "kitchen"
    assert dataset.classes == {1: "mug", 2: "spoon"}
    assert dataset.pairs == [*((n, 1) for n in range(6)), *((n, 2) for n in range(1, 6))]
    assert dataset.photo(0).shape == (20, 30, 3)
    assert (dataset.mask(5)[0] == 255).all()


def test_small_objects_make_no_pairs(own_set: Path, tmp_path: Path) -> None:
    # 19 rows of 2n pixels
    assert build("folder", own_set, cache=tmp_path / "c", min_pixels=152).by_class()[2].tolist() == [4, 5]
    without = build("folder", own_set, cache=tmp_path / "c")
    assert without.classes == {1: "mug"}
    assert without.notes == ["kitchen: spoon drops out, no mask has 256 pixels of it"]


def test_classes_split_into_folds(own_set: Path, tmp_path: Path) -> None:
    options = {"cache": tmp_path / "c", "min_pixels": 1, "folds": 2}
    assert build("folder", own_set, fold=1, split="test", **options).classes == {2: "spoon"}
    assert build("folder", own_set, fold=1, split="train", **options).classes == {1: "mug"}
    assert build("folder", own_set, split="test", **options).classes == {1: "mug", 2: "spoon"}
    with pytest.raises(Error, match="folds 0 to 1"):
        build("folder", own_set, fold=2, **options)


def test_many_sets_keep_their_classes_apart(own_set: Path, tmp_path: Path) -> None:
    root = tmp_path / "many"
    for name in ("a", "b", "c"):
        shutil.copytree(own_set, root / name)
    (root / "SOURCES.json").write_text("{}")
    dataset = build("folder", root, cache=tmp_path / "c", min_pixels=1)
    assert len(dataset) == 18
    assert dataset.classes == {
        **{1: "a/mug", 2: "a/spoon", 257: "b/mug"},
        **{258: "b/spoon", 513: "c/mug", 514: "c/spoon"},
    }
    for photo, c in dataset.pairs:
        assert dataset.path(photo).split("/")[0] == dataset.classes[c].split("/")[0]
        assert (dataset.mask(photo) == label_of(c)).any()
    folds = [build("folder", root, fold=f, split="test", cache=tmp_path / "c", min_pixels=1) for f in range(4)]
    assert sorted(c for f in folds for c in f.classes) == sorted(dataset.classes)
    assert len({f.fingerprint() for f in folds}) == 1


def test_masks_may_be_palette_or_deep(own_set: Path, tmp_path: Path) -> None:
    from PIL import Image

    mask = np.array(Image.open(own_set / "masks" / "5.png"))
    palette = Image.fromarray(mask)
    palette.putpalette([3 * n % 256 for n in range(768)])
    palette.save(own_set / "masks" / "5.png")
    Image.fromarray(np.asarray(Image.open(own_set / "masks" / "4.png")).astype(np.uint16)).save(
        own_set / "masks" / "4.png"
    )
    dataset = build("folder", own_set, cache=tmp_path / "c", min_pixels=1)
    assert np.array_equal(dataset.mask(5), mask)
    assert set(np.unique(dataset.mask(4))) == {0, 1, 2, 255}


def test_photographs_without_a_mask_are_left_out_and_said(own_set: Path, tmp_path: Path) -> None:
    (own_set / "masks" / "2.png").unlink()
    dataset = build("folder", own_set, cache=tmp_path / "c", min_pixels=1)
    assert len(dataset) == 5
    assert dataset.notes == ["kitchen: 1 photographs without a mask are left out"]


def test_what_is_wrong_is_named_at_once(own_set: Path, tmp_path: Path, save) -> None:
    for n in (1, 3):
        (own_set / "images" / f"{n}.png").unlink()
    with pytest.raises(
        Error, match=r"(?s)2 photographs cannot be used, .*1.png has no photograph.*3.png has no photograph"
    ):
        build("folder", own_set, cache=tmp_path / "c")


def test_broken_masks_and_photographs_are_named_together(own_set: Path, tmp_path: Path, save) -> None:
    save(own_set / "masks" / "1.png", np.zeros((3, 3), np.uint8))
    photo = own_set / "images" / "4.png"
    photo.write_bytes(photo.read_bytes()[:300])
    with pytest.raises(Error, match=r"(?s)2 photographs cannot be used, .*masks/1\.png is 3 × 3.*images/4\.png"):
        build("folder", own_set, cache=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_values_that_no_class_has_are_named(own_set: Path, tmp_path: Path) -> None:
    (own_set / "classes.json").write_text('["mug"]')
    with pytest.raises(Error, match=r"(?s)images/1.png has the values \[2\].*images/5.png has the values \[2\]"):
        build("folder", own_set, cache=tmp_path / "c")


@pytest.mark.parametrize("text", ["", "3", "{}", '{"0": "background"}', '{"300": "x"}', '{"a": "b"}'])
def test_classes_that_cannot_be_read(own_set: Path, tmp_path: Path, text: str) -> None:
    (own_set / "classes.json").write_text(text)
    with pytest.raises(Error, match=r"classes.json"):
        build("folder", own_set, cache=tmp_path / "c")


def test_two_photographs_of_one_name(own_set: Path, tmp_path: Path) -> None:
    shutil.copy(own_set / "images" / "1.png", own_set / "images" / "1.webp")
    with pytest.raises(Error, match=r"both 1.png and 1.webp"):
        build("folder", own_set, cache=tmp_path / "c")


def test_a_folder_without_a_set(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no images/ and masks/"):
        build("folder", tmp_path)


def test_a_coco_file_is_a_set(own_set: Path, tmp_path: Path) -> None:
    images = [{"id": n, "file_name": f"{n}.png", "height": 20, "width": 30} for n in range(6)]
    square = [0, 0, 18, 0, 18, 18, 0, 18]
    annotations = [{"image_id": n, "category_id": 900 + n % 2, "segmentation": [square]} for n in range(6)]
    categories = [{"id": 900, "name": "mug"}, {"id": 901, "name": "spoon"}]
    file = own_set / "annotations.json"
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    for root in (own_set, file):
        dataset = build("folder", root, cache=tmp_path / "c")
        assert dataset.classes == {1: "mug", 2: "spoon"}
        assert dataset.pairs == [(0, 1), (2, 1), (4, 1), (1, 2), (3, 2), (5, 2)]
        assert (dataset.mask(1)[:18, :18] == 2).all()
    spoons = build("folder", own_set, fold=1, folds=2, split="test", cache=tmp_path / "c")
    assert spoons.classes == {2: "spoon"}

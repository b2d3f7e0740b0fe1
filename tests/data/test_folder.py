"""Anybody's own sets, read as `dgpnet segment` reads them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.data import build, label_of
from dgpnet.data.dataset import files_fingerprint
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
    assert without.notes[-1] == "kitchen: spoon drops out, no mask has 256 pixels of it"


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
    assert dataset.notes[0] == "kitchen: 1 photographs without a mask are left out"
    assert dataset.notes[1].startswith("kitchen: 255 is ignore in 5 masks")


def test_what_is_wrong_is_named_at_once(own_set: Path, tmp_path: Path, save) -> None:
    for n in (1, 3):
        (own_set / "images" / f"{n}.png").unlink()
    with pytest.raises(Error, match=r"2 problems in kitchen, the first: .*1.png: there is no photograph") as caught:
        build("folder", own_set, cache=tmp_path / "c")
    assert "3.png: there is no photograph" in caught.value.__notes__[0]


def test_broken_masks_and_photographs_are_named_together(own_set: Path, tmp_path: Path, save) -> None:
    save(own_set / "masks" / "1.png", np.zeros((3, 3), np.uint8))
    photo = own_set / "images" / "4.png"
    photo.write_bytes(photo.read_bytes()[:300])
    with pytest.raises(
        Error, match=r"(?s)2 photographs cannot be used, .*masks/1\.png: annotated at 3 x 3.*images/4\.png"
    ):
        build("folder", own_set, cache=tmp_path / "c")
    assert not list((tmp_path / "c").glob("*-pixels.npy"))


def test_values_that_no_class_has_are_named(own_set: Path, tmp_path: Path) -> None:
    (own_set / "classes.json").write_text('["mug"]')
    with pytest.raises(Error, match=r"5 problems .*masks/1.png shows 2, which is no class") as caught:
        build("folder", own_set, cache=tmp_path / "c")
    assert "5.png shows 2" in caught.value.__notes__[-1]


@pytest.mark.parametrize(
    "text", ["", "3", "{}", '{"0": "background"}', '{"70000": "x"}', '{"a": "b"}', '{"a": 1, "b": 1}']
)
def test_classes_that_cannot_be_read(own_set: Path, tmp_path: Path, text: str) -> None:
    (own_set / "classes.json").write_text(text)
    with pytest.raises(Error, match=r"classes.json"):
        build("folder", own_set, cache=tmp_path / "c")


def test_two_photographs_of_one_name(own_set: Path, tmp_path: Path) -> None:
    shutil.copy(own_set / "images" / "1.png", own_set / "images" / "1.webp")
    with pytest.raises(Error, match=r"1.png, 1.webp all have its name"):
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


ONE = np.zeros((20, 30), np.uint8)
ONE[2:18, 3:15] = 1
TWO = ONE.copy()
TWO[2:18, 18:28] = 2
COLOURS = np.array([(0, 0, 0), (255, 0, 0), (0, 0, 255)], np.uint8)


def cut_out() -> Image.Image:
    picture = Image.new("RGB", (30, 20))
    picture.putalpha(Image.fromarray(255 * ONE))
    return picture


def indexed() -> Image.Image:
    picture = Image.fromarray(TWO)
    picture.putpalette(COLOURS.tobytes())
    return picture


SETS: dict[str, tuple[dict[str, object], str | None]] = {
    "numbers": ({"masks/0.png": TWO, "masks/1.png": ONE}, None),
    "numbers with gaps": ({"masks/0.png": 7 * TWO, "masks/1.png": 7 * ONE}, None),
    "deep numbers": ({"masks/0.png": 300 * TWO.astype(np.uint16), "masks/1.png": 300 * ONE.astype(np.uint16)}, None),
    "white": ({"masks/0.png": 255 * ONE, "masks/1.png": ONE > 0}, None),
    "white and ones": ({"masks/0.png": 255 * ONE, "masks/1.png": ONE}, None),
    "white, named": ({"masks/0.png": 255 * ONE, "masks/1.png": 255 * ONE}, '{"mug": 1}'),
    "colours": ({"masks/0.png": COLOURS[TWO], "masks/1.png": COLOURS[ONE]}, None),
    "colours, named": ({"masks/0.png": COLOURS[TWO]}, '{"mug": "#ff0000", "spoon": [0, 0, 255]}'),
    "palette": ({"masks/0.png": indexed(), "masks/1.png": ONE}, '{"1": "mug", "2": "spoon"}'),
    "background first": ({"masks/0.png": TWO, "masks/1.png": ONE}, '["background", "mug", "spoon"]'),
    "unused names": ({"masks/0.png": ONE}, '["mug", "spoon", "fork"]'),
    "cut-out": ({"masks/0.png": cut_out()}, None),
    "suffixes": ({"0_mask.png": TWO, "1-label.png": ONE}, '{"spoon": 2, "mug": 1}'),
    "other folders": ({"SegmentationClass/0.png": TWO}, None),
    "soft": ({"masks/0.png": Image.fromarray(255 * ONE).resize((120, 80), Image.Resampling.BICUBIC)}, None),
}


@pytest.mark.parametrize("kind", SETS)
def test_training_reads_masks_as_segmenting_does(tmp_path: Path, kind: str) -> None:
    masks, classes = SETS[kind]
    root = tmp_path / "set"
    for name, mask in masks.items():
        picture = mask if isinstance(mask, Image.Image) else Image.fromarray(mask)
        home = root / ("images" if "/" in name else "")
        home.mkdir(parents=True, exist_ok=True)
        (root / name).parent.mkdir(exist_ok=True)
        picture.save(root / name)
        Image.new("RGB", picture.size).save(home / f"{Path(name).stem[0]}.jpg")
    if classes:
        (root / "classes.json").write_text(classes)
    support = read_support(root)
    dataset = build("folder", root, cache=tmp_path / "c", min_pixels=1)
    assert tuple(dataset.classes.values()) == support.classes
    assert len(dataset) == len(support.examples)
    table = np.array([0, *map(label_of, dataset.classes), *[0] * (254 - len(support.classes)), 255], np.uint8)
    for i, example in enumerate(support.examples):
        assert dataset.path(i) == example.photo.relative_to(root).as_posix()
        np.testing.assert_array_equal(dataset.mask(i), table[example.mask])


def test_plain_numbers_keep_the_fingerprint_that_they_had(own_set: Path, tmp_path: Path) -> None:
    dataset = build("folder", own_set, cache=tmp_path / "c", min_pixels=1)
    names = [name for n in range(6) for name in (f"images/{n}.png", f"masks/{n}.png")]
    assert dataset.fingerprint() == files_fingerprint(own_set, names, "False")


def test_a_class_that_no_mask_shows_keeps_its_place_among_the_folds(own_set: Path, tmp_path: Path) -> None:
    options = {"cache": tmp_path / "c", "min_pixels": 1, "folds": 2, "fold": 0, "split": "test"}
    before = build("folder", own_set, **options)
    assert before.classes == {1: "mug"}
    for n in range(6):
        mask = np.array(Image.open(own_set / "masks" / f"{n}.png"))
        Image.fromarray(np.where(mask == 2, 3, mask).astype(np.uint8)).save(own_set / "masks" / f"{n}.png")
    (own_set / "classes.json").write_text('["mug", "fork", "spoon"]')
    after = build("folder", own_set, **options)
    assert after.classes == {1: "mug", 3: "spoon"}


def test_another_meaning_is_another_fingerprint(own_set: Path, tmp_path: Path) -> None:
    options = {"cache": tmp_path / "c", "min_pixels": 1}
    before = build("folder", own_set, **options)
    (own_set / "classes.json").write_text('{"mug": 1, "spoon": 2, "rim": 255}')
    after = build("folder", own_set, **options)
    assert after.classes == {1: "mug", 2: "spoon", 3: "rim"}
    assert (after.mask(0)[0] == 3).all()
    assert before.fingerprint() != after.fingerprint()


def test_masks_are_looked_at_once(own_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build("folder", own_set, cache=tmp_path / "c", min_pixels=1)
    monkeypatch.setattr("dgpnet.annotations.painted.read", None)
    assert build("folder", own_set, cache=tmp_path / "c", min_pixels=1).pairs == first.pairs
    (kept,) = (tmp_path / "c").glob("*-shown.json")
    kept.write_bytes(b"damaged")
    monkeypatch.undo()
    assert build("folder", own_set, cache=tmp_path / "c", min_pixels=1).pairs == first.pairs


def test_faults_of_all_sets_are_told_together(own_set: Path, tmp_path: Path) -> None:
    root = tmp_path / "many"
    for name in "abc":
        shutil.copytree(own_set, root / name)
    for name in "ac":
        (root / name / "classes.json").write_text("{")
    with pytest.raises(Error) as caught:
        build("folder", root, cache=tmp_path / "c")
    assert "2 problems in a, c, the first" in str(caught.value)

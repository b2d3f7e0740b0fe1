"""Where photographs and masks may lie, and which belongs to which."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import layouts, read_support
from dgpnet.errors import Error

MASK = np.zeros((12, 16), np.uint8)
MASK[2:8, 3:9] = 1
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """make("images/a.jpg", "masks/a.png") writes photographs, and masks where the last name says so."""

    def write(*names: str, masks: str = "mask label seg gt target annot") -> Path:
        for name in names:
            path = tmp_path / "set" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            is_mask = any(word in name.lower() for word in masks.split())
            (Image.fromarray(MASK) if is_mask else Image.new("RGB", (16, 12), "olive")).save(path)
        return tmp_path / "set"

    return write


def found(root: Path) -> list[str]:
    """Photographs of the examples; every mask is MASK."""
    examples = read_support(root).examples
    assert all((example.mask == MASK).all() for example in examples)
    return [example.photo.relative_to(root).as_posix() for example in examples]


@pytest.mark.parametrize(
    "photo, mask",
    [
        ("images/a.jpg", "masks/a.png"),
        ("Images/a.jpg", "Masks/a.png"),
        ("img/a.jpg", "mask/a.png"),
        ("imgs/a.jpg", "masks/a.tif"),
        ("image/a.jpg", "label/a.png"),
        ("photos/a.jpg", "labels/a.png"),
        ("input/a.jpg", "target/a.png"),
        ("JPEGImages/a.jpg", "SegmentationClass/a.png"),
        ("images/a.jpg", "masks/a_mask.png"),
        ("images/a.jpg", "masks/a-label.png"),
        ("images/a.jpg", "masks/a.jpg.png"),
        ("images/trip/a.jpg", "masks/trip/a.png"),
        ("images/a.b.jpg", "masks/a.b.png"),
        ("images/A.JPG", "masks/a.png"),
        ("a.jpg", "a_mask.png"),
        ("a.png", "a_mask.png"),
        ("a.png", "a.mask.png"),
        ("a.jpg", "a_seg.png"),
        ("trip/a.jpg", "trip/a-gt.png"),
        ("train/images/a.jpg", "train/masks/a.png"),
    ],
)
def test_usual_places_and_names(make: Make, photo: str, mask: str) -> None:
    assert found(make(photo, mask)) == [photo]


def test_photographs_and_pngs_of_the_same_name_are_enough(make: Make) -> None:
    root = make("a.jpg", "b.jpg", "c.jpg", "d.png")
    for name in ("a.png", "b.png"):
        Image.fromarray(MASK).save(root / name)
    (root / "classes.json").write_text('["mug"]')
    assert found(root) == ["a.jpg", "b.jpg"]


def test_accents_may_be_written_in_two_ways(make: Make) -> None:
    name = "caf\u00e9"
    root = make(f"images/{unicodedata.normalize('NFD', name)}.jpg", f"masks/{unicodedata.normalize('NFC', name)}.png")
    assert len(found(root)) == 1


def test_the_exact_name_goes_before_a_similar_one(make: Make) -> None:
    assert found(make("images/a.jpg", "images/A.jpg", "masks/a.png")) == ["images/a.jpg"]
    assert found(make("images/b_mask.jpg", "images/b.jpg", "masks/b_mask.png", masks="masks/")) == [
        "images/a.jpg",
        "images/b_mask.jpg",
    ]


def test_a_mask_named_after_the_whole_photograph_is_that_ones(make: Make) -> None:
    root = make("images/a.jpg", "images/a.png", "masks/a.jpg.png", "masks/a.png.png")
    assert found(root) == ["images/a.jpg", "images/a.png"]


def test_several_splits_are_read_together_and_said(make: Make) -> None:
    root = make("train/images/a.jpg", "train/masks/a.png", "val/images/a.jpg", "val/masks/a.png")
    assert found(root) == ["train/images/a.jpg", "val/images/a.jpg"]
    assert any(note.startswith("2 folders are read together") for note in read_support(root).notes)


@pytest.mark.parametrize(
    "names, problem",
    [
        (["images/a.jpg", "masks/a.png", "masks/a.tif"], r"has 2 masks, a\.png and a\.tif"),
        (["images/a.jpg", "masks/a.png", "masks/a_mask.png"], r"has 2 masks, a\.png and a_mask\.png"),
        (["a.png", "a_mask.png", "a_label.png"], r"has 2 masks, a_label\.png and a_mask\.png"),
        (["images/a.jpg", "masks/a.png", "masks/b.png"], r"b\.png: there is no photograph"),
        (["a.png", "a_mask.png", "b_mask.png"], r"b_mask\.png: there is no photograph"),
        (["images/a.jpg", "images/a.png", "masks/a.png"], r"a\.jpg, a\.png all have its name"),
        (["images/a.jpg", "masks/a.png", "labels/a.png"], "has masks in labels and masks"),
        (["images/a.jpg", "photos/b.jpg", "masks/a.png"], "has photographs in images and photos"),
        (["masks/a.png"], "no images/.*--images"),
    ],
)
def test_what_does_not_go_together_is_named(make: Make, names: list[str], problem: str) -> None:
    with pytest.raises(Error, match=problem):
        read_support(make(*names))


def test_what_is_no_picture_is_left_out(make: Make) -> None:
    root = make("images/a.jpg", "masks/a.png")
    for name in ("masks/Thumbs.db", "masks/._a.png", "masks/.DS_Store", "images/._a.jpg"):
        (root / name).write_bytes(b"whatever")
    (root / "masks/b.png").touch()
    assert found(root) == ["images/a.jpg"]
    assert any(note.startswith("1 empty files are left out") for note in read_support(root).notes)


def test_our_own_results_are_read_with_photographs_from_elsewhere(make: Make, tmp_path: Path) -> None:
    root = make("masks/a.png", "masks/trip/b.jpg.png", "masks/trip/b.png.png")
    for name in ("a.jpg", "trip/b.jpg", "trip/b.png", "c.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 12)).save(tmp_path / "photos" / name)
    (root / "classes.json").write_text('["mug"]')
    examples = read_support(root, photos=tmp_path / "photos").examples
    assert [example.photo.relative_to(tmp_path / "photos").as_posix() for example in examples] == [
        "a.jpg",
        "trip/b.jpg",
        "trip/b.png",
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["images/a.jpg", "labels/a.txt"],
        ["a.jpg", "a.json"],
        ["a.jpg", "a.png", "_annotations.coco.json"],
        ["images/a.jpg", "annotations/instances_train.json"],
        ["images/a.jpg", "annotations/panoptic.json", "annotations/panoptic/a.png"],
        ["a.jpg", "b.png"],
        ["face_mask.jpg", "b.jpg"],
    ],
)
def test_other_formats_are_not_mistaken_for_masks(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert not layouts.recognises(tmp_path)

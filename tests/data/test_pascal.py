"""PASCAL-5i and the COCO to PASCAL lists."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dgpnet.data import build
from dgpnet.data.pascal import CLASSES, COCO_TO_PASCAL, NAMES
from dgpnet.errors import Error

Save = Callable[..., None]


@pytest.fixture
def voc(tmp_path: Path, save: Save) -> Path:
    """Photograph c{n} shows class n on the left, 64 × 32 = 2,048 pixels of it; v{n} the same for val."""
    root = tmp_path / "VOC2012"
    for prefix in "cv":
        for n in CLASSES:
            save(root / "JPEGImages" / f"{prefix}{n}.jpg", np.full((64, 64, 3), 10 * n, np.uint8))
            mask = np.zeros((64, 64), np.uint8)
            mask[:, :32] = n
            save(root / "SegmentationClassAug" / f"{prefix}{n}.png", mask)
    return root


def write_lists(home: Path, train: str = "train") -> None:
    for part, prefix in ((train, "c"), ("val", "v")):
        for fold in range(4):
            (home / part).mkdir(parents=True, exist_ok=True)
            lines = [f"{prefix}{n}__{n:02d}\n" for n in range(5 * fold + 5, 5 * fold, -1)]
            (home / part / f"fold{fold}.txt").write_text("".join(lines))


@pytest.mark.parametrize("home", ["splits/pascal-5i", "splits/pascal"])
@pytest.mark.parametrize("train", ["train", "trn"])
def test_lists_give_pairs_in_their_order(voc: Path, home: str, train: str) -> None:
    write_lists(voc / home, train)
    test = build("pascal", voc.parent, fold=1, split="test")
    assert test.classes == {6: "bus", 7: "car", 8: "cat", 9: "chair", 10: "cow"}
    assert [(test.path(p), c) for p, c in test.pairs] == [(f"JPEGImages/v{c}.jpg", c) for c in (10, 9, 8, 7, 6)]
    training = build("pascal", voc, fold=1, split="train")
    assert sorted(training.classes) == [*range(1, 6), *range(11, 21)]
    assert {training.path(p)[11] for p, _ in training.pairs} == {"c"}
    assert len(training) == 20  # photographs of all folds, so that the folds share one cache
    assert training.fingerprint() == build("pascal", voc, fold=2).fingerprint()
    assert not test.class_first


def test_no_fold_is_all_classes(voc: Path) -> None:
    write_lists(voc / "splits/pascal-5i")
    assert build("pascal", voc).classes == CLASSES
    assert len(build("pascal", voc, split="test").pairs) == 20


def test_own_pairs_have_2048_pixels(voc: Path, save: Save, tmp_path: Path) -> None:
    listed = voc / "ImageSets" / "Segmentation" / "val.txt"
    listed.parent.mkdir(parents=True)
    listed.write_text("".join(f"v{n}\n" for n in CLASSES))
    small = np.zeros((64, 64), np.uint8)
    small[:, :32] = 9
    small[0, 0] = 255  # one pixel too few
    save(voc / "SegmentationClassAug" / "v9.png", small)
    test = build("pascal", voc, fold=1, split="test", cache=tmp_path / "cache")
    assert [test.path(p)[11:-4] for p, _ in test.pairs] == ["v6", "v7", "v8", "v10"]
    training = build("pascal", voc, fold=1, split="train", cache=tmp_path / "cache")
    assert len(training.pairs) == 15
    assert len(build("pascal", voc, fold=1, split="test", cache=tmp_path / "cache", min_pixels=2047).pairs) == 5


def test_masks_are_the_files(voc: Path) -> None:
    write_lists(voc / "splits/pascal-5i")
    dataset = build("pascal", voc, split="test")
    for photo, c in dataset.pairs:
        assert (dataset.mask(photo)[:, :32] == c).all()
        assert dataset.photo(photo).shape == (64, 64, 3)
        assert dataset.size(photo) == (64, 64)


def test_coco_to_pascal_has_the_papers_classes(voc: Path) -> None:
    assert sorted(name for fold in COCO_TO_PASCAL for name in fold) == sorted(NAMES)
    write_lists(voc / "splits/pascal-5i")
    dataset = build("coco2pascal", voc, fold=3, split="test")
    assert set(dataset.classes.values()) == {"bottle", "cat", "cow", "motorbike"}
    assert {dataset.path(p) for p, _ in dataset.pairs} == {f"JPEGImages/v{n}.jpg" for n in (5, 8, 10, 14)}
    with pytest.raises(Error, match="train on coco"):
        build("coco2pascal", voc, fold=0, split="train")


def test_coco_to_pascal_folds_keep_clear_of_the_training_classes() -> None:
    """No class tested in fold i may be trained on in fold i of COCO-20i."""
    order = {
        **{"person": 0, "bicycle": 1, "car": 2, "motorbike": 3, "aeroplane": 4, "bus": 5, "train": 6, "boat": 8},
        **{"bird": 14, "cat": 15, "dog": 16, "horse": 17, "sheep": 18, "cow": 19, "bottle": 39, "chair": 56},
        **{"sofa": 57, "pottedplant": 58, "diningtable": 60, "tvmonitor": 62},
    }  # places among COCO's 80 categories
    for fold, names in enumerate(COCO_TO_PASCAL):
        assert all(order[name] % 4 == fold for name in names)


def test_wrong_roots_lists_and_folds(voc: Path, tmp_path: Path) -> None:
    with pytest.raises(Error, match="no JPEGImages"):
        build("pascal", tmp_path / "VOC2012" / "JPEGImages")
    with pytest.raises(Error, match="neither splits"):
        build("pascal", voc)
    with pytest.raises(Error, match=r"no train/fold0.txt"):
        build("pascal", voc, lists=tmp_path)
    with pytest.raises(Error, match="folds 0 to 3"):
        build("pascal", voc, fold=4)
    write_lists(voc / "splits/pascal-5i")
    (voc / "splits/pascal-5i/train/fold2.txt").write_text("c3__03\nwhatever\n")
    with pytest.raises(Error, match=r"fold2.txt has the line 'whatever'.*2007_000033__01"):
        build("pascal", voc)


def test_the_mini_lists(data_root: Path, tmp_path: Path) -> None:
    """The counts that the data's own description gives."""
    import tarfile

    with tarfile.open(data_root / "pascal-0.tar") as tar:
        tar.extractall(tmp_path, [m for m in tar if "/splits/" in m.name], filter="data")
    for folder in ("JPEGImages", "SegmentationClassAug"):
        (tmp_path / "VOC2012" / folder).mkdir()
    sizes = [len(build("pascal", tmp_path, fold=f, split="test").pairs) for f in range(4)]
    assert sizes == [13, 202, 290, 76]
    assert len(build("pascal", tmp_path, fold=1, split="train").pairs) == 41 + 2121 + 447

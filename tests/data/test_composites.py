"""Cut-outs on backgrounds."""

from pathlib import Path

import numpy as np
import pytest

from dgpnet.data import build, label_of
from dgpnet.data.composites import cut_out
from dgpnet.errors import Error

COLOURS = {"apple": (200, 20, 20), "lime": (20, 180, 20), "plum": (60, 20, 160)}


def disc(colour: tuple[int, int, int], side: int = 40) -> np.ndarray:
    photo = np.full((side, side, 3), 255, np.uint8)
    y, x = np.mgrid[:side, :side] - side // 2
    photo[x**2 + y**2 < (0.4 * side) ** 2] = colour
    return photo


@pytest.fixture
def kitchen(tmp_path: Path, save) -> Path:
    for name, colour in COLOURS.items():
        for n in range(2):
            save(tmp_path / "objects" / name / f"{n}.png", disc(colour))
    for n in range(3):
        save(tmp_path / "backgrounds" / f"{n}.png", np.full((50, 70, 3), 120 + n, np.uint8))
    return tmp_path


def flood(ground: np.ndarray) -> np.ndarray:
    """White that reaches the border, by a stack."""
    reached = np.zeros_like(ground)
    height, width = ground.shape
    stack = [(y, x) for y in range(height) for x in range(width) if y in (0, height - 1) or x in (0, width - 1)]
    while stack:
        y, x = stack.pop()
        if 0 <= y < height and 0 <= x < width and ground[y, x] and not reached[y, x]:
            reached[y, x] = True
            stack += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    return reached


def test_white_inside_an_object_is_kept(rng: np.random.Generator) -> None:
    photo = disc((200, 20, 20))
    photo[18:22, 18:22] = 255  # a light spot
    alpha = cut_out(photo)
    assert alpha[20, 20] == 255
    assert alpha[0, 0] == 0
    assert alpha.dtype == np.uint8
    for _ in range(20):
        photo = np.where(rng.random((12, 15, 1)) < 0.6, 255, 90).repeat(3, axis=2).astype(np.uint8)
        assert not (cut_out(photo) > 127)[flood(photo.min(axis=2) >= 235)].any()


def test_masks_lie_where_the_colours_are(kitchen: Path) -> None:
    dataset = build("composites", kitchen, photographs=30, side=64)
    assert dataset.classes == {1: "apple", 2: "lime", 3: "plum"}
    for i in range(30):
        photo, mask = dataset.photo(i).astype(float), dataset.mask(i)
        strong = photo.max(axis=2) - photo.min(axis=2) > 60
        assert (strong == (mask > 0)).mean() > 0.95
        for c, name in dataset.classes.items():
            if (mask == c).sum() > 50:
                mean = photo[mask == c].mean(axis=0)
                assert mean.argmax() == np.argmax(COLOURS[name])


def test_every_pair_is_seen(kitchen: Path) -> None:
    dataset = build("composites", kitchen, photographs=60, side=64, targets=1, distractors=7)
    assert len(dataset.pairs) == 60
    for i, c in dataset.pairs:
        assert (dataset.mask(i) == label_of(c)).sum() >= 0.002 * 64 * 64


def test_a_composite_is_a_function_of_seed_and_number(kitchen: Path) -> None:
    one, two = (build("composites", kitchen, photographs=10, side=48) for _ in range(2))
    assert all(np.array_equal(one.photo(9 - i), two.photo(9 - i)) for i in range(10))
    assert all(np.array_equal(one.mask(i), two.mask(i)) for i in range(10))
    assert not np.array_equal(one.photo(0), build("composites", kitchen, photographs=10, side=48, seed=3).photo(0))
    assert one.fingerprint() == two.fingerprint() != build("composites", kitchen, photographs=11, side=48).fingerprint()


def test_there_are_distractors_and_several_objects(kitchen: Path) -> None:
    dataset = build("composites", kitchen, photographs=60, side=64)
    kinds = [len(np.unique(dataset.mask(i))) - 1 for i in range(60)]
    assert min(kinds) == 1
    assert max(kinds) == 3


def test_folds_of_kinds(kitchen: Path) -> None:
    options = {"photographs": 6, "side": 32, "folds": 3}
    assert build("composites", kitchen, fold=1, split="test", **options).classes == {2: "lime"}
    train = build("composites", kitchen, fold=1, split="train", **options)
    assert train.classes == {1: "apple", 3: "plum"}
    assert not any((train.mask(i) == 2).any() for i in range(6))


def test_objects_of_another_dataset_are_cut_out(kitchen: Path) -> None:
    described = {"photographs": 12, "side": 64, "kinds": 300}
    shapes = build("synthetic", **described)
    dataset = build("composites", kitchen, objects=shapes, photographs=20, side=64)
    again = build("composites", kitchen, objects={"name": "synthetic", **described}, photographs=20, side=64)
    assert again.fingerprint() == dataset.fingerprint()
    for wrong in ({"dataset": "synthetic"}, {"name": "synthetic", "size": 16}, "synthetic"):
        with pytest.raises(Error, match="Objects of composites are"):
            build("composites", kitchen, objects=wrong)
    shown = {c for _, c in shapes.pairs}
    assert len(dataset.classes) == len(shown)
    for i, c in dataset.pairs:
        assert (dataset.mask(i) == label_of(c)).any()


def test_what_is_missing_is_said(kitchen: Path, tmp_path: Path, save) -> None:
    (tmp_path / "objects" / "pear").mkdir()
    with pytest.raises(Error, match="no photographs of pear"):
        build("composites", kitchen)
    (tmp_path / "objects" / "pear").rmdir()
    with pytest.raises(Error, match="given 8 targets and 1 distractors"):
        build("composites", kitchen, targets=8, distractors=1)
    with pytest.raises(Error, match="no kinds for test"):
        build("composites", kitchen, fold=5, folds=6, split="test")
    save(tmp_path / "objects" / "apple" / "0.png", np.full((9, 9, 3), 255, np.uint8))
    save(tmp_path / "objects" / "apple" / "1.png", np.full((9, 9, 3), 255, np.uint8))
    with pytest.raises(Error, match="is all white"):
        build("composites", kitchen, photographs=3, side=32).photo(0)
    (tmp_path / "objects").rename(tmp_path / "things")
    with pytest.raises(Error, match="no objects/"):
        build("composites", kitchen)
    (tmp_path / "backgrounds").rename(tmp_path / "views")
    with pytest.raises(Error, match="no backgrounds/"):
        build("composites", kitchen)

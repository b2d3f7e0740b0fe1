"""Shapes rendered on the fly."""

import numpy as np
import pytest

from dgpnet.data import build, label_of
from dgpnet.errors import Error


def test_a_photograph_is_a_function_of_seed_and_number() -> None:
    one, two = (build("synthetic", photographs=20, side=48) for _ in range(2))
    backwards = [two.photo(i) for i in range(19, -1, -1)][::-1]
    assert all(np.array_equal(one.photo(i), backwards[i]) for i in range(20))
    other = build("synthetic", photographs=20, side=48, seed=1)
    assert not np.array_equal(one.photo(0), other.photo(0))


@pytest.mark.parametrize("kinds", [4, 40, 600])
def test_masks_show_exactly_their_pairs(kinds: int) -> None:
    dataset = build("synthetic", photographs=30, side=64, kinds=kinds)
    assert len(dataset.classes) == kinds
    for i in range(30):
        labels = {label_of(c) for p, c in dataset.pairs if p == i}
        assert len(labels) == 3
        assert set(np.unique(dataset.mask(i)).tolist()) == {0, *labels}
        assert all((dataset.mask(i) == label).sum() > 40 for label in labels)


def test_every_class_has_its_turn() -> None:
    dataset = build("synthetic", photographs=200, kinds=40)
    assert min(len(p) for p in dataset.by_class().values()) >= 5


def test_folds_share_no_class_and_splits_no_photograph() -> None:
    train, test = (build("synthetic", fold=2, split=s, photographs=12, side=32) for s in ("train", "test"))
    assert not set(train.classes) & set(test.classes)
    assert len(train.classes) + len(test.classes) == 40
    same = [build("synthetic", split=s, photographs=4, side=32) for s in ("train", "test")]
    assert not np.array_equal(same[0].photo(0), same[1].photo(0))


def test_objects_stand_out_from_the_ground_and_classes_from_each_other() -> None:
    dataset = build("synthetic", photographs=60, side=64, kinds=6)
    means: dict[int, list[np.ndarray]] = {}
    for i, c in dataset.pairs:
        means.setdefault(c, []).append(dataset.photo(i)[dataset.mask(i) == label_of(c)].astype(float).mean(axis=0))
    centres = np.array([np.mean(v, axis=0) for v in means.values()])
    between = np.linalg.norm(centres[:, None] - centres[None], axis=2)[np.triu_indices(6, 1)]
    within = np.mean([np.std(v, axis=0).mean() for v in means.values()])
    assert np.median(between) > 2 * within


def test_impossible_numbers_of_objects() -> None:
    with pytest.raises(Error, match="1 to 4 of the classes; given 3 of 2"):
        build("synthetic", kinds=2)
    with pytest.raises(Error, match="given 5"):
        build("synthetic", objects=5)

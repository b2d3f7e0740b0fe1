"""What all datasets share."""

import numpy as np
import pytest

from dgpnet.data import Mixture, label_of, narrow
from dgpnet.data.dataset import check_fold, class_id_of, in_fold
from dgpnet.errors import Error


def test_class_ids_keep_their_label_in_the_low_byte() -> None:
    labels = [label_of(class_id_of(n)) for n in range(1000)]
    assert set(labels) == set(range(1, 255))
    assert len({class_id_of(n) for n in range(1000)}) == 1000


def test_folds_of_blocks_and_of_every_fourth() -> None:
    pascal = [[n + 1 for n in range(20) if in_fold(n, f, "test", 4, blocks_of=5)] for f in range(4)]
    assert pascal == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15], [16, 17, 18, 19, 20]]
    coco = [[n for n in range(80) if in_fold(n, f, "test", 4)] for f in range(4)]
    assert coco[1] == [1, 5, 9, *range(13, 80, 4)]
    assert all(in_fold(n, 2, "train", 4) != in_fold(n, 2, "test", 4) for n in range(80))
    assert all(in_fold(n, None, split, 4) for n in range(80) for split in ("train", "test"))


@pytest.mark.parametrize("fold", [-1, 4, 1.0, "1"])
def test_an_unknown_fold_is_refused(fold: object) -> None:
    with pytest.raises(Error, match="folds 0 to 3"):
        check_fold("pascal", fold, "train", 4)  # type: ignore[arg-type]


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(Error, match="'train' or 'test'"):
        check_fold("pascal", 0, "val", 4)


def test_narrow_takes_ids_and_names(toy) -> None:
    dataset = toy({1: 2, 2: 3, 3: 1})
    for wanted in ([2, 3], ["class-2", "Class-3"], ["2", "3"]):
        found = narrow(dataset, wanted)
        assert found.classes == {2: "class-2", 3: "class-3"}
        assert found.pairs == [(2, 2), (3, 2), (4, 2), (5, 3)]
    assert len(dataset.pairs) == 6  # the other one is as it was


def test_narrow_names_unknown_classes(toy) -> None:
    with pytest.raises(Error, match="no class dragon; its classes are: 1 class-1"):
        narrow(toy({1: 2}), ["dragon", 1])


def test_a_mixture_numbers_on(toy) -> None:
    a, b = toy({1: 2, 3: 1}, name="a"), toy({1: 3}, name="b")
    mixture = Mixture([(a, 1), (b, 2)])
    assert len(mixture) == 6
    assert mixture.classes == {1: "a/class-1", 3: "a/class-3", 257: "b/class-1"}
    assert mixture.pairs == [(0, 1), (1, 1), (2, 3), (3, 257), (4, 257), (5, 257)]
    for i, c in mixture.pairs:
        assert (mixture.mask(i) == label_of(c)).all()
        dataset, j = mixture.member_of(i)
        assert np.array_equal(mixture.photo(i), dataset.photo(j))
        assert mixture.path(i) == f"{dataset.name}/{dataset.path(j)}"
        assert mixture.size(i) == (4, 6)


def test_mixtures_nest(toy) -> None:
    inner = Mixture([(toy({1: 2}), 1), (toy({1: 2}), 1)], "inner")
    outer = Mixture([(toy({2: 2}), 1), (inner, 3), (toy({5: 1}), 1)])
    assert list(outer.classes) == [2, 257, 513, 773]
    shares = outer.shares(np.array([2, 257, 513, 773]), np.array([2, 2, 2, 1]), 0.0)
    assert shares.tolist() == pytest.approx([0.2, 0.3, 0.3, 0.2])


def test_an_empty_mixture_or_weight_is_refused(toy) -> None:
    with pytest.raises(Error, match="weight above 0"):
        Mixture([])
    with pytest.raises(Error, match="weight above 0"):
        Mixture([(toy({1: 2}), 0.0)])


@pytest.mark.parametrize(("power", "expected"), [(0.0, [4, 16]), (0.5, [2, 4]), (1.0, [1, 1])])
def test_shares_of_classes(toy, power: float, expected: list[float]) -> None:
    shares = toy({1: 4, 2: 16}).shares(np.array([1, 2]), np.array([4, 16]), power)
    assert shares.tolist() == pytest.approx([v / sum(expected) for v in expected])


def test_shares_of_a_mixture_follow_its_weights(toy) -> None:
    mixture = Mixture([(toy({1: 4, 2: 16}), 1), (toy({1: 1}), 3)])
    shares = mixture.shares(np.array([1, 2, 257]), np.array([4, 16, 1]), 0.5)
    assert shares.tolist() == pytest.approx([0.25 / 3, 0.5 / 3, 0.75])


def test_what_is_not_cached_has_no_tensors(toy) -> None:
    with pytest.raises(Error, match="not cached"):
        toy({1: 2}).tensors()

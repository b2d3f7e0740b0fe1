"""Which photograph to paint next in mixed folders: what is drawn, and how criteria choose."""

import numpy as np
import pytest

from dgpnet import data
from dgpnet.data.dataset import label_of
from research import mixed
from research.mixed import CRITERIA, Known, Row, diverse, measured, mixture, rows_of, table
from tests.tiny import CONFIG, tiny_segmenter


@pytest.fixture
def dataset(monkeypatch):
    monkeypatch.setattr(mixed, "POOL", 6)
    monkeypatch.setattr(mixed, "QUERIES", 6)
    return data.build("synthetic", kinds=4, photographs=40, side=64, objects=1, folds=1)


def test_a_third_of_a_pool_and_of_the_queries_shows_the_class(dataset):
    class_id = next(iter(dataset.classes))
    first, pool, queries = mixture(dataset, class_id, np.random.default_rng(0))
    assert sum(there for _, there in pool) == 2 and len(pool) == 6 and len(queries) == 6
    everything = [first, *(i for i, _ in (*pool, *queries))]
    assert len(set(everything)) == len(everything)
    for i, there in (*pool, *queries):
        assert (dataset.mask(i) == label_of(class_id)).any() == there


def test_diverse_choices_are_not_alike():
    alike = np.zeros((4, 5))
    np.fill_diagonal(alike, 1.0)
    alike[0, 1] = alike[1, 0] = 0.9
    assert diverse(np.array([1.0, 0.9, 0.5, 0.4]), alike, 3) == [0, 2, 3]
    alike[:, 4] = [0.95, 0.0, 0.0, 0.0]  # the first is what was painted already
    assert diverse(np.array([1.0, 0.9, 0.5, 0.4]), alike, 2)[0] == 1


def test_criteria_take_what_they_are_called():
    told = Known(np.array([0.9, 0.5, 0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.5, 0.4, 0.3]), np.eye(5, 6))
    assert CRITERIA["presence"](told) == [0, 1, 4, 3]
    assert CRITERIA["uncertainty"](told) == [2, 3, 4, 1]
    assert all(len(set(criterion(told))) == mixed.BUDGET for criterion in CRITERIA.values())


def test_a_class_is_measured_by_every_criterion(dataset):
    row = measured(
        tiny_segmenter(CONFIG), dataset, next(iter(dataset.classes)), "held back", 2, np.random.default_rng(0)
    )
    assert row is not None and set(row.by) == set(row.showing) > {"suggest", *CRITERIA}
    assert len(row.random) == 2 and all(0 <= iou <= 1 for iou in (row.first, *row.by.values(), *row.random))


def test_classes_with_few_photographs_are_left_out():
    few = data.build("synthetic", kinds=2, photographs=6, side=64, objects=1, folds=1)
    assert list(rows_of(tiny_segmenter(CONFIG), few, 2, 0)) == []


def test_gains_are_over_the_mean_of_random_draws():
    rows = [
        Row(name, "held back", 0.1, {"presence": 0.5 + gain}, {"presence": 3}, (0.4, 0.6))
        for name, gain in (("a", 0.0), ("b", 0.02))
    ]
    assert table(rows).splitlines()[-1] == "| | presence | 51.0 | +1.0 ± 1.0 | 3.0 |"

"""Which photograph to paint next in mixed folders: what is drawn, and how criteria choose."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from dgpnet import data
from dgpnet.data.dataset import label_of
from research import mixed
from research.mixed import CRITERIA, Known, Row, Trial, believing, diverse, measured, mixture, read, rows_of, table
from tests.tiny import CONFIG, tiny_segmenter


@pytest.fixture
def dataset(monkeypatch):
    monkeypatch.setattr(mixed, "POOL", 6)
    monkeypatch.setattr(mixed, "QUERIES", 6)
    monkeypatch.setattr(mixed, "FEWEST", 5)
    return data.build("synthetic", kinds=4, photographs=40, side=64, objects=1, folds=1)


def test_a_third_of_a_pool_and_of_the_queries_shows_the_class(dataset):
    class_id = next(iter(dataset.classes))
    first, pool, queries = mixture(dataset, class_id, 3, np.random.default_rng(0))
    assert sum(there for _, there in pool) == 2 and len(pool) == 6 and len(queries) == 6
    everything = [first, *(i for i, _ in (*pool, *queries))]
    assert len(set(everything)) == len(everything)
    for i, there in (*pool, *queries):
        assert (dataset.mask(i) == label_of(class_id)).any() == there


def test_all_of_a_pool_and_of_the_queries_may_show_the_class(dataset):
    class_id = next(iter(dataset.classes))
    first, pool, queries = mixture(dataset, class_id, 1, np.random.default_rng(0))
    assert len(pool) == 6 and queries
    everything = [first, *(i for i, _ in (*pool, *queries))]
    assert len(set(everything)) == len(everything)
    assert all(there and (dataset.mask(i) == label_of(class_id)).any() for i, there in (*pool, *queries))


def test_diverse_choices_are_not_alike():
    alike = np.zeros((4, 5))
    np.fill_diagonal(alike, 1.0)
    alike[0, 1] = alike[1, 0] = 0.9
    assert diverse(np.array([1.0, 0.9, 0.5, 0.4]), alike, 3) == [0, 2, 3]
    alike[:, 4] = [0.95, 0.0, 0.0, 0.0]  # the first is what was painted already
    assert diverse(np.array([1.0, 0.9, 0.5, 0.4]), alike, 2)[0] == 1


def telling(which, weights):
    """Says the same of all: the first of some, or the weightiest."""
    order = which if weights is None else sorted(which, key=lambda i: -weights[i])
    return order[: mixed.BUDGET]


def test_criteria_take_what_they_are_called():
    presence = np.array([0.9, 0.5, 0.1, 0.2, 0.3])
    told = Known(presence, np.array([0.1, 0.2, 0.5, 0.4, 0.3]), np.eye(5, 6), telling)
    assert CRITERIA["variance"](told) == [0, 1, 2, 3]
    assert CRITERIA["presence"](told) == CRITERIA["suggest: presence × variance"](told) == [0, 1, 4, 3]
    assert CRITERIA["uncertainty"](told) == [2, 3, 4, 1]
    assert all(len(set(criterion(told))) == mixed.BUDGET for criterion in CRITERIA.values())


def test_variance_decides_only_where_most_of_a_pool_has_the_thing():
    criterion = CRITERIA["presence; variance where most have it"]
    few, most = (np.array([0.1, 0.2, *([there] * 3)]) for there in (0.4, 0.6))
    for presence, expected in ((few, [2, 3, 4, 1]), (most, [0, 1, 2, 3])):
        assert criterion(Known(presence, np.zeros(5), np.eye(5, 6), telling)) == expected


def test_a_class_is_measured_by_every_criterion(dataset):
    class_id = next(iter(dataset.classes))
    for one_in in (1, 3):
        row = measured(
            tiny_segmenter(CONFIG), dataset, class_id, "held back", Trial(one_in, draws=2), np.random.default_rng(0)
        )
        assert row is not None and set(row.by) == set(row.showing) == set(CRITERIA)
        assert row.same is None if one_in == 1 else 0 <= row.same <= 1
        assert len(row.random) == 2 and all(0 <= iou <= 1 for iou in (row.first, *row.by.values(), *row.random))


def test_before_any_mask_there_is_coverage_alone(dataset):
    class_id, trial = next(iter(dataset.classes)), Trial(1, before=True, draws=2)
    row = measured(tiny_segmenter(CONFIG), dataset, class_id, "held back", trial, np.random.default_rng(0))
    assert row is not None and row.first == 0 and row.showing == {"coverage": 4}


def test_classes_with_few_photographs_are_left_out():
    few = data.build("synthetic", kinds=2, photographs=6, side=64, objects=1, folds=1)
    assert list(rows_of(tiny_segmenter(CONFIG), few, Trial())) == []


def test_gains_are_over_the_mean_of_random_draws():
    rows = [
        Row(name, "held back", 0.1, {"presence": 0.5 + gain}, {"presence": 3}, (0.4, 0.6), None)
        for name, gain in (("a", 0.0), ("b", 0.02))
    ]
    assert table(rows, 3).splitlines()[-1] == "| | presence | 51.0 | +1.0 ± 1.0 | 3.0 |"


def test_both_halves_together_come_last():
    halves = "to choose by", "held back"
    rows = [Row(half, half, 0.1, {"presence": 0.5}, {"presence": 3}, (0.4, 0.6), None) for half in halves]
    assert [line for line in table(rows, 1).splitlines() if "classes" in line][-1].startswith("| all, 2 classes")


def test_sets_of_which_the_rest_is_of_the_same_set_stand_by_themselves():
    rows = [
        Row(str(i), "held back", 0.1, {"presence": 0.5}, {"presence": 3}, (0.4, 0.6), same)
        for i, same in enumerate((0.0, 0.5, 1.0, 0.0))
    ]
    groups = [line.split("|")[1].strip() for line in table(rows, 3).splitlines() if "classes" in line]
    assert groups == [
        "held back, 4 classes",
        "the rest of other sets alone, 2 classes",
        "the rest of the same set alone, 1 classes",
    ]


def test_what_a_run_wrote_is_read_again(tmp_path):
    row = Row("a", "held back", 0.1, {"presence": 0.5}, {"presence": 3}, (0.4, 0.6), None)
    (tmp_path / "rows.json").write_text(json.dumps([asdict(row)]))
    assert read(tmp_path / "rows.json") == [row]


def test_a_model_without_presence_may_be_given_another_ones(tmp_path):
    belief = {"one": [0.0] * 5, "several": [0.0] * 5, "usual": 1.0}
    (tmp_path / "beside.json").write_text(json.dumps({"presence": belief, "quality": belief}))
    before = tiny_segmenter(CONFIG)
    after = believing(before, tmp_path / "beside.json")
    assert after.calibration.presence is not None and after.calibration.temperature == before.calibration.temperature
    assert after.fingerprint == before.fingerprint

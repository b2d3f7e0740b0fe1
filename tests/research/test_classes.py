"""Several classes at once: what is drawn, and how changes of label are counted."""

import numpy as np
import pytest
import torch

from dgpnet import data
from dgpnet.data.dataset import label_of
from dgpnet.images import IGNORE
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.coupling import PULL
from dgpnet.segmenter.segmentation import Maps, enlarge
from research.classes import MARGIN, SHOTS, Row, cost, counted, found, inside, measured, table, trials
from tests.tiny import CONFIG, tiny_segmenter


def dataset(**options: int) -> data.Dataset:
    return data.build("synthetic", **{"kinds": 3, "photographs": 20, "side": 64, "objects": 2, "folds": 1, **options})


def test_examples_show_all_classes_they_can_and_are_not_asked_of():
    several = list(trials("one", dataset(), queries=4, draws=3, seed=0))
    assert len(several) == 3 and len({one.examples for one in several}) == 3
    for one in several:
        assert len(one.examples) == SHOTS and not set(one.examples) & set(one.queries)
        shown = {value for i in one.examples for value in np.unique(one.mask(i)).tolist()} - {0, IGNORE}
        assert shown == set(range(1, len(one.classes) + 1))
    again = list(trials("one", dataset(), queries=4, draws=3, seed=0))
    assert [(one.examples, one.queries) for one in again] == [(one.examples, one.queries) for one in several]


def test_classes_that_no_example_shows_are_ignored():
    (one,) = trials("one", dataset(), queries=2, draws=1, seed=0)
    fewer = type(one)(one.group, one.name, one.dataset, one.examples, one.queries, one.classes[1:])
    i = one.examples[0]
    gone = one.dataset.mask(i) == label_of(one.classes[0])
    np.testing.assert_array_equal(fewer.mask(i) == IGNORE, gone | (one.mask(i) == IGNORE))


def test_changes_are_those_inside_an_object_alone():
    truth = np.zeros((40, 60), np.uint8)
    truth[5:35, 5:55] = 1
    truth[5:35, 30:55] = 2
    assert counted(truth, truth, 2).changes == (0.0, 0.0)
    # One line of wrong labels across the first object: both its sides are changes, over the root of the area within.
    height, width = 30 - 2 * MARGIN, 25 - 2 * MARGIN
    striped = truth.copy()
    striped[20, 5:30] = 2
    one = counted(striped, truth, 2)
    assert one.changes == pytest.approx((2 * width / (height * width) ** 0.5, 0.0))
    assert one.mixed == pytest.approx((1 / height, 0.0))
    # What is not found is no change, nor is a border that is a pixel off.
    missed = truth.copy()
    missed[20, 5:30] = 0
    missed[:, 30:32] = np.where(truth[:, 30:32] > 0, 1, 0)
    assert counted(missed, truth, 2).changes == (0.0, 0.0)


def test_overlaps_leave_out_what_nobody_said():
    truth = np.array([[1, 1, 2, IGNORE]], np.uint8)
    assert counted(np.array([[1, 2, 2, 1]], np.uint8), truth, 2).overlaps.tolist() == [[1, 2], [1, 2]]


def test_inside_is_away_from_every_border():
    truth = np.full((20, 20), 1, np.uint8)
    truth[:, 10:] = IGNORE
    assert inside(truth)[:, : 10 - MARGIN].all() and not inside(truth)[:, 10 - MARGIN :].any()


def test_what_is_measured_is_what_a_photograph_gets():
    torch.manual_seed(0)
    odds, calibration = 4 * torch.randn(3, 30, 40), Calibration(1.3)
    maps = Maps(odds, torch.zeros(30, 40), torch.zeros(3, 30, 40))
    shipped = enlarge(maps, (50, 70), calibration, keep=["mask"])["mask"].numpy()
    np.testing.assert_array_equal(found(odds, (50, 70), calibration, PULL), shipped)
    alone = found(odds, (50, 70), calibration, 0.0)
    assert (alone != shipped).any()
    np.testing.assert_array_equal(alone > 0, shipped > 0)


def test_a_trial_is_measured_with_every_pull_and_summed_up():
    (one,) = trials("one", dataset(), queries=2, draws=1, seed=0)
    row = measured(tiny_segmenter(CONFIG), one, (0.0, 3.0), seed=0)
    assert row is None or (len(row.iou) == len(row.changes) == 2 and 0 <= min(row.iou) <= max(row.iou) <= 1)
    rows = [
        Row("many", name, 0, 3, (0.5, 0.5 + gain), (1.0, 0.5), (0.2, 0.1)) for name, gain in (("a", 0), ("b", 0.04))
    ]
    lines = table(rows, (0.0, 3.0)).splitlines()
    assert lines[-1] == "| many | 2 | 3 | 52.0 | +2.00 ± 2.00 | +0.0 | 0.500 | 10.0 |"


def test_the_cost_is_told_of_labels_with_and_without():
    told = cost(Calibration(), classes=2, side=32, times=1)
    assert len(told) == 2 and all(milliseconds > 0 for milliseconds in told.values())

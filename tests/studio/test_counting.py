"""Counts, areas and plots."""

import pytest

from dgpnet.studio import counting
from dgpnet.studio.counting import Status
from dgpnet.studio.project import Record


def told(state, areas, parts=None, **sure):
    source = {"painted": "painted", "found": "found"}.get(state, "none")
    return Record(None, "x", size=(10, 10)), Status(state, source, None, areas, parts, **sure)  # type: ignore[arg-type]


def test_totals_of_a_class():
    every = [told("painted", {1: 20}, {1: 2}), told("found", {1: 5, 2: 9}, {1: 1, 2: 3}), told("untouched", {})]
    of = counting.totals(1, every)
    assert (of.photographs, of.examples, of.count, of.area) == (2, 1, 3, 25)
    assert of.share == pytest.approx(25 / 200)
    assert of.shares[1] == 0.2 and sum(of.shares[0]) == 2
    assert of.counted == ([1, 1], 2)
    assert counting.totals(9, every).count == 0
    assert counting.totals(1, [told("found", {1: 5})]).count is None, "not counted yet"


def test_histograms_take_both_ends():
    assert counting.histogram([0.0, 0.49, 0.5, 1.0], 2) == [2, 2]


def test_many_parts_share_a_bar():
    bins, most = counting._of_counts([1, 100, 50])
    assert len(bins) <= counting.COUNTS and sum(bins) == 3 and most >= 100


def test_what_has_no_number_comes_last():
    several = [
        told("painted", {1: 1}),
        told("found", {}, score=0.9),
        told("found", {}, score=0.2),
        told("untouched", {}),
    ]
    key = counting._order("score")
    assert [one[1].score for one in sorted(several, key=key)][:2] == [0.2, 0.9]
    back = counting._order("-score")
    assert [one[1].score for one in sorted(several, key=back)][:2] == [0.9, 0.2]


def test_a_filter_asks_for_states_and_verdicts():
    record, empty = told("found", {})
    assert counting.is_in(record, empty, "empty") and counting.is_in(record, empty, "found")
    record.review = "accepted"
    assert counting.is_in(record, empty, "accepted") and not counting.is_in(record, empty, "rejected")

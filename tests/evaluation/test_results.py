"""Results gather what was measured, print it, and come back from files as they went."""

import math
from pathlib import Path

import numpy as np
import pytest

from dgpnet.errors import Error
from dgpnet.evaluation.records import Record
from dgpnet.evaluation.results import Results, Spread, gather
from dgpnet.metrics import HISTOGRAM_BINS


def record(classes: list[int], counts: list[list[int]], scores: list[float]) -> Record:
    histogram = np.zeros((2, HISTOGRAM_BINS), np.int64)
    histogram[0, 200], histogram[1, 500] = 90, 10
    return Record(np.array(classes), np.array(counts), np.array(scores), histogram)


UNITS = {
    (1, 0): {1: record([7, 8], [[6, 2, 2, 10], [1, 1, 2, 16]], [0.9, 0.2])},
    (0, 4): {1: record([8], [[3, 1, 0, 16]], [0.5])},
    (0, 0): {1: record([7], [[4, 4, 0, 12]], [0.4]), 5: record([7], [[8, 0, 0, 12]], [0.7])},
}


def test_seeds_are_gathered_apart_and_then_averaged():
    found = gather(UNITS, {"fold": 1}, {7: "bus", 8: "cat"}).shots[1]
    assert found.seeds[0].per_class == {7: 0.5, 8: 0.75}
    assert found.seeds[1].per_class == {7: 0.6, 8: 0.25}
    assert found.miou.mean == pytest.approx((0.625 + 0.425) / 2)
    assert found.miou.std == pytest.approx(0.2 / math.sqrt(2))
    assert found.per_class == pytest.approx({7: 0.55, 8: 0.5})
    assert found.calibration.auroc == 1.0
    assert found.rank_correlation == pytest.approx(0.8)  # IoUs .5 .75 .6 .25 against scores .4 .5 .9 .2


def test_the_order_of_units_does_not_matter():
    about, classes = {"fold": 1}, {7: "bus", 8: "cat"}
    assert gather(dict(reversed(UNITS.items())), about, classes).shots[1] == gather(UNITS, about, classes).shots[1]


def test_the_table_names_classes_and_leaves_open_what_was_not_measured():
    table = gather(UNITS, {}, {7: "bus", 8: "cat"}).table()
    assert "52.5 ± 14.1" in table
    cat = next(line for line in table.splitlines() if line.startswith("| cat"))
    assert [cell.strip() for cell in cat.strip("|").split("|")] == ["cat", "50.0", "–"]


def test_one_seed_has_no_deviation():
    assert Spread.of([0.635]).percent() == "63.5"
    assert Spread.of([0.5, 0.52]).percent() == "51.0 ± 1.4"


def test_results_come_back_from_a_file(tmp_path: Path):
    results = gather(UNITS, {"fold": 1, "shots": [1, 5]}, {7: "bus", 8: "cat"})
    results.write(tmp_path / "r.json")
    assert Results.read(tmp_path / "r.json").to_json() == results.to_json()
    assert (tmp_path / "r-reliability-5.png").exists()


def test_other_files_are_refused(tmp_path: Path):
    for text in ("not json", "[]", '{"shots": {}}'):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(Error):
            Results.read(tmp_path / "r.json")
    with pytest.raises(Error, match="missing"):
        Results.read(tmp_path / "missing.json")

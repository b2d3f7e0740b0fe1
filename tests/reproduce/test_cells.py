"""Cells, Mean Δ and orderings follow from what the tests measured."""

from pathlib import Path

import pytest

from dgpnet.reproduce.archive import Archive, Finding
from dgpnet.reproduce.cells import Value, check, fill, mean_delta, value
from dgpnet.reproduce.plan import Places, Planner
from dgpnet.reproduce.scales import FULL, MINI
from dgpnet.reproduce.tables import EXHIBITS, FINAL, Ordering, Table

PLANNER = Planner(MINI, Places({}, {}))


def finding(*miou: float, half: float = 0.01) -> Finding:
    return Finding(miou, miou, half, seconds=2.0, photographs=100.0)


def test_a_cell_is_the_mean_over_folds_with_the_deviation_over_seeds(tmp_path: Path) -> None:
    archive, planner = Archive(tmp_path), Planner(FULL, Places({}, {}))
    tests = [planner.test(FULL.setups["pascal"], fold, 1, FINAL) for fold in (0, 1)]
    archive.record_test(tests[0], finding(0.60, 0.62, half=0.03))
    assert value(archive, tests) is None  # a mean over some of the folds is not the figure
    archive.record_test(tests[1], finding(0.70, 0.74, half=0.04))
    cell = value(archive, tests)
    assert cell is not None
    assert cell.mean == pytest.approx(66.5)
    assert cell.spread == pytest.approx(2.1213, abs=1e-3)  # of 65 and 68
    assert cell.half_interval == pytest.approx(2.5)
    assert str(cell) == "66.5 ± 2.1"
    assert value(archive, []) is None


def test_a_table_is_filled_where_its_tests_are_done(tmp_path: Path) -> None:
    archive, table = Archive(tmp_path), EXHIBITS["kernels"]
    assert isinstance(table, Table)
    for label, miou in (("Linear", 0.4), ("SE", 0.5)):
        (test,) = PLANNER.cell(table.row(label), table.columns[0])
        archive.record_test(test, finding(miou))
    values = fill(table, PLANNER, archive)
    assert [cell and cell.mean for cell in values["SE"]] == [50.0, None, None, None]
    assert values["Exponential"] == (None,) * 4
    assert mean_delta(values, "SE", "Linear") == pytest.approx(10.0)
    assert mean_delta(values, "Exponential", "Linear") is None


def one(*means: float | None, half: float = 1.0) -> tuple[Value | None, ...]:
    return tuple(None if mean is None else Value(mean, None, half) for mean in means)


def test_an_ordering_is_checked_over_the_columns_that_both_rows_have() -> None:
    values = {"a": one(60.0, 71.0, None), "b": one(58.0, 70.0, 40.0), "c": one(60.5, 69.0, None), "d": one(None)}
    clear = check(Ordering("a", "b"), values)
    assert clear is not None
    assert clear.holds
    assert (clear.gain, clear.columns, clear.agreeing) == (1.5, 2, 2)
    assert str(clear) == "a over b: holds (+1.5, in 2 of 2 columns; ± 1.4)"
    unclear = check(Ordering("c", "a"), values)
    assert unclear is not None
    assert not unclear.holds
    assert "does not hold" in str(unclear)
    assert "within the noise" in str(unclear)
    assert check(Ordering("a", "absent"), values) is None

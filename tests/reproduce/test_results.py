"""Cells, Mean Δ and orderings follow from what the tests measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet.reproduce.plan import Places, Planner
from dgpnet.reproduce.results import RUNS, TESTS, Measured, Results, Value, check, fill, mean_delta
from dgpnet.reproduce.scales import FULL, MINI
from dgpnet.reproduce.tables import ENTRIES, FINAL, Ordering, Table, select

PLANNER = Planner(MINI, Places({}, {}))


def measured(*miou: float, half: float = 0.01) -> Measured:
    return Measured(miou, miou, half, seconds=2.0, photographs=100.0)


def test_a_cell_is_the_mean_over_folds_with_the_deviation_over_seeds(tmp_path: Path) -> None:
    results, planner = Results(tmp_path), Planner(FULL, Places({}, {}))
    tests = [planner.test(FULL.benchmarks["pascal"], fold, 1, FINAL) for fold in (0, 1)]
    results.record_test(tests[0], measured(0.60, 0.62, half=0.03))
    assert results.value(tests) is None  # a mean over some of the folds is not the figure
    results.record_test(tests[1], measured(0.70, 0.74, half=0.04))
    value = results.value(tests)
    assert value is not None
    assert value.mean == pytest.approx(66.5)
    assert value.spread == pytest.approx(2.1213, abs=1e-3)  # of 65 and 68
    assert value.half_interval == pytest.approx(2.5)
    assert str(value) == "66.5 ± 2.1"
    assert results.value([]) is None


def test_what_is_recorded_comes_back_and_is_not_planned_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    plan = PLANNER.plan(select(["kernels"]))
    assert results.left(plan) == plan
    run, test = plan.runs[0], plan.tests[0]
    model = results.run_folder(run) / "model.safetensors"
    model.parent.mkdir(parents=True)
    model.touch()
    results.record_run(run, model, 3.0)
    results.record_test(test, measured(0.5))
    assert results.trained(run) == model
    assert results.measured(test) == measured(0.5)
    left = results.left(plan)
    assert run not in left.runs
    assert test not in left.tests
    model.unlink()
    assert results.trained(run) is None  # a record without its network is no network


def test_the_rate_of_what_is_done_replaces_the_default(tmp_path: Path) -> None:
    results = Results(tmp_path)
    test = PLANNER.plan(select(["kernels"])).tests[0]
    assert results.rate(TESTS, 7.0) == 7.0
    results.record_test(test, measured(0.5))
    results.record_test(replace(test, shots=5), measured(0.5))
    assert results.rate(TESTS, 7.0) == pytest.approx(0.02)
    assert results.rate(RUNS, 7.0) == 7.0


def test_a_table_is_filled_where_its_tests_are_done(tmp_path: Path) -> None:
    results, table = Results(tmp_path), ENTRIES["kernels"]
    assert isinstance(table, Table)
    for label, miou in (("Linear", 0.4), ("SE", 0.5)):
        (test,) = PLANNER.cell(table.row(label), table.columns[0])
        results.record_test(test, measured(miou))
    values = fill(table, PLANNER, results)
    assert [value and value.mean for value in values["SE"]] == [50.0, None, None, None]
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

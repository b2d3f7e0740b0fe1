"""Cells, Mean Δ and orderings follow from what the tests measured."""

import random
from pathlib import Path

import pytest
import torch

from dgpnet.reproduce.archive import Archive, Finding
from dgpnet.reproduce.cells import STUDENT, Value, check, fill, mean_delta, value
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


def test_trainings_of_a_fold_share_its_episodes(tmp_path: Path) -> None:
    archive, planner = Archive(tmp_path), Planner(MINI.changed(folds=(1, 2), trainings=2), Places({}, {}))
    table = EXHIBITS["kernels"]
    assert isinstance(table, Table)
    tests = planner.cell(table.row("SE"), table.columns[0])
    for test, miou, half in zip(tests, (0.50, 0.52, 0.60, 0.66), (0.02, 0.04, 0.04, 0.04), strict=True):
        assert value(archive, tests) is None  # a mean over some of the trainings is not the figure
        archive.record_test(test, finding(miou, half=half))
    cell = value(archive, tests)
    assert cell is not None
    assert cell.mean == pytest.approx(57.0)
    assert cell.spread is None
    assert cell.half_interval == pytest.approx(2.5)  # of 3 and 4, as each of the trainings alone
    assert cell.training_spread == pytest.approx(2.8284, abs=1e-3)  # of 55 and 59
    assert cell.networks == pytest.approx(
        {"fold 1, seed 0": 50.0, "fold 1, seed 1": 52.0, "fold 2, seed 0": 60.0, "fold 2, seed 1": 66.0}
    )


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


def trained(*means: float) -> Value:
    return Value(sum(means) / len(means), None, 1.0, 0.5, {f"seed {i}": mean for i, mean in enumerate(means)})


def test_an_ordering_of_several_trainings_covers_their_noise() -> None:
    values = {
        "a": (trained(60.0, 64.0, 62.0), trained(71.0, 73.0, 72.0)),
        "b": (trained(57.0, 61.0, 60.0), trained(68.0, 68.0, 70.0)),  # gains 3, 3, 2 and 3, 5, 2: 3, 4, 2
        "c": (trained(59.9, 63.8, 61.7), trained(70.9, 72.8, 71.7)),
    }
    clear = check(Ordering("a", "b"), values)
    assert clear is not None
    assert clear.gain == pytest.approx(3.0)
    assert clear.training_noise == pytest.approx(4.303 / 3**0.5)  # the gains deviate by 1
    assert clear.episode_noise == pytest.approx(2**0.5)
    assert str(clear) == "a over b: holds (+3.0, in 2 of 2 columns; ± 2.5 by the trainings)"
    alike = check(Ordering("a", "c"), values)
    assert alike is not None
    assert alike.noise == alike.episode_noise  # what the trainings agree on may be the episodes' doing
    assert str(alike).endswith("± 1.4 by the episodes; within the noise of the episodes)")


def test_rows_that_do_not_differ_are_within_the_noise_of_the_trainings_in_95_of_100_tables() -> None:
    lots, rounds = random.Random(0), 2000
    kept = 0
    for _ in range(rounds):
        a, b = ((trained(*(lots.gauss(60.0, 2.0) for _ in range(3))),) for _ in range(2))
        found = check(Ordering("a", "b"), {"a": a, "b": b})
        assert found is not None and found.training_noise is not None
        kept += abs(found.gain) < found.training_noise
    assert kept / rounds == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("freedom", range(1, len(STUDENT) + 1))
def test_the_quantiles_are_students(freedom: int) -> None:
    law = torch.distributions.StudentT(float(freedom))
    inside = torch.trapezoid(law.log_prob(grid := torch.linspace(0, STUDENT[freedom - 1], 100_001)).exp(), grid)
    assert 2 * float(inside) == pytest.approx(0.95, abs=1e-4)

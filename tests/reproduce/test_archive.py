"""What is done is found again, and what cannot be read is done anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet.reproduce.archive import RUNS, TESTS, Archive, Finding
from dgpnet.reproduce.plan import Places, Planner
from dgpnet.reproduce.scales import MINI
from dgpnet.reproduce.tables import select

PLANNER = Planner(MINI, Places({}, {}))


def finding(*miou: float, half: float = 0.01) -> Finding:
    return Finding(miou, miou, half, seconds=2.0, photographs=100.0)


def test_what_is_recorded_comes_back_and_is_not_planned_again(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    plan = PLANNER.plan(select(["kernels"]))
    assert archive.left(plan) == plan
    run, test = plan.runs[0], plan.tests[0]
    model = archive.run_folder(run) / "model.safetensors"
    model.parent.mkdir(parents=True)
    model.touch()
    archive.record_run(run, model, 3.0)
    archive.record_test(test, finding(0.5))
    assert archive.trained(run) == model
    assert archive.finding(test) == finding(0.5)
    left = archive.left(plan)
    assert run not in left.runs
    assert test not in left.tests
    model.unlink()
    assert archive.trained(run) is None  # a record without its network is no network


def test_the_rate_of_what_is_done_replaces_the_default(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    test = PLANNER.plan(select(["kernels"])).tests[0]
    assert archive.rate(TESTS, 7.0) == 7.0
    archive.record_test(test, finding(0.5))
    archive.record_test(replace(test, shots=5), finding(0.5))
    assert archive.rate(TESTS, 7.0) == pytest.approx(0.02)
    assert archive.rate(RUNS, 7.0) == 7.0


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"measured": 3, "model": []}', b'{"measured": {}}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, damage: bytes) -> None:
    archive, plan = Archive(tmp_path), PLANNER.plan(select(["kernels"]))
    run, test = plan.runs[0], plan.tests[0]
    archive.run_folder(run).mkdir(parents=True)
    archive.record_run(run, archive.run_folder(run) / "model.safetensors", 3.0)
    archive.record_test(test, finding(0.5))
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(damage)
    assert archive.left(plan) == plan
    assert archive.rate(TESTS, 7.0) == archive.rate(RUNS, 7.0) == 7.0

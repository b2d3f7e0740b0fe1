"""A process that dies is noticed, and what others finished is kept."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet import weights
from dgpnet.errors import Error
from dgpnet.evaluation.processes import Case, WorkerDied, evaluate_case
from dgpnet.evaluation.run import EvaluationOptions
from dgpnet.files import lock
from dgpnet.network.dgpnet import DGPNet
from tests.children import environment


@pytest.fixture
def case(network: DGPNet, tmp_path: Path) -> Case:
    weights.save(tmp_path / "tiny.safetensors", network)
    few = {"photographs": 16, "kinds": 12, "side": 64}
    options = EvaluationOptions(episodes=3, seeds=(0, 1))
    return Case(
        str(tmp_path / "tiny.safetensors"), "synthetic", options, fold=1, settings=few, cache=tmp_path / "cache"
    )


@pytest.mark.slow
def test_a_process_that_dies_is_named_and_the_rest_is_kept(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    out = tmp_path / "results.json"
    broken = replace(case, checkpoint=str(tmp_path / "gone.safetensors"))
    with pytest.raises(WorkerDied, match="the same command goes on"):
        evaluate_case(broken, out, processes=2, job=case.job())
    assert "gone.safetensors" in capfd.readouterr().err
    assert not out.exists()
    whole = evaluate_case(case, out)
    assert whole.shots[1].seeds[1].episodes == 3
    assert not out.with_name("results.json.parts").exists()


def test_the_size_is_the_protocols_or_the_networks_own(case: Case):
    assert case.job().about()["size"] == 64
    assert replace(case, size=96).job().about()["size"] == 96


def test_finished_results_are_read_and_not_measured_again(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "results.json"
    first = evaluate_case(case, out)
    job = case.job()
    monkeypatch.setattr(type(job), "work", lambda *a, **k: pytest.fail("measured again"))
    assert evaluate_case(case, out, job=job).to_json() == first.to_json()


def test_one_evaluation_at_a_time_works_on_a_file_of_results(case: Case, tmp_path: Path):
    out, parts = tmp_path / "results.json", tmp_path / "results.json.parts"
    parts.mkdir()
    with (
        lock(parts / ".lock", "it"),
        pytest.raises(Error, match=rf"results\.json is in use by process {os.getpid()} on "),
    ):
        evaluate_case(case, out)
    evaluate_case(case, out)
    assert out.exists() and not parts.exists()


def test_parts_that_a_kill_left_beside_the_results_go(case: Case, tmp_path: Path):
    out, parts = tmp_path / "results.json", tmp_path / "results.json.parts"
    evaluate_case(case, out)
    parts.mkdir()
    (parts / "part.jsonl").touch()
    evaluate_case(case, out)
    assert not parts.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_a_worker_whose_parent_was_killed_ends(tmp_path: Path):
    program = """
import multiprocessing, os, sys, time
from pathlib import Path
from dgpnet.evaluation.processes import _end_with_parent
def work(place):
    Path(place).write_text(str(os.getpid()))
    while True:
        _end_with_parent()
        time.sleep(0.05)
if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(sys.argv[1],), daemon=True)
    worker.start()
    worker.join()
"""
    (tmp_path / "program.py").write_text(program)
    place, deadline = tmp_path / "worker", time.monotonic() + 60
    command = [sys.executable, str(tmp_path / "program.py"), str(place)]
    with subprocess.Popen(command, env=environment()) as parent:
        while not (place.exists() and place.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        worker = Path("/proc", place.read_text())
        assert worker.exists()
        parent.kill()
    while worker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not worker.exists()

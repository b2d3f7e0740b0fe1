"""A process that dies is noticed, and what others finished is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet import weights
from dgpnet.evaluation.processes import Case, WorkerDied, evaluate_case
from dgpnet.evaluation.run import EvaluationOptions
from dgpnet.network.dgpnet import DGPNet


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

"""The command `dgpnet reproduce`, from its words to its files."""

import json
from pathlib import Path

import pytest

from dgpnet.cli import run

SMALL = ["--scale", "synthetic", "--iterations", "1", "--episodes", "2", "--device", "cpu"]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--help"]) == 0
    assert "Example: dgpnet reproduce kernels" in capsys.readouterr().out


def test_the_tables_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    for name in ("sota", "shots", "coco2pascal", "kernels", "sensitivity", "runtimes", "grid-shots"):
        assert name in shown


def test_a_dry_run_prints_the_plan_and_its_cost_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["reproduce", "kernels", "covariance", "--scale", "mini", "--out", str(out), "--dry-run"]) == 0
    shown = capsys.readouterr().err
    assert "Left to do: 6 networks to train" in shown
    assert "1 further uses of these networks are shared" in shown
    assert "no --encoder-weights" in shown
    assert not out.exists()


def test_a_table_is_trained_tested_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "frozen", *SMALL, "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    assert run([*words, "--set", "network.levels=[32]", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"written": [str(tmp_path / "out" / "tables" / "frozen.md")], "failures": []}
    assert run([*words, "--set", "network.levels=[32]"]) == 0  # all done: quick
    assert "Left to do: 0 networks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tables"], "No table is called tables: choose from sota"),
        (["kernels", "--scale", "huge"], "No scale is called 'huge'"),
        (["kernels", "--folds", "7"], "--folds takes numbers out of 0,1,2,3"),
        (["kernels", "--folds", "one"], "--folds takes numbers"),
        (["kernels", "--device", "abacus"], "There is no device 'abacus' here"),
        (["kernels", "--root", "/no/such/folder"], "/no/such/folder does not exist"),
        (["kernels", "--scale", "mini"], "The dataset pascal needs a root"),
        (["kernels", *SMALL, "--set", "colour=red"], "A training configuration has no field colour"),
    ],
)
def test_wrong_use_is_one_sentence_exit_code_2_and_nothing_written(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["reproduce", *words, "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_a_wrong_root_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["reproduce", "kernels", "--scale", "mini", "--root", str(tmp_path), "--out", str(out)]) == 2
    assert "give the folder of VOC 2012" in capsys.readouterr().err
    assert not out.exists()

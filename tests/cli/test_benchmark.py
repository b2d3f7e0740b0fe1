"""The command `dgpnet benchmark`, from its words to its files."""

import json
from pathlib import Path

import pytest
import torch

from dgpnet.cli import run
from tests.tiny import tiny_checkpoint


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["benchmark", "--help"]) == 0
    assert "Example: dgpnet benchmark" in capsys.readouterr().out


def test_a_section_is_measured_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "tiny.safetensors")
    words = ["benchmark", "--quick", "--device", "cpu", "--section", "machine", "--checkpoint", str(checkpoint)]
    assert run([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["weights"] == "tiny.safetensors"
    assert json.loads((tmp_path / "out" / "benchmark.json").read_text(encoding="utf-8")) == found
    assert "## Machine" in (tmp_path / "out" / "benchmark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--section", "speed"], "no section speed: choose from machine"),
        (["--device", "tpu"], "There is no device 'tpu' here"),
    ],
)
def test_wrong_use_is_one_sentence_exit_code_2_and_nothing_written(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["benchmark", *words, "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["benchmark", "--device", "cuda"]) == 2
    assert "There is no device 'cuda' here" in capsys.readouterr().err

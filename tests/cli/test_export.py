import json
from pathlib import Path

import numpy as np
import pytest

from dgpnet.cli import run
from tests.tiny import CONFIG as WHOLE
from tests.tiny import scenes, tiny_checkpoint, tiny_segmenter

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

CONFIG = WHOLE.but(levels=(32,))


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_checkpoint(tmp_path / "model.safetensors", CONFIG))


@pytest.fixture
def concept(tmp_path: Path) -> str:
    tiny_segmenter(CONFIG).learn(*scenes(1), classes=["mug"]).save(tmp_path / "mug.concept")
    return str(tmp_path / "mug.concept")


@pytest.mark.parametrize("kind", ["onnx", "torch", "concept"])
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert run(["export", kind, "--help"]) == 0
    assert f"Example: dgpnet export {kind}" in capsys.readouterr().out


def test_a_concept_for_a_program(capsys: pytest.CaptureFixture[str], model: str, concept: str, tmp_path: Path) -> None:
    out = tmp_path / "mug"
    words = ["export", "onnx", "--model", model, "--concept", concept, "--out", str(out), "--json"]
    assert run(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["out"] == str(out) and answer["legend"]["names"] == ["mug"]
    assert {path.name for path in out.iterdir()} == {"query.onnx", "about.json", "README.md"}
    assert run(words) == 2
    assert "there already" in capsys.readouterr().err


def test_a_concept_as_arrays(capsys: pytest.CaptureFixture[str], model: str, concept: str, tmp_path: Path) -> None:
    out = tmp_path / "mug.npz"
    assert run(["export", "concept", concept, "--model", model, "--out", str(out)]) == 0
    assert "mug" in capsys.readouterr().out
    with np.load(out) as state:
        assert state["32.weights"].shape == (1, 4, 1, CONFIG.encodings)
    assert run(["export", "concept", concept, "--model", model, "--out", str(tmp_path / "mug.bin")]) == 2
    assert "mug.npz" in capsys.readouterr().err

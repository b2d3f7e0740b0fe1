"""`dgpnet weights`: convert, inspect, fetch."""

import json
from pathlib import Path

import pytest
import torch

from dgpnet import weights
from dgpnet.cli import run
from dgpnet.network import Config, DGPNet
from dgpnet.network.encoders import build_encoder


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    torch.save(build_encoder("efficientnet_lite0").state_dict(), tmp_path / "lite0.pth")
    return tmp_path / "lite0.pth"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    network = DGPNet(Config(encoder="efficientnet_lite0", features=8, encodings=4, decoder_width=8))
    weights.save(tmp_path / "a.safetensors", network, provenance={"data": "coins"}, half=True)
    return tmp_path / "a.safetensors"


def test_convert_writes_an_encoder_file(pickled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = pickled.with_name("out.safetensors")
    assert run(["weights", "convert", str(pickled), str(out), "--allow-pickle", "--half"]) == 0
    assert "efficientnet_lite0" in capsys.readouterr().out
    assert weights.read_encoder(out).name == "efficientnet_lite0"


def test_convert_refuses_a_pickle_it_was_not_asked_to_open(pickled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = pickled.with_name("out.safetensors")
    assert run(["weights", "convert", str(pickled), str(out)]) == 2
    assert "--allow-pickle" in capsys.readouterr().err
    assert not out.exists()


def test_inspect_tells_what_a_checkpoint_holds(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["weights", "inspect", str(checkpoint)]) == 0
    text = capsys.readouterr().out
    assert "encoder: efficientnet_lite0" in text
    assert "data: coins" in text
    assert run(["weights", "inspect", str(checkpoint), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["provenance"] == {"data": "coins"}
    assert about["calibration"] is None
    assert about["precision"]["F16"] > about["precision"]["F32"]
    assert about["numbers"] == sum(about["numbers_by_block"].values())


def test_inspect_tells_an_encoder_file_and_a_strangers_file(pickled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = pickled.with_name("out.safetensors")
    weights.save_encoder(out, weights.read_encoder(pickled, allow_pickle=True))
    assert run(["weights", "inspect", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["encoder"] == "efficientnet_lite0"
    assert run(["weights", "inspect", str(pickled)]) == 2
    assert "safetensors" in capsys.readouterr().err


def test_fetch_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["weights", "fetch", "vgg16"]) == 2
    assert "resnet50" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "inspect", "fetch"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["weights", command, "--help"]) == 0
    assert f"Example: dgpnet weights {command}" in capsys.readouterr().out

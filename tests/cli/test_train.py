"""`dgpnet train`: options become a configuration; wrong use is one line and exit code 2, with nothing written."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from dgpnet import weights
from dgpnet.cli import run
from dgpnet.network.encoders import build_encoder
from dgpnet.training import TrainConfig
from tests.tiny import CONFIG, tiny_checkpoint

TINY = [
    *(
        "--dataset",
        "synthetic",
        "--option",
        "photographs=40",
        "--option",
        "objects=2",
        "--fold",
        "0",
        "--device",
        "cpu",
    ),
    *("--set", "network.encoder=resnet18", "--set", "network.levels=[16]", "--set", "network.size=32"),
    *("--set", "network.features=8", "--set", "network.encodings=4", "--set", "network.decoder_width=8"),
    *("--set", "episodes=2", "--iterations", "2"),
]


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return ["--cache", str(tmp_path_factory.mktemp("cache"))]


def test_a_run_and_its_continuation(tmp_path: Path, cache: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    command = ["train", *TINY, *cache, "--out", str(tmp_path / "run")]
    assert run(command) == 0
    captured = capfd.readouterr()
    assert f"The model is {tmp_path / 'run' / 'model.safetensors'}." in captured.out
    assert "step 2 of 2" in captured.err
    assert run([*command, "--json"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out) == {"model": str(tmp_path / "run" / "model.safetensors")}
    assert captured.err == ""

    assert run([*command, "--seed", "1"]) == 2
    assert "seed 0, not 1" in capfd.readouterr().err


def test_options_become_the_configuration(tmp_path: Path, cache: list[str]) -> None:
    more = ["--recipe", "strong", "--shots", "1-3", "--mix", "synthetic::0.5", "--classes", "shape-1, shape-2,shape-3"]
    assert run(["train", *TINY, *cache, *more, "--preset", "reference", "--out", str(tmp_path / "run")]) == 0
    config = TrainConfig.from_json((tmp_path / "run" / "config.json").read_text())
    assert config.shots == (1, 2, 3)
    assert config.network.mask_relu
    assert config.sources[0].classes == ("shape-1", "shape-2", "shape-3")
    assert (config.sources[0].fold, config.sources[0].options) == (0, {"photographs": 40, "objects": 2})
    assert (config.sources[1].dataset, config.sources[1].root, config.sources[1].weight) == ("synthetic", "", 0.5)
    assert config.schedule == "cosine"


def test_the_network_has_its_strides_where_the_weights_have_them(tmp_path: Path, cache: list[str]) -> None:
    body = build_encoder("resnet50", "1x1").state_dict()
    weights.save_encoder(tmp_path / "keras.safetensors", weights.EncoderWeights("resnet50", "1x1", body, {}))
    wanted = ["--set", "network.encoder=resnet50", "--iterations", "1"]
    given = ["--encoder-weights", str(tmp_path / "keras.safetensors")]
    assert run(["train", *TINY, *wanted, *given, *cache, "--out", str(tmp_path / "run")]) == 0
    assert TrainConfig.from_json((tmp_path / "run" / "config.json").read_text()).network.stride_on == "1x1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "pascall"], "pascall"),
        (["--dataset", "pascal", "--root", "no/such/place"], "no/such/place"),
        (["--fold", "7"], "folds 0 to"),
        (["--shots", "few"], "--shots takes numbers"),
        (["--shots", "39"], "39 shots"),
        (["--recipe", "weak"], "paper, reference, strong"),
        (["--preset", "huge"], "--preset huge"),
        (["--option", "objects"], "NAME=VALUE"),
        (["--option", "sides=3"], "no option sides"),
        (["--mix", "folder"], "name:folder:weight"),
        (["--mix", "folder:mugs:much"], "name:folder:weight"),
        (["--set", "rats=1"], "perhaps rate is meant"),
        (["--device", "abacus"], "abacus"),
        (["--encoder-weights", "missing.safetensors"], "missing.safetensors"),
        (["--iterations", "0"], "at least 1"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, cache: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", *TINY, *cache, "--out", str(tmp_path / "run"), *arguments]) == 2
    error = capfd.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("Decoding photographs")]
    assert message in lines[0]
    assert len(lines) == 1
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_is_exit_code_1(
    tmp_path: Path, cache: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    hot = ["--set", "rate=1e30", "--set", "encoder_rate=1e30", "--set", "projection_rate=1e30", "--iterations", "20"]
    assert run(["train", *TINY, *cache, *hot, "--out", str(tmp_path / "run")]) == 1
    assert "nonfinite.json" in capfd.readouterr().err
    assert (tmp_path / "run" / "nonfinite.json").exists()


def test_a_disk_that_is_full_at_the_first_checkpoint_is_exit_code_1(
    tmp_path: Path, cache: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.disk_usage

    def full(place: Path) -> object:
        return real(place)._replace(free=0) if tmp_path in Path(place).parents else real(place)

    monkeypatch.setattr(shutil, "disk_usage", full)
    assert run(["train", *TINY, *cache, "--out", str(tmp_path / "run")]) == 1
    assert "are free; make room or choose another place. The same command goes on" in capfd.readouterr().err
    monkeypatch.undo()
    assert run(["train", *TINY, *cache, "--out", str(tmp_path / "run")]) == 0


def test_a_run_starts_from_a_model_with_its_network_and_weights(tmp_path: Path, cache: list[str]) -> None:
    start = tiny_checkpoint(tmp_path / "start.safetensors", CONFIG.but(similarity=True))
    words = ["train", *TINY[: TINY.index("--set")], *cache, "--from", str(start), "--iterations", "1"]
    for still in ("episodes=2", "rate=1e-12", "projection_rate=1e-12", "encoder_rate=1e-12", "weight_decay=0"):
        words += ["--set", still]
    assert run([*words, "--out", str(tmp_path / "run")]) == 0
    config = TrainConfig.from_json((tmp_path / "run" / "config.json").read_text())
    assert config.start_from == str(start) and config.network == CONFIG.but(similarity=True)
    before, after = weights.load(start), weights.load(tmp_path / "run" / "model.safetensors")
    for name, parameter in after.named_parameters():
        assert torch.allclose(parameter, before.get_parameter(name), atol=1e-9), name


def test_what_brings_a_network_brings_all_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--dataset", "synthetic", "--from", "small", "--out", str(tmp_path / "run")]
    for more in (["--preset", "small"], ["--encoder-weights", "resnet50.safetensors"]):
        assert run([*words, *more]) == 2
        assert "--from" in capfd.readouterr().err
    assert run([*words[:4], "nothing.safetensors", *words[5:]]) == 2
    assert "nothing.safetensors" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()

"""The command `dgpnet evaluate`, from its words to its files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dgpnet import cli, weights
from dgpnet.evaluation import Results
from dgpnet.network.config import Config
from dgpnet.network.dgpnet import DGPNet
from tests.tiny import write_support

DATA = [
    "--dataset",
    "synthetic",
    "--option",
    "photographs=16",
    "--option",
    "side=64",
    "--option",
    "kinds=12",
    "--fold",
    "1",
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    network = DGPNet(Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=64))
    weights.save(path, network, provenance={"made": "at random"})
    return path


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path_factory.getbasetemp() / "evaluate-cache"))


def test_results_and_their_plot_are_written(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "results.json"
    words = ["evaluate", str(checkpoint), *DATA, "--shots", "1-2", "--episodes", "5", "--seeds", "2", "--out", str(out)]
    assert cli.run([*words, "--pictures", "2"]) == 0
    assert "mIoU" in capsys.readouterr().out
    found = Results.read(out)
    assert sorted(found.shots) == [1, 2]
    assert sorted(found.shots[1].seeds) == [0, 1]
    names = ["results-episodes.png", "results-reliability-1.png", "results-reliability-2.png", "results.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    before = out.stat().st_mtime_ns
    assert cli.run([*words, "--json"]) == 0  # done already: read, not measured again
    assert json.loads(capsys.readouterr().out) == found.to_json()
    assert out.stat().st_mtime_ns == before


def test_listed_episodes_with_all_the_supports_are_drawn(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(["evaluate", *DATA, "--list-episodes", "--episodes", "2", "--shots", "2", "--json"]) == 0
    drawn = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:2]]
    listed = [
        {
            "category_id": episode["class_id"],
            "query": Path(episode["query"]).stem,
            "support": [Path(name).stem for name in episode["supports"][:supports]],
        }
        for episode, supports in zip(drawn, (1, 2), strict=True)
    ]
    (tmp_path / "episodes.json").write_text(json.dumps(listed))
    words = ["--episodes-file", str(tmp_path / "episodes.json"), "--shots", "2", "--pictures", "2"]
    assert cli.run(["evaluate", str(checkpoint), *DATA, *words, "--out", str(tmp_path / "results.json")]) == 0
    assert (tmp_path / "results-episodes.png").is_file()


@pytest.mark.slow
def test_several_processes_give_what_one_gives(checkpoint: Path, tmp_path: Path):
    words = ["evaluate", str(checkpoint), *DATA, "--episodes", "6", "--seeds", "3"]
    for count in (1, 2):
        assert cli.run([*words, "--processes", str(count), "--out", str(tmp_path / f"{count}.json")]) == 0
    assert (tmp_path / "1.json").read_text() == (tmp_path / "2.json").read_text()


def test_several_processes_need_a_place_to_meet(checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["evaluate", str(checkpoint), *DATA, "--episodes", "2", "--processes", "2"]) == 2
    assert "--out" in capsys.readouterr().err


def test_episodes_are_listed_with_and_without_a_checkpoint(checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["evaluate", *DATA, "--list-episodes", "--episodes", "3", "--seeds", "2", "--shots", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [[str(s), str(n)] for s in range(2) for n in range(3)]
    assert all(len(line) == 6 and line[3] not in line[4:] for line in lines)
    assert (
        cli.run(["evaluate", str(checkpoint), *DATA, "--list-episodes", "--episodes", "3", "--seeds", "1", "--json"])
        == 0
    )
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[e["class"], e["query"], *e["supports"]] for e in listed] == [line[2:5] for line in lines[:3]]


def test_a_calibration_is_fitted_and_stored(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "calibrated.safetensors"
    words = [*DATA, "--split", "train", "--episodes", "6", "--shots", "1", "--calibrate", str(out), "--half"]
    assert cli.run(["evaluate", str(checkpoint), *words]) == 0
    metadata = weights.read_metadata(out)
    assert metadata["calibration"]["temperature"] > 0
    assert metadata["provenance"]["made"] == "at random"
    assert metadata["provenance"]["calibrated"]["split"] == "train"
    assert out.stat().st_size < 0.6 * checkpoint.stat().st_size
    assert cli.run(["evaluate", str(out), *DATA, "--episodes", "2", "--seeds", "1", "--json"]) == 0
    used = json.loads(capsys.readouterr().out.splitlines()[-1])["about"]["calibration"]
    assert used["temperature"] == pytest.approx(metadata["calibration"]["temperature"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--shots", "one"], "--shots takes numbers"),
        (["--shots", "20"], "photographs"),
        (["--fold", "9"], "fold"),
        (["--option", "photographs"], "NAME=VALUE"),
        (["--option", "classes=3"], "--classes"),
        (["--option", "colour=3"], "colour"),
        (["--protocol", "mine"], "protocol"),
        (["--precision", "int8"], "precision"),
        (["--classes", "unicorn"], "unicorn"),
        (["--out", "nowhere/results.json"], "nowhere"),
        (["--device", "cuda"], "no device 'cuda'"),
        (["--dataset", "pascal", "--root", "nowhere"], "nowhere"),
        (["--episodes-file", "nowhere.json"], "nowhere.json"),
    ],
)
def test_wrong_use_is_refused_and_writes_nothing(
    words: list[str],
    says: str,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.chdir(tmp_path)
    base = ["evaluate", str(checkpoint), *DATA, "--episodes", "2", "--out", "results.json"]
    assert cli.run([*base, *words]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.strip().count("\n") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_foreign_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["evaluate", *DATA]) == 2
    assert "No checkpoint" in capsys.readouterr().err
    assert cli.run(["evaluate", str(tmp_path / "none.safetensors"), *DATA]) == 2
    assert "none.safetensors" in capsys.readouterr().err


def test_classes_with_too_few_photographs_drop_out_and_are_named(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    root = write_support(tmp_path / "photos", count=3, classes=2)
    (root / "classes.json").write_text('["common", "rare"]')
    for name in ("0.png", "1.png"):
        mask = np.asarray(Image.open(root / "masks" / name))
        Image.fromarray(np.where(mask == 2, 0, mask)).save(root / "masks" / name)
    words = ["evaluate", str(checkpoint), "--dataset", "folder", "--root", str(root), "--episodes", "3", "--seeds", "2"]
    assert cli.run(words) == 0
    said = capsys.readouterr().err
    assert "rare drops out" in said
    assert "Measuring 3 episodes × 2 seeds × 1 of shots (1): 6 segmentations." in said


def test_results_of_another_evaluation_are_not_overwritten(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = ["evaluate", str(checkpoint), *DATA, "--seeds", "1", "--out", str(tmp_path / "results.json")]
    assert cli.run([*base, "--episodes", "2"]) == 0
    assert cli.run([*base, "--episodes", "3"]) == 2
    assert "episodes 2, not 3" in capsys.readouterr().err

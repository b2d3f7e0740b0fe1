"""Whatever is killed, whenever: the same command again comes to the same files."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from PIL import Image

from dgpnet import cli, weights
from dgpnet.files import Journal
from dgpnet.network import Config, DGPNet
from dgpnet.network.encoders import ENCODERS
from tests.kill.campaign import Campaign, ended, start
from tests.tiny import scene, write_photos, write_support
from tests.training.tiny import TinyEncoder

SETTINGS = {"encoder": "tiny", "features": 8, "encodings": 4, "decoder_width": 8}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kill") / "tiny.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODERS, "tiny", lambda stride_on: TinyEncoder())
        torch.manual_seed(0)
        weights.save(path, DGPNet(Config(**SETTINGS, levels=(16,), size=64)))
    return path


# -- dgpnet segment ----------------------------------------------------------------------------------------------------


def paint(folder: Path) -> None:
    write_support(folder / "painted", 2)
    write_photos(folder / "photos", 24)


def segment(checkpoint: Path, folder: Path, *more: str) -> list[str]:
    words = ["segment", str(folder / "painted"), str(folder / "photos"), "--out", str(folder / "found")]
    return [*words, "--model", str(checkpoint), "--device", "cpu", "--overlay", "--format", "coco", *more]


def found(folder: Path) -> dict[str, Any]:
    """Every file, byte for byte; the summary but for its seconds; not the folder that the job keeps for itself."""
    files = {path.relative_to(folder / "found"): path for path in (folder / "found").rglob("*") if path.is_file()}
    contents: dict[str, Any] = {
        str(name): path.read_bytes() for name, path in files.items() if name.parts[0] != ".dgpnet"
    }
    assert len([name for name in contents if name.startswith("masks/")]) == 24
    with (folder / "found" / "summary.csv").open() as file:
        contents["summary.csv"] = [row | {"seconds": None} for row in csv.DictReader(file)]
    del contents["report/data.js"]  # the summary again, seconds and all
    contents["summary.json"] = without_seconds(json.loads(contents["summary.json"]), folder)
    return contents


def has_option(command: str, option: str) -> bool:
    commands: Any = typer.main.get_command(cli.application(command))
    return any(option in parameter.opts for parameter in commands.commands[command].params)


def without_seconds(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {name: without_seconds(item, folder) for name, item in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [without_seconds(item, folder) for item in value]
    return value.replace(str(folder), "") if isinstance(value, str) else value


def segmenting(checkpoint: Path) -> Campaign:
    return Campaign(paint, partial(segment, checkpoint), found)


# -- dgpnet segment, the next round ------------------------------------------------------------------------------------


def paint_further(checkpoint: Path, folder: Path) -> None:
    """After a first round, one photograph more is painted."""
    paint(folder)
    ended(start(segment(checkpoint, folder), folder / "said"), folder)
    photo, mask = scene(50)
    for name, pixels in (("images", photo), ("masks", mask)):
        Image.fromarray(pixels).save(folder / "painted" / name / "further.png")


def next_round(checkpoint: Path) -> Campaign:
    return Campaign(partial(paint_further, checkpoint), lambda folder: segment(checkpoint, folder, "--again"), found)


# -- dgpnet train ------------------------------------------------------------------------------------------------------


def train(folder: Path) -> list[str]:
    words = ["train", "--dataset", "synthetic", "--option", "photographs=40", "--option", "objects=2", "--fold", "0"]
    words += ["--device", "cpu", "--iterations", "24", "--log-every", "2", "--checkpoint-every", "3"]
    words += [
        "--pictures-every",
        "10",
        "--shots",
        "1,2",
        "--cache",
        str(folder / "cache"),
        "--out",
        str(folder / "run"),
    ]
    settings = {**{f"network.{name}": value for name, value in SETTINGS.items()}, "episodes": 2, "average": 0.9}
    settings |= {"network.levels": [16], "network.size": 32}
    return [*words, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]


def trained(folder: Path) -> tuple[object, ...]:
    run = folder / "run"
    kept = ["config.json", "model.safetensors", *(f"checkpoints/0000000{n}.safetensors" for n in (21, 24))]
    log = [{**record, "episodes_per_second": 0} for record in Journal(run / "log.jsonl").read()]
    assert [record["step"] for record in log] == list(range(2, 25, 2))
    return log, sorted(path.name for path in (run / "pictures").iterdir()), [(run / name).read_bytes() for name in kept]


# -- dgpnet evaluate ---------------------------------------------------------------------------------------------------


def evaluate(checkpoint: Path, folder: Path, *more: str) -> list[str]:
    words = ["evaluate", str(checkpoint), "--dataset", "synthetic", "--option", "photographs=16", "--option", "side=64"]
    words += ["--option", "kinds=12", "--fold", "1", "--shots", "1,2", "--episodes", "30", "--seeds", "2"]
    return [*words, "--device", "cpu", "--cache", str(folder / "cache"), "--out", str(folder / "results.json"), *more]


def evaluated(folder: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in folder.iterdir() if path.name.startswith("results"))
    assert names == ["results-reliability-1.png", "results-reliability-2.png", "results.json"]
    return {name: (folder / name).read_bytes() for name in names}


# ----------------------------------------------------------------------------------------------------------------------

KILLS = pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.kill)])


@KILLS
def test_a_folder_job(checkpoint: Path, tmp_path: Path, kills: int) -> None:
    segmenting(checkpoint).kill(tmp_path, kills, seed=1)


@pytest.mark.kill
def test_the_next_round_of_a_folder_job(checkpoint: Path, tmp_path: Path) -> None:
    if not has_option("segment", "--again"):
        pytest.skip("dgpnet segment has no --again")
    next_round(checkpoint).kill(tmp_path, 25, seed=2)


@KILLS
def test_a_training_run(tmp_path: Path, kills: int) -> None:
    Campaign(lambda folder: None, train, trained).kill(tmp_path, kills, seed=3)


@KILLS
def test_an_evaluation(checkpoint: Path, tmp_path: Path, kills: int) -> None:
    Campaign(lambda folder: None, partial(evaluate, checkpoint), evaluated).kill(tmp_path, kills, seed=4)

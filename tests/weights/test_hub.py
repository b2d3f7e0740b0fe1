"""Models of the Hugging Face Hub: by name from it, from the cache without it, onto it, and what may go wrong."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import dgpnet
from dgpnet import weights
from dgpnet.cli import run
from dgpnet.errors import Error
from dgpnet.segmenter import Calibration, Segmenter
from dgpnet.training import TrainConfig
from dgpnet.weights import hub
from tests import tiny
from tests.tiny import CONFIG, scenes
from tests.weights.hub_server import COMMIT, Hub, running

constants = pytest.importorskip("huggingface_hub.constants")
NAME = "somebody/mugs"
#: Less to send than the usual one.
SMALL = CONFIG.but(encoder="efficientnet_lite0")
tiny_network, tiny_segmenter = partial(tiny.tiny_network, SMALL), partial(tiny.tiny_segmenter, SMALL)
tiny_checkpoint = partial(tiny.tiny_checkpoint, config=SMALL)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """An empty Hub, and an empty cache."""
    registry = tmp_path / "harnesses.json"  # which the library would ask the real Hub for
    registry.write_text('{"harnesses": {}, "standardEnvVars": []}')
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(registry), raising=False)
    with running() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", "hf_somebody")
        yield server


@pytest.fixture
def model(server: Hub, tmp_path: Path) -> Hub:
    """A Hub with one model."""
    content = tiny_checkpoint(tmp_path / "tiny.safetensors").read_bytes()
    server.repositories[NAME] = {hub.FILE: content, "pytorch_model.bin": b"a pickle"}
    return server


@pytest.mark.parametrize("name", [f"hf://{NAME}", f"hf://{NAME}@v1", f"hf://{NAME}@{COMMIT}"])
def test_a_model_is_loaded_by_name(model: Hub, name: str) -> None:
    assert dgpnet.load(name, device="cpu").fingerprint == tiny_segmenter().fingerprint


def test_it_is_downloaded_once_and_nothing_else_is(model: Hub) -> None:
    dgpnet.load(f"hf://{NAME}", device="cpu")
    dgpnet.load(f"hf://{NAME}", device="cpu")
    asked = [request for request in model.requests if request.startswith("GET")]
    assert asked == [f"GET /{NAME}/resolve/main/{hub.FILE}"]


def test_a_new_model_of_that_name_is_noticed(model: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dgpnet.load(f"hf://{NAME}", device="cpu")
    model.repositories[NAME][hub.FILE] = tiny_checkpoint(tmp_path / "new.safetensors", seed=1).read_bytes()
    monkeypatch.setattr("tests.weights.hub_server.COMMIT", COMMIT[::-1])
    assert dgpnet.load(f"hf://{NAME}", device="cpu").fingerprint == tiny_segmenter(seed=1).fingerprint


def test_the_cache_does_without_a_network(model: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    dgpnet.load(f"hf://{NAME}", device="cpu")
    model.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert dgpnet.load(f"hf://{NAME}", device="cpu").fingerprint == tiny_segmenter().fingerprint
    assert not model.requests


def test_another_process_loads_it_from_the_cache(model: Hub) -> None:
    segmenter = dgpnet.load(f"hf://{NAME}", device="cpu")
    model.repositories.clear()
    assert pickle.loads(pickle.dumps(segmenter)).fingerprint == segmenter.fingerprint


def test_the_command_takes_such_names(model: Hub, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": model.url, "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "dgpnet", "weights", "inspect", f"hf://{NAME}"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert "encoder: efficientnet_lite0" in done.stdout, done.stderr


def test_training_starts_from_such_names(model: Hub, tmp_path: Path) -> None:
    words = ["--dataset", "synthetic", "--option", "photographs=40", "--option", "objects=2", "--fold", "0"]
    words += ["--cache", str(tmp_path / "data"), "--device", "cpu", "--set", "episodes=1", "--iterations", "1"]
    assert run(["train", *words, "--from", f"hf://{NAME}", "--out", str(tmp_path / "run")]) == 0
    model.repositories.clear()
    start = TrainConfig.from_json((tmp_path / "run" / "config.json").read_text()).start_from
    assert weights.fingerprint(weights.load(start)) == tiny_segmenter().fingerprint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf://nobody/nothing", "no hf://nobody/nothing, or you may not see it"),
        (f"hf://{NAME}@v9", "no such revision"),
        ("hf://somebody/empty", f"has no {hub.FILE}"),
        ("hf://somebody/gated", "terms accepted"),
    ],
)
def test_what_is_not_there_is_said(model: Hub, name: str, said: str) -> None:
    model.repositories["somebody/empty"] = {"pytorch_model.bin": b"a pickle"}
    model.gated.add("somebody/gated")
    with pytest.raises(Error, match=said):
        dgpnet.load(name)


@pytest.mark.parametrize(
    "name",
    ["mugs", "", "a/b/c", "../b", "a/..", "a/b@", "a/b@../c", "a/b@x/../y", "a b/c", "a/b?x", "ä/b", "x" * 99 + "/b"],
)
def test_what_is_no_name_is_said_before_anything_is_asked(server: Hub, name: str) -> None:
    with pytest.raises(Error, match="hf://owner/name"):
        dgpnet.load(f"hf://{name}")
    with pytest.raises(Error, match="hf://owner/name"):
        tiny_segmenter().push_to_hub(name)
    assert not server.requests


def test_a_file_too_large_is_not_downloaded(model: Hub) -> None:
    model.sizes[hub.FILE] = hub.MAX_BYTES + 1
    with pytest.raises(Error, match=r"8,589,934,593 bytes, and at most 8,589,934,592"):
        dgpnet.load(f"hf://{NAME}")
    assert not any(request.startswith("GET") for request in model.requests)


@pytest.mark.parametrize("damage", ["pickle", "bit"])
def test_only_whole_safetensors_are_believed(model: Hub, damage: str) -> None:
    content = bytearray(model.repositories[NAME][hub.FILE])
    content[-9] ^= 1
    model.repositories[NAME][hub.FILE] = pickle.dumps({"a": torch.zeros(1)}) if damage == "pickle" else bytes(content)
    with pytest.raises(Error, match=r"damaged|no whole"):
        dgpnet.load(f"hf://{NAME}")


def test_without_a_network_it_says_so(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between its attempts
    with pytest.raises(Error, match="not in the cache and the Hub does not answer"):
        dgpnet.load(f"hf://{NAME}")
    with pytest.raises(Error, match="does not answer"):
        tiny_segmenter().push_to_hub(NAME)


def test_without_the_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(Error, match=r"dgpnet\[hub\]"):
        dgpnet.load(f"hf://{NAME}")


@pytest.fixture
def calibrated() -> Segmenter:
    segmenter = Segmenter(tiny_network(), calibration=Calibration(temperature=1.5), dtype=torch.float32)
    segmenter.provenance = {"training": {"seed": 7}}
    return segmenter


def test_what_is_pushed_is_loaded_again(server: Hub, calibrated: Segmenter) -> None:
    assert calibrated.push_to_hub(NAME, private=True) == f"{server.url}/{NAME}/commit/{COMMIT}"
    assert server.made[0]["visibility"] == "private"
    assert sorted(server.repositories[NAME]) == [hub.CARD, hub.FILE]
    again = dgpnet.load(f"hf://{NAME}", device="cpu")
    assert (again.fingerprint, again.calibration) == (calibrated.fingerprint, calibrated.calibration)
    assert again.provenance == calibrated.provenance


def test_a_card_that_somebody_wrote_stays(server: Hub, calibrated: Segmenter, tmp_path: Path) -> None:
    server.repositories[NAME] = {hub.CARD: b"Mine."}
    calibrated.push_to_hub(NAME)
    assert server.repositories[NAME][hub.CARD] == b"Mine."
    (tmp_path / hub.CARD).write_text("Mine.")
    calibrated.save_pretrained(tmp_path)
    assert (tmp_path / hub.CARD).read_text() == "Mine."


def test_the_card_tells_what_the_checkpoint_does(server: Hub, calibrated: Segmenter) -> None:
    calibrated.push_to_hub(NAME)
    card = server.repositories[NAME][hub.CARD].decode()
    assert card.startswith("---\nlibrary_name: dgpnet\n")
    assert f'dgpnet.load("hf://{NAME}")' in card
    assert "efficientnet_lite0" in card and '"seed": 7' in card and "temperature 1.5" in card


def test_a_saved_folder_is_loaded_and_knows_the_same_concepts(tmp_path: Path, calibrated: Segmenter) -> None:
    calibrated.save_pretrained(tmp_path / "a" / "b")
    again = dgpnet.load(tmp_path / "a" / "b", device="cpu").using(torch.float32)
    photos, masks = scenes(2)
    calibrated.learn(photos, masks).save(tmp_path / "mug.concept")
    found = dgpnet.Concept.load(tmp_path / "mug.concept", again).segment(photos[0])
    assert np.array_equal(found.probability, calibrated.learn(photos, masks).segment(photos[0]).probability)


def test_weights_of_half_precision_stay_so_without_loss(tmp_path: Path) -> None:
    weights.save(tmp_path / "half.safetensors", tiny_network(), half=True)
    segmenter = dgpnet.load(tmp_path / "half.safetensors", device="cpu")
    segmenter.save_pretrained(tmp_path / "again")
    assert dgpnet.load(tmp_path / "again", device="cpu").fingerprint == segmenter.fingerprint
    assert (tmp_path / "again" / hub.FILE).stat().st_size < 1.1 * (tmp_path / "half.safetensors").stat().st_size


@pytest.mark.parametrize("name", [None, 3, "", "mugs", "a/b/c", "a/../b", "x" * 1000, "a\0/b", "\ud800/b"])
def test_what_can_be_no_name_is_said_before_anything_is_sent(name: object) -> None:
    with pytest.raises(Error) as caught:
        tiny_segmenter().push_to_hub(name)  # type: ignore[arg-type]
    assert len(str(caught.value)) <= 500
    with pytest.raises(Error, match="private"):
        tiny_segmenter().push_to_hub("me/mugs", private="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", [None, 3, "a\0b", "file", "file/below"])
def test_what_can_be_no_folder_is_said(folder: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Error, match="folder"):
        tiny_segmenter().save_pretrained(folder)  # type: ignore[arg-type]

"""Checkpoints: what is saved comes back bit for bit, says what it is, and is written whole or not at all."""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dgpnet import weights
from dgpnet.errors import Error
from dgpnet.network import Config, DGPNet
from dgpnet.weights import checkpoint

TINY = Config(encoder="efficientnet_lite0", features=8, encodings=4, decoder_width=8, size=64)


@pytest.fixture
def network() -> DGPNet:
    """Tiny, with every tensor off its initial value."""
    network = DGPNet(TINY).eval()
    with torch.no_grad():
        for value in network.state_dict().values():
            if value.is_floating_point():
                value.add_(torch.rand_like(value) * 0.1)
    return network


@pytest.fixture
def path(tmp_path: Path, network: DGPNet) -> Path:
    weights.save(tmp_path / "a.safetensors", network, provenance={"steps": 3}, calibration={"temperature": 1.5})
    return tmp_path / "a.safetensors"


def test_a_network_comes_back_bit_for_bit(path: Path, network: DGPNet) -> None:
    again = weights.load(path)
    assert again.config == network.config
    assert not again.training
    expected = network.state_dict()
    assert again.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in again.state_dict().items())
    support, masks, query = torch.randn(1, 2, 3, 64, 64), torch.ones(1, 2, 64, 64), torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(again(support, masks, query), network(support, masks, query))


def test_metadata_comes_back(path: Path, network: DGPNet) -> None:
    found = weights.read_metadata(path)
    assert found["provenance"] == {"steps": 3}
    assert found["calibration"] == {"temperature": 1.5}
    assert Config.from_json(json.dumps(found["config"])) == network.config


def test_metadata_that_was_not_given_is_empty(tmp_path: Path, network: DGPNet) -> None:
    weights.save(tmp_path / "b.safetensors", network)
    found = weights.read_metadata(tmp_path / "b.safetensors")
    assert (found["provenance"], found["calibration"]) == ({}, None)


def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path: Path, path: Path, network: DGPNet) -> None:
    small = tmp_path / "half.safetensors"
    weights.save(small, network, half=True)
    assert small.stat().st_size < 0.55 * path.stat().st_size
    stored = load_file(small)
    for key, value in network.state_dict().items():
        if "bn" in key or "running" in key:
            assert torch.equal(stored[key], value)
    again = weights.load(small)
    assert all(p.dtype == torch.float32 and p.requires_grad for p in again.parameters())
    worst = max(
        float((a - b).detach().abs().max()) for a, b in zip(again.parameters(), network.parameters(), strict=True)
    )
    assert 0 < worst < 2**-10 * max(float(p.detach().abs().max()) for p in network.parameters())


def test_fingerprint_changes_with_any_tensor_and_with_the_configuration(path: Path, network: DGPNet) -> None:
    first = weights.fingerprint(network)
    assert len(first) == 64
    assert weights.fingerprint(weights.load(path)) == first
    other = weights.load(path)
    other.config = dataclasses.replace(network.config, noise=0.2)
    assert weights.fingerprint(other) != first
    buffer = network.get_buffer("encoder.body._bn0.running_mean")
    buffer[0] = torch.nextafter(buffer[0], torch.tensor(9.0))
    assert weights.fingerprint(network) != first


def test_loading_draws_no_random_numbers(path: Path) -> None:
    state = torch.get_rng_state()
    weights.load(path)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_papers_network_loads_within_two_seconds(tmp_path: Path) -> None:
    weights.save(tmp_path / "paper.safetensors", DGPNet(Config()), half=True)
    start = time.process_time()
    weights.load(tmp_path / "paper.safetensors")
    assert time.process_time() - start < 2


def test_a_hugging_face_encoder_is_rebuilt_from_the_file_alone(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    backbone = transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    network = DGPNet(TINY.but(encoder="hf:gone", encoder_options={"config": backbone})).eval()
    weights.save(tmp_path / "hf.safetensors", network)
    again = weights.load(tmp_path / "hf.safetensors")
    assert weights.fingerprint(again) == weights.fingerprint(network)
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(again.encoder.body(x), network.encoder.body(x), strict=True))


def test_an_interrupted_save_leaves_the_old_file(path: Path, network: DGPNet, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def stop(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        weights.save(path, network, provenance={"steps": 4})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_saved_file_can_be_read_by_others(path: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


class TestUnusableFiles:
    def test_truncated(self, path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(Error, match="make it or copy it again"):
            weights.load(path)

    def test_not_a_checkpoint(self, tmp_path: Path) -> None:
        save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
        with pytest.raises(Error, match="load_encoder"):
            weights.load(tmp_path / "x.safetensors")

    def test_newer_than_this_program(self, path: Path) -> None:
        metadata = {"format": "dgpnet", "version": "3", "config": "{}", "provenance": "{}", "calibration": "null"}
        save_file({"x": torch.zeros(1)}, path, metadata)
        with pytest.raises(Error, match="update dgpnet"):
            weights.load(path)

    @pytest.mark.parametrize("damage", [{"version": "x"}, {"config": "{"}, {}])
    def test_damaged_metadata(self, path: Path, damage: dict[str, str]) -> None:
        save_file({"x": torch.zeros(1)}, path, {"format": "dgpnet", "version": "1", **damage})
        with pytest.raises(Error, match="damaged"):
            weights.load(path)

    def test_tensors_that_do_not_fit_the_configuration(self, path: Path) -> None:
        tensors = load_file(path)
        gone = next(key for key in tensors if key.startswith("decoder.") and key.endswith(".weight"))
        del tensors[gone]
        metadata = {"format": "dgpnet", "version": "1", "config": TINY.to_json(), "provenance": "{}"}
        save_file(tensors, path, {**metadata, "calibration": "null"})
        with pytest.raises(Error, match=gone):
            weights.load(path)

    def test_absent(self, tmp_path: Path) -> None:
        with pytest.raises(Error, match="none"):
            weights.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize("seed", range(12))
def test_one_flipped_bit_is_noticed(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)
    with pytest.raises(Error, match=r"a\.safetensors"):
        weights.load(path)


def test_a_shipped_checkpoint_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(weights.checkpoint_path("small").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "small.safetensors").write_bytes(data)
    monkeypatch.setattr(checkpoint, "checkpoint_path", lambda name: tmp_path / "small.safetensors")
    with pytest.raises(Error, match="damaged"):
        weights.load("small")

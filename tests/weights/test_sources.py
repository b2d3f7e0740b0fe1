"""Files of weights as tensors: pickles only when asked, and then only tensors; damage is named."""

import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.weights.sources import read_tensors

TENSORS = {"a/kernel": torch.arange(6.0).reshape(2, 3), "a/bias": torch.tensor([7.0]), "b": torch.tensor(8.0)}


def equal(found: dict[str, Tensor], expected: dict[str, Tensor] = TENSORS) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[key], expected[key]) for key in expected)


def tfjs(folder: Path, **changes: object) -> Path:
    """TENSORS as TensorFlow.js writes them, cut into two shards in the middle of a number's tensor."""
    folder.mkdir(parents=True)
    content = b"".join(np.asarray(t, "<f4").tobytes() for t in TENSORS.values())
    (folder / "shard1.bin").write_bytes(content[:10])
    (folder / "shard2.bin").write_bytes(content[10:])
    listed = [{"name": key, "shape": list(t.shape), "dtype": "float32", **changes} for key, t in TENSORS.items()]
    model = {"weightsManifest": [{"paths": ["shard1.bin", "shard2.bin"], "weights": listed}]}
    (folder / "model.json").write_text(json.dumps(model))
    return folder


def test_tensorflow_js_folder(tmp_path: Path) -> None:
    tfjs(tmp_path / "package" / "ResNet50")
    assert equal(read_tensors(tmp_path)[0])


def test_tensorflow_js_archive_is_read_without_unpacking(tmp_path: Path) -> None:
    folder = tfjs(tmp_path / "ResNet50")
    with tarfile.open(tmp_path / "model.tgz", "w:gz") as archive:
        archive.add(folder, "package/ResNet50")
    before = sorted(tmp_path.rglob("*"))
    assert equal(read_tensors(tmp_path / "model.tgz")[0])
    assert sorted(tmp_path.rglob("*")) == before


def test_short_shards_missing_shards_and_quantised_tensors_are_refused(tmp_path: Path) -> None:
    short = tfjs(tmp_path / "short")
    (short / "shard2.bin").write_bytes(b"")
    with pytest.raises(Error, match="too short"):
        read_tensors(short)
    missing = tfjs(tmp_path / "missing")
    (missing / "shard2.bin").unlink()
    with pytest.raises(Error, match="incomplete"):
        read_tensors(missing)
    with pytest.raises(Error, match="unquantised"):
        read_tensors(tfjs(tmp_path / "quantised", quantization={"scale": 1}))


def test_a_shard_outside_its_folder_is_refused(tmp_path: Path) -> None:
    folder = tfjs(tmp_path / "model")
    (tmp_path / "secret").write_bytes(bytes(100))
    model = json.loads((folder / "model.json").read_text())
    model["weightsManifest"][0]["paths"] = ["../secret"]
    (folder / "model.json").write_text(json.dumps(model))
    with pytest.raises(Error, match="outside"):
        read_tensors(folder)


@pytest.mark.parametrize("wrapped", [None, "state_dict", "model"])
def test_pickles_open_only_when_asked(tmp_path: Path, wrapped: str | None) -> None:
    path = tmp_path / "a.pth"
    torch.save(TENSORS if wrapped is None else {wrapped: TENSORS, "epoch": 3}, path)
    with pytest.raises(Error, match="allow_pickle"):
        read_tensors(path)
    assert equal(read_tensors(path, allow_pickle=True)[0])


def test_a_wheel_is_a_pickle_too(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "a.pth")
    with zipfile.ZipFile(tmp_path / "a-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(tmp_path / "a.pth", "a/models/a.pth")
    with pytest.raises(Error, match="allow_pickle"):
        read_tensors(tmp_path / "a-1.0-py3-none-any.whl")
    assert equal(read_tensors(tmp_path / "a-1.0-py3-none-any.whl", allow_pickle=True)[0])


class Mischief:
    """A pickle that runs a command when opened carelessly."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


@pytest.mark.parametrize("plain", [True, False])
def test_a_pickle_with_code_is_refused_even_when_asked(tmp_path: Path, plain: bool) -> None:
    path, trace = tmp_path / "a.pth", tmp_path / "trace"
    if plain:
        path.write_bytes(pickle.dumps(Mischief(trace), 2))
    else:
        torch.save({"a": Mischief(trace)}, path)
    with pytest.raises(Error, match="more than tensors") as raised:
        read_tensors(path, allow_pickle=True)
    assert not trace.exists()
    assert "weights_only=False" not in str(raised.value)


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "a.pth")
    with pytest.raises(Error, match="state_dict"):
        read_tensors(tmp_path / "a.pth", allow_pickle=True)


@pytest.mark.parametrize("name", ["a.tgz", "a.whl", "a.safetensors", "a.pth", "a.h5"])
def test_damaged_and_unknown_files_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no weights")
    with pytest.raises(Error, match=name):
        read_tensors(tmp_path / name, allow_pickle=True)


def test_absent_and_empty_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match="There are no weights"):
        read_tensors(tmp_path / "none")
    with pytest.raises(Error, match="no model"):
        read_tensors(tmp_path)

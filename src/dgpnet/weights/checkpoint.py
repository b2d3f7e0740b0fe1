"""A whole network in one safetensors file: tensors, configuration, where they come from, calibration."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dgpnet.errors import Error
from dgpnet.files import file_digest
from dgpnet.network.config import Config
from dgpnet.network.dgpnet import DGPNet
from dgpnet.weights import hub, sealed
from dgpnet.weights.sources import read_safetensors, read_safetensors_metadata
from dgpnet.weights.state import WithoutRandomNumbers, halve, load_state

FORMAT = "dgpnet"
#: 1 had no digest: the checkpoints that ship, which are known by the digest of the whole file, and older ones.
VERSION = 2
#: The checkpoints that ship with the package, and SHA-256 of their files.
SHIPPED = {
    "default": "254846713bcd0f275dd126463e5b1af98eb14b22ce1565ef21b3be1c7d47c84d",
    "small": "73fdd41e1dcb7d83eafa87bb60cf60dabc74537e514813cf3eea2e607de38fa6",
}


#: Where they lie. What was fitted to one after it was saved, and belongs to its calibration, lies beside it as JSON.
CHECKPOINTS = Path(__file__).parent / "checkpoints"
_TEXTS = ("config", "provenance", "calibration")


def save(
    path: str | Path,
    network: DGPNet,
    *,
    provenance: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
    half: bool = False,
) -> None:
    """Write the network to a safetensors file, whole or not at all.

    provenance: what the weights were made from and how (plain JSON values), for `read_metadata`.
    calibration: what was fitted to make probabilities honest (plain JSON values), for `read_metadata`.
    half: matrices and kernels in float16, at half the size; BatchNorm, biases and hyper-parameters stay float32.
    """
    tensors = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
    about = {
        "format": FORMAT,
        "version": VERSION,
        "config": json.loads(_config(network).to_json()),
        "provenance": dict(provenance or {}),
        "calibration": None if calibration is None else dict(calibration),
    }
    sealed.write(path, halve(tensors) if half else tensors, about)


def load(path: str | Path, *, device: str | torch.device = "cpu") -> DGPNet:
    """The network that `save` wrote, float32, in evaluation mode, on the device; one that was damaged is an Error.

    path: a file, or "default" or "small" for the checkpoints that ship with the package.
    """
    expected, path = SHIPPED.get(str(path)), checkpoint_path(path)
    config = Config.from_json(json.dumps(read_metadata(path)["config"]))
    if sealed.is_sealed(path, "checkpoint"):
        tensors = sealed.read(path, "checkpoint")[0]
    else:
        if expected is not None and file_digest(path) != expected:
            raise Error(f"{path} is damaged: it is not the file that came with dgpnet; install dgpnet again.")
        tensors = read_safetensors(path)[0]
    with WithoutRandomNumbers():
        network = DGPNet(config)
    load_state(network, tensors, what=f"the weights in {path}")
    return network.eval().to(device)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says of itself, without reading its tensors.

    Keys: "format", "version" (int), "config" (dict), "provenance" (dict), "calibration" (dict or None).
    """
    path = checkpoint_path(path)
    metadata = sealed.read_about(path, "checkpoint") if sealed.is_sealed(path, "checkpoint") else _loose(path)
    if metadata.get("format") != FORMAT:
        raise Error(
            f"{path} is no DGPNet checkpoint; weights of an image encoder alone are read by "
            "dgpnet.weights.load_encoder, or converted by `dgpnet weights convert`."
        )
    try:
        version = int(metadata["version"])
        kept = {key: metadata[key] for key in _TEXTS}
    except (KeyError, ValueError, TypeError) as error:
        raise Error(f"The metadata of {path} is damaged ({error!r:.100}); save or download it again.") from error
    if version > VERSION:
        raise Error(f"{path} has format version {version} and this dgpnet reads up to {VERSION}; update dgpnet.")
    beside = path.with_suffix(".json")
    if path.parent == CHECKPOINTS and beside.is_file():
        kept["calibration"] = {**(kept["calibration"] or {}), **json.loads(beside.read_bytes())}
    return {"format": FORMAT, "version": version, **kept}


def _loose(path: Path) -> dict[str, Any]:
    """What a file of version 1 says of itself, in texts of their own."""
    metadata: dict[str, Any] = dict(read_safetensors_metadata(path))
    try:
        return {**metadata, **{key: json.loads(metadata[key]) for key in _TEXTS if key in metadata}}
    except (ValueError, RecursionError) as error:
        raise Error(f"The metadata of {path} is damaged ({error!r:.100}); save or download it again.") from error


def fingerprint(network: DGPNet) -> str:
    """SHA-256 (64 hexadecimal digits) over the configuration and every tensor: equal only for the same network.

    Fields that configurations did not always have count where they are not as they used to be.
    """
    fields = json.loads(_config(network).to_json())
    if fields["support_stride"] == Config.support_stride:
        del fields["support_stride"]
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for key, value in sorted(network.state_dict().items()):
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def checkpoint_path(name: str | Path) -> Path:
    """The file of a checkpoint: "default" and "small" ship with the package, hf://owner/name is on the Hugging Face
    Hub, anything else is a path, of a file or of a folder with a model.safetensors.
    """
    if isinstance(name, str) and name.startswith(hub.SCHEME):
        return hub.download(name)
    path = CHECKPOINTS / f"{name}.safetensors" if name in SHIPPED else Path(name)
    path = path / hub.FILE if os.path.isdir(path) else path
    if not os.path.isfile(path):  # not Path.is_file, which raises for a name that is too long
        known = "give " + ", ".join(SHIPPED) + ", or the path of a .safetensors file that dgpnet saved"
        where = "does not come with this copy of dgpnet" if name in SHIPPED else "is neither a model's name nor a file"
        raise Error(f"The model {name} {where}; {known}.")
    return path


def _config(network: DGPNet) -> Config:
    """The network's configuration, with all its encoder needs to be built again where nothing can be downloaded."""
    return network.config.but(encoder_options=dict(network.encoder.body.options))

"""A whole network in one safetensors file: tensors, configuration, where they come from, calibration."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.network.config import Config
from dgpnet.network.dgpnet import DGPNet
from dgpnet.weights.sources import read_safetensors
from dgpnet.weights.state import WithoutRandomNumbers, halve, load_state

FORMAT = "dgpnet"
VERSION = 1
#: The checkpoints that ship with the package.
SHIPPED = ("default", "small")


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
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": _config(network).to_json(),
        "provenance": json.dumps(dict(provenance or {})),
        "calibration": json.dumps(None if calibration is None else dict(calibration)),
    }
    with atomic(path) as temporary:
        temporary.write_bytes(to_bytes(halve(tensors) if half else tensors, metadata))


def load(path: str | Path, *, device: str | torch.device = "cpu") -> DGPNet:
    """The network that `save` wrote, float32, in evaluation mode, on the device.

    path: a file, or "default" or "small" for the checkpoints that ship with the package.
    """
    path = checkpoint_path(path)
    config = Config.from_json(json.dumps(read_metadata(path)["config"]))
    with WithoutRandomNumbers():
        network = DGPNet(config)
    load_state(network, read_safetensors(path)[0], what=f"the weights in {path}")
    return network.eval().to(device)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What a checkpoint says of itself, without reading its tensors.

    Keys: "format", "version" (int), "config" (dict), "provenance" (dict), "calibration" (dict or None).
    """
    path = checkpoint_path(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise Error(f"{path} is no whole safetensors file ({error}); copy or download it again.") from error
    if metadata.get("format") != FORMAT:
        raise Error(
            f"{path} is no DGPNet checkpoint; weights of an image encoder alone are read by "
            "dgpnet.weights.load_encoder, or converted by `dgpnet weights convert`."
        )
    try:
        version = int(metadata["version"])
        texts = {key: json.loads(metadata[key]) for key in ("config", "provenance", "calibration")}
    except (KeyError, ValueError) as error:
        raise Error(f"the metadata of {path} is damaged ({error!r}); save or download it again.") from error
    if version > VERSION:
        raise Error(f"{path} has format version {version} and this dgpnet reads up to {VERSION}; update dgpnet.")
    return {"format": FORMAT, "version": version, **texts}


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
    """The file of a checkpoint: "default" and "small" ship with the package, anything else is a path."""
    path = Path(__file__).parent / "checkpoints" / f"{name}.safetensors" if name in SHIPPED else Path(name)
    if not path.is_file():
        where = "does not come with this copy of dgpnet" if name in SHIPPED else "is no file"
        raise Error(f"the checkpoint {name} {where}; give the path of a .safetensors file that dgpnet saved.")
    return path


def _config(network: DGPNet) -> Config:
    """The network's configuration, with all its encoder needs to be built again where nothing can be downloaded."""
    return network.config.but(encoder_options=dict(network.encoder.body.options))

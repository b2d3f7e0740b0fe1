"""Tensors with a few plain values in one safetensors file that tells when it is damaged.

Equal content gives equal bytes: all values stand in one text with sorted keys, since safetensors does not keep the
order of several. A digest over that text and every tensor is checked before anything is believed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.files import atomic

#: The one key of the file's metadata.
KEY = "dgpnet"


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], about: Mapping[str, Any], *, sync: bool = False
) -> None:
    """Write tensors and `about` (plain JSON values), whole or not at all; `sync` as in `files.atomic`."""
    if os.path.isdir(path):
        raise Error(f"{path} is a folder; give the name of a file in it.")
    copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(dict(about), sort_keys=True)
    sealed = json.dumps({"about": text, "digest": digest(text, copies)}, sort_keys=True)
    try:
        with atomic(Path(path), sync=sync) as temporary:  # not save_file, whose files nobody else may read
            temporary.write_bytes(to_bytes(copies, {KEY: sealed}))
    except OSError as problem:
        raise Error(
            f"{path} cannot be written ({_reason(problem.strerror or problem)}); choose another place."
        ) from problem


def read(
    path: str | os.PathLike[str], what: str, *, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the device, and the plain values that `write` wrote; an Error if anything was changed since.

    what: how to call the file in that Error ("concept").
    """
    with _opened(path, what) as file:
        text, expected = _sealed(file)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        about = json.loads(text)
    if not isinstance(about, dict) or digest(text, tensors) != expected:
        raise Error(f"{path} is damaged: its content is not what was written; make the {what} again.")
    return {name: tensor.to(device) for name, tensor in tensors.items()}, about


def is_sealed(path: str | os.PathLike[str], what: str) -> bool:
    """Whether the file is one that `write` wrote, damaged or not; an Error if it is no safetensors file at all."""
    with _opened(path, what) as file:
        return KEY in (file.metadata() or {})


def read_about(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """The plain values alone, without looking at the tensors: what they say is not checked."""
    with _opened(path, what) as file:
        about: dict[str, Any] = dict(json.loads(_sealed(file)[0]))
    return about


@contextmanager
def _opened(path: str | os.PathLike[str], what: str) -> Iterator[Any]:
    """The safetensors file; whatever a damaged one makes of it is an Error that names it."""
    if not os.path.isfile(path):  # not Path.is_file, which raises for a name that is too long
        raise Error(f"There is no {what} {path}; check the path.")
    try:
        with safe_open(Path(path), framework="pt") as file:
            yield file
    except (KeyError, TypeError):
        raise Error(f"{path} is no {what} of this version of dgpnet; make it again.") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise Error(f"{path} is no {what}, or damaged ({_reason(error)}); make it or copy it again.") from error


def _sealed(file: Any) -> tuple[str, object]:
    """The text of the plain values, and the digest."""
    sealed = json.loads((file.metadata() or {})[KEY])
    return str(sealed["about"]), sealed["digest"]


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 (64 hexadecimal digits) over a text and every tensor: names, types, shapes and values."""
    found = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _reason(error: object) -> str:
    return " ".join(str(error).split())[:200]

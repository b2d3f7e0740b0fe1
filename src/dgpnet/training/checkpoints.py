"""Checkpoints that survive a kill: one safetensors file each, written whole, the one before kept until then.

A file holds every tensor of the run (network, optimiser, moving average, random state) and, as JSON in its header,
the position: which step comes next, the optimiser's groups, the schedule's factor and the unfinished line of the log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.files import atomic, require_space

KEPT = 2
_SPARE = 1 << 20  # bytes for the header


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], position: Mapping[str, Any]) -> Path:
    """Writes `folder/<step>.safetensors`, then removes all but the newest `KEPT`: the last good one is never lost."""
    path = folder / f"{step:09d}.safetensors"
    copies = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    require_space(folder, sum(copy.nbytes for copy in copies.values()) + _SPARE)
    with atomic(path) as temporary:
        save_file(copies, temporary, metadata={"position": json.dumps(dict(position))})
        _to_disk(temporary)  # before its new name, lest a power cut leave the name without the bytes
    for old in _newest_first(folder)[KEPT:]:
        old.unlink()
    return path


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and position of the newest checkpoint that can be read; None where there is none at all."""
    candidates = _newest_first(folder)
    for path in candidates:
        try:
            with safe_open(path, framework="pt") as file:
                position = json.loads((file.metadata() or {})["position"])
                return {name: file.get_tensor(name) for name in file.keys()}, position  # noqa: SIM118
        except (SafetensorError, OSError, KeyError, ValueError):
            continue
    if candidates:
        raise Error(f"none of the checkpoints in {folder} can be read: remove the folder to start again")
    return None


@torch.no_grad()
def restore(live: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Copies saved tensors into the live ones of the same names, which keep their device and memory layout."""
    problems = [f"missing {name}" for name in live if name not in saved]
    problems += [f"unexpected {name}" for name in saved if name not in live]
    problems += [
        f"{name} is {tuple(saved[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in live.items()
        if name in saved and saved[name].shape != tensor.shape
    ]
    if problems:
        raise Error(f"the checkpoint is of another architecture: {'; '.join(problems)}")
    for name, tensor in live.items():
        tensor.copy_(saved[name])


def _newest_first(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*.safetensors") if path.stem.isdigit()), reverse=True)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

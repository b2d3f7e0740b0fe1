"""Checkpoints that survive a kill: one safetensors file each, written whole, the one before kept until then.

A file holds every tensor of the run (network, optimiser, moving average, random state) and, as JSON in its header,
the position: which step comes next, the optimiser's groups, the schedule's factor and the unfinished line of the log;
and a digest of all that, so that a file that was damaged is not gone on from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgpnet.errors import Error, Notice
from dgpnet.files import require_space
from dgpnet.weights import sealed

#: Checkpoints that stay, the newest ones.
KEPT = 2
#: Bytes for the header.
_SPARE = 1 << 20


class Unsaved(Error):
    """A checkpoint could not be written, and what was trained since the last one is lost."""


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], position: Mapping[str, Any]) -> Path:
    """Writes `folder/<step>.safetensors`, then removes all but the newest `KEPT`: the last good one is never lost."""
    path = folder / f"{step:09d}.safetensors"
    require_space(folder, sum(tensor.nbytes for tensor in tensors.values()) + _SPARE)
    sealed.write(path, tensors, position, sync=True)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink()
    return path


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and position of the newest checkpoint that is as it was written; None where there is none at all.

    One that is damaged is left out, which a Notice says.
    """
    candidates = _newest_first(folder)
    for path in candidates:
        if (found := _read(path)) is not None:
            return found
        warnings.warn(Notice(f"{path} is damaged and left out; an older checkpoint is looked for."), stacklevel=2)
    if candidates:
        raise Error(f"None of the checkpoints in {folder} is as it was written; remove the folder to start again.")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What a checkpoint holds; None where that cannot be read, or is not what its digest says."""
    try:
        return sealed.read(path, "checkpoint")
    except Error:
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
        raise Error(f"The checkpoint is of another architecture: {'; '.join(problems)}.")
    for name, tensor in live.items():
        tensor.copy_(saved[name])


def _newest_first(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*.safetensors") if path.stem.isdigit()), reverse=True)

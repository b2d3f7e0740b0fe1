"""What a file of weights holds, told without building anything."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dgpnet.errors import Error
from dgpnet.weights import checkpoint, encoder, sealed


def describe(path: str | Path) -> dict[str, Any]:
    """Plain values about a safetensors file.

    Always: "path", "format" ("dgpnet", "dgpnet-encoder" or "unknown"), "bytes", "tensors", "numbers", "precision"
    (numbers by type). A checkpoint adds what `read_metadata` gives and "numbers_by_block"; an encoder's file adds
    "encoder" and "stride_on".
    """
    path = checkpoint.checkpoint_path(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            numbers = {key: math.prod(tensor.get_shape()) for key, tensor in slices.items()}
            types = {key: str(tensor.get_dtype()) for key, tensor in slices.items()}
    except SafetensorError as error:
        raise Error(f"{path} is no whole safetensors file ({error}); copy or download it again.") from error
    found: dict[str, Any] = {
        "path": str(path),
        "format": checkpoint.FORMAT if sealed.KEY in metadata else metadata.get("format", "unknown"),
        "bytes": path.stat().st_size,
        "tensors": len(numbers),
        "numbers": sum(numbers.values()),
        "precision": _sums(types, numbers),
    }
    if found["format"] == checkpoint.FORMAT:
        blocks = _sums({key: key.partition(".")[0] for key in numbers}, numbers)
        return {**found, **checkpoint.read_metadata(path), "numbers_by_block": blocks}
    if found["format"] == encoder.FORMAT:
        return {**found, "encoder": metadata["encoder"], "stride_on": metadata["stride_on"]}
    return {**found, "format": "unknown"}


def _sums(groups: dict[str, str], numbers: dict[str, int]) -> dict[str, int]:
    """The numbers summed over the keys of each group."""
    sums: Counter[str] = Counter()
    for key, group in groups.items():
        sums[group] += numbers[key]
    return dict(sums)

"""A network as programs of PyTorch (`torch.export`) in a folder: to be loaded without dgpnet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet.export.check import Half, checked
from dgpnet.export.folder import About, whole_folder
from dgpnet.export.tracing import Traced, Tracer, quietly
from dgpnet.gp.linalg import plain_whitener
from dgpnet.segmenter import Concept, Segmenter


def export_torch(
    segmenter: Segmenter,
    out: str | os.PathLike[str],
    *,
    concept: Concept | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> About:
    """`dgpnet.export.to_onnx.export_onnx` with query.pt2 and support.pt2 in place of graphs."""
    with whole_folder(out) as folder:
        tracer = Tracer.of(segmenter, concept)
        halves: dict[str, Traced] = {}
        for name, trace in tracer.halves(concept).items():
            say(f"Tracing {name}")
            halves[name] = trace()
            torch.export.save(_plain(halves[name]), folder / f"{name}.pt2")
        say("Comparing with PyTorch")
        runs = {name: opened(folder / f"{name}.pt2", half) for name, half in halves.items()}
        parity = [checked(segmenter.network, runs, concept, size) for size in tracer.sizes()]
        files = {f"{name}.pt2": half for name, half in halves.items()}
        about = About(segmenter, files, {"torch": torch.__version__}, parity, concept)
        about.write(folder)
    return about


def _plain(half: Traced) -> torch.export.ExportedProgram:
    """The program in operations that every PyTorch has."""
    with quietly():
        plain: torch.export.ExportedProgram = half.program.run_decompositions(
            {torch.ops.dgpnet.whitener.default: plain_whitener}
        )
    return plain


def opened(path: str | os.PathLike[str], half: Traced) -> Half:
    """A program, ready to run on arrays."""
    with quietly():
        module = torch.export.load(Path(path)).module()

    def run(arrays: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        given = {name: torch.from_numpy(array) for name, array in arrays.items() if name in half.inputs}
        own = [given.pop(name) for name in ("photographs", "masks") if name in given]
        with torch.no_grad():
            found = module(*own, given) if given else module(*own)
        values = found.values() if isinstance(found, dict) else found
        return {name: value.numpy() for name, value in zip(half.outputs, values, strict=True)}

    return run

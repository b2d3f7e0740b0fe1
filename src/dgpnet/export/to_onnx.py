"""A network as ONNX graphs in a folder, checked with onnxruntime; needs the extra `[onnx]`."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.export.check import Half, Parity, check_halves, check_query, photographs
from dgpnet.export.folder import About, whole_folder
from dgpnet.export.graphs import OPSET, graph_of
from dgpnet.export.halves import Traced, Tracer, state_of
from dgpnet.files import atomic
from dgpnet.network import DGPNet
from dgpnet.network.encoders import HUGGING_FACE
from dgpnet.network.fast import fold
from dgpnet.segmenter import Concept, Segmenter

#: Times that a photograph is looked at to tell how long it takes.
REPEATS = 20


def export_onnx(
    segmenter: Segmenter,
    out: str | os.PathLike[str],
    *,
    concept: Concept | None = None,
    timed: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> About:
    """Write the folder `out`: query.onnx, support.onnx, about.json and README.md; with a concept, query.onnx has it in
    it and there is no support.onnx.

    Both are compared with PyTorch on a photograph; where they differ too much it is an Error and nothing is written.
    timed: also measure how long a photograph takes in onnxruntime and here.
    """
    if segmenter.device.type != "cpu":
        raise Error(f"Graphs are made from a model on the CPU, this one is on {segmenter.device}: load it with 'cpu'.")
    with whole_folder(out) as folder:
        network = fold(segmenter.network)
        tracer = Tracer(network, fixed_sides(network))
        halves: dict[str, Traced] = {}
        for name, trace in _halves(tracer, concept).items():
            say(f"Tracing {name}")
            halves[name] = trace()
            ir.save(graph_of(halves[name]), folder / name)
        runs = {name: opened(folder / name) for name in halves}
        say("Comparing with PyTorch")
        parity = [_checked(segmenter.network, runs, concept, size) for size in _sizes(tracer)]
        times = _times(segmenter, runs, concept) if timed else None
        versions = {"torch": torch.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
        about = About(segmenter, halves, {**versions, "opset": OPSET}, parity, concept, times)
        about.write(folder)
    return about


def export_state(concept: Concept, path: str | os.PathLike[str]) -> None:
    """Write what was learned to an .npz file, arrays by the names that a query.onnx without a concept takes."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in state_of(concept.memory).items()}
    with atomic(Path(path)) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


def fixed_sides(network: DGPNet) -> tuple[int, int] | None:
    """The sides that a graph of this network is for, where they cannot be left free."""
    size = network.config.size
    return (size, size) if network.config.encoder.startswith(HUGGING_FACE) else None


def opened(path: str | os.PathLike[str], *, threads: int = 0) -> Half:
    """A graph, ready to run on the CPU. threads: 0 takes as many as there are processors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {one.name for one in session.get_inputs()}

    def run(arrays: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        given = {name: np.ascontiguousarray(array) for name, array in arrays.items() if name in wanted}
        return dict(zip(names, session.run(names, given), strict=True))

    return run


def _halves(tracer: Tracer, concept: Concept | None) -> dict[str, Callable[[], Traced]]:
    if concept is None:
        return {"query.onnx": tracer.query, "support.onnx": tracer.support}
    return {"query.onnx": lambda: tracer.baked(concept.memory)}


def _sizes(tracer: Tracer) -> list[tuple[int, int]]:
    """The model's own size and, where sides are free, another that is no square."""
    size = tracer.network.config.size
    return [(size, size)] if tracer.sides else [(size, size), (size + 64, size + 32)]


def _checked(network: DGPNet, runs: Mapping[str, Half], concept: Concept | None, size: tuple[int, int]) -> Parity:
    query = runs["query.onnx"]
    if concept is not None:
        return check_query(network, concept.memory, query, size).require()
    return check_halves(network, runs["support.onnx"], query, size).require()


def _times(segmenter: Segmenter, runs: Mapping[str, Half], concept: Concept | None) -> dict[str, float]:
    """Milliseconds a photograph at the model's own size, learned from one example of one class: by turns, so that
    whatever else the machine does slows both."""
    size = segmenter.network.config.size
    photos, _ = photographs((size, size))
    mask = torch.zeros(1, 1, 1, size, size)
    mask[..., size // 4 : size // 2, size // 4 : size // 2] = 1
    memory = concept.memory if concept is not None else segmenter.predictor.learn(photos[None, :1], mask)
    given = {name: tensor.numpy() for name, tensor in {"photographs": photos[2:], **state_of(memory)}.items()}
    calls: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: runs["query.onnx"](given),
        "dgpnet": lambda: segmenter.predictor.look(memory, photos[2:]),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(REPEATS + 3):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 3:  # the first ones make up their minds
                found[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in found.items()}

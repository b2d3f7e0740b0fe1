"""A network as ONNX graphs in a folder, checked with onnxruntime; needs the extra `[onnx]`."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from numpy.typing import NDArray

from dgpnet.export.check import Half, checked, photographs
from dgpnet.export.folder import About, whole_folder
from dgpnet.export.graphs import OPSET, graph_of
from dgpnet.export.halves import state_of
from dgpnet.export.tracing import Traced, Tracer
from dgpnet.segmenter import Concept, Segmenter

#: Times that a photograph is looked at to tell how long it takes, and before that.
REPEATS, WARM_UP = 20, 5


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
    with whole_folder(out) as folder:
        tracer = Tracer.of(segmenter, concept)
        halves: dict[str, Traced] = {}
        for name, trace in tracer.halves(concept).items():
            say(f"Tracing {name}")
            halves[name] = trace()
            ir.save(graph_of(halves[name]), folder / f"{name}.onnx")
        say("Comparing with PyTorch")
        runs = {name: opened(folder / f"{name}.onnx") for name in halves}
        parity = [checked(segmenter.network, runs, concept, size) for size in tracer.sizes()]
        times = _times(segmenter, runs["query"], concept) if timed else None
        versions = {"torch": torch.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
        files = {f"{name}.onnx": half for name, half in halves.items()}
        about = About(segmenter, files, {**versions, "opset": OPSET}, parity, concept, times)
        about.write(folder)
    return about


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


def _times(segmenter: Segmenter, query: Half, concept: Concept | None) -> dict[str, float]:
    """Milliseconds a photograph at the model's own size, learned from one example of one class. One runtime after
    the other: by turns, the threads of each would wait for those of the other."""
    size = segmenter.network.config.size
    photos, _ = photographs((size, size))
    mask = torch.zeros(1, 1, 1, size, size)
    mask[..., size // 4 : size // 2, size // 4 : size // 2] = 1
    memory = concept.memory if concept is not None else segmenter.predictor.learn(photos[None, :1], mask)
    given = {name: tensor.numpy() for name, tensor in {"photographs": photos[2:], **state_of(memory)}.items()}
    calls: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: query(given),
        "dgpnet": lambda: segmenter.predictor.look(memory, photos[2:]),
    }
    return {name: _milliseconds(call) for name, call in calls.items()}


def _milliseconds(call: Callable[[], object]) -> float:
    """The median, after a few calls in which libraries make up their minds."""
    times = []
    for _ in range(WARM_UP + REPEATS):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[WARM_UP:])

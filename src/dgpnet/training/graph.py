"""The training step as one CUDA graph per number of shots and size: a GPU no longer waits for many small launches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dgpnet.network import DGPNet
from dgpnet.training.step import EagerStepper, Inputs

#: Steps before one is captured: libraries choose their kernels in the first ones.
WARM_UP = 3


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    inputs: Inputs
    metrics: Tensor


class GraphStepper:
    """The same step as the eager one it is made from, replayed instead of launched. One process, one GPU.

    `state` holds every tensor that a step changes. Before a capture the step runs a few times, so that libraries choose
    their algorithms and workspaces; the state is put back afterwards, and the run goes on as if nothing had happened.
    Where capture fails, the eager step takes over with one warning.
    """

    def __init__(
        self, eager: EagerStepper, state: Mapping[str, Tensor], *, resident: bool, fuse: DGPNet | None = None
    ) -> None:
        """`resident`: photos and masks are the same tensors at every step, and need no copy for the graphs to read.
        `fuse`: the network whose convolutional parts are compiled for the capture."""
        self._eager, self._state, self._resident, self._fuse = eager, list(state.values()), resident, fuse
        self._captured: dict[tuple[int, int], _Captured] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._works = True

    def run(self, inputs: Inputs) -> Tensor:
        shape = inputs.indices.shape[1], inputs.size
        if self._works and shape not in self._captured:
            self._try_to_capture(inputs, shape)
        if not self._works:
            return self._eager.run(inputs)
        captured = self._captured[shape]
        for buffer, value in zip(captured.inputs.tensors, inputs.tensors, strict=True):
            if buffer is not value:
                buffer.copy_(value, non_blocking=True)
        captured.graph.replay()
        return captured.metrics.clone()  # the next replay writes over it

    def _try_to_capture(self, inputs: Inputs, shape: tuple[int, int]) -> None:
        before = [tensor.clone() for tensor in self._state]
        random = torch.cuda.get_rng_state()
        try:
            self._captured[shape] = self._capture(inputs)
        except RuntimeError as error:
            self._works = False
            self._captured.clear()
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            warnings.warn(f"the training step could not be captured ({reason}): it goes on as written", stacklevel=2)
        finally:
            torch.cuda.synchronize()
            for tensor, value in zip(self._state, before, strict=True):
                tensor.copy_(value)
            torch.cuda.set_rng_state(random)

    def _capture(self, inputs: Inputs) -> _Captured:
        static = inputs.of(torch.clone)
        if not self._resident:
            static = static._replace(photos=inputs.photos.clone(), masks=inputs.masks.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with compiled(self._fuse) if self._fuse is not None else nullcontext():
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    self._eager.run(static)
            torch.cuda.current_stream().wait_stream(side)
            # Gradients made inside the capture live in the graphs' pool, where the backward pass leaves them as they
            # are; gradients kept outside would cost one addition a parameter at every replay.
            self._eager.optimiser.forget_gradients()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                metrics = self._eager.run(static)
        return _Captured(graph, static, metrics)


@contextmanager
def compiled(network: DGPNet) -> Iterator[None]:
    """Inside, the convolutional parts of the network run as compiled: norms, activations and sums become one kernel.

    The Gaussian process stays as it is. What is captured inside keeps the compiled kernels; other uses of the network,
    in other shapes or in evaluation mode, should not wait for a compiler.
    """
    parts: list[nn.Module] = [m for m in (network.encoder.body, network.mask_encoder, network.decoder) if m is not None]
    for part in parts:
        part.__dict__["forward"] = torch.compile(part.forward, dynamic=False)
    try:
        yield
    finally:
        for part in parts:
            del part.__dict__["forward"]

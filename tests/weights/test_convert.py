"""Other projects' layouts: converted weights compute what the originals compute."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.images import MEAN, STD
from dgpnet.network.encoders import build_encoder
from dgpnet.weights import convert, load_state
from tests.tolerances import assert_equal


def keras_block(name: str, shape: tuple[int, int, int, int]) -> dict[str, Tensor]:
    """A random convolution (kernel as Keras has it: H, W, I, O) and its BatchNorm."""
    batch_norm = "bn_conv1" if name == "conv1" else f"bn{name.removeprefix('res')}"
    out = shape[-1]
    return {
        f"{name}/kernel": torch.randn(shape),
        f"{name}/bias": torch.randn(out),
        f"{batch_norm}/gamma": torch.rand(out) + 0.5,
        f"{batch_norm}/beta": torch.randn(out),
        f"{batch_norm}/moving_mean": torch.randn(out),
        f"{batch_norm}/moving_variance": torch.rand(out) * 0.01,
    }


def keras_compute(x: Tensor, tensors: dict[str, Tensor], name: str, batch_norm: str, stride: int, pad: int) -> Tensor:
    """What Keras computes: x (B, C, H, W) through convolution with bias and BatchNorm with epsilon 1e-3."""
    kernel = tensors[f"{name}/kernel"].permute(3, 2, 0, 1)
    x = F.conv2d(x, kernel, tensors[f"{name}/bias"], stride, pad)
    mean, variance = tensors[f"{batch_norm}/moving_mean"], tensors[f"{batch_norm}/moving_variance"]
    return F.batch_norm(x, mean, variance, tensors[f"{batch_norm}/gamma"], tensors[f"{batch_norm}/beta"], eps=1e-3)


def ours(x: Tensor, tensors: dict[str, Tensor], name: str, batch_norm: str, stride: int, pad: int) -> Tensor:
    """What PyTorch's layers compute with converted tensors (epsilon 1e-5, no bias)."""
    x = F.conv2d(x, tensors[f"{name}.weight"], None, stride, pad)
    fields = (tensors[f"{batch_norm}.{f}"] for f in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(x, *fields, eps=1e-5)


def photograph() -> tuple[Tensor, Tensor]:
    """(1, 3, 32, 32): pixels in 0..255, and the same as our encoders take them."""
    pixels = torch.randint(0, 256, (1, 3, 32, 32)).float()
    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    return pixels, (pixels / 255 - mean) / std


def inner(x: Tensor) -> Tensor:
    """Without the outputs that padding reached, where Keras' zeros are a slightly different grey."""
    return x[..., 2:-2, 2:-2]


def test_keras_stem_takes_our_input() -> None:
    tensors = keras_block("conv1", (7, 7, 3, 64))
    pixels, normalised = photograph()
    caffe = pixels.flip(1) - torch.tensor([103.939, 116.779, 123.68])[:, None, None]
    expected = keras_compute(caffe, tensors, "conv1", "bn_conv1", 2, 3)
    found = ours(normalised, convert.from_keras(tensors), "conv1", "bn1", 2, 3)
    assert_equal(inner(found), inner(expected))


@pytest.mark.parametrize(
    ("keras", "shape", "torchvision", "batch_norm"),
    [
        ("res2a_branch2a", (1, 1, 8, 4), "layer1.0.conv1", "layer1.0.bn1"),
        ("res3d_branch2b", (3, 3, 4, 4), "layer2.3.conv2", "layer2.3.bn2"),
        ("res4f_branch2c", (1, 1, 4, 8), "layer3.5.conv3", "layer3.5.bn3"),
        ("res5a_branch1", (1, 1, 4, 8), "layer4.0.downsample.0", "layer4.0.downsample.1"),
    ],
)
def test_keras_blocks(keras: str, shape: tuple[int, int, int, int], torchvision: str, batch_norm: str) -> None:
    tensors = keras_block(keras, shape)
    converted = convert.from_keras(tensors)
    x, pad = torch.randn(1, shape[2], 8, 8), shape[0] // 2
    expected = keras_compute(x, tensors, keras, f"bn{keras.removeprefix('res')}", 1, pad)
    assert_equal(ours(x, converted, torchvision, batch_norm, 1, pad), expected)


def test_another_keras_network_is_refused() -> None:
    with pytest.raises(Error, match="block1_conv1"):
        convert.from_keras({"block1_conv1/kernel": torch.zeros(3, 3, 3, 64)})
    with pytest.raises(Error, match="bn2a_branch2a/gamma"):
        convert.from_keras({"res2a_branch2a/kernel": torch.zeros(1, 1, 64, 64)})


def test_efficientnet_stem_takes_our_input() -> None:
    tensors = {"_conv_stem.weight": torch.randn(32, 3, 3, 3), "_bn0.running_mean": torch.randn(32)}
    converted = convert.from_efficientnet_lite(tensors)
    pixels, normalised = photograph()
    expected = (
        F.conv2d((pixels - 127) / 128, tensors["_conv_stem.weight"]) - tensors["_bn0.running_mean"][:, None, None]
    )
    found = F.conv2d(normalised, converted["_conv_stem.weight"]) - converted["_bn0.running_mean"][:, None, None]
    assert_equal(found, expected)


@pytest.mark.parametrize("prefix", ["", "module.", "backbone.", "module.model."])
def test_torchvision_names_lose_their_wrappers(prefix: str) -> None:
    assert list(convert.from_torchvision({f"{prefix}layer1.0.conv1.weight": torch.zeros(1)})) == [
        "layer1.0.conv1.weight"
    ]


@pytest.mark.parametrize(
    ("name", "kind", "stride_on"),
    [("resnet18", "basic", "3x3"), ("resnet50", "bottleneck", "3x3"), ("resnet50", "bottleneck", "1x1")],
)
def test_hugging_face_resnets_compute_the_same_here(name: str, kind: str, stride_on: str) -> None:
    """Another implementation agrees with ours, in both stride layouts."""
    transformers = pytest.importorskip("transformers")
    depths, widths = ([2, 2, 2, 2], 1) if kind == "basic" else ([3, 4, 6, 3], 4)
    config = transformers.ResNetConfig(
        layer_type=kind,
        depths=depths,
        hidden_sizes=[w * widths for w in (64, 128, 256, 512)],
        downsample_in_bottleneck=stride_on == "1x1",
    )
    theirs = transformers.ResNetModel(config).eval()
    with torch.no_grad():
        for key, value in theirs.named_buffers():
            if "running" in key:
                value.copy_(torch.rand_like(value) + 0.5)
        body = build_encoder(name, stride_on).eval()
        load_state(body, convert.from_huggingface(theirs.state_dict()))
        x = torch.randn(1, 3, 64, 64)
        expected = theirs(x, output_hidden_states=True).hidden_states[1:]
        for a, b in zip(body(x), expected, strict=True):
            assert_equal(a, b)


def test_hugging_face_classifier_names() -> None:
    found = convert.from_huggingface({"resnet.embedder.embedder.normalization.bias": 0, "classifier.1.weight": 1})
    assert found == {"bn1.bias": 0, "fc.weight": 1}

"""Other projects' layouts: converted weights compute what the originals compute."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.images import MEAN, STD
from dgpnet.network.encoders import build_encoder
from dgpnet.network.encoders.vision import BLOCKS, GRID, HEADS, PATCH, TAPS, WIDTH, Vision
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


def dinov2(patch: int = 14, blocks: int = BLOCKS + 1) -> dict[str, Tensor]:
    """A random ViT-S as `transformers` names it, with more blocks than are used here."""
    tensors = {
        "embeddings.cls_token": torch.randn(1, 1, WIDTH),
        "embeddings.mask_token": torch.randn(1, WIDTH),
        "embeddings.position_embeddings": 0.5 * torch.randn(1, 1 + GRID**2, WIDTH),
        "embeddings.patch_embeddings.projection.weight": torch.randn(WIDTH, 3, patch, patch) / patch,
        "embeddings.patch_embeddings.projection.bias": torch.randn(WIDTH),
        "layernorm.weight": torch.randn(WIDTH),
    }
    sides = {f"attention.attention.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
    sides |= {"attention.output.dense": (WIDTH, WIDTH), "mlp.fc1": (4 * WIDTH, WIDTH), "mlp.fc2": (WIDTH, 4 * WIDTH)}
    for i in range(blocks):
        block = f"encoder.layer.{i}."
        for name, (out, into) in sides.items():
            tensors[f"{block}{name}.weight"] = torch.randn(out, into) / into**0.5
            tensors[f"{block}{name}.bias"] = 0.1 * torch.randn(out)
        for name in ("norm1", "norm2"):
            tensors[f"{block}{name}.weight"] = torch.rand(WIDTH) + 0.5
            tensors[f"{block}{name}.bias"] = 0.1 * torch.randn(WIDTH)
        for name in ("layer_scale1", "layer_scale2"):
            tensors[f"{block}{name}.lambda1"] = 0.2 * torch.randn(WIDTH)
    return tensors


def dinov2_compute(x: Tensor, given: dict[str, Tensor]) -> dict[int, Tensor]:
    """What DINOv2 computes, x (3, H, W), in float64: tokens (1 + P, 384) after so many blocks."""
    tensors = {name: value.double() for name, value in given.items()}

    def norm(x: Tensor, name: str) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    kernel, bias = (tensors[f"embeddings.patch_embeddings.projection.{kind}"] for kind in ("weight", "bias"))
    patches = F.conv2d(x.double()[None], kernel, bias, kernel.shape[-1])[0]  # (384, rows, columns)
    first, *others = tensors["embeddings.position_embeddings"][0].split([1, GRID**2])
    places = others[0].T.unflatten(1, (GRID, GRID))[None]
    patches = patches + F.interpolate(places, patches.shape[1:], mode="bilinear", align_corners=False)[0]
    tokens = torch.cat([tensors["embeddings.cls_token"][0] + first, patches.flatten(1).T])
    found = {}
    for i in range(BLOCKS):
        block = f"encoder.layer.{i}."
        y = norm(tokens, f"{block}norm1")
        q, k, v = (linear(y, f"{block}attention.attention.{part}") for part in ("query", "key", "value"))
        heads = []
        for part in torch.arange(WIDTH).chunk(HEADS):
            chances = (q[:, part] @ k[:, part].T / len(part) ** 0.5).softmax(-1)
            heads.append(chances @ v[:, part])
        y = linear(torch.cat(heads, -1), f"{block}attention.output.dense")
        tokens = tokens + y * tensors[f"{block}layer_scale1.lambda1"]
        y = linear(norm(tokens, f"{block}norm2"), f"{block}mlp.fc1")
        y = linear(y * (1 + torch.erf(y / 2**0.5)) / 2, f"{block}mlp.fc2")
        tokens = tokens + y * tensors[f"{block}layer_scale2.lambda1"]
        found[i + 1] = tokens
    return found


def enlarged(photo: Tensor, patch: int) -> Tensor:
    """A photograph (3, H, W) with each of its patches by itself enlarged to what we take for one."""
    rows, columns = (side // patch for side in photo.shape[1:])
    patches = F.unfold(photo[None], patch, stride=patch)[0].T.reshape(-1, 3, patch, patch)
    large = F.interpolate(patches, (PATCH, PATCH), mode="bilinear", align_corners=False)
    return F.fold(large.flatten(1).T[None], (rows * PATCH, columns * PATCH), PATCH, stride=PATCH)[0]


@pytest.mark.parametrize("patch", [14, PATCH])
@pytest.mark.parametrize("prefix", ["", "backbone.", "dinov2."])
def test_dinov2_computes_the_same_here_of_enlarged_patches(
    prefix: str, patch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgpnet.network.encoders.vision.SEEN", (1, 1))  # the photograph is not shrunk here
    tensors = dinov2(patch)
    converted = convert.from_dinov2({prefix + name: value for name, value in tensors.items()})
    vision = Vision().eval().requires_grad_(False)
    load_state(vision, converted)
    photo = torch.randn(3, 2 * patch, 4 * patch)
    expected = dinov2_compute(photo, tensors)
    found = vision(enlarged(photo, patch)[None])
    assert {16, 32} == set(TAPS) == set(found)
    for stride, (blocks, length) in TAPS.items():
        patches = length * F.layer_norm(expected[blocks][1:], (WIDTH,), eps=1e-6).unflatten(0, (2, 4))
        if stride == 32:
            patches = patches.unflatten(1, (2, 2)).mean((0, 2))[None]  # of two by two
        assert_equal(found[stride][0], patches.permute(2, 0, 1))


@pytest.mark.parametrize("sides", [(14, 16), (7, 16)])
def test_a_resized_kernel_gives_of_a_plain_patch_what_the_given_one_gave(sides: tuple[int, int]) -> None:
    before, after = sides
    kernel = torch.randn(5, 3, before, before)
    resized = convert._resized_kernel(kernel, after)
    assert resized.shape == (5, 3, after, after)
    torch.testing.assert_close(resized.sum((2, 3)), kernel.sum((2, 3)), atol=1e-3, rtol=1e-3)
    patch = torch.randn(1, 3, before, before)
    large = F.interpolate(patch, (after, after), mode="bilinear", align_corners=False)
    assert_equal((resized * large).sum((1, 2, 3)), (kernel * patch).sum((1, 2, 3)))


def test_a_graph_has_the_places_unnamed_and_apart() -> None:
    tensors = dinov2()
    expected = convert.from_dinov2(tensors)
    places = tensors.pop("embeddings.position_embeddings")
    named = {"onnx::Reshape_12": places[:, 1:], "onnx::Concat_7": places[:, :1], "onnx::MatMul_3": torch.zeros(2, 2)}
    found = convert.from_dinov2({**tensors, **named})
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    del named["onnx::Concat_7"]
    with pytest.raises(Error, match="position_embeddings"):
        convert.from_dinov2({**tensors, **named})


def test_a_part_of_dinov2_is_refused() -> None:
    missing = f"encoder.layer.{BLOCKS - 1}.mlp.fc2.bias"
    tensors = dinov2(blocks=BLOCKS)
    convert.from_dinov2(tensors)  # the last blocks are not asked for
    del tensors[missing]
    with pytest.raises(Error, match=re.escape(missing)):
        convert.from_dinov2(tensors)

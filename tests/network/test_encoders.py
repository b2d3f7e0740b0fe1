"""Image encoders: finite feature maps at strides 4, 8, 16, 32, every parameter used, statistics frozen."""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.network.encoders import ENCODERS, Body, build_encoder
from dgpnet.network.encoders.efficientnet import SameConv2d
from tests.tolerances import assert_equal


def resnet_config() -> Any:
    from transformers import ResNetConfig

    return ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])


def convnext_config() -> Any:
    from transformers import ConvNextConfig

    return ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])


def swin_config() -> Any:
    from transformers import SwinConfig

    return SwinConfig(embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4)


def dinov2_config() -> Any:
    from transformers import Dinov2Config

    return Dinov2Config(hidden_size=16, num_hidden_layers=6, num_attention_heads=2, image_size=56, patch_size=14)


HUGGING_FACE: dict[str, Callable[[], Any]] = {
    "hf:resnet": resnet_config,
    "hf:convnext": convnext_config,
    "hf:swin": swin_config,
    "hf:dinov2": dinov2_config,
}
EVERY = [*ENCODERS, *HUGGING_FACE]


def build(name: str) -> Body:
    return build_encoder(name, options={"config": HUGGING_FACE[name]()} if name in HUGGING_FACE else None)


def check_features(body: Body, height: int, width: int) -> None:
    """Shapes as promised; every parameter that is trained gets a finite gradient that is not all zero."""
    features = body(torch.randn(2, 3, height, width))
    for feature, stride, channels in zip(features, body.strides, body.channels, strict=True):
        assert feature.shape == (2, channels, -(-height // stride), -(-width // stride))
        assert feature.isfinite().all()
    # Weighted by fixed random numbers: a plain sum is blind to what a final normalisation removes.
    torch.stack([(feature * torch.randn_like(feature)).sum() for feature in features]).sum().backward()
    trained = {key: p.grad for key, p in body.named_parameters() if p.requires_grad}
    assert trained
    assert not [key for key, g in trained.items() if g is None or not g.isfinite().all() or not g.any()]


@pytest.mark.parametrize("name", EVERY)
def test_features_have_the_promised_shape_and_every_parameter_a_gradient(name: str) -> None:
    body = build(name).train()
    assert body.strides == (4, 8, 16, 32)
    check_features(body, 64, 96)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "efficientnet_lite0", "vision_lite0", *HUGGING_FACE])
@pytest.mark.parametrize("strides", [(4, 8), (4, 8, 16), (4, 8, 32)])
def test_dropped_strides_leave_no_parameter_without_use(name: str, strides: tuple[int, ...]) -> None:
    whole = build(name).eval()
    body = copy.deepcopy(whole)
    body.keep(strides)
    assert body.strides == strides
    if name != "hf:dinov2":  # whose depths are shared out anew among the strides that stay
        x = torch.randn(1, 3, 64, 64)
        expected = dict(zip(whole.strides, whole(x), strict=True))
        assert all(torch.equal(f, expected[s]) for s, f in zip(strides, body(x), strict=True))
    check_features(body, 64, 64)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "efficientnet_lite0"])
def test_dropped_strides_take_their_parameters_with_them(name: str) -> None:
    with torch.device("meta"):
        body = build(name)
        whole = sum(p.numel() for p in body.parameters())
        body.keep((4, 8, 16))
    assert sum(p.numel() for p in body.parameters()) < whole / 2


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "efficientnet_lite0", "vision_lite0", "hf:resnet"])
def test_training_mode_leaves_statistics_alone(name: str) -> None:
    body = build(name).train()
    before = {key: value.clone() for key, value in body.named_buffers()}
    assert any("running_var" in key for key in before)
    body(torch.randn(1, 3, 32, 32) + 3)
    assert all(torch.equal(value, before[key]) for key, value in body.named_buffers())


def test_training_mode_returns_the_encoder_itself() -> None:
    body = build("hf:resnet")
    assert body.train() is body
    assert body.training


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("resnet18", 11.177),
        ("resnet34", 21.285),
        ("resnet50", 23.508),
        ("resnet101", 42.500),
        ("efficientnet_lite0", 2.959),
        ("efficientnet_lite1", 3.724),
        ("efficientnet_lite2", 4.358),
    ],
)
def test_size_is_the_published_one_without_classifier(name: str, millions: float) -> None:
    with torch.device("meta"):
        body = build_encoder(name)
    assert round(sum(p.numel() for p in body.parameters()) / 1e6, 3) == millions


def test_resnet_keys_are_torchvisions() -> None:
    with torch.device("meta"):
        keys = set(build_encoder("resnet50").state_dict())
    assert {"conv1.weight", "bn1.running_var", "layer1.0.downsample.0.weight", "layer4.2.bn3.bias"} <= keys
    assert "layer1.0.downsample.1.num_batches_tracked" in keys
    assert not any(key.startswith("fc") for key in keys)
    assert len(keys) == 318  # torchvision's 320 less fc.weight and fc.bias


def test_stride_layouts_share_their_weights_but_not_their_features() -> None:
    torchvision, keras = build_encoder("resnet50", "3x3").eval(), build_encoder("resnet50", "1x1").eval()
    keras.load_state_dict(torchvision.state_dict())
    x = torch.randn(1, 3, 64, 64)
    for a, b in zip(torchvision(x)[1:], keras(x)[1:], strict=True):
        assert a.shape == b.shape
        assert not torch.allclose(a, b)
    assert keras.get_submodule("layer2.0.conv1").stride == (2, 2)
    assert torchvision.get_submodule("layer2.0.conv2").stride == (2, 2)


@pytest.mark.parametrize("size", [7, 8, 9, 10])
@pytest.mark.parametrize("kernel", [3, 5])
def test_same_padding_puts_the_odd_pixel_right_and_below(size: int, kernel: int) -> None:
    convolution = SameConv2d(1, 1, kernel, 2)
    convolution.weight.data.fill_(1)
    ones = torch.ones(1, 1, size, size)
    # TensorFlow's "same": ceil(n/2) outputs, total padding max((out - 1)·2 + k - n, 0), the smaller half first.
    out = -(-size // 2)
    total = max((out - 1) * 2 + kernel - size, 0)
    rows = [sum(0 <= 2 * i - total // 2 + k < size for k in range(kernel)) for i in range(out)]
    expected = torch.tensor([[float(a * b) for b in rows] for a in rows])
    assert torch.equal(convolution(ones)[0, 0], expected)


class TestHuggingFace:
    @pytest.mark.parametrize("size", [(60, 100), (42, 42), (384, 32)])
    @pytest.mark.parametrize("name", HUGGING_FACE)
    def test_any_size_gives_the_sizes_of_the_strides(self, name: str, size: tuple[int, int]) -> None:
        body = build(name).eval()
        with torch.no_grad():
            for feature, stride in zip(body(torch.randn(1, 3, *size)), body.strides, strict=True):
                assert feature.shape[-2:] == (-(-size[0] // stride), -(-size[1] // stride))

    def test_transformer_features_grow_deeper_as_they_grow_coarser(self) -> None:
        body = build("hf:dinov2").eval()
        maps: list[Tensor] = []
        body.backbone.register_forward_hook(lambda module, x, y: maps.extend(y.feature_maps))
        features = body(torch.randn(1, 3, 56, 56))
        assert body.backbone.out_features == ["stage2", "stage3", "stage5", "stage6"]
        # Stride 14 averaged to 32 and 16 keeps the mean where it divides evenly: 4x4 patches to 2x2.
        assert_equal(features[3], torch.nn.functional.avg_pool2d(maps[3], 2))
        assert features[0].shape[-1] > maps[0].shape[-1]

    def test_options_rebuild_the_same_encoder_from_plain_json(self) -> None:
        for name in HUGGING_FACE:
            body = build(name).eval()
            again = build_encoder(name, options=json.loads(json.dumps(dict(body.options)))).eval()
            again.load_state_dict(body.state_dict())
            x = torch.randn(1, 3, 64, 64)
            assert all(torch.equal(a, b) for a, b in zip(body(x), again(x), strict=True))

    def test_a_local_folder_brings_its_weights_and_its_normalisation(self, tmp_path: Path) -> None:
        from transformers import Dinov2Model

        model = Dinov2Model(dinov2_config())
        model.save_pretrained(tmp_path)
        processor = {"image_processor_type": "BitImageProcessor", "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
        body = build_encoder(f"hf:{tmp_path}")
        own = body.backbone.state_dict()
        assert all(torch.equal(own[key], value) for key, value in model.state_dict().items())
        # Mid-grey, normalised as ImageNet, is what the model calls 0.
        seen: list[Tensor] = []
        body.backbone.register_forward_pre_hook(lambda module, x: seen.append(x[0]))
        grey = (0.5 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
        body(grey[None, :, None, None].expand(1, 3, 56, 56))
        assert_equal(seen[0], torch.zeros(1, 3, 56, 56))
        given = build_encoder(f"hf:{tmp_path}", options={"mean": [0.1] * 3, "std": [0.2] * 3})
        assert given.options["mean"] == [0.1] * 3 and given.options["std"] == [0.2] * 3

    def test_a_folder_that_holds_nothing_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Error, match=str(tmp_path)):
            build_encoder(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("name", "stride_on", "options", "named"),
    [
        ("resnet51", "3x3", {}, "resnet51"),
        ("resnet50", "2x2", {}, "2x2"),
        ("resnet50", "3x3", {"depth": 3}, "depth"),
        ("hf:tiny", "3x3", {"depth": 3}, "depth"),
    ],
)
def test_wrong_use_is_named(name: str, stride_on: str, options: Mapping[str, Any], named: str) -> None:
    with pytest.raises(Error, match=named):
        build_encoder(name, stride_on, options)

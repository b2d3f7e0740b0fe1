"""Image encoders: four finite feature maps at strides 4, 8, 16, 32, every parameter used, statistics frozen."""

import pytest
import torch

from dgpnet.errors import Error
from dgpnet.network.encoders import ENCODERS, build_encoder


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ENCODERS)
def test_features_have_the_promised_strides_and_channels_and_every_parameter_a_gradient(name: str) -> None:
    body = build_encoder(name).train()
    features = body(torch.randn(2, 3, 64, 96))
    assert body.strides == (4, 8, 16, 32)
    for feature, stride, channels in zip(features, body.strides, body.channels, strict=True):
        assert feature.shape == (2, channels, 64 // stride, 96 // stride)
        assert feature.isfinite().all()
    sum(feature.square().mean() for feature in features).backward()
    unused = [
        key for key, p in body.named_parameters() if p.grad is None or not p.grad.isfinite().all() or not p.grad.any()
    ]
    assert not unused


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_training_mode_leaves_statistics_alone(name: str) -> None:
    body = build_encoder(name).train()
    before = {key: value.clone() for key, value in body.named_buffers()}
    body(torch.randn(1, 3, 32, 32) + 3)
    assert all(torch.equal(value, before[key]) for key, value in body.named_buffers())


@pytest.mark.parametrize(
    ("name", "millions"), [("resnet18", 11.177), ("resnet34", 21.285), ("resnet50", 23.508), ("resnet101", 42.500)]
)
def test_resnet_has_the_size_of_torchvisions_without_its_classifier(name: str, millions: float) -> None:
    with torch.device("meta"):
        body = build_encoder(name)
    assert round(sum(p.numel() for p in body.parameters()) / 1e6, 3) == millions


def test_resnet_keys_are_torchvisions() -> None:
    with torch.device("meta"):
        keys = set(build_encoder("resnet50").state_dict())
    assert {
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.num_batches_tracked",
    } <= keys
    assert {"layer4.2.conv3.weight", "layer4.2.bn3.bias"} <= keys
    assert not any(key.startswith("fc") for key in keys)


def test_stride_layouts_share_their_weights_but_not_their_features() -> None:
    torchvision, keras = build_encoder("resnet50", "3x3").eval(), build_encoder("resnet50", "1x1").eval()
    keras.load_state_dict(torchvision.state_dict())
    x = torch.randn(1, 3, 64, 64)
    for a, b in zip(torchvision(x)[1:], keras(x)[1:], strict=True):
        assert a.shape == b.shape
        assert not torch.allclose(a, b)
    assert keras.get_submodule("layer2.0.conv1").stride == (2, 2)
    assert torchvision.get_submodule("layer2.0.conv2").stride == (2, 2)


@pytest.mark.parametrize(
    "arguments",
    [("resnet51",), ("resnet50", "2x2"), ("resnet50", "3x3", {"depth": 3})],
    ids=["name", "stride", "options"],
)
def test_wrong_use_is_named(arguments: tuple) -> None:
    with pytest.raises(Error, match=r"resnet51|2x2|depth"):
        build_encoder(*arguments)

"""Encoder weights: their layout and their encoder are recognised, and only what fits goes in."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dgpnet.errors import Error
from dgpnet.network import Config, DGPNet
from dgpnet.network.encoders import build_encoder
from dgpnet.network.encoders.vision import Vision
from dgpnet.weights import EncoderWeights, load_encoder, read_encoder, save_encoder
from dgpnet.weights.encoder import beside


@pytest.fixture
def torchvision(tmp_path: Path) -> Path:
    """A ResNet-18 as torchvision saves it, classifier included."""
    tensors = build_encoder("resnet18").state_dict() | {
        "fc.weight": torch.zeros(1000, 512),
        "fc.bias": torch.zeros(1000),
    }
    save_file(tensors, tmp_path / "resnet18.safetensors")
    return tmp_path / "resnet18.safetensors"


def test_a_torchvision_file_is_recognised_and_its_classifier_left_out(torchvision: Path) -> None:
    found = read_encoder(torchvision)
    assert (found.name, found.stride_on) == ("resnet18", "3x3")
    assert set(found.classifier) == {"fc.weight", "fc.bias"}
    assert found.tensors.keys() == build_encoder("resnet18").state_dict().keys()


@pytest.mark.parametrize("half", [False, True])
def test_a_converted_file_loads_into_an_encoder_and_into_a_network(torchvision: Path, half: bool) -> None:
    found = read_encoder(torchvision)
    path = torchvision.with_name("converted.safetensors")
    save_encoder(path, found, half=half)
    body = build_encoder("resnet18")
    load_encoder(body, path)
    network = DGPNet(Config(encoder="resnet18", features=8, encodings=4, decoder_width=8))
    load_encoder(network, path)
    expected = found.tensors["layer4.1.conv2.weight"]
    for module in (body, network.encoder.body):
        loaded = module.state_dict()["layer4.1.conv2.weight"]
        assert loaded.dtype == torch.float32
        assert torch.equal(loaded, expected.half().float() if half else expected)


def test_a_pickled_state_dict_loads_with_the_flag(tmp_path: Path) -> None:
    source, body = build_encoder("efficientnet_lite0"), build_encoder("efficientnet_lite0")
    torch.save(source.state_dict(), tmp_path / "lite0.pth")
    load_encoder(body, tmp_path / "lite0.pth", allow_pickle=True)
    key = "_blocks.15._project_conv.weight"
    assert torch.equal(body.state_dict()[key], source.state_dict()[key])


def test_an_encoder_without_its_deepest_stage_takes_the_rest(torchvision: Path) -> None:
    network = DGPNet(Config(encoder="resnet18", levels=(16,), features=8, encodings=4, decoder_width=8))
    assert network.encoder.body.strides == (4, 8, 16)
    load_encoder(network, torchvision)
    expected = read_encoder(torchvision).tensors["layer3.1.conv2.weight"]
    assert torch.equal(network.encoder.body.state_dict()["layer3.1.conv2.weight"], expected)


def test_an_encoder_without_its_deepest_stage_refuses_a_larger_encoders_weights(torchvision: Path) -> None:
    larger = torchvision.with_name("resnet34.safetensors")
    save_file(build_encoder("resnet34").state_dict(), larger)
    network = DGPNet(Config(encoder="resnet18", levels=(16,), features=8, encodings=4, decoder_width=8))
    with pytest.raises(Error, match=r"unexpected: layer1\.2\.") as raised:
        load_encoder(network, larger)
    assert "layer4" not in str(raised.value)


@pytest.mark.parametrize("levels", [(16, 32), (16,)])
def test_two_encoders_weights_go_into_the_one_that_has_both(tmp_path: Path, levels: tuple[int, ...]) -> None:
    deep, lite = Vision().state_dict(), build_encoder("efficientnet_lite0").state_dict()
    both = beside(deep, EncoderWeights("efficientnet_lite0", "3x3", lite, {"_fc.weight": torch.zeros(1000, 1280)}))
    save_encoder(tmp_path / "both.safetensors", both)
    assert read_encoder(tmp_path / "both.safetensors").name == both.name == "vision_lite0"
    network = DGPNet(Config(encoder="vision_lite0", levels=levels, features=8, encodings=4, decoder_width=8))
    load_encoder(network, tmp_path / "both.safetensors")
    for part, given in (("vision", deep), ("lite", lite)):
        loaded = network.encoder.body.get_submodule(part).state_dict()
        assert loaded and all(torch.equal(value, given[name]) for name, value in loaded.items())
        assert (loaded.keys() == given.keys()) == (len(levels) == 2)


def test_the_other_stride_layout_is_refused_with_the_fix(tmp_path: Path) -> None:
    with torch.device("meta"):
        body = build_encoder("resnet50", "3x3")
    tensors = {key: torch.empty(value.shape) for key, value in body.state_dict().items()}
    save_encoder(tmp_path / "keras.safetensors", EncoderWeights("resnet50", "1x1", tensors, {}))
    with pytest.raises(Error, match="stride_on='1x1'"):
        load_encoder(body, tmp_path / "keras.safetensors")


def test_another_encoders_weights_are_refused_by_name(torchvision: Path) -> None:
    with torch.device("meta"):
        body = build_encoder("resnet34")
    with pytest.raises(Error, match=r"The resnet18 weights .* missing: layer1\.2\.conv1\.weight"):
        load_encoder(body, torchvision)


def test_weights_of_no_encoder_are_refused_with_the_nearest(torchvision: Path, tmp_path: Path) -> None:
    tensors = read_encoder(torchvision).tensors
    del tensors["layer2.1.bn2.bias"]
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(Error, match=r"nearest is resnet18, but 1 missing: layer2\.1\.bn2\.bias"):
        read_encoder(tmp_path / "odd.safetensors")


@pytest.mark.parametrize("layout", ["auto", "caffe"])
def test_unknown_layouts_are_named(tmp_path: Path, layout: str) -> None:
    save_file({"blocks.0.weight": torch.zeros(1)}, tmp_path / "vit.safetensors")
    with pytest.raises(Error, match=r"blocks\.0\.weight|caffe"):
        read_encoder(tmp_path / "vit.safetensors", layout=layout)


def test_the_wrong_layout_by_name_is_refused(torchvision: Path) -> None:
    for layout in ("keras", "huggingface", "efficientnet"):
        with pytest.raises(Error, match=f"not the layout {layout}"):
            read_encoder(torchvision, layout=layout)

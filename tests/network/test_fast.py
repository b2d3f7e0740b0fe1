"""A predictor on a CPU: prepared, and the same network still."""

import copy

import pytest
import torch
from torch import nn

from dgpnet import processor
from dgpnet.errors import Error
from dgpnet.network import Config, DGPNet, fast, winograd
from dgpnet.network.fast import Predictor, half_pays
from dgpnet.network.fused import FusedConv
from dgpnet.network.prepared import PreparedConv, available
from tests.capability import needs_half
from tests.tolerances import assert_equal

CONFIG = Config(encoder="resnet50", features=16, encodings=4, decoder_width=16, size=64)


@pytest.fixture
def encoder() -> str:
    return CONFIG.encoder


@pytest.fixture
def network(encoder: str) -> DGPNet:
    torch.manual_seed(0)
    return DGPNet(CONFIG.but(encoder=encoder)).eval().requires_grad_(False)


@pytest.mark.parametrize("encoder", ["resnet50", "resnet18", "efficientnet_lite0", "vision_lite0"])
@pytest.mark.skipif(not available(), reason="this build of PyTorch has no such kernels")
def test_answers_stay_the_same_once_weights_are_prepared(network: DGPNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "pays", lambda channels_in, channels_out, height, width: height > 4)
    predictor = Predictor(network, dtype=torch.float32)
    photos, masks = torch.randn(1, 2, 3, 64, 64), torch.zeros(1, 2, 1, 64, 64)
    masks[..., 16:48, 16:48] = 1
    memory, known = predictor.learn(photos, masks), network.learn(photos, masks)
    for size in [(64, 64), (64, 64), (96, 64), (64, 64)]:
        query = torch.randn(1, 3, *size)
        logits, novelty, likeness = network.answer(known, query)
        assert_equal(predictor.predict(memory, query), logits)
        found = predictor.answer(memory, query)
        assert_equal(found[0], logits)
        assert_equal(found.novelty, novelty)
        assert_equal(found.likeness, likeness)
    again = Predictor(network, dtype=torch.float32)
    assert torch.equal(again.predict(memory, query), predictor.predict(memory, query))


def prepared(predictor: Predictor) -> bool:
    fused = [m.prepared is not None for m in predictor.network.modules() if isinstance(m, FusedConv)]
    assert len(set(fused)) == 1
    assert fused[0] == any(isinstance(m, PreparedConv) for m in predictor.network.modules())
    return fused[0]


def test_convolutions_are_prepared_where_the_library_can(network: DGPNet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepared(Predictor(network, dtype=torch.float32)) == available()
    monkeypatch.setattr(fast, "available", lambda: False)
    assert not prepared(Predictor(network, dtype=torch.float32))


@needs_half
def test_in_bfloat16_they_are_prepared_where_the_processor_has_it(
    network: DGPNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared(Predictor(network, dtype=torch.bfloat16)) == (available() and processor.half_pays())
    monkeypatch.setattr(processor, "half_pays", lambda: False)
    assert not prepared(Predictor(network, dtype=torch.bfloat16))


@pytest.mark.parametrize("encoder", ["resnet50", "resnet18", "efficientnet_lite0", "vision_lite0"])
@needs_half
def test_half_precision_around_what_stays_float32_is_near(network: DGPNet) -> None:
    predictor = Predictor(network, dtype=torch.bfloat16)
    photos, masks = torch.randn(1, 2, 3, 64, 64), torch.zeros(1, 2, 1, 64, 64)
    masks[..., 16:48, 16:48] = 1
    memory, known = predictor.learn(photos, masks), network.learn(photos, masks)
    query = torch.randn(1, 3, 96, 64)
    found, expected = predictor.predict(memory, query), network.predict(known, query)
    assert (found - expected).abs().max() < 0.5 * expected.std((-2, -1)).min()
    again = Predictor(network, dtype=torch.bfloat16)
    assert torch.equal(again.predict(memory, query), found)


def test_what_the_processor_cannot_do_is_left_out_and_refused_when_asked_for(
    network: DGPNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "half_pays", lambda: False)
    monkeypatch.setattr(processor, "half_works", lambda: False)
    assert Predictor(network).dtype == torch.float32
    with pytest.raises(Error, match="bfloat16"):
        Predictor(network, dtype=torch.bfloat16)
    assert not half_pays(torch.device("meta"))


def test_preparing_keeps_the_network_that_was_given(network: DGPNet) -> None:
    before = copy.deepcopy(network.state_dict())
    Predictor(network, dtype=torch.float32)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(isinstance(m, PreparedConv) for m in network.modules())
    assert any(isinstance(m, nn.BatchNorm2d) for m in network.modules())

"""A predictor on a CPU: prepared, and the same network still."""

import copy

import pytest
import torch
from torch import nn

from dgpnet.network import Config, DGPNet, fast, winograd
from dgpnet.network.fast import FusedConv, Predictor, half_pays, tiles_pay
from dgpnet.network.prepared import PreparedConv, available, half_prepared
from tests.tolerances import assert_equal

CONFIG = Config(encoder="resnet50", features=16, encodings=4, decoder_width=16, size=64)


@pytest.fixture
def encoder() -> str:
    return CONFIG.encoder


@pytest.fixture
def network(encoder: str) -> DGPNet:
    torch.manual_seed(0)
    return DGPNet(CONFIG.but(encoder=encoder)).eval().requires_grad_(False)


@pytest.mark.parametrize("encoder", ["resnet50", "resnet18", "efficientnet_lite0"])
@pytest.mark.skipif(not available(), reason="this build of PyTorch has no such kernels")
def test_answers_stay_the_same_once_weights_are_prepared(network: DGPNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "pays", lambda channels_in, channels_out, height, width, half: height > 4)
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
    again = copy.deepcopy(predictor)
    assert torch.equal(again.predict(memory, query), predictor.predict(memory, query))


def test_convolutions_are_prepared_where_that_is_known_to_work(
    network: DGPNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepared(predictor: Predictor) -> bool:
        fused = [m.prepared is not None for m in predictor.network.modules() if isinstance(m, FusedConv)]
        assert len(set(fused)) == 1
        assert fused[0] == any(isinstance(m, PreparedConv) for m in predictor.network.modules())
        return fused[0]

    assert prepared(Predictor(network, dtype=torch.float32)) == available()
    assert prepared(Predictor(network, dtype=torch.bfloat16)) == half_prepared()
    monkeypatch.setattr(fast, "half_prepared", lambda: False)
    assert not prepared(Predictor(network, dtype=torch.bfloat16))
    monkeypatch.setattr(fast, "available", lambda: False)
    assert not prepared(Predictor(network, dtype=torch.float32))


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("encoder", ["resnet50", "resnet18", "efficientnet_lite0"])
@pytest.mark.skipif(not half_prepared(), reason="this processor has no bfloat16")
def test_half_precision_around_what_stays_float32_is_near(
    network: DGPNet, tiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "pays", lambda channels_in, channels_out, height, width, half: half and height > 4)
    monkeypatch.setattr(fast, "tiles_pay", lambda: tiled)
    predictor = Predictor(network, dtype=torch.bfloat16)
    photos, masks = torch.randn(1, 2, 3, 64, 64), torch.zeros(1, 2, 1, 64, 64)
    masks[..., 16:48, 16:48] = 1
    memory, known = predictor.learn(photos, masks), network.learn(photos, masks)
    query = torch.randn(1, 3, 96, 64)
    found, expected = predictor.predict(memory, query), network.predict(known, query)
    assert (found - expected).abs().max() < 0.5 * expected.std((-2, -1)).min()
    again = copy.deepcopy(predictor)
    assert torch.equal(again.predict(memory, query), found)


@pytest.mark.skipif(not half_prepared(), reason="this processor has no bfloat16")
@pytest.mark.parametrize(("half", "whole", "pays"), [(1.0, 1.2, True), (1.0, 1.05, False), (2.0, 1.0, False)])
def test_half_precision_is_taken_where_it_is_clearly_quicker(
    half: float, whole: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "_seconds", lambda convolution, side: half if convolution.half else whole)
    assert half_pays(torch.device("cpu")) is pays


@pytest.mark.skipif(not half_prepared(), reason="this processor has no bfloat16")
@pytest.mark.parametrize(("tiled", "plain", "pays"), [(1.2, 1.0, True), (1.4, 1.0, False)])
def test_tiles_stay_unless_they_are_clearly_slower(
    tiled: float, plain: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "_seconds", lambda convolution, side: plain if convolution._tiled is None else tiled)
    tiles_pay.cache_clear()
    assert tiles_pay() is pays
    tiles_pay.cache_clear()


def test_trying_heeds_no_defaults_and_draws_no_chance() -> None:
    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            tiles_pay.cache_clear()
            assert half_pays(torch.device("cpu")) in (True, False)
            assert not half_prepared() or tiles_pay() in (True, False)
    finally:
        torch.set_default_dtype(torch.float32)
    assert half_pays(torch.device("meta")) is False
    assert torch.equal(torch.get_rng_state(), before)


def test_preparing_keeps_the_network_that_was_given(network: DGPNet) -> None:
    before = copy.deepcopy(network.state_dict())
    Predictor(network, dtype=torch.float32)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(isinstance(m, PreparedConv) for m in network.modules())
    assert any(isinstance(m, nn.BatchNorm2d) for m in network.modules())

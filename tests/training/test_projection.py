"""Projections that start as principal components."""

import torch

from dgpnet import data
from dgpnet.network import Config, DGPNet
from dgpnet.training.projection import SPREAD, blindness, components, start_principal
from tests.tolerances import assert_equal


def test_components_are_orthogonal_centred_and_scaled() -> None:
    x = torch.randn(500, 12, dtype=torch.float64) @ torch.randn(12, 12, dtype=torch.float64) + 3
    weight, bias = components(x, 5)
    mapped = x @ weight.T + bias
    assert_equal(mapped.mean(0), torch.zeros(5, dtype=torch.float64))
    covariance = mapped.T @ mapped / len(x)
    assert_equal(covariance, torch.diag(covariance.diagonal()))
    assert (covariance.diagonal().diff() <= 0).all()
    apart = (mapped[:, None] - mapped[None]).square().sum(-1).mean()
    assert_equal(apart, torch.tensor(SPREAD * 5**0.5, dtype=torch.float64))


def test_all_components_keep_the_geometry() -> None:
    x = torch.randn(200, 6, dtype=torch.float64)
    weight, _ = components(x, 6)
    ratio = torch.cdist(x @ weight.T, x @ weight.T) / torch.cdist(x, x).clamp(min=1e-12)
    off = ~torch.eye(200, dtype=torch.bool)
    assert_equal(ratio[off], ratio[0, 1].expand(int(off.sum())))


def test_more_components_than_channels_are_zero() -> None:
    weight, bias = components(torch.randn(50, 4, dtype=torch.float64), 7)
    assert weight.shape == (7, 4) and (weight[4:] == 0).all() and (bias[4:] == 0).all()


def test_a_network_starts_the_same_from_the_same_photographs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    dataset = data.build("synthetic", size=64, cache=tmp_path)
    config = Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=64)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        network = DGPNet(config)
        before = network.encoder.project["16"].weight.clone()
        start_principal(network, dataset, seed=0)
        assert not torch.equal(network.encoder.project["16"].weight, before)
        found.append(network.encoder.project["32"].weight.detach().clone())
    assert torch.equal(*found)


def test_a_process_that_starts_blind_is_told_of(tmp_path) -> None:  # type: ignore[no-untyped-def]
    dataset = data.build("synthetic", size=64, cache=tmp_path)
    for kernel, blind in (("se", ["stride 16", "stride 32"]), ("linear", [])):
        config = Config(encoder="resnet18", kernel=kernel, features=16, encodings=4, decoder_width=8, size=64)
        network = DGPNet(config).eval()
        start_principal(network, dataset, seed=0)
        assert blindness(network, dataset, seed=0) == []
        with torch.no_grad():
            for projection in network.encoder.project.values():
                projection.weight.mul_(30)
        assert [line.split(":")[0] for line in blindness(network, dataset, seed=0)] == blind

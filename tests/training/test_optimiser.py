"""Named, ordered groups; AdamW with a division and a veto inside."""

import pytest
import torch
from torch import nn

from dgpnet import Error
from dgpnet.network import DGPNet
from dgpnet.training.optimiser import Optimiser, parameter_groups
from tests.training.conftest import NETWORK


def _network() -> DGPNet:
    return DGPNet(NETWORK)


def test_groups_are_the_networks_parameters_in_order_each_once() -> None:
    network = _network()
    groups = parameter_groups(network, encoder=1.0, projection=2.0, rest=3.0)
    assert [(g.name, g.rate) for g in groups] == [("encoder", 1.0), ("projection", 2.0), ("rest", 3.0)]
    assert all(name.startswith("encoder.body.") for name in groups[0].parameters)
    assert all(name.startswith("encoder.project.") for name in groups[1].parameters)
    names = [name for name, _ in network.named_parameters()]
    assert sorted(names) == sorted(name for g in groups for name in g.parameters)
    for group in groups:
        assert list(group.parameters) == [name for name in names if name in group.parameters]


def test_a_frozen_encoder_has_no_group() -> None:
    network = DGPNet(NETWORK.but(freeze_encoder=True))
    assert [g.name for g in parameter_groups(network, encoder=1, projection=1, rest=1)] == ["projection", "rest"]


def test_every_group_has_the_same_weight_decay() -> None:
    optimiser = Optimiser(_network(), parameter_groups(_network(), encoder=1, projection=1, rest=1), weight_decay=1e-3)
    assert {group["weight_decay"] for group in optimiser.adamw.param_groups} == {1e-3}


def test_a_step_is_adamws_with_gradients_divided() -> None:
    torch.manual_seed(1)
    ours, theirs = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
    theirs.load_state_dict(ours.state_dict())
    optimiser = Optimiser(ours, parameter_groups(ours, encoder=0, projection=0, rest=0.01), weight_decay=0.1)
    expected = torch.optim.AdamW(theirs.parameters(), lr=0.001, weight_decay=0.1)
    optimiser.set_rates(0.1)
    for _ in range(3):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            q.grad = torch.randn_like(q)
            p.grad = 7 * q.grad
        optimiser.step(torch.tensor(7.0), skip=torch.tensor(0.0))
        expected.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_a_skipped_step_changes_nothing() -> None:
    network = nn.Linear(3, 2)
    optimiser = Optimiser(network, parameter_groups(network, encoder=0, projection=0, rest=0.01), weight_decay=0.1)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step(torch.tensor(1.0), skip=torch.tensor(0.0))
    tensors = {**network.state_dict(), **optimiser.tensors()}
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    optimiser.step(torch.tensor(1.0), skip=torch.tensor(1.0))
    for name, tensor in tensors.items():
        assert torch.equal(tensor, before[name]), name


def test_groups_of_another_network_are_refused() -> None:
    network = _network()
    optimiser = Optimiser(network, parameter_groups(network, encoder=1, projection=1, rest=1), weight_decay=0)
    optimiser.require(optimiser.describe())
    other = optimiser.describe()[::-1]
    with pytest.raises(Error, match="optimiser groups"):
        optimiser.require(other)

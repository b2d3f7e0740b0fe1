"""The moving average of the weights."""

import torch
from torch import nn

from dgpnet.training.average import Average


def test_it_follows_weights_and_running_statistics() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = Average(network)
    start = {name: tensor.clone() for name, tensor in average.tensors().items()}
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor.add_(4)
    average.set_weight(0.25)
    average.update()
    assert {"0.weight", "1.running_mean", "1.running_var"} <= set(start)
    for name, tensor in average.tensors().items():
        torch.testing.assert_close(tensor, start[name] + 1)


def test_a_weight_of_one_is_a_copy() -> None:
    network = nn.Linear(2, 2)
    average = Average(network)
    with torch.no_grad():
        network.weight.add_(1)
    average.set_weight(1.0)
    average.update()
    torch.testing.assert_close(average.tensors()["weight"], network.weight.detach())

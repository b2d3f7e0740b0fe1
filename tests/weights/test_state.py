"""Tensors into modules: everything that does not fit is named at once, and nothing changes then."""

import pytest
import torch
from torch import nn

from dgpnet.errors import Error
from dgpnet.weights import load_state
from dgpnet.weights.state import halve


def module() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def test_one_message_names_every_missing_unexpected_and_misshapen_key() -> None:
    tensors = dict(module().state_dict())
    del tensors["0.bias"], tensors["1.running_var"]
    tensors["0.weight"] = torch.zeros(4, 3, 5, 5)
    tensors |= {"head.weight": torch.zeros(1), "head.bias": torch.zeros(1)}
    with pytest.raises(Error) as raised:
        load_state(module(), tensors, what="The weights in a.pth")
    message = str(raised.value)
    for part in (
        "The weights in a.pth",
        "2 missing: 0.bias, 1.running_var",
        "2 unexpected: head.weight, head.bias",
        "1 misshapen: 0.weight (is (4, 3, 5, 5), must be (4, 3, 3, 3))",
    ):
        assert part in message
    assert "\n" not in message


def test_a_refused_load_changes_nothing() -> None:
    target = module()
    before = {key: value.clone() for key, value in target.state_dict().items()}
    with pytest.raises(Error):
        load_state(target, {**module().state_dict(), "0.bias": torch.zeros(5)})
    assert all(torch.equal(value, before[key]) for key, value in target.state_dict().items())


def test_the_counter_of_batches_may_be_missing() -> None:
    tensors = {key: value for key, value in module().state_dict().items() if "num_batches" not in key}
    target = module()
    load_state(target, tensors)
    assert torch.equal(target.state_dict()["0.weight"], tensors["0.weight"])


def test_loaded_tensors_are_copies_in_the_modules_precision() -> None:
    target, tensors = module(), halve(module().state_dict())
    load_state(target, tensors)
    assert all(p.dtype == torch.float32 for p in target.parameters())
    tensors["1.weight"].zero_()
    assert target.state_dict()["1.weight"].all()


def test_halving_spares_vectors_counters_and_what_would_overflow() -> None:
    tensors = {
        "kernel": torch.randn(4, 3, 3, 3),
        "vector": torch.randn(4),
        "count": torch.tensor(7),
        "large": torch.full((2, 2), 1e5),
    }
    halved = halve(tensors)
    assert {key: value.dtype for key, value in halved.items()} == {
        "kernel": torch.float16,
        "vector": torch.float32,
        "count": torch.int64,
        "large": torch.float32,
    }

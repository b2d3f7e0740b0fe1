"""Convolutions that are prepared for a CPU give what PyTorch's give, whatever comes when."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network import winograd
from dgpnet.network.prepared import PreparedConv, PreparedWeights, available
from tests.capability import needs_half
from tests.tolerances import assert_equal

pytestmark = pytest.mark.skipif(not available(), reason="this build of PyTorch has no such kernels")
ONCE = ((1, 1), (1, 1), (1, 1), 1)


def photo(*shape: int) -> Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_it_is_the_convolution_whatever_shape_came_before(
    tiled: bool, add: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "pays", lambda *_: tiled)
    weight, bias = torch.randn(8, 16, 3, 3), torch.randn(8)
    convolution = PreparedWeights(weight, bias, ONCE, "relu")
    for shape in [(1, 16, 48, 50), (1, 16, 48, 50), (2, 16, 9, 7), (2, 16, 39, 27), (1, 16, 48, 50)]:
        x = photo(*shape)
        z = photo(shape[0], 8, *shape[2:]) if add else None
        expected = F.conv2d(x, weight, bias, padding=1)
        expected = F.relu(expected if z is None else expected + z)
        assert_equal(convolution(x, z), expected)


def test_a_photograph_gets_the_same_answer_each_time() -> None:
    for size, kernel, tiled in (((1, 16, 64, 40), 1, False), ((1, 128, 30, 30), 3, True)):
        channels = size[1]
        weight = torch.randn(channels, channels, kernel, kernel).to(memory_format=torch.channels_last)
        how = (1, 1), (kernel // 2, kernel // 2), (1, 1), 1
        convolution = PreparedWeights(weight, torch.randn(channels), how, "relu")
        x, z = photo(*size), photo(*size)
        first = convolution(x, z.clone())
        assert tiled == (convolution._products is not None)
        convolution(photo(2, *size[1:]))
        for again in (convolution, copy.deepcopy(convolution)):
            assert torch.equal(again(x, z.clone()), first)


@pytest.mark.parametrize(("kernel", "stride", "bias"), [(1, 1, True), (1, 2, False), (3, 2, True), (3, 1, True)])
def test_a_convolution_without_activation(kernel: int, stride: int, bias: bool) -> None:
    plain = nn.Conv2d(8, 12, kernel, stride, padding=kernel // 2, bias=bias).requires_grad_(False)
    ours = PreparedConv(plain.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    x = photo(1, 8, 70, 64)
    for module in (ours, copy.deepcopy(ours)):
        for _ in range(3):
            assert_equal(module(x), plain(x))


@needs_half
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_half_precision_it_is_near_whatever_comes(dtype: torch.dtype) -> None:
    weight, bias = torch.randn(8, 16, 3, 3) / 12, torch.randn(8)
    convolution = PreparedWeights(weight, bias, ONCE, "relu", half=True)
    for shape in [(1, 16, 48, 50), (2, 16, 9, 7), (2, 16, 39, 27)]:
        x, z = photo(*shape).to(dtype), photo(shape[0], 8, *shape[2:]).to(dtype)
        expected = F.relu(F.conv2d(x.float(), weight, bias, padding=1) + z.float())
        found = convolution(x, z.clone())
        assert found.dtype == torch.bfloat16
        assert_equal(found.float(), expected, dtype=torch.bfloat16)

"""One operation for convolution, sum and ReLU: the same numbers and gradients as the three."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dgpnet.network.activated import activated, deepened, how
from tests.capability import needs_half
from tests.tolerances import assert_equal

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SHAPES = [(8, 16, 1, 1, 0), (8, 8, 3, 1, 1), (8, 16, 3, 2, 1), (3, 16, 7, 2, 3)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("shape", "shortcut"), list(itertools.product(SHAPES, [False, True])))
def test_it_is_convolution_sum_and_relu(
    device: str, shape: tuple[int, int, int, int, int], shortcut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    channels, outputs, kernel, stride, padding = shape
    convolution = nn.Conv2d(channels, outputs, kernel, stride, padding).to(device)
    x = torch.randn(2, channels, 14, 18, device=device).to(memory_format=torch.channels_last)
    z = torch.randn_like(convolution(x)) if shortcut else None
    parts = [t for t in (x, convolution.weight, convolution.bias, z) if t is not None]
    ours, plain = ([t.detach().clone().requires_grad_() for t in parts] for _ in range(2))
    found = activated(*ours[:3], how(convolution), *ours[3:])
    y = F.conv2d(*plain[:3], stride, padding)
    expected = F.relu(y + plain[3] if shortcut else y)
    assert_equal(found.detach(), expected.detach())
    weights = torch.randn_like(expected)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    for mine, its in zip(ours, plain, strict=True):
        assert mine.grad is not None and its.grad is not None
        assert_equal(mine.grad, its.grad)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_blocks_of_pixels_as_channels_give_the_same_first_convolution(layout: torch.memory_format) -> None:
    x = torch.randn(2, 3, 22, 34, dtype=torch.float64).to(memory_format=layout)
    weight = torch.randn(8, 3, 7, 7, dtype=torch.float64)
    assert_equal(F.conv2d(*deepened(x, weight)), F.conv2d(x, weight, stride=2, padding=3))


def test_its_gradient_is_the_finite_difference() -> None:
    x, weight, bias = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(4)
    z = torch.randn(2, 4, 5, 5)
    given = [t.double().requires_grad_() for t in (x, weight, bias, z)]
    around = ((1, 1), (1, 1), (1, 1), 1)
    assert torch.autograd.gradcheck(lambda x, w, b, z: activated(x, w, b, around, z), given)


@pytest.mark.parametrize("device", DEVICES)
@needs_half
def test_autocast_rounds_it_as_it_rounds_a_convolution(device: str) -> None:
    convolution = nn.Conv2d(8, 8, 3, padding=1).to(device)
    x = torch.randn(1, 8, 9, 9, device=device)
    with torch.autocast(device, torch.bfloat16):
        found = activated(x, convolution.weight, convolution.bias, how(convolution), x)
        expected = F.relu(convolution(x) + x)
    assert found.dtype == torch.bfloat16
    assert_equal(found.detach().float(), expected.detach().float(), dtype=torch.bfloat16)


def test_what_is_frozen_gets_no_gradient() -> None:
    x, weight, bias = torch.randn(1, 2, 4, 4, requires_grad=True), torch.randn(2, 2, 1, 1), torch.randn(2)
    activated(x, weight, bias, ((1, 1), (0, 0), (1, 1), 1)).sum().backward()
    assert x.grad is not None and weight.grad is None

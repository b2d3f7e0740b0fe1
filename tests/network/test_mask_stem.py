"""The beginning of the mask encoder: however it is computed, it is a convolution, a ReLU and a pooling."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.network import mask_stem
from dgpnet.network.fast import fold, fuse
from dgpnet.network.mask_stem import STEMS
from tests.capability import needs_half
from tests.tiny import tiny_network
from tests.tolerances import assert_equal

CUDA = torch.cuda.is_available() and mask_stem.AVAILABLE
WAYS = [
    "layers",
    pytest.param("kernel", marks=pytest.mark.skipif(not CUDA, reason="needs CUDA and Triton")),
]


def plainly(mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.max_pool2d(F.relu(F.conv2d(mask, weight, bias, stride=2, padding=1)), 3, 2, padding=1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(2, 1, 16, 24), (1, 1, 64, 36), (3, 1, 4, 4)])
@pytest.mark.parametrize("offset", [-1.0, 0.0, 1.0])  # a bias that reaches beyond the border would be seen there
def test_every_way_is_convolution_relu_and_pooling(way: str, shape: tuple[int, ...], offset: float) -> None:
    device = "cuda" if way == "kernel" else "cpu"
    mask, weight = (torch.rand(shape) > 0.5).float().to(device), torch.randn(16, 1, 3, 3, device=device)
    bias = offset + 0.1 * torch.randn(16, device=device)
    assert_equal(STEMS[way](mask, weight, bias), plainly(mask, weight, bias))


@needs_half
@pytest.mark.parametrize("way", WAYS)
def test_in_half_precision_too(way: str) -> None:
    device = "cuda" if way == "kernel" else "cpu"
    mask, weight = (torch.rand(2, 1, 32, 32) > 0.5).float().to(device), torch.randn(16, 1, 3, 3, device=device)
    bias = torch.randn(16, device=device)
    found = STEMS[way](*(one.bfloat16() for one in (mask, weight, bias)))
    assert found.dtype == torch.bfloat16
    assert_equal(found.float(), plainly(mask, weight, bias), dtype=torch.bfloat16)


@torch.no_grad()
def test_a_folded_mask_encoder_takes_the_way_that_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = fuse(fold(tiny_network())).mask_encoder
    assert encoder is not None
    mask = (torch.rand(2, 1, 64, 64) > 0.5).float()
    expected, taken = encoder(mask), []
    monkeypatch.setitem(STEMS, "mine", lambda *given: taken.append("mine") or STEMS["layers"](*given))
    encoder.stem = "mine"
    for level, found in encoder(mask).items():
        assert_equal(found, expected[level])
    assert taken == ["mine"]

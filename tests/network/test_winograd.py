"""Winograd's algorithm gives the convolution, of any size, one photograph or several, within float32's rounding."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.network import winograd
from tests.tolerances import assert_equal

SIZES = [(1, 3, 5, 6, 6), (2, 4, 3, 11, 13), (1, 5, 4, 1, 1), (3, 2, 2, 7, 25), (1, 8, 8, 24, 24), (1, 2, 6, 40, 5)]


def both(
    size: tuple[int, ...], dtype: torch.dtype, *, add: bool, tiles: list[int] | None = None
) -> tuple[Tensor, Tensor]:
    """What Winograd's algorithm finds, and the convolution in float64. tiles: notes how many are multiplied at once."""
    torch.manual_seed(0)
    many, inputs, outputs, height, width = size
    x = torch.randn(many, inputs, height, width, dtype=dtype).to(memory_format=torch.channels_last)
    weight, bias = torch.randn(outputs, inputs, 3, 3, dtype=dtype) / 3, torch.randn(outputs, dtype=dtype)
    z = torch.randn(many, outputs, height, width, dtype=dtype).to(memory_format=torch.channels_last) if add else None
    expected = F.conv2d(x.double(), weight.double(), bias.double(), padding=1)
    expected = F.relu(expected if z is None else expected + z)
    filters, constant = winograd.filters(weight), winograd.constant(bias)

    def multiply(values: Tensor) -> Tensor:
        if tiles is not None:
            tiles.append(values.shape[2])
        return F.conv2d(values, filters, constant, groups=winograd.SIDE**2)

    found = winograd.convolve(x, multiply, outputs, z)
    assert z is None or found is z
    return found, expected


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_it_is_the_convolution(size: tuple[int, ...], add: bool) -> None:
    found, expected = both(size, torch.float64, add=add)
    assert_equal(found, expected)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_rounding_errors_are_small() -> None:
    found, expected = both((1, 256, 256, 24, 24), torch.float32, add=True)
    assert (found - expected).abs().max() < 5e-5 * expected.abs().max()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_bands_change_nothing_and_bound_what_lies_between(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles: list[int] = []
    monkeypatch.setattr(winograd, "BAND", winograd.SIDE**2 * 4 * 6 * rows)
    found, expected = both((2, 4, 4, 50, 31), torch.float64, add=True, tiles=tiles)  # 9 × 6 tiles of 4 channels
    assert_equal(found, expected)
    assert sum(tiles) >= 2 * 9 * 6 and max(tiles) <= rows * 6


def test_it_pays_where_there_are_channels_and_tiles() -> None:
    assert winograd.pays(256, 256, 96, 96) and winograd.pays(128, 128, 48, 48) and winograd.pays(256, 256, 24, 24)
    assert not winograd.pays(64, 256, 96, 96) and not winograd.pays(256, 256, 12, 12)

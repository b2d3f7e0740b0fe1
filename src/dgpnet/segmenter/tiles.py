"""Large photographs in overlapping tiles, blended so that no seam shows."""

from __future__ import annotations

import math
from statistics import median

import torch
from torch import Tensor

#: Part of a tile that it shares with each neighbour, at least.
OVERLAP = 0.25
#: Support photographs with less than this part of a photograph's shorter side count as cut out of such photographs.
CUT_OUT = 0.75
#: Tiles have no fewer pixels a side.
SMALLEST = 32


def tile_side(size: tuple[int, int], network: int, supports: tuple[float, ...]) -> int:
    """Side of the tiles of a photograph of `size` (H, W), in its own pixels.

    Where the support photographs are much smaller than it, their side: things then have the scale at which they were
    shown. Otherwise half its shorter side, so that the network sees twice the detail, but no less than the network's
    own side, beyond which there is no detail to see.
    """
    shown = round(median(supports))
    if shown <= CUT_OUT * min(size):
        return max(SMALLEST, shown)
    return max(network, math.ceil(min(size) / 2))


def tile_corners(size: tuple[int, int], side: int) -> list[tuple[int, int]]:
    """Top left corners (y, x) of tiles of `side`² that cover `size` (H, W), evenly spread; tiles may be cut off."""
    ys, xs = (_starts(length, side) for length in size)
    return [(y, x) for y in ys for x in xs]


def _starts(length: int, side: int) -> list[int]:
    if length <= side:
        return [0]
    steps = math.ceil((length - side) / (side * (1 - OVERLAP)))
    return [round(i * (length - side) / steps) for i in range(steps + 1)]


def blend_weights(height: int, width: int, device: torch.device) -> Tensor:
    """(height, width): 1 in the middle of a tile, falling to nearly 0 at its sides."""
    ramps = []
    for length in (height, width):
        place = (torch.arange(length, device=device, dtype=torch.float32) + 0.5) / length
        ramps.append((torch.minimum(place, 1 - place) / OVERLAP).clamp(1e-3, 1))
    return ramps[0][:, None] * ramps[1]

"""Photographs brought to the network's size on a GPU, with Pillow's result to the last bit in a fraction of its time.

Pillow weighs the pixels of a row, then those of a column, or the other way round, by whole numbers, and rounds after
each. Sums of whole numbers are exact in float64, in any order, so two products of matrices come to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dgpnet.images import resize_photo

CPU = torch.device("cpu")
#: Pillow's weights are whole numbers of 2^-BITS.
BITS = 22
#: Pixels of the largest photograph that is worth taking to a GPU whole: 100 MB there; and of its longer side.
LARGEST, LONGEST = 1 << 22, 1 << 13
#: How often photographs of one size are asked for before it pays to make ready for them, and sizes that are kept so.
OFTEN, SIZES = 3, 16
#: Compute capabilities of GPUs that are made for float64 too; of others it takes thirty times and more.
DOUBLE = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})


def resized(photo: NDArray[np.uint8] | Image.Image, size: tuple[int, int], device: torch.device) -> NDArray[np.uint8]:
    """`images.resize_photo`, for a network on that device."""
    if isinstance(photo, Image.Image) or photo.shape[:2] == size or not pays(device):
        return resize_photo(photo, size)
    height, width = photo.shape[:2]
    small = height * width <= LARGEST and max(height, width) <= LONGEST
    if not small or next(_asked((height, width), size, device)) < OFTEN:
        return resize_photo(photo, size)
    try:
        rows_first = order((height, width), size, device)
        if rows_first is not None:
            return by_products(photo, size, device, rows_first=rows_first)
    except torch.OutOfMemoryError:
        pass
    return resize_photo(photo, size)


@lru_cache(maxsize=SIZES)
def _asked(old: tuple[int, int], new: tuple[int, int], device: torch.device) -> Iterator[int]:
    """Counts how often."""
    return count()


@cache
def pays(device: torch.device) -> bool:
    """Whether the device is quicker than Pillow."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) in DOUBLE


@lru_cache(maxsize=256)
def order(old: tuple[int, int], new: tuple[int, int], device: torch.device) -> bool | None:
    """Whether Pillow goes along rows first, which depends on its version and the sizes; None where neither is what it
    does, as builds of others may have it."""
    noise = np.random.default_rng(0).integers(0, 256, (*old, 3), dtype=np.uint8)
    expected = resize_photo(noise, new)
    for rows_first in (True, False):
        if np.array_equal(by_products(noise, new, device, rows_first=rows_first), expected):
            return rows_first
    return None


@torch.no_grad()
def by_products(
    photo: NDArray[np.uint8], size: tuple[int, int], device: torch.device, *, rows_first: bool
) -> NDArray[np.uint8]:
    """(H, W, 3) to (h, w, 3), computed on that device."""
    with aside(device):
        pixels = torch.from_numpy(np.require(photo, requirements=["C", "W"])).to(device)
        planes = pixels.permute(2, 0, 1).to(torch.float64, memory_format=torch.contiguous_format)
        down, across = weights(photo.shape[0], size[0], device), weights(photo.shape[1], size[1], device).mT
        found = _rounded(down @ _rounded(planes @ across)) if rows_first else _rounded(_rounded(down @ planes) @ across)
        shrunk: NDArray[np.uint8] = found.byte().permute(1, 2, 0).contiguous().cpu().numpy()
        return shrunk


@lru_cache(maxsize=2 * SIZES)
def weights(old: int, new: int, device: torch.device) -> Tensor:
    """(new, old): what each of `old` pixels in a line counts for each of `new`; whole numbers, in all about 2^BITS."""
    scale = old / new
    reach = max(scale, 1.0)
    centres = (np.arange(new) + 0.5)[:, None] * scale
    first = np.maximum((centres - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + reach + 0.5).astype(np.int64), old)
    places = np.arange(old)[None]
    near = np.maximum(1 - np.abs((places - centres + 0.5) * (1 / reach)), 0)
    near[(places < first) | (places >= last)] = 0
    shares = near / np.cumsum(near, axis=1)[:, -1:]  # one after the other, as Pillow adds
    return torch.from_numpy(np.floor(0.5 + shares * (1 << BITS))).to(device)


def aside(device: torch.device) -> AbstractContextManager[object]:
    """On CUDA a stream for nothing but this: photographs that are read ahead need not wait for the network."""
    return nullcontext() if device.type != "cuda" else torch.cuda.stream(_stream(device))


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _rounded(sums: Tensor) -> Tensor:
    return sums.add_(1 << (BITS - 1)).div_(1 << BITS).floor_().clamp_(0, 255)

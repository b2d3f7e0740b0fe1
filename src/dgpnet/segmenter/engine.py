"""The network at work: photographs and masks in, what to remember and what is seen out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.network import Config, Memory, Points
from dgpnet.network.fast import Predictor
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.streams import batches
from dgpnet.segmenter.support import Prepared, Shot, as_input, padded, prepare
from dgpnet.segmenter.tiles import blend_weights, tile_corners, tile_side

if TYPE_CHECKING:
    from dgpnet.images import ImageSource

#: Photographs that go through the network together.
BATCH = {"cuda": 16, "cpu": 4}
#: Above this many support points a level, inducing points take over: 35 photographs at 384², 20 at 512² (a quarter of
#: that where the support is sampled to stride 16).
EXACT_POINTS = 5120
#: How many inducing points then stand for the support, at each level.
INDUCING_POINTS = 1024


class Engine:
    """A predictor with what is around it. Holds no state of its own: one serves any number of concepts and threads."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    @property
    def config(self) -> Config:
        return self.predictor.config

    @property
    def device(self) -> torch.device:
        return self.predictor.device

    def batch(self, classes: int) -> int:
        """How many photographs to take through the network at once."""
        return max(1, BATCH.get(self.device.type, BATCH["cpu"]) // classes)

    def read(self, source: ImageSource, max_pixels: int = MAX_PIXELS) -> Prepared:
        """Decode a photograph and bring it to the network's size."""
        return prepare(read_photo(source, max_pixels=max_pixels), self.config)

    def as_input(self, photos: Sequence[NDArray[np.uint8]], *, count: int = 1) -> Tensor:
        """(h, w, 3) uint8 each -> (N, 3, H, W) normalised and padded, N ≥ count, on the network's device."""
        return as_input(photos, self.device, count=count)

    # -- learning ------------------------------------------------------------------------------------------------------

    def remember(self, shots: Sequence[Shot], memory: Memory | None = None) -> Memory:
        """What is known with these examples (K ≥ 1) besides those of `memory`: exact as long as they are few."""
        # What is padded must not depend on others: neighbours of one size learn together, then the next.
        runs = [self.points(list(alike)) for _, alike in groupby(shots, lambda shot: shot.masks.shape)]
        total = sum(points.most for points in runs) + (memory.points if memory else 0)
        budget = INDUCING_POINTS if total > EXACT_POINTS else None
        if memory is None:
            memory, runs = self.predictor.learn_points(runs[0], budget=budget), runs[1:]
        elif budget is not None and not memory.budgeted:
            memory = memory.within(budget)
        for points in runs:
            memory = self.predictor.extend_points(memory, points)
        return memory

    def points(self, shots: Sequence[Shot]) -> Points:
        """What there is to learn from examples of one size, encoded a few photographs at a time."""
        parts = []
        for group in batches(shots, self.batch(1)):
            masks = torch.from_numpy(np.stack([shot.masks for shot in group])).to(self.device, torch.float32)
            photos = self.as_input([shot.photo for shot in group])
            parts.append(self.predictor.points(photos[None], masks[None]))
        return Points.joined(parts)

    # -- seeing --------------------------------------------------------------------------------------------------------

    def maps(self, memory: Memory, photos: Sequence[Prepared], *, batch: int = 1) -> list[Maps]:
        """What the network says of photographs, those of one size in one batch, at the network's resolution.

        batch: how many there usually are. Fewer are filled up on CUDA, where each number is captured anew: to that, or
        to a power of two where there are several sizes.
        """
        found: dict[int, Maps] = {}
        sizes = [padded(one.photo) for one in photos]
        mixed = len(set(sizes)) > 1
        for _, alike in groupby(sorted(range(len(photos)), key=sizes.__getitem__), sizes.__getitem__):
            places = list(alike)
            count = 1
            if self.device.type == "cuda":
                count = 1 << (len(places) - 1).bit_length() if mixed else batch
            answer = self.predictor.look(memory, self.as_input([photos[i].photo for i in places], count=count))
            for i, *maps in zip(places, *Maps.of(answer), strict=False):
                height, width = photos[i].photo.shape[:2]
                found[i] = Maps(*(one[..., :height, :width] for one in maps))
        return [found[i] for i in range(len(photos))]

    def maps_of_tiles(self, memory: Memory, photo: NDArray[np.uint8], shown: Sequence[float]) -> Maps:
        """What the network says of a photograph (H, W, 3), seen in overlapping tiles, at the photograph's size.

        shown: √(H·W) of each example's photograph, from which the tiles' size follows.
        """
        size = (photo.shape[0], photo.shape[1])
        side = tile_side(size, self.config.size, tuple(shown))
        if max(size) <= side:
            return self.maps(memory, [prepare(photo, self.config)])[0]
        at_once = self.batch(memory.classes)
        sums: Maps | None = None
        total = torch.zeros(size, device=self.device)
        for corners in batches(tile_corners(size, side), at_once):
            tiles = [np.ascontiguousarray(photo[y : y + side, x : x + side]) for y, x in corners]
            found = self.maps(memory, [prepare(tile, self.config) for tile in tiles], batch=at_once)
            for (y, x), tile, maps in zip(corners, tiles, found, strict=True):
                height, width = tile.shape[:2]
                share = blend_weights(height, width, self.device)
                if sums is None:
                    sums = maps.each(lambda one: torch.zeros(*one.shape[:-2], *size, device=self.device))
                for whole, part in zip(sums, maps, strict=True):
                    whole[..., y : y + height, x : x + width] += _resized(part, (height, width)) * share
                total[y : y + height, x : x + width] += share
        assert sums is not None, "there is at least one tile"
        return sums.each(lambda one: one / total)


def _resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(..., h, w) to (..., H, W)."""
    flat = maps.reshape(1, -1, *maps.shape[-2:])
    return F.interpolate(flat, size, mode="bilinear", align_corners=False).view(*maps.shape[:-2], *size)

"""How a concept looks at photographs: in one way, or in several whose answers are averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.network import Memory
from dgpnet.network.dgpnet import below
from dgpnet.segmenter.engine import Engine, resized
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.streams import batches
from dgpnet.segmenter.support import Prepared, Shot, prepare
from dgpnet.segmenter.tiles import blend_weights, tile_corners, tile_side

if TYPE_CHECKING:
    from dgpnet.segmenter.model import Segmenter


class MissingModel(Error):
    """A concept looks with a model that is not at hand."""


@dataclass(frozen=True, eq=False)
class View:
    """One way of looking: through whose network, at which size, and what was learned so.

    segmenter   the model, or one of its own kind that was tuned to the examples
    size        side at which photographs are seen, as `Config.size`
    memory      the conditioned posterior at every level
    """

    segmenter: Segmenter
    size: int
    memory: Memory

    @property
    def engine(self) -> Engine:
        """The network at work, at this size."""
        return self.segmenter.engine.at(self.size)

    def extended(self, shots: Sequence[Shot]) -> View:
        """With more examples, at this size."""
        return replace(self, memory=self.engine.remember(shots, self.memory))

    @torch.no_grad()
    def without(self, example: int) -> View:
        """Without one of the examples."""
        return replace(self, memory=self.memory.without(example))


def look(views: Sequence[View], photos: Sequence[Prepared], *, batch: int = 1, bias: float = 0.0) -> list[Maps]:
    """What is seen in each photograph, prepared for these views; see `Engine.maps`. bias: see `joined`."""
    several = [
        view.engine.maps(view.memory, [photo.photos[i] for photo in photos], batch=batch)
        for i, view in enumerate(views)
    ]
    return [joined(maps, views, bias) for maps in zip(*several, strict=True)]


def look_in_tiles(
    views: Sequence[View], photo: NDArray[np.uint8], shown: Sequence[float], *, bias: float = 0.0
) -> Maps:
    """What is seen in a photograph (H, W, 3) in overlapping tiles, at the photograph's size.

    shown: √(H·W) of each example's photograph, from which the tiles' size follows.
    """
    first = views[0].engine
    configs = [view.engine.config for view in views]
    size = (photo.shape[0], photo.shape[1])
    side = tile_side(size, first.config.size, tuple(shown))
    if max(size) <= side:
        return look(views, [prepare(photo, *configs, device=first.device)], bias=bias)[0]
    at_once = first.batch(views[0].memory.classes)
    sums: Maps | None = None
    total = torch.zeros(size, device=first.device)
    for corners in batches(tile_corners(size, side), at_once):
        tiles = [np.ascontiguousarray(photo[y : y + side, x : x + side]) for y, x in corners]
        found = look(
            views,
            [prepare(tile, *configs, device=first.device) for tile in tiles],
            batch=first.captured(at_once),
            bias=bias,
        )
        for (y, x), tile, maps in zip(corners, tiles, found, strict=True):
            height, width = tile.shape[:2]
            share = blend_weights(height, width, first.device)
            if sums is None:
                sums = maps.each(lambda one: torch.zeros(*one.shape[:-2], *size, device=first.device))
            for whole, part in zip(sums, maps, strict=True):
                whole[..., y : y + height, x : x + width] += resized(part, (height, width)) * share
            total[y : y + height, x : x + width] += share
    assert sums is not None, "there is at least one tile"
    return sums.each(lambda one: one / total)


def joined(maps: Sequence[Maps], views: Sequence[View], bias: float = 0.0) -> Maps:
    """What several views say together, at the resolution of the finest. bias: what is added to all log-odds.

    Log-odds are averaged, each in units of its own model's temperature, and told in those of the first. Novelty and
    likeness are the first view's: what they are compared with was measured of it alone.
    """
    if len(maps) == 1:
        return maps[0]._replace(log_odds=maps[0].log_odds + bias) if bias else maps[0]
    finest = max(maps, key=lambda one: one.novelty.numel()).novelty
    size = finest.shape[0], finest.shape[1]
    temperatures = [view.segmenter.calibration.temperature for view in views]
    odds = [resized(one.log_odds, size) / heat for one, heat in zip(maps, temperatures, strict=True)]
    first = maps[0].each(lambda one: resized(one, size))
    return first._replace(log_odds=torch.stack(odds).mean(0) * temperatures[0] + bias)


def described(views: Sequence[View]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Views for a file: plain values and tensors, those of the view of number i called "i.…"."""
    told: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for i, view in enumerate(views):
        base = view.segmenter.base or view.segmenter
        told.append({"model": base.fingerprint, "size": view.size, "tuned": view.segmenter.base is not None})
        tensors |= {f"{i}.{name}": tensor for name, tensor in view.memory.tensors().items()}
        first = next(other for other in views if other.segmenter is view.segmenter)
        if view is first:  # what several views share is there once
            tensors |= {f"{i}.tuned.{name}": tensor.half() for name, tensor in view.segmenter.tuning.items()}
    return told, tensors


def restored(
    told: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], models: Sequence[Segmenter]
) -> tuple[View, ...]:
    """What `described` told. models: among which those are that the views look with; else `MissingModel`."""
    views: list[View] = []
    tuned: dict[str, Segmenter] = {}
    for i, one in enumerate(told):
        model = next((model for model in models if model.fingerprint == one["model"]), None)
        if model is None:
            raise MissingModel(
                f"The concept was fitted with a further model ({str(one['model'])[:12]}…), which is not at hand; "
                "learn it again."
            )
        own = below(tensors, str(i))
        if one["tuned"]:
            weights = {name: tensor.float() for name, tensor in below(own, "tuned").items()}
            if weights:
                tuned[model.fingerprint] = model.tuned(weights)
            model = tuned[model.fingerprint]
        memory = model.network.restore({name: t for name, t in own.items() if not name.startswith("tuned.")})
        views.append(View(model, int(one["size"]), memory))
    return tuple(views)

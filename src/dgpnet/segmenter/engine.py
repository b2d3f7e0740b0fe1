"""The network at work: photographs and masks in, what to remember and what is seen out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.network import Config, DGPNet, Memory, Points
from dgpnet.network.fast import Predictor
from dgpnet.network.graphs import Call
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.streams import batches
from dgpnet.segmenter.support import Prepared, Shot, as_input, padded, prepare, quick

if TYPE_CHECKING:
    from dgpnet.images import ImageSource

#: Photographs that go through the network together.
BATCH = {"cuda": 16, "cpu": 4}
#: Above this many support points a level, inducing points take over: 35 photographs at 384², 20 at 512² (a quarter of
#: that where the support is sampled to stride 16).
EXACT_POINTS = 5120
#: How many inducing points then stand for the support, at each level.
INDUCING_POINTS = 1024
#: Part of a support point's cell that may be ignore: where nobody said what there is, there is nothing to learn.
UNSAID = 0.5


def batch_on(kind: str, classes: int) -> int:
    """How many photographs to take through the network at once on a device of this kind ("cpu", "cuda")."""
    return max(1, BATCH.get(kind, BATCH["cpu"]) // classes)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A photograph (h, w, 3) and its features, {stride: (1, channels, H/stride, W/stride)}: tens of times smaller than
    large photographs are."""

    photo: NDArray[np.uint8]
    features: dict[int, Tensor]

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return self.photo.nbytes + sum(one.nbytes for one in self.features.values())


class Engine:
    """A predictor with what is around it. Holds no state of its own: one serves any number of concepts and threads."""

    def __init__(self, predictor: Predictor, config: Config | None = None) -> None:
        """config: the network's, or one that differs in the size at which photographs are seen."""
        self.predictor = predictor
        self.config = config or predictor.config

    def at(self, size: int) -> Engine:
        """The same, with photographs seen at another size."""
        return self if size == self.config.size else Engine(self.predictor, self.config.but(size=size))

    @property
    def device(self) -> torch.device:
        return self.predictor.device

    @property
    def call(self) -> Call:
        """How to call functions of what was found."""
        return self.predictor.call

    @property
    def further(self) -> Call:
        """The same, of functions at photographs' own sizes."""
        return self.predictor.further

    def quick(self, source: ImageSource) -> bool:
        """Whether a photograph is read in a moment; see `support.quick`."""
        return quick(source, self.device)

    def batch(self, classes: int) -> int:
        """How many photographs to take through the network at once."""
        return batch_on(self.device.type, classes)

    def captured(self, batch: int) -> int:
        """What to fill batches up to for speed alone: on CUDA each number of photographs is captured anew."""
        return batch if self.device.type == "cuda" else 1

    def read(self, source: ImageSource, max_pixels: int = MAX_PIXELS) -> Prepared:
        """Decode a photograph and bring it to the network's size."""
        return prepare(read_photo(source, max_pixels=max_pixels), self.config, device=self.device)

    def as_input(self, photos: Sequence[NDArray[np.uint8]], *, count: int = 1) -> Tensor:
        """(h, w, 3) uint8 each -> (N, 3, H, W) normalised and padded, N ≥ count, on the network's device."""
        return as_input(photos, self.device, count=count)

    # -- learning ------------------------------------------------------------------------------------------------------

    def remember(self, shots: Sequence[Shot], memory: Memory | None = None) -> Memory:
        """What is known with these examples (K ≥ 1) besides those of `memory`: exact as long as they are few."""
        # What is padded must not depend on others: neighbours of one size learn together, then the next.
        return self.remember_points(
            [run for _, alike in groupby(shots, lambda shot: shot.masks.shape) for run in self.runs(list(alike))],
            memory,
        )

    def remember_points(self, runs: Sequence[Points], memory: Memory | None = None) -> Memory:
        """`remember`, of what `runs` gave."""
        total = sum(points.most for points in runs) + (memory.points if memory else 0)
        budget = INDUCING_POINTS if total > EXACT_POINTS else None
        if memory is None:
            return learned_from(partial(self.predictor.learn_points, budget=budget), runs)
        if budget is not None and not memory.budgeted:
            memory = memory.within(budget)
        return learned_from(partial(self.predictor.extend_points, memory), runs)

    def runs(self, shots: Sequence[Shot]) -> list[Points]:
        """What there is to learn from examples of one size, encoded a few at a time; where parts of them are
        ignore, of each by itself."""
        found: list[Points] = []
        for group in batches(shots, self.batch(1)):
            masks = torch.from_numpy(np.stack([shot.masks for shot in group])).to(self.device, torch.float32)
            photos = self.as_input([shot.photo for shot in group])
            found += said(self.predictor.network, self.predictor.points(photos[None], masks[None]), group)
        return found

    # -- what is seen once and asked of often --------------------------------------------------------------------------

    def encode(self, photo: NDArray[np.uint8]) -> Encoded:
        """A photograph (h, w, 3) of the network's size through the image encoder, which takes no part in learning."""
        return Encoded(photo, self.predictor.encode(self.as_input([photo])))

    def points_of(self, encoded: Encoded, shot: Shot) -> Points:
        """What there is to learn from an example whose photograph is encoded."""
        masks = torch.from_numpy(shot.masks).to(self.device, torch.float32)
        points = self.predictor.points_of(encoded.features, masks[None, None])
        return said(self.predictor.network, points, [shot])[0]

    def look_at(self, memory: Memory, encoded: Encoded) -> Maps:
        """`maps` of an encoded photograph."""
        maps = Maps.of(self.predictor.look_at(memory, encoded.features))
        height, width = encoded.photo.shape[:2]
        return Maps(*(one[0, ..., :height, :width] for one in maps))

    # -- seeing --------------------------------------------------------------------------------------------------------

    def maps(self, memory: Memory, photos: Sequence[NDArray[np.uint8]], *, batch: int = 1) -> list[Maps]:
        """What the network says of photographs (h, w, 3) of its size, those of one shape in one batch, at the network's
        resolution.

        batch: how many there usually are. Fewer of one size are filled up to that, since their number takes part in
        rounding: so a job that goes on where it was killed comes to the same pixels. Where sizes are mixed, they are
        filled up on CUDA alone, where each number is captured anew, to a power of two.
        """
        found: dict[int, Maps] = {}
        sizes = [padded(photo) for photo in photos]
        mixed = len(set(sizes)) > 1
        for _, alike in groupby(sorted(range(len(photos)), key=sizes.__getitem__), sizes.__getitem__):
            places = list(alike)
            count = batch
            if mixed:
                count = self.captured(1 << (len(places) - 1).bit_length())
            answer = self.predictor.look(memory, self.as_input([photos[i] for i in places], count=count))
            for i, *maps in zip(places, *Maps.of(answer), strict=False):
                height, width = photos[i].shape[:2]
                found[i] = Maps(*(one[..., :height, :width] for one in maps))
        return [found[i] for i in range(len(photos))]


def resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(..., h, w) to (..., H, W), bilinearly; itself where that is its size."""
    if tuple(maps.shape[-2:]) == size:
        return maps
    flat = maps.reshape(1, -1, *maps.shape[-2:])
    return F.interpolate(flat, size, mode="bilinear", align_corners=False).view(*maps.shape[:-2], *size)


def said(network: DGPNet, points: Points, shots: Sequence[Shot]) -> list[Points]:
    """What there is to learn from these examples; where parts of them are ignore, of each by itself, less the points
    that lie mostly there. A class that would be gone with these keeps them, as does a photograph that is ignore all
    over."""
    if not any(shot.ignore.any() for shot in shots):
        return [points]
    return [_said(network, points.chosen([i]), shot) for i, shot in enumerate(shots)]


def _said(network: DGPNet, points: Points, shot: Shot) -> Points:
    ignored, painted = (torch.from_numpy(one).float() for one in (shot.ignore, shot.masks))
    branches = {}
    for name, branch in network.named_branches().items():
        x, y = points.branches[name]
        cell = branch.stride * network.config.support_step(branch.stride)
        shares = F.avg_pool2d(torch.cat([ignored[None], painted])[None], cell, ceil_mode=True)[0].flatten(1)
        kept, shown = shares[0] <= UNSAID, shares[1:] > 0
        gone = shown.any(1) & ~(shown & kept).any(1)
        kept = kept | shown[gone].any(0)
        here = (kept if kept.any() else ~kept).nonzero()[:, 0].to(x.device)
        branches[name] = x[:, :, here], y[:, :, here]
    return Points(branches, points.examples, points.classes)


def learned_from(learn: Callable[[Points], Memory], runs: Sequence[Points]) -> Memory:
    """What `learn` makes of all of them at once, though examples may have different numbers of points."""
    if all(_shapes(run) == _shapes(runs[0]) for run in runs):
        return learn(Points.joined(runs) if len(runs) > 1 else runs[0])
    return learn(Points.in_a_row(runs)).divided(runs)


def _shapes(points: Points) -> list[int]:
    """How many points each branch has of a photograph."""
    return [x.shape[2] for x, _ in points.branches.values()]

"""`Concept`: what a segmenter learned from a few masks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.network import Memory
from dgpnet.segmenter.segmentation import Maps, Segmentation, render
from dgpnet.segmenter.streams import ahead, batches
from dgpnet.segmenter.support import Prepared, Source, padded, pixels_of, prepare, read_examples
from dgpnet.segmenter.tiles import blend_weights, tile_corners, tile_side

if TYPE_CHECKING:
    from dgpnet.segmenter.model import Segmenter

#: Above this many support points a level, inducing points take over: 35 photographs at 384², 20 at 512² (a quarter of
#: that where the support is sampled to stride 16).
EXACT_POINTS = 5120
#: How many inducing points then stand for the support, at each level.
INDUCING_POINTS = 1024
#: What a concept file calls itself; a change that old readers cannot read gets another number.
FORMAT = "dgpnet.concept.1"


@dataclass(frozen=True, eq=False)
class Concept:
    """What a segmenter learned from K examples of C classes. Immutable; holds no photograph.

    memory    the conditioned posterior at every level
    classes   C names
    shown     (K, C) bool: which example shows which class
    sides     (K,) side in pixels of each example's photograph, √(H·W)
    """

    segmenter: Segmenter
    memory: Memory
    classes: tuple[str, ...]
    shown: NDArray[np.bool_]
    sides: tuple[float, ...]

    def __repr__(self) -> str:
        budgeted = f", {self.inducing_points} inducing points a level" if self.budgeted else ""
        return f"Concept({', '.join(self.classes)}; {self.examples} examples{budgeted})"

    @property
    def examples(self) -> int:
        """K."""
        return self.memory.examples

    @property
    def budgeted(self) -> bool:
        """Whether there were so many examples (over EXACT_POINTS points) that inducing points stand for them."""
        return self.memory.budgeted

    @property
    def inducing_points(self) -> int:
        """How many points stand for the support at each level; 0 where the posterior is exact."""
        posteriors = [one.posterior for one in self.memory.learned.values() if isinstance(one, LearnedGaussian)]
        return max((p.basis.shape[-2] for p in posteriors if p.residual is not None), default=0)

    # -- segmenting ----------------------------------------------------------------------------------------------------

    def segment(
        self, photo: Source, *, threshold: float | None = None, tile: bool = False, max_pixels: int = MAX_PIXELS
    ) -> Segmentation:
        """Find the classes in one photograph; everything in the result has the photograph's own size.

        threshold: the probability that a class needs to be given to a pixel; by default the most probable label wins.
        tile: see a photograph that is larger than the network's size in overlapping tiles, which keeps detail.
        """
        check_threshold(threshold)
        return self._segmentation([self._read(photo, tile, max_pixels)], threshold)[0]

    def segment_all(
        self,
        photos: Iterable[Source],
        *,
        threshold: float | None = None,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> Iterator[Segmentation]:
        """`segment` for many photographs, in order: read ahead by threads, segmented in batches, few in memory."""
        check_threshold(threshold)
        size = 1 if tile else self.segmenter.batch(len(self.classes))

        def found() -> Iterator[Segmentation]:
            with closing(ahead(photos, lambda one: self._read(one, tile, max_pixels), cost=pixels_of)) as stream:
                for group in batches((future.result() for _, future in stream), size):
                    yield from self._segmentation(group, threshold, size)

        return found()

    def _read(self, source: Source, tile: bool, max_pixels: int) -> Prepared | NDArray[np.uint8]:
        """A photograph at the network's size, or whole where it is to be seen in tiles."""
        photo = read_photo(source, max_pixels=max_pixels)
        return photo if tile else prepare(photo, self.segmenter.network.config)

    def _segmentation(
        self, group: Sequence[Prepared | NDArray[np.uint8]], threshold: float | None, batch: int = 1
    ) -> list[Segmentation]:
        whole = [one for one in group if isinstance(one, np.ndarray)]
        small = [one for one in group if isinstance(one, Prepared)]
        sizes = [(one.shape[0], one.shape[1]) for one in whole] + [one.size for one in small]
        maps = [self.maps_of_tiles(one) for one in whole] + self.maps(small, batch=batch)
        calibration = self.segmenter.calibration
        return [render(one, size, calibration, threshold=threshold) for one, size in zip(maps, sizes, strict=True)]

    def maps(self, photos: Sequence[Prepared], *, batch: int = 1) -> list[Maps]:
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
            if self.segmenter.device.type == "cuda":
                count = 1 << (len(places) - 1).bit_length() if mixed else batch
            given = self.segmenter.as_input([photos[i].photo for i in places], count=count)
            logits, novelty, likeness = self.segmenter.predictor.answer(self.memory, given)
            log_odds = logits[:, :, 1] - logits[:, :, 0]
            for i, *maps in zip(places, log_odds, novelty, likeness, strict=False):
                height, width = photos[i].photo.shape[1:]
                found[i] = Maps(*(one[..., :height, :width] for one in maps))
        return [found[i] for i in range(len(photos))]

    def maps_of_tiles(self, photo: NDArray[np.uint8]) -> Maps:
        """What the network says of a photograph (H, W, 3), seen in overlapping tiles, at the photograph's size."""
        config, device = self.segmenter.network.config, self.segmenter.device
        size = (photo.shape[0], photo.shape[1])
        side = tile_side(size, config.size, self.sides)
        if max(size) <= side:
            return self.maps([prepare(photo, config)])[0]
        classes = len(self.classes)
        sums = torch.zeros(2 * classes + 1, *size, device=device)
        total = torch.zeros(size, device=device)
        at_once = self.segmenter.batch(classes)
        for corners in batches(tile_corners(size, side), at_once):
            tiles = [np.ascontiguousarray(photo[y : y + side, x : x + side]) for y, x in corners]
            found = self.maps([prepare(tile, config) for tile in tiles], batch=at_once)
            for (y, x), tile, maps in zip(corners, tiles, found, strict=True):
                height, width = tile.shape[:2]
                all_maps = torch.cat([maps.log_odds, maps.likeness, maps.novelty[None]])
                all_maps = F.interpolate(all_maps[None], (height, width), mode="bilinear", align_corners=False)[0]
                share = blend_weights(height, width, device)
                sums[:, y : y + height, x : x + width] += all_maps * share
                total[y : y + height, x : x + width] += share
        sums /= total
        return Maps(sums[:classes], sums[-1], sums[classes:-1])

    # -- growing and shrinking -----------------------------------------------------------------------------------------

    def extend(self, photos: Iterable[Source], masks: Iterable[Source]) -> Concept:
        """With more examples of the same classes: the same as having learned from all of them at once."""
        examples, _ = read_examples(photos, masks, self.classes, self.segmenter.network.config)
        runs = [self.segmenter.points(run) for run in examples.runs()]
        memory = self.memory
        known = max((sum(one.points) for one in memory.learned.values()), default=0)
        if not self.budgeted and known + sum(map(count_points, runs)) > EXACT_POINTS:
            memory = _within_budget(memory)
        learned = memory.learned
        with torch.no_grad():
            for points in runs:
                learned = {name: one.extend(*points[name]) for name, one in learned.items()}
        return replace(
            self,
            memory=Memory(learned, memory.examples + len(examples.photos), memory.classes),
            shown=np.concatenate([self.shown, examples.shown]),
            sides=self.sides + examples.sides,
        )

    def without(self, example: int) -> Concept:
        """Without one of the examples, counted from 0 in the order in which they were given."""
        if not 0 <= example < self.examples:
            raise Error(f"The concept has examples 0 … {self.examples - 1}; there is no example {example}.")
        if self.examples == 1:
            raise Error("A concept needs at least one example; the last one cannot be taken back.")
        shown = np.delete(self.shown, example, axis=0)
        check_shown(shown, self.classes)
        with torch.no_grad():
            memory = self.memory.without(example)
        sides = self.sides[:example] + self.sides[example + 1 :]
        return replace(self, memory=memory, shown=shown, sides=sides)

    def suggest(self, photos: Iterable[Source], *, budget: int = 5) -> list[int]:
        """Which of the photographs to annotate next: indices, the most telling first."""
        return self.segmenter.order(self.segmenter.pool(photos).whole(), budget, self.memory)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the concept to one safetensors file, with the fingerprint of the model it belongs to."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.memory.tensors().items()}
        about = {
            "format": FORMAT,
            "fingerprint": self.segmenter.fingerprint,
            "classes": json.dumps(list(self.classes)),
            "shown": json.dumps(self.shown.tolist()),
            "sides": json.dumps(list(self.sides)),
        }
        with atomic(Path(path)) as temporary:
            save_file(tensors, temporary, metadata=about)

    @staticmethod
    def load(path: str | os.PathLike[str], segmenter: Segmenter) -> Concept:
        """The concept that `save` wrote, for the same model: another model's is refused."""
        path = Path(path)
        about, tensors = _read_file(path, segmenter.device)
        if about["fingerprint"] != segmenter.fingerprint:
            raise Error(
                f"{path} was learned with another model ({about['fingerprint'][:12]}…, this one is "
                f"{segmenter.fingerprint[:12]}…); load that model, or learn the concept again with this one."
            )
        try:
            shown = np.array(json.loads(about["shown"]), dtype=bool)
            classes = tuple(str(name) for name in json.loads(about["classes"]))
            sides = tuple(float(side) for side in json.loads(about["sides"]))
            memory = segmenter.network.restore(tensors)
        except (KeyError, ValueError, TypeError) as error:
            raise Error(f"{path} is a damaged concept file ({error!r}); save it again.") from error
        if shown.shape != (memory.examples, len(classes)) or memory.classes != len(classes):
            raise Error(f"{path} is a damaged concept file (its parts disagree); save it again.")
        return Concept(segmenter, memory, classes, shown, sides)


def check_threshold(threshold: float | None) -> None:
    if threshold is not None and not 0 < threshold < 1:
        raise Error(f"threshold is a probability between 0 and 1, given {threshold}; leave it out for the default.")


def check_shown(shown: NDArray[np.bool_], classes: Sequence[str]) -> None:
    missing = [name for c, name in enumerate(classes) if not shown[:, c].any()]
    if missing:
        raise Error(
            f"No mask shows {', '.join(missing)}; paint each class in at least one photograph, or leave it out."
        )


def count_points(points: dict[str, tuple[Tensor, Tensor]]) -> int:
    """Support points of a level."""
    return max((x.shape[1] * x.shape[2] for x, _ in points.values()), default=0)


def _within_budget(memory: Memory) -> Memory:
    """The same support with inducing points in place of the exact posterior."""
    learned = {
        name: replace(
            one, posterior=one.posterior.gp.condition(one.posterior.x, one.posterior.y, budget=INDUCING_POINTS)
        )
        if isinstance(one, LearnedGaussian)
        else one
        for name, one in memory.learned.items()
    }
    return Memory(learned, memory.examples, memory.classes)


def _read_file(path: Path, device: torch.device) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise Error(f"There is no concept file {path}; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT or "fingerprint" not in about:
                raise Error(f"{path} is not a concept of this version; make one with `dgpnet learn` or Concept.save.")
            return about, {name: file.get_tensor(name).to(device) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise Error(
            f"{path} is not a concept file, or damaged ({error}); make it again with `dgpnet learn`."
        ) from error

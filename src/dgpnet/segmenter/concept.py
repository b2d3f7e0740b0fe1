"""`Concept`: what a segmenter learned from a few masks."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet import checks
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.network import Memory
from dgpnet.segmenter.segmentation import Maps, Segmentation, render
from dgpnet.segmenter.streams import ahead, batches
from dgpnet.segmenter.suggest import encode, order
from dgpnet.segmenter.support import Origin, Prepared, pixels_of, prepare, read_examples
from dgpnet.weights import sealed

if TYPE_CHECKING:
    from dgpnet.images import ImageSource
    from dgpnet.segmenter.model import Segmenter

#: What a concept file calls itself; a change that old readers cannot read gets another number.
FORMAT = "dgpnet.concept.2"


@dataclass(frozen=True, eq=False)
class Concept:
    """What a segmenter learned from K examples of C classes. Immutable; holds no photograph.

    Made by `Segmenter.learn`, `extend`, `without` and `load`:

        >>> concept
        Concept(mug; 1 example)
        >>> concept.classes, concept.examples
        (('mug',), 1)

    segmenter the model that learned it
    memory    the conditioned posterior at every level
    legend    C names, and what stands for each class in masks
    origins   K times what is remembered of an example: its name, size, classes and digest
    """

    segmenter: Segmenter
    memory: Memory
    legend: Legend
    origins: tuple[Origin, ...]

    def __repr__(self) -> str:
        budgeted = f", {self.inducing_points} inducing points a level" if self.budgeted else ""
        examples = f"{self.examples} example{'s' if self.examples > 1 else ''}"
        return f"Concept({', '.join(self.classes)}; {examples}{budgeted})"

    @property
    def classes(self) -> tuple[str, ...]:
        """C names."""
        return self.legend.names

    @property
    def examples(self) -> int:
        """K."""
        return self.memory.examples

    @property
    def sides(self) -> tuple[float, ...]:
        """(K,) side in pixels of each example's photograph, √(H·W)."""
        return tuple(origin.side for origin in self.origins)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of what it was made from: model, legend, and the examples in order.

        Learned again from the same examples, or saved and loaded, it is the same.
        """
        made_from = [self.segmenter.fingerprint, self.legend.to_json(), [origin.digest for origin in self.origins]]
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()

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
        self,
        photo: ImageSource,
        *,
        threshold: float | None = None,
        min_likeness: float = 0.0,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> Segmentation:
        """Find the classes in one photograph.

        Arguments:
            photo: as `Segmenter.learn` takes it.
            threshold: the probability that a class needs to be given to a pixel, between 0 and 1; by default the most
                probable label wins.
            min_likeness: a class that looks less like what was painted (`Segmentation.class_likeness`), 0 to 1, is left
                out of the mask.
            tile: see a photograph that is larger than the network's size in overlapping tiles, which keeps detail.
            max_pixels: a photograph with more is an Error before it is decoded.

        Returns:
            masks, probabilities, uncertainty and scores; everything has the photograph's own size.

        Example:
            >>> found = concept.segment("other.jpg", threshold=0.7)
            >>> found.mask.shape, found.mask.dtype
            ((48, 64), dtype('uint8'))
        """
        how = self._how(threshold, min_likeness, tile, max_pixels)
        return self._segmentation([self._read(photo, how)], how)[0]

    @overload
    def segment_all(
        self,
        photos: Iterable[ImageSource],
        *,
        threshold: float | None = ...,
        min_likeness: float = ...,
        tile: bool = ...,
        max_pixels: int = ...,
        on_error: Literal["raise"] = ...,
    ) -> Iterator[Segmentation]: ...

    @overload
    def segment_all(
        self,
        photos: Iterable[ImageSource],
        *,
        threshold: float | None = ...,
        min_likeness: float = ...,
        tile: bool = ...,
        max_pixels: int = ...,
        on_error: Literal["return"],
    ) -> Iterator[Segmentation | Error]: ...

    def segment_all(
        self,
        photos: Iterable[ImageSource],
        *,
        threshold: float | None = None,
        min_likeness: float = 0.0,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
        on_error: Literal["raise", "return"] = "raise",
    ) -> Iterator[Segmentation] | Iterator[Segmentation | Error]:
        """`segment` for many photographs, in order: read ahead by threads, segmented in batches, few in memory.

        Arguments:
            photos: a list, or anything else that gives one photograph after another.
            threshold, min_likeness, tile, max_pixels: as for `segment`.
            on_error: "raise" ends at the first photograph that cannot be read; "return" gives its Error in its place,
                and goes on.

        Returns:
            an iterator of segmentations, one a photograph.

        Example:
            >>> [found.mask.shape for found in concept.segment_all(["mug.jpg", "other.jpg"])]
            [(48, 64), (48, 64)]
            >>> [type(found).__name__ for found in concept.segment_all(["gone.jpg", "mug.jpg"], on_error="return")]
            ['Error', 'Segmentation']
        """
        how = self._how(threshold, min_likeness, tile, max_pixels)
        checks.choice("on_error", on_error, ("raise", "return"))
        entries = checks.each("photos", photos, single=3)
        size = 1 if how.tile else self.segmenter.engine.batch(len(self.classes))

        def found() -> Iterator[Segmentation | Error]:
            with closing(ahead(entries, lambda one: self._read(one, how), cost=pixels_of)) as stream:
                for group in batches((future for _, future in stream), size):
                    failed = {i: error for i, one in enumerate(group) if isinstance(error := one.exception(), Error)}
                    if failed and on_error == "raise":
                        group = group[: min(failed)]
                    read = [future.result() for i, future in enumerate(group) if i not in failed]
                    segmented = iter(self._segmentation(read, how, size))
                    for i in range(len(group)):
                        yield failed[i] if i in failed else next(segmented)
                    if failed and on_error == "raise":
                        raise failed[min(failed)]

        return found()

    def _how(self, threshold: object, min_likeness: object, tile: object, max_pixels: object) -> _How:
        """What a caller asked for, checked."""
        how = _How(
            check_threshold(threshold),
            checks.number("min_likeness", min_likeness, 0, 1),
            checks.flag("tile", tile),
            checks.whole("max_pixels", max_pixels, 1),
        )
        if how.min_likeness and not self.segmenter.engine.config.similarity:
            raise Error("This model has no plain similarity to tell likeness by; leave min_likeness out.")
        return how

    def _read(self, source: ImageSource, how: _How) -> tuple[NDArray[np.uint8], Prepared | None]:
        """A photograph, and it at the network's size unless it is to be seen in tiles."""
        photo = read_photo(source, max_pixels=how.max_pixels)
        return photo, None if how.tile else prepare(photo, self.segmenter.engine.config)

    def _segmentation(
        self, group: Sequence[tuple[NDArray[np.uint8], Prepared | None]], how: _How, batch: int = 1
    ) -> list[Segmentation]:
        small = iter(self.maps([prepared for _, prepared in group if prepared is not None], batch=batch))
        maps = [self.maps_of_tiles(photo) if prepared is None else next(small) for photo, prepared in group]
        calibration = self.segmenter.calibration
        return [
            render(one, photo, self.legend, calibration, threshold=how.threshold, min_likeness=how.min_likeness)
            for one, (photo, _) in zip(maps, group, strict=True)
        ]

    def maps(self, photos: Sequence[Prepared], *, batch: int = 1) -> list[Maps]:
        """What the network says of photographs, at its own resolution; see `Engine.maps`."""
        return self.segmenter.engine.maps(self.memory, photos, batch=batch)

    def maps_of_tiles(self, photo: NDArray[np.uint8]) -> Maps:
        """What the network says of a photograph (H, W, 3), seen in overlapping tiles, at the photograph's size."""
        return self.segmenter.engine.maps_of_tiles(self.memory, photo, self.sides)

    # -- growing and shrinking -----------------------------------------------------------------------------------------

    def extend(self, photos: Iterable[ImageSource], masks: Iterable[ImageSource]) -> Concept:
        """With more examples of the same classes: the same as having learned from all of them at once.

        Arguments:
            photos, masks: as for `Segmenter.learn`; they need not show every class.

        Returns:
            a new concept; this one stays as it is.

        Example:
            >>> concept.extend([photo], [mask]).examples
            2
        """
        engine = self.segmenter.engine
        shots, _ = read_examples(photos, masks, self.classes, engine.config, first=self.examples)
        origins = self.origins + tuple(shot.origin for shot in shots)
        return replace(self, memory=engine.remember(shots, self.memory), origins=origins)

    def without(self, example: int) -> Concept:
        """Without one of the examples.

        Arguments:
            example: which, counted from 0 in the order in which they were given.

        Returns:
            a new concept; this one stays as it is.

        Example:
            >>> concept.extend([photo], [mask]).without(0).examples
            1
        """
        example = checks.whole("example", example, 0, self.examples - 1)
        if self.examples == 1:
            raise Error("A concept needs at least one example; the last one cannot be taken back.")
        origins = self.origins[:example] + self.origins[example + 1 :]
        check_shown(origins, self.classes)
        with torch.no_grad():
            memory = self.memory.without(example)
        return replace(self, memory=memory, origins=origins)

    def suggest(self, photos: Iterable[ImageSource], *, budget: int = 5) -> list[int]:
        """Which of the photographs to annotate next, given what is known.

        Arguments:
            photos: as `Segmenter.learn` takes them.
            budget: how many to suggest.

        Returns:
            indices into `photos`, the most telling first; all of them where there are fewer than `budget`.

        Example:
            >>> sorted(concept.suggest(["mug.jpg", "other.jpg"]))
            [0, 1]
        """
        budget = checks.whole("budget", budget, 1)
        return order(self.segmenter, encode(self.segmenter, photos).whole(), budget, self.memory)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the concept to one safetensors file, with the fingerprint of the model it belongs to.

        The same concept gives the same bytes; a file that was damaged since is refused by `load`.

        Arguments:
            path: of the file, in a folder that exists; the command line wants the suffix .concept.

        Example:
            >>> concept.save("mug.concept")
        """
        path = checks.path_of("concept", path)
        about = {
            "format": FORMAT,
            "fingerprint": self.segmenter.fingerprint,
            "legend": self.legend.to_json(),
            "origins": [asdict(origin) for origin in self.origins],
        }
        sealed.write(path, self.memory.tensors(), about)

    @staticmethod
    def load(path: str | os.PathLike[str], segmenter: Segmenter) -> Concept:
        """The concept that `save` wrote.

        Arguments:
            path: of the file.
            segmenter: the model that it was learned with; another one's is refused.

        Returns:
            the concept.

        Example:
            >>> concept.save("mug.concept")
            >>> dgpnet.Concept.load("mug.concept", segmenter).classes
            ('mug',)
        """
        from dgpnet.segmenter.model import Segmenter

        segmenter = checks.kind("segmenter", segmenter, Segmenter)
        path = checks.path_of("concept", path)
        tensors, about = sealed.read(path, "concept", device=segmenter.device)
        if about.get("format") != FORMAT or not isinstance(about.get("fingerprint"), str):
            raise Error(f"{path} is no concept of this version; make one with `dgpnet learn` or Concept.save.")
        if about["fingerprint"] != segmenter.fingerprint:
            raise Error(
                f"{path} was learned with another model ({about['fingerprint'][:12]}…, this one is "
                f"{segmenter.fingerprint[:12]}…); load that model, or learn the concept again with this one."
            )
        try:
            legend = Legend.from_json(about["legend"])
            origins = tuple(Origin(**{**one, "shown": tuple(one["shown"])}) for one in about["origins"])
            memory = segmenter.network.restore(tensors)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise Error(f"{path} is a damaged concept ({error!r:.100}); save it again.") from error
        if len(origins) != memory.examples or {memory.classes, *(len(one.shown) for one in origins)} != {
            len(legend.names)
        }:
            raise Error(f"{path} is a damaged concept (its parts disagree); save it again.")
        return Concept(segmenter, memory, legend, origins)


@dataclass(frozen=True)
class _How:
    """How to segment: the arguments of `Concept.segment`, checked."""

    threshold: float | None
    min_likeness: float
    tile: bool
    max_pixels: int


def check_threshold(threshold: object) -> float | None:
    """A probability that a class needs, or None for the default."""
    return None if threshold is None else checks.number("threshold", threshold, 0, 1, inside=True)


def check_shown(origins: Sequence[Origin], classes: Sequence[str]) -> None:
    missing = [name for c, name in enumerate(classes) if not any(origin.shown[c] for origin in origins)]
    if missing:
        raise Error(
            f"No mask shows {', '.join(missing):.300}; paint each class in at least one photograph, or leave it out."
        )

"""`Concept`: what a segmenter learned from a few masks."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet import checks
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error, Notice
from dgpnet.images import MAX_PIXELS, read_photo
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.network import Memory
from dgpnet.segmenter.estimate import Estimate, estimate, left_out
from dgpnet.segmenter.fitting import Fitted
from dgpnet.segmenter.kinship import Kinship, kinship
from dgpnet.segmenter.segmentation import Judged, Maps, Segmentation, judge, render
from dgpnet.segmenter.streams import ahead, batches
from dgpnet.segmenter.suggest import encode, order
from dgpnet.segmenter.support import Origin, Prepared, Shot, pixels_of, prepare, read_examples
from dgpnet.segmenter.views import MissingModel, View, described, look, look_in_tiles, restored
from dgpnet.weights import sealed

if TYPE_CHECKING:
    from ray.data import Dataset

    from dgpnet.images import ImageSource
    from dgpnet.segmenter.model import Segmenter

#: What a concept file calls itself: of a concept that was not fitted, and of one that was. A change that old readers
#: cannot read gets another number.
FORMAT, FITTED = "dgpnet.concept.2", "dgpnet.concept.3"


@dataclass(frozen=True, eq=False)
class Concept:
    """What a segmenter learned from K examples of C classes. Immutable; holds no photograph.

    Made by `Segmenter.learn`, `extend`, `without` and `load`:

        >>> concept
        Concept(mug; 1 example)
        >>> concept.classes, concept.examples
        (('mug',), 1)

    segmenter the model that learned it
    views     how it looks at photographs, and what it learned so; one, unless it was fitted
    legend    C names, and what stands for each class in masks
    origins   K times what is remembered of an example: its name, size, classes and digest
    shots     for each view the K examples as they were read; None where it comes from a file
    told      the estimate as it stands in a file, or as fitting found it
    fitted    what fitting chose; None where it was not fitted
    """

    segmenter: Segmenter
    views: tuple[View, ...]
    legend: Legend
    origins: tuple[Origin, ...]
    shots: tuple[tuple[Shot, ...], ...] | None = field(default=None, repr=False)
    told: Estimate | None = None
    fitted: Fitted | None = None

    def __repr__(self) -> str:
        budgeted = f", {self.inducing_points} inducing points a level" if self.budgeted else ""
        examples = f"{self.examples} example{'s' if self.examples > 1 else ''}"
        fitted = ", fitted" if self.fitted is not None else ""
        return f"Concept({', '.join(self.classes)}; {examples}{budgeted}{fitted})"

    @property
    def classes(self) -> tuple[str, ...]:
        """C names."""
        return self.legend.names

    @property
    def memory(self) -> Memory:
        """The conditioned posterior of the first view, at every level."""
        return self.views[0].memory

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
        made_from: list[Any] = [
            self.segmenter.fingerprint,
            self.legend.to_json(),
            [origin.digest for origin in self.origins],
        ]
        if self.fitted is not None:
            made_from += [self.fitted.bias, *([view.segmenter.fingerprint, view.size] for view in self.views)]
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

    @cached_property
    def kin(self) -> Kinship | None:
        """How like each other its examples are; None for models without plain similarity."""
        return kinship(self.memory, self.segmenter.calibration.presence)

    @property
    def tells_presence(self) -> bool:
        """Whether it tells how probable it is that a class is in a photograph at all."""
        calibration = self.segmenter.calibration
        return None not in (self.kin, calibration.presence, calibration.quality)

    @cached_property
    def estimate(self) -> Estimate | None:
        """The IoU to expect: each example is predicted from the others when this is asked for first.

        None with one example, or where a concept from a file was extended since: learn from all of them then. Where a
        decoder was tuned to the examples it stays the one of then: of examples that it knows a decoder says too much.

            >>> concept.extend(["other.jpg"], [mask]).estimate
            Estimate(mean=..., low=..., high=..., classes=(...,), examples=(...))
        """
        if self.told is not None or self.shots is None or self.examples == 1 or self._tuned:
            return self.told
        return estimate(left_out(self.views, self.shots, self.bias), len(self.classes))

    @property
    def _tuned(self) -> bool:
        return any(view.segmenter.base is not None for view in self.views)

    @property
    def bias(self) -> float:
        """What fitting found best to add to log-odds."""
        return 0.0 if self.fitted is None else self.fitted.bias

    # -- segmenting ----------------------------------------------------------------------------------------------------

    def segment(
        self,
        photo: ImageSource,
        *,
        threshold: float | None = None,
        min_likeness: float = 0.0,
        keep_all: bool = False,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> Segmentation:
        """Find the classes in one photograph.

        Arguments:
            photo: as `Segmenter.learn` takes it.
            threshold: the probability that a class needs to be given to a pixel, between 0 and 1; by default more than
                the background has. Of several classes that have it, the neighbourhood helps to choose.
            min_likeness: a class that looks less like what was painted (`Segmentation.class_likeness`), 0 to 1, is left
                out of the mask.
            keep_all: leave nothing out for being probably not there at all (`Segmentation.class_presence` below one
                half), which is the default.
            tile: see a photograph that is larger than the network's size in overlapping tiles, which keeps detail.
            max_pixels: a photograph with more is an Error before it is decoded.

        Returns:
            masks, probabilities, uncertainty and scores; everything has the photograph's own size.

        Example:
            >>> found = concept.segment("other.jpg", threshold=0.7)
            >>> found.mask.shape, found.mask.dtype
            ((48, 64), dtype('uint8'))
        """
        how = self._how(threshold, min_likeness, keep_all, tile, max_pixels)
        return self._segmentation([self._read(photo, how)], how)[0]

    @overload
    def segment_all(
        self,
        photos: Iterable[ImageSource],
        *,
        threshold: float | None = ...,
        min_likeness: float = ...,
        keep_all: bool = ...,
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
        keep_all: bool = ...,
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
        keep_all: bool = False,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
        on_error: Literal["raise", "return"] = "raise",
    ) -> Iterator[Segmentation] | Iterator[Segmentation | Error]:
        """`segment` for many photographs, in order: read ahead by threads, segmented in batches, few in memory.

        Arguments:
            photos: a list, or anything else that gives one photograph after another.
            threshold, min_likeness, keep_all, tile, max_pixels: as for `segment`.
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
        how = self._how(threshold, min_likeness, keep_all, tile, max_pixels)
        checks.choice("on_error", on_error, ("raise", "return"))
        entries = checks.each("photos", photos, single=3)
        size = 1 if how.tile else self.segmenter.engine.batch(len(self.classes))

        def found() -> Iterator[Segmentation | Error]:
            with closing(
                ahead(entries, lambda one: self._read(one, how), cost=pixels_of, quick=self.segmenter.engine.quick)
            ) as stream:
                for group in batches((future for _, future in stream), size):
                    failed = {i: error for i, one in enumerate(group) if isinstance(error := one.exception(), Error)}
                    if failed and on_error == "raise":
                        group = group[: min(failed)]
                    read = [future.result() for i, future in enumerate(group) if i not in failed]
                    segmented = iter(self._segmentation(read, how, self.segmenter.engine.captured(size)))
                    for i in range(len(group)):
                        yield failed[i] if i in failed else next(segmented)
                    if failed and on_error == "raise":
                        raise failed[min(failed)]

        return found()

    def map(
        self,
        dataset: Dataset,
        *,
        column: str = "image",
        threshold: float | None = None,
        min_likeness: float = 0.0,
        keep_all: bool = False,
        tile: bool = False,
        max_pixels: int = MAX_PIXELS,
        workers: int | tuple[int, int] = (1, 64),
        per_gpu: int = 1,
        processors: int | None = None,
    ) -> Dataset:
        """`segment` for a dataset of Ray Data: lazily, on all machines of the cluster, in actors that hold the concept
        once each, with as much under way as Ray Data lets wait. `pip install 'dgpnet[scale]'` brings Ray.

        Arguments:
            dataset: with a column of photographs: arrays (H, W, 3), bytes of image files, paths, or addresses
                ("s3://bucket/mug.jpg").
            column: the name of that column.
            threshold, min_likeness, keep_all, tile, max_pixels: as for `segment`.
            workers: how many actors, or at least and at most how many.
            per_gpu: actors that share a GPU, where the cluster has any.
            processors: that an actor takes where it has none; by default four, or fewer where machines are smaller.

        Returns:
            the dataset with further columns: mask (H, W) uint8, score, likeness and presence; and error, which is ""
            where all is well. Where it is not, it says why, the mask is empty and the numbers are 0.

        Example:
            >>> dataset = concept.map(ray.data.read_images("s3://bucket/trip"))  # doctest: +SKIP
            >>> dataset.drop_columns(["image"]).write_parquet("s3://bucket/found")  # doctest: +SKIP
        """
        from dgpnet.segmenter.datasets import mapped

        how = asdict(self._how(threshold, min_likeness, keep_all, tile, max_pixels))
        return mapped(self, dataset, how, column=column, workers=workers, per_gpu=per_gpu, processors=processors)

    def _how(self, threshold: object, min_likeness: object, keep_all: object, tile: object, max_pixels: object) -> _How:
        """What a caller asked for, checked."""
        how = _How(
            check_threshold(threshold),
            checks.number("min_likeness", min_likeness, 0, 1),
            checks.flag("keep_all", keep_all),
            checks.flag("tile", tile),
            checks.whole("max_pixels", max_pixels, 1),
        )
        if how.min_likeness and not self.segmenter.engine.config.similarity:
            raise Error("This model has no plain similarity to tell likeness by; leave min_likeness out.")
        return how

    def _read(self, source: ImageSource, how: _How) -> tuple[NDArray[np.uint8], Prepared | None]:
        """A photograph, and it at the network's size unless it is to be seen in tiles."""
        photo = read_photo(source, max_pixels=how.max_pixels)
        return photo, None if how.tile else self.prepare(photo)

    def _segmentation(
        self, group: Sequence[tuple[NDArray[np.uint8], Prepared | None]], how: _How, batch: int = 1
    ) -> list[Segmentation]:
        small = iter(self.maps([prepared for _, prepared in group if prepared is not None], batch=batch))
        maps = [self.maps_of_tiles(photo) if prepared is None else next(small) for photo, prepared in group]
        return render(
            maps,
            self.judge(maps, threshold=how.threshold, keep_all=how.keep_all),
            [photo for photo, _ in group],
            self.legend,
            self.segmenter.calibration,
            threshold=how.threshold,
            min_likeness=how.min_likeness,
            keep_all=how.keep_all,
            call=self.segmenter.engine.further,
        )

    def judge(self, maps: Sequence[Maps], *, threshold: float | None = None, keep_all: bool = False) -> list[Judged]:
        """How sure it is of what it saw in photographs; see `segmentation.judge`."""
        return judge(
            maps,
            self.segmenter.calibration,
            threshold=threshold,
            kin=self.kin,
            keep_all=keep_all,
            call=self.segmenter.engine.call,
        )

    def prepare(self, photo: NDArray[np.uint8] | Image.Image) -> Prepared:
        """A photograph, (H, W, 3) or in RGB, at the sizes at which it is seen."""
        return prepare(photo, *(view.engine.config for view in self.views), device=self.segmenter.device)

    def maps(self, photos: Sequence[Prepared], *, batch: int = 1) -> list[Maps]:
        """What is seen in photographs, at the network's own resolution; see `views.look`."""
        return look(self.views, photos, batch=batch, bias=self.bias)

    def maps_of_tiles(self, photo: NDArray[np.uint8]) -> Maps:
        """What is seen in a photograph (H, W, 3) in overlapping tiles, at the photograph's size."""
        return look_in_tiles(self.views, photo, self.sides, bias=self.bias)

    def using(self, dtype: torch.dtype) -> Concept:
        """The same with convolutions of that type."""
        return self._with(lambda segmenter: segmenter.using(dtype), self.views)

    def on(self, device: torch.device) -> Concept:
        """The same on another device; itself where it is there."""
        if self.segmenter.device == device:
            return self
        views = [replace(view, memory=view.memory.each(lambda tensor: tensor.to(device))) for view in self.views]
        return self._with(lambda segmenter: segmenter.on(device), views)

    def _with(self, change: Callable[[Segmenter], Segmenter], views: Sequence[View]) -> Concept:
        """With these views, and other models in place of its own; what views share, they go on sharing."""
        models = {id(one): one for one in (self.segmenter, *(view.segmenter for view in views))}
        changed = {number: change(one) for number, one in models.items()}
        seen = tuple(replace(view, segmenter=changed[id(view.segmenter)]) for view in views)
        return replace(self, segmenter=changed[id(self.segmenter)], views=seen)

    # -- growing and shrinking -----------------------------------------------------------------------------------------

    def extend(self, photos: Iterable[ImageSource], masks: Iterable[ImageSource]) -> Concept:
        """With more examples of the same classes: the same as having learned from all of them at once.

        What was fitted stays as it was fitted; a Notice says when there are so many more that fitting anew would pay.

        Arguments:
            photos, masks: as for `Segmenter.learn`; they need not show every class.

        Returns:
            a new concept; this one stays as it is.

        Example:
            >>> concept.extend([photo], [mask]).examples
            2
        """
        configs = [view.engine.config for view in self.views]
        device = self.segmenter.device
        several, _ = read_examples(photos, masks, self.classes, *configs, device=device, first=self.examples)
        origins = self.origins + tuple(shot.origin for shot in several[0])
        views = tuple(view.extended(shots) for view, shots in zip(self.views, several, strict=True))
        shots = self.shots and tuple((*old, *new) for old, new in zip(self.shots, several, strict=True))
        if self.fitted is not None and self.fitted.outgrown(len(origins)) and not self.fitted.outgrown(self.examples):
            said = f"The concept was fitted to {self.fitted.examples} examples and has {len(origins)} now"
            warnings.warn(Notice(f"{said}: learning from all of them with fit=True would pay."), stacklevel=2)
        told = self.told if self._tuned else None
        return replace(self, views=views, origins=origins, shots=shots, told=told)

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
        views = tuple(view.without(example) for view in self.views)
        shots = self.shots and tuple((*some[:example], *some[example + 1 :]) for some in self.shots)
        left = self.told.without(self.origins[example].name) if self.told and self._tuned and len(origins) > 1 else None
        return replace(self, views=views, origins=origins, shots=shots, told=left)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, as a file holds it: without the examples, but with the estimate that they give, which
        nobody could find without them. It is found now unless it was asked for before; see `portable.traveller`."""
        return {**self.__dict__, "told": self.estimate, "shots": None}

    def __copy__(self) -> Concept:
        """Itself: nothing changes it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Concept:
        """Itself, the model too: nothing changes either."""
        return self

    def suggest(self, photos: Iterable[ImageSource], *, budget: int = 5) -> list[int]:
        """Which of the photographs to annotate next, given what is known: what each would tell about all of them, times
        the probability that it shows any of the classes, where the model can tell that.

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
        return order(self.segmenter, encode(self.segmenter, photos, self).whole(), budget, self.memory)

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
        about: dict[str, Any] = {
            "format": FORMAT if self.fitted is None else FITTED,
            "fingerprint": self.segmenter.fingerprint,
            "legend": self.legend.to_json(),
            "origins": [asdict(origin) for origin in self.origins],
            "estimate": None if self.estimate is None else asdict(self.estimate),
        }
        tensors = self.memory.tensors()
        if self.fitted is not None:
            told, tensors = described(self.views)
            about |= {"fitted": asdict(self.fitted), "views": told}
        sealed.write(path, tensors, about)

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
        if about.get("format") not in (FORMAT, FITTED) or not isinstance(about.get("fingerprint"), str):
            raise Error(f"{path} is no concept of this version; make one with `dgpnet learn` or Concept.save.")
        if about["fingerprint"] != segmenter.fingerprint:
            raise Error(
                f"{path} was learned with another model ({about['fingerprint'][:12]}…, this one is "
                f"{segmenter.fingerprint[:12]}…); load that model, or learn the concept again with this one."
            )
        try:
            legend = Legend.from_json(about["legend"])
            origins = tuple(Origin(**{**one, "shown": tuple(one["shown"])}) for one in about["origins"])
            told = Estimate.from_json(about.get("estimate"))
            fitted = Fitted.from_json(about.get("fitted"))
            views: tuple[View, ...]
            if fitted is None:
                views = (View(segmenter, segmenter.network.config.size, segmenter.network.restore(tensors)),)
            else:
                views = restored(about["views"], tensors, [segmenter, *segmenter.voters()])
        except MissingModel:
            raise
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise Error(f"{path} is a damaged concept ({error!r:.100}); save it again.") from error
        counts = {(view.memory.examples, view.memory.classes) for view in views}
        if counts != {(len(origins), len(legend.names))} or any(len(o.shown) != len(legend.names) for o in origins):
            raise Error(f"{path} is a damaged concept (its parts disagree); save it again.")
        return Concept(segmenter, views, legend, origins, told=told, fitted=fitted)


@dataclass(frozen=True)
class _How:
    """How to segment: the arguments of `Concept.segment`, checked."""

    threshold: float | None
    min_likeness: float
    keep_all: bool
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


def anew(concept: Concept, order: Sequence[int], names: Sequence[str]) -> Concept | None:
    """A concept learned from scratch from its own examples in that order, called by these names: what `Segmenter.learn`
    gives for them, to the last bit. None where they are not at hand, or it was fitted."""
    if concept.shots is None or concept.fitted is not None:
        return None
    (view,), (shots,) = concept.views, concept.shots
    named = tuple(replace(shots[i], origin=replace(shots[i].origin, name=names[i])) for i in order)
    views = (replace(view, memory=view.engine.remember(named)),)
    return replace(concept, views=views, origins=tuple(shot.origin for shot in named), shots=(named,), told=None)

"""The folder job: masks for any number of photographs, in constant memory, resumable.

threads decode  →  the network segments batches  →  threads write

What the device does is asked for a batch at a time, in few calls: between them, threads want Python's lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations import FORMATS, Item, SupportSet, export, outlines
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.images import COMPRESSION, MAX_PIXELS, open_photo, read_mask, write_mask
from dgpnet.pictures import overlay, save
from dgpnet.segmenter.concept import Concept, check_threshold
from dgpnet.segmenter.ledger import Entry, Ledger, stamp
from dgpnet.segmenter.photographs import Photograph
from dgpnet.segmenter.report import for_review, thumbnail, write_report, write_summary, write_thumbnails
from dgpnet.segmenter.segmentation import Judged, Maps, enlarge, judge, leave_out
from dgpnet.segmenter.streams import Background, ahead, batches
from dgpnet.segmenter.support import Prepared, pixels_of, prepare

Advance = Callable[[int, int], None]
#: A likeness that tells little of what was painted; what has how much of it: docs/results/default-model.md.
UNLIKE = 0.2


@dataclass(frozen=True)
class Options:
    """What a job writes and how; results of different options never share a folder.

    format        "coco", "labelme", "yolo" or "labelstudio" besides the index PNGs
    overlay       photographs with their masks drawn in
    uncertainty   8-bit PNGs, 255 where the label is surely wrong
    instances     connected parts of a class told apart: 16-bit PNGs, and one object each in `format`
    threshold     probability that a class needs; None: the most probable label wins
    tile          overlapping tiles for photographs larger than the network's size
    max_pixels    photographs with more are refused before they are decoded
    min_likeness  a class that is less like what was painted is taken out of a photograph's mask; all else that is said
                  of the photograph stays that of what was found
    """

    format: str | None = None
    overlay: bool = False
    uncertainty: bool = False
    instances: bool = False
    threshold: float | None = None
    tile: bool = False
    max_pixels: int = MAX_PIXELS
    min_likeness: float = 0.0

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if not 0 <= self.min_likeness <= 1:
            raise Error(f"min-likeness lies between 0 and 1; given {self.min_likeness}.")
        if self.max_pixels < 1:
            raise Error(f"max-pixels is a number of pixels, at least 1; given {self.max_pixels}.")
        if self.format is not None and self.format not in FORMATS:
            raise Error(f"There is no format {self.format!r}; formats are {', '.join(FORMATS)}.")


@dataclass(frozen=True)
class Outcome:
    """What a job did: how many photographs are done in all, how many of them before, and what failed and why."""

    done: int
    before: int
    failures: dict[str, str]
    unlike: int
    """Photographs in which something was found with a likeness below UNLIKE; 0 where that is left out anyway."""
    stopped: str | None = None
    """Why the job ended before its end (a full disk), in a sentence."""


class Unwritable(Exception):
    """A result could not be written: no use in going on, since the next one could not either."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """A photograph on its way to the network; the whole of it only where the options need it."""

    photo: Photograph
    prepared: Prepared
    thumbnail: Image.Image
    whole: NDArray[np.uint8] | None
    stamp: tuple[int, int]
    seconds: float


@dataclass(frozen=True, eq=False)
class Result:
    """What is written of a photograph: mask and, where asked for, uncertainty (H, W); how sure the network is."""

    mask: NDArray[np.uint8]
    uncertainty: NDArray[np.uint8] | None
    judged: Judged
    classes: int
    seconds: float


class Job:
    """One output folder. Opening it refuses, before any work, a folder that was made with something else."""

    def __init__(self, out: str | os.PathLike[str], *, support: str, model: str, options: Options) -> None:
        """support, model: fingerprints of what the masks are made with."""
        self.out = Path(out)
        self.options = options
        self.about: dict[str, Any] = {"version": 1, "support": support, "model": model, "options": asdict(options)}
        self.ledger = Ledger(self.out, self.about)

    def run(self, concept: Concept, photographs: Sequence[Photograph], *, advance: Advance | None = None) -> Outcome:
        """Segment what is not done yet, then write summary, annotations and report of all that is done."""
        if self.options.min_likeness and not concept.segmenter.network.config.similarity:
            raise Error("This model has no plain similarity to tell likeness by; leave --min-likeness out.")
        todo = [photo for photo in photographs if not self._is_done(photo)]
        before = len(photographs) - len(todo)
        failures: dict[str, str] = {}
        stopped: str | None = None
        if todo:
            concept = self._in_the_same_precision(concept)
        try:
            with self.ledger:
                self._segment_all(concept, todo, failures, lambda n: advance and advance(before + n, len(photographs)))
            self._finish(concept, failures)
        except Unwritable as error:
            stopped = f"{error} What is done stays; run the same command again to go on."
        entries = self.ledger.entries.values()
        unlike = [entry for entry in entries if any(entry.areas) and entry.likeness < UNLIKE]
        told = concept.segmenter.network.config.similarity and self.options.min_likeness < UNLIKE
        return Outcome(len(entries), before, failures, len(unlike) if told else 0, stopped)

    def _in_the_same_precision(self, concept: Concept) -> Concept:
        """The concept in the precision that the job began with, though another may be quicker here and now."""
        if self.ledger.precision is None:
            self.ledger.precision = str(concept.segmenter.predictor.dtype).removeprefix("torch.")
            return concept
        return replace(concept, segmenter=concept.segmenter.using(getattr(torch, self.ledger.precision)))

    def _is_done(self, photo: Photograph) -> bool:
        return self.ledger.is_done(photo) and self._path("masks", photo.key, ".png").exists()

    def _path(self, kind: str, key: str, suffix: str) -> Path:
        path = self.out / kind / f"{key}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _segment_all(
        self,
        concept: Concept,
        photographs: Sequence[Photograph],
        failures: dict[str, str],
        advance: Callable[[int], object],
    ) -> None:
        """Read, segment and write, each overlapping the others; what cannot be read goes to `failures`."""

        def decode(photo: Photograph) -> Decoded:
            return self._decode(concept, photo)

        stream = ahead(photographs, decode, cost=lambda photo: pixels_of(photo.path))
        size = 1 if self.options.tile else concept.segmenter.batch(len(concept.classes))
        seen = 0
        with Background() as writers, closing(stream):
            for group in batches(stream, size):
                readable: list[Decoded] = []
                for photo, future in group:
                    try:
                        readable.append(future.result())
                    except (Error, OSError, MemoryError) as error:
                        failures[photo.name] = _sentence(photo, error)
                for decoded, result in self._results(concept, readable, size, failures):
                    writers.put(partial(self._write, decoded, result), result.mask.size)
                seen += len(group)
                advance(seen)

    # -- the three stages ----------------------------------------------------------------------------------------------

    def _decode(self, concept: Concept, photo: Photograph) -> Decoded:
        start = time.perf_counter()
        mark = stamp(photo.path)
        image = open_photo(photo.path, max_pixels=self.options.max_pixels)
        whole = np.array(image) if self.options.tile or self.options.overlay else None
        prepared = prepare(image, concept.segmenter.network.config)
        return Decoded(photo, prepared, thumbnail(image), whole, mark, time.perf_counter() - start)

    def _results(
        self, concept: Concept, group: list[Decoded], batch: int, failures: dict[str, str]
    ) -> Iterator[tuple[Decoded, Result]]:
        """What the network finds in each; a batch too large for the device is cut in half."""
        if not group:
            return
        start = time.perf_counter()
        too_large = False
        try:
            maps = self._maps(concept, group, batch)
            judged = judge(maps, concept.segmenter.calibration, threshold=self.options.threshold)
        except torch.OutOfMemoryError as error:
            if len(group) == 1 and batch == 1:
                failures[group[0].photo.name] = _sentence(group[0].photo, error)
                return
            too_large = True  # and not here: the exception holds on to what the failed attempt had
        if too_large:
            half = (batch + 1) // 2
            for part in batches(group, half):
                yield from self._results(concept, part, half, failures)
            return
        seconds = (time.perf_counter() - start) / len(group)
        for decoded, of_one, sure in zip(group, maps, judged, strict=True):
            yield decoded, self._result(concept, decoded, of_one, sure, seconds)

    def _maps(self, concept: Concept, group: list[Decoded], batch: int) -> list[Maps]:
        if self.options.tile:
            return [concept.maps_of_tiles(one.whole) for one in group if one.whole is not None]
        return concept.maps([one.prepared for one in group], batch=batch)

    def _result(self, concept: Concept, decoded: Decoded, maps: Maps, judged: Judged, seconds: float) -> Result:
        """At the photograph's own size only what is written in it."""
        start = time.perf_counter()
        found = enlarge(
            maps,
            decoded.prepared.size,
            concept.segmenter.calibration,
            threshold=self.options.threshold,
            keep=["mask", "uncertainty"] if self.options.uncertainty else ["mask"],
        )
        uncertainty = (found["uncertainty"] * 255).round().byte().cpu().numpy() if self.options.uncertainty else None
        mask = found["mask"].cpu().numpy()
        leave_out(mask, judged.class_likeness, self.options.min_likeness)
        return Result(mask, uncertainty, judged, len(concept.classes), seconds + time.perf_counter() - start)

    def _write(self, decoded: Decoded, result: Result) -> None:
        """All files of one photograph, and then its entry in the ledger."""
        start = time.perf_counter()
        key, judged = decoded.photo.key, result.judged
        try:
            write_mask(self._path("masks", key, ".png"), result.mask)
            if self.options.instances:
                _write_grey(self._path("instances", key, ".png"), instance_numbers(result.mask))
            if decoded.whole is not None and self.options.overlay:
                save(overlay(decoded.whole, result.mask), self._path("overlays", key, ".jpg"))
            if result.uncertainty is not None:
                _write_grey(self._path("uncertainty", key, ".png"), result.uncertainty)
            write_thumbnails(self.out / "report", key, decoded.thumbnail, result.mask, judged.uncertainty)
            height, width = decoded.prepared.size
            self.ledger.add(
                Entry(
                    name=decoded.photo.name,
                    key=key,
                    path=str(decoded.photo.path.resolve()),
                    stamp=decoded.stamp,
                    width=width,
                    height=height,
                    score=judged.score,
                    uncertainty=judged.mean_uncertainty,
                    novelty=judged.mean_novelty,
                    likeness=judged.likeness,
                    areas=tuple(Image.fromarray(result.mask).histogram()[1 : result.classes + 1]),
                    seconds=decoded.seconds + result.seconds + time.perf_counter() - start,
                )
            )
        except (Error, OSError) as error:
            raise Unwritable(_sentence(decoded.photo, error)) from error

    def _finish(self, concept: Concept, failures: dict[str, str]) -> None:
        """What needs all photographs together."""
        entries = for_review(self.ledger.entries.values())
        try:
            with atomic(self.out / "classes.json") as temporary:
                temporary.write_text(json.dumps(list(concept.classes)))
            write_summary(self.out, self.about, concept.classes, entries, failures)
            if self.options.format:
                self._export(self.options.format, concept.classes, entries)
            title = f"{', '.join(concept.classes)} in {len(entries)} photographs"
            write_report(self.out / "report", title, concept.classes, entries, failures)
        except (Error, OSError) as error:
            raise Unwritable(str(error)) from error

    def _export(self, format: str, classes: Sequence[str], entries: Sequence[Entry]) -> None:
        """The masks once more in another format, read back one at a time."""
        items = (
            Item(entry.name, read_mask(self._path("masks", entry.key, ".png")), entry.score)
            for entry in sorted(entries, key=lambda entry: entry.name)
        )
        folder = self.out / "annotations"
        folder.mkdir(exist_ok=True)
        export(format, folder, classes, items, instances=self.options.instances)


def support_fingerprint(support: SupportSet) -> str:
    """SHA-256 of everything that is learned from: class names, photographs and masks."""
    digest = hashlib.sha256(json.dumps(support.classes).encode())
    for example in support.examples:
        for part in (example.photo.read_bytes(), example.mask.tobytes()):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def instance_numbers(mask: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """mask: (H, W) -> (H, W): connected parts of each class numbered from 1, the largest first; 0 is background.

    Parts beyond 65,535 do not fit into 16 bits and stay 0.
    """
    parts = [part for value in np.unique(mask[mask > 0]) for part in outlines.parts(mask == value)]
    parts.sort(key=lambda part: -int(part.pixels.sum()))
    numbers = np.zeros(mask.shape, dtype=np.uint16)
    for number, (top, left, pixels) in enumerate(parts[: 2**16 - 1], 1):
        height, width = pixels.shape
        numbers[top : top + height, left : left + width][pixels] = number
    return numbers


def _write_grey(path: Path, values: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    with atomic(path) as temporary:
        Image.fromarray(values).save(temporary, compress_level=COMPRESSION)


def _sentence(photo: Photograph, error: BaseException) -> str:
    """What went wrong, naming the file."""
    if isinstance(error, OSError):
        return f"{error.filename or photo.path}: {error.strerror or error}."
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"{photo.path} does not fit into memory; shrink it, or set a lower limit of pixels."
    return str(error)

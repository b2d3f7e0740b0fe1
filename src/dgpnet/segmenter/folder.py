"""The folder job: masks for any number of photographs, in constant memory, resumable.

threads decode  →  the network segments batches  →  threads write
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
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
from dgpnet.images import MAX_PIXELS, read_mask, read_photo, resize_photo, write_mask
from dgpnet.pictures import overlay, save
from dgpnet.segmenter.concept import Concept, check_threshold
from dgpnet.segmenter.ledger import Entry, Ledger, stamp
from dgpnet.segmenter.photographs import Photograph
from dgpnet.segmenter.report import for_review, thumbnail_size, write_report, write_summary, write_thumbnails
from dgpnet.segmenter.segmentation import Maps, Rendered, render
from dgpnet.segmenter.streams import Background, ahead, batches
from dgpnet.segmenter.support import Prepared, pixels_of, prepare

Advance = Callable[[int, int], None]


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
    """

    format: str | None = None
    overlay: bool = False
    uncertainty: bool = False
    instances: bool = False
    threshold: float | None = None
    tile: bool = False
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
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
    stopped: str | None = None
    """Why the job ended before its end (a full disk), in a sentence."""


class Unwritable(Exception):
    """A result could not be written: no use in going on, since the next one could not either."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """A photograph on its way to the network; the whole of it only where the options need it."""

    photo: Photograph
    prepared: Prepared
    thumbnail: NDArray[np.uint8]
    whole: NDArray[np.uint8] | None
    stamp: tuple[int, int]
    seconds: float


@dataclass(frozen=True, eq=False)
class Result:
    """What is written of a photograph: mask and uncertainty at its own size, and as thumbnails."""

    mask: NDArray[np.uint8]
    uncertainty: NDArray[np.uint8] | None
    small_mask: NDArray[np.uint8]
    small_uncertainty: NDArray[np.float32]
    found: Rendered
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
        todo = [photo for photo in photographs if not self._is_done(photo)]
        before = len(photographs) - len(todo)
        failures: dict[str, str] = {}
        stopped: str | None = None
        try:
            with self.ledger:
                self._segment_all(concept, todo, failures, lambda n: advance and advance(before + n, len(photographs)))
            self._finish(concept, failures)
        except Unwritable as error:
            stopped = f"{error} What is done stays; run the same command again to go on."
        return Outcome(len(self.ledger.entries), before, failures, stopped)

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
                start = time.perf_counter()
                for decoded, maps in self._maps(concept, readable, failures):
                    seconds = (time.perf_counter() - start) / len(readable)
                    finish = partial(self._render, concept, decoded, maps, seconds)
                    if maps.log_odds.is_cuda:  # no thread may use the device while another captures a graph on it
                        finish = partial(_given, finish())
                    pixels = decoded.prepared.size[0] * decoded.prepared.size[1]
                    writers.put(partial(self._write, decoded, finish), pixels)
                seen += len(group)
                advance(seen)

    # -- the three stages ----------------------------------------------------------------------------------------------

    def _decode(self, concept: Concept, photo: Photograph) -> Decoded:
        start = time.perf_counter()
        mark = stamp(photo.path)
        whole = read_photo(photo.path, max_pixels=self.options.max_pixels)
        prepared = prepare(whole, concept.segmenter.network.config)
        thumbnail = resize_photo(whole, thumbnail_size(prepared.size))
        needed = self.options.tile or self.options.overlay
        return Decoded(photo, prepared, thumbnail, whole if needed else None, mark, time.perf_counter() - start)

    def _maps(self, concept: Concept, group: list[Decoded], failures: dict[str, str]) -> Iterator[tuple[Decoded, Maps]]:
        """What the network says of each; a batch too large for the device is cut in half."""
        if not group:
            return
        try:
            if self.options.tile:
                yield from ((one, concept.maps_of_tiles(one.whole)) for one in group if one.whole is not None)
            else:
                yield from zip(group, concept.maps([one.prepared for one in group]), strict=True)
        except torch.OutOfMemoryError as error:
            if len(group) == 1:
                failures[group[0].photo.name] = _sentence(group[0].photo, error)
                return
            half = len(group) // 2
            yield from self._maps(concept, group[:half], failures)
            yield from self._maps(concept, group[half:], failures)

    def _render(self, concept: Concept, decoded: Decoded, maps: Maps, seconds: float) -> Result:
        start = time.perf_counter()
        calibration, threshold = concept.segmenter.calibration, self.options.threshold
        keep = ["mask", "uncertainty"] if self.options.uncertainty else ["mask"]
        found = render(maps, decoded.prepared.size, calibration, threshold=threshold, keep=keep)
        small = render(
            maps, decoded.thumbnail.shape[:2], calibration, threshold=threshold, keep=["mask", "uncertainty"]
        )
        fine = (found.uncertainty * 255).round().byte().cpu().numpy() if self.options.uncertainty else None
        return Result(
            found.mask.cpu().numpy(),
            fine,
            small.mask.cpu().numpy(),
            small.uncertainty.cpu().numpy(),
            found,
            seconds + time.perf_counter() - start,
        )

    def _write(self, decoded: Decoded, finish: Callable[[], Result]) -> None:
        """All files of one photograph, and then its entry in the ledger."""
        result = finish()
        start = time.perf_counter()
        key, found = decoded.photo.key, result.found
        try:
            write_mask(self._path("masks", key, ".png"), result.mask)
            if self.options.instances:
                _write_deep(self._path("instances", key, ".png"), instance_numbers(result.mask))
            if self.options.overlay and decoded.whole is not None:
                save(overlay(decoded.whole, result.mask), self._path("overlays", key, ".jpg"))
            if result.uncertainty is not None:
                with atomic(self._path("uncertainty", key, ".png")) as temporary:
                    Image.fromarray(result.uncertainty).save(temporary)
            write_thumbnails(self.out / "report", key, decoded.thumbnail, result.small_mask, result.small_uncertainty)
            height, width = decoded.prepared.size
            self.ledger.add(
                Entry(
                    name=decoded.photo.name,
                    key=key,
                    path=str(decoded.photo.path.resolve()),
                    stamp=decoded.stamp,
                    width=width,
                    height=height,
                    score=found.score,
                    uncertainty=found.mean_uncertainty,
                    novelty=found.mean_novelty,
                    areas=found.areas,
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


def _given(result: Result) -> Result:
    return result


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


def _write_deep(path: Path, values: NDArray[np.uint16]) -> None:
    with atomic(path) as temporary:
        Image.fromarray(values).save(temporary)


def _sentence(photo: Photograph, error: BaseException) -> str:
    """What went wrong, naming the file."""
    if isinstance(error, OSError):
        return f"{error.filename or photo.path}: {error.strerror or error}."
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"{photo.path} does not fit into memory; shrink it, or set a lower limit of pixels."
    return str(error)

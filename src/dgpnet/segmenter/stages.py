"""What a worker does with photographs: threads decode  →  the network segments batches  →  threads write.

A worker knows the concept and where results go, and nothing of the job's record: it answers an `Entry` for each
photograph, and whoever drives the job records it. What the device does is asked for a batch at a time, in few calls:
between them, threads want Python's lock.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dgpnet import storage
from dgpnet.annotations import Example
from dgpnet.errors import Error
from dgpnet.images import IGNORE, encoded, open_photo
from dgpnet.pictures import overlay
from dgpnet.places import Place
from dgpnet.segmenter import masks
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.engine import batch_on
from dgpnet.segmenter.entries import Entry, Stamp, stamp
from dgpnet.segmenter.figures import Figures
from dgpnet.segmenter.landing import landed
from dgpnet.segmenter.ledger import mask_of
from dgpnet.segmenter.options import Options
from dgpnet.segmenter.outputs import counts, grey, numbered, parts
from dgpnet.segmenter.photographs import Photograph
from dgpnet.segmenter.report import thumbnail, thumbnails
from dgpnet.segmenter.segmentation import Judged, Maps, enlarge, leave_out
from dgpnet.segmenter.streams import Background, ahead, batches
from dgpnet.segmenter.support import Prepared, pixels_of

#: Bytes that the name of a file may have on common disks, its suffix left out.
LONGEST_NAME = 251
#: Pixels that a byte of a photograph stands for where nobody has looked, as in JPEGs.
PIXELS_A_BYTE = 8
#: Pixels that a side of a JPEG can have.
LONGEST_JPEG = 65_500


class Unwritable(Exception):
    """A result could not be written: no use in going on, since the next one could not either."""


@dataclass(frozen=True)
class Task:
    """A photograph to segment. written: digest of the mask that a job wrote of it; None where none did, or a person."""

    photo: Photograph
    written: str | None = None


@dataclass(frozen=True)
class Done:
    """A photograph whose files are all in place. files: those that are to be kept (`Place.keep`) before it is recorded
    · notes: what was kept or put aside, a sentence each · faint: whether the photograph is one of `images.FAINT`."""

    entry: Entry
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    faint: bool = False


@dataclass(frozen=True)
class Failed:
    """A photograph that has no results, and why, in a sentence. notes: as of `Done`."""

    name: str
    why: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ByHand:
    """A mask (H, W) that a person made. white: it was saved white on black, which is taken for the one class."""

    mask: NDArray[np.uint8]
    painted: bool = False
    edited: bool = False
    white: bool = False


@dataclass(frozen=True, eq=False)
class Decoded:
    """A photograph on its way to the network; the whole of it only where the options need it. faint: as of `Done`."""

    photo: Photograph
    prepared: Prepared
    thumbnail: Image.Image
    whole: NDArray[np.uint8] | None
    by_hand: ByHand | None
    known: Result | None
    notes: tuple[str, ...]
    faint: bool
    stamp: Stamp
    seconds: float


@dataclass(frozen=True, eq=False)
class Result:
    """What is written of a photograph: mask and, where asked for, uncertainty (H, W); how sure the network is."""

    mask: NDArray[np.uint8]
    uncertainty: NDArray[np.uint8] | None
    judged: Judged
    seconds: float


#: What was found in a photograph before, by the same concept and in the same way; None where nothing was.
Known = Callable[[Photograph], Result | None]


@dataclass(frozen=True, eq=False)
class Plan:
    """What all photographs of a job have in common, for a worker in any process to make its stages of.

    precision   what the network computes in ("float32"), whatever would be quickest where the worker is
    made_with   what entries say of the round (`Round.made_with`)
    painted     what is kept as it was painted
    """

    concept: Concept
    precision: str
    out: Place
    options: Options
    made_with: str
    painted: Sequence[Example] = ()

    def stages(self, device: torch.device) -> Stages:
        """What a worker on that device does."""
        concept = self.concept.on(device).using(getattr(torch, self.precision))
        return Stages(concept, self.out, self.options, made_with=self.made_with, painted=self.painted)

    def batch(self, kind: str) -> int:
        """How many photographs go through the network together on a device of this kind ("cpu", "cuda")."""
        return 1 if self.options.tile else batch_on(kind, len(self.concept.classes))


class Crew(Protocol):
    """Workers in other processes, here or on other machines, that do a job's photographs."""

    def run(
        self,
        plan: Plan,
        tasks: Iterable[Task],
        total: int,
        *,
        done: Callable[[Done], None],
        failed: Callable[[Failed], None],
        advance: Callable[[int], object],
        note: Callable[[str], object],
    ) -> None:
        """As `Stages.run`. total: how many tasks there are · note: called with what went wrong and was mended."""


class Stages:
    """The three stages, for photographs of one job."""

    def __init__(
        self,
        concept: Concept,
        out: Place,
        options: Options,
        *,
        made_with: str,
        painted: Sequence[Example] = (),
        known: Known | None = None,
    ) -> None:
        """made_with: what entries say of the round (`Round.made_with`) · painted: what is kept as it was painted ·
        known: what need not be found again, where nothing is asked for but masks of the likeliest labels."""
        self.concept = concept
        self.out = out
        self.options = options
        self.made_with = made_with
        self.batch = 1 if options.tile else concept.segmenter.engine.batch(len(concept.classes))
        self._painted = Painted(painted)
        self._known = known if options.plain else None

    def run(
        self,
        tasks: Iterable[Task],
        *,
        done: Callable[[Done], None],
        failed: Callable[[Failed], None],
        advance: Callable[[int], object],
    ) -> None:
        """Read, segment and write, each overlapping the others.

        done: called for each photograph, by one of several threads · failed: for each of which nothing can be had ·
        advance: after each batch, with how many are through the network.
        """
        seen = 0
        with Background() as writers, closing(ahead(tasks, self.decode, cost=_pixels)) as stream:
            for group in batches(stream, self.batch):
                readable: list[Decoded] = []
                for task, future in group:
                    try:
                        readable.append(future.result())
                    except (Error, OSError, MemoryError) as error:
                        failed(Failed(task.photo.name, _sentence(task.photo, error)))
                for decoded, result in self.results(readable, self.batch):
                    if isinstance(result, Failed):
                        failed(result)
                    else:
                        writers.put(partial(self._write_and_tell, decoded, result, done), result.mask.size)
                seen += len(group)
                advance(seen)

    def _write_and_tell(self, decoded: Decoded, result: Result, done: Callable[[Done], None]) -> None:
        done(self.write(decoded, result))

    def decode(self, task: Task) -> Decoded:
        """The photograph of a file at the network's size; an Error, or the system's, where it cannot be had."""
        start = time.perf_counter()
        photo = task.photo
        _check_file(photo)
        if not self.out.takes(mask_of(photo.key)):
            raise Error(f"{photo.where} has a name that nothing can have in {self.out}; rename it.")
        mark = stamp(photo.path) if photo.stored is None else photo.stored.stamp
        source = photo.path if photo.stored is None else storage.read(photo.stored.address)
        faint: list[bool] = []
        image = open_photo(source, max_pixels=self.options.max_pixels, faint=lambda: faint.append(True))
        if self.options.overlay and max(image.size) > LONGEST_JPEG:
            raise Error(
                f"{photo.where} is {max(image.size):,} pixels long, and an overlay has at most {LONGEST_JPEG:,}; cut "
                "it into parts, or leave out --overlay."
            )
        whole = np.array(image) if self.options.tile or self.options.overlay else None
        prepared = self.concept.prepare(image)
        notes: list[str] = []
        by_hand = self._by_hand(task, source, prepared.size, notes)
        known = self._known(photo) if self._known is not None and by_hand is None else None
        if known is not None and known.mask.shape != prepared.size:
            known = None  # of another photograph that had its name
        seconds = time.perf_counter() - start
        small, said = thumbnail(image), tuple(notes)
        return Decoded(photo, prepared, small, whole, by_hand, known, said, any(faint), mark, seconds)

    def _by_hand(self, task: Task, source: Path | bytes, size: tuple[int, int], notes: list[str]) -> ByHand | None:
        """The mask that a person painted or edited, which is kept: the edited one where there are both."""
        painted = self._painted.mask(source, size)
        edited = self._edited(task, size, notes)
        if edited is None or (painted is not None and np.array_equal(painted, edited.mask)):
            return None if painted is None else ByHand(painted, painted=True)
        if painted is not None:
            notes.append(f"{task.photo.name}: its mask was edited by hand and differs from what was painted; it stays.")
        return edited

    def _edited(self, task: Task, size: tuple[int, int], notes: list[str]) -> ByHand | None:
        """The mask in the output folder, where a person changed it; what is no mask of these classes is put aside."""
        name = mask_of(task.photo.key)
        with self.out.reading(name) as path:
            if path is None or path.stat().st_size == 0 or _is_ours(path, task.written):
                return None
            try:
                legend = self.concept.legend
                found, white = masks.read_edited(path, legend, size, ignores=lambda: self._painted.ignores)
                # Saved again in another way (in colours, say), but with nothing changed, is no edit either.
                same = masks.digest(found, legend) == task.written
                return None if same else ByHand(found, edited=True, white=white)
            except Error as error:
                why = str(error).replace(str(path), str(self.out.at(name)))
        notes.append(f"{why} It is kept as {self.out.aside(name)}, and the photograph is segmented anew.")
        return None

    def results(self, group: list[Decoded], batch: int) -> Iterator[tuple[Decoded, Result | Failed]]:
        """What the network finds in each, or a person did; a batch too large for the device is cut in half.

        batch: how many there usually are.
        """
        for decoded in group:
            if decoded.by_hand is not None:
                yield decoded, self._result_by_hand(decoded, decoded.by_hand)
            elif decoded.known is not None:
                yield decoded, decoded.known
        group = [decoded for decoded in group if decoded.by_hand is None and decoded.known is None]
        if not group:
            return
        start = time.perf_counter()
        too_large = False
        try:
            maps = self._maps(group, batch)
            judged = self.concept.judge(maps, threshold=self.options.threshold, keep_all=self.options.keep_all)
        except torch.OutOfMemoryError as error:
            if len(group) == 1 and batch == 1:
                yield group[0], Failed(group[0].photo.name, _sentence(group[0].photo, error), group[0].notes)
                return
            too_large = True  # and not here: the exception holds on to what the failed attempt had
        if too_large:
            half = (batch + 1) // 2
            for part in batches(group, half):
                yield from self.results(part, half)
            return
        seconds = (time.perf_counter() - start) / len(group)
        enlarged = landed(self._enlarged(decoded, of_one) for decoded, of_one in zip(group, maps, strict=True))
        for decoded, sure in zip(group, judged, strict=True):
            start = time.perf_counter()
            arrays = next(enlarged)
            leave_out(arrays["mask"], sure, min_likeness=self.options.min_likeness, keep_all=self.options.keep_all)
            took = seconds + time.perf_counter() - start
            yield decoded, Result(arrays["mask"], arrays.get("uncertainty"), sure, took)

    def _maps(self, group: list[Decoded], batch: int) -> list[Maps]:
        if self.options.tile:
            return [self.concept.maps_of_tiles(one.whole) for one in group if one.whole is not None]
        return self.concept.maps([one.prepared for one in group], batch=batch)

    def _enlarged(self, decoded: Decoded, maps: Maps) -> dict[str, Tensor]:
        """At the photograph's own size only what is written in it."""
        found = enlarge(
            maps,
            decoded.prepared.size,
            self.concept.segmenter.calibration,
            threshold=self.options.threshold,
            keep=["mask", "uncertainty"] if self.options.uncertainty else ["mask"],
            call=self.concept.segmenter.engine.further,
        )
        if self.options.uncertainty:
            found["uncertainty"] = (found["uncertainty"] * 255).round().byte()
        return found

    def _result_by_hand(self, decoded: Decoded, by_hand: ByHand) -> Result:
        """A person's mask is taken to be right."""
        nothing = np.zeros(decoded.prepared.photo.shape[:2], np.uint8)
        uncertainty = np.zeros_like(by_hand.mask) if self.options.uncertainty else None
        return Result(by_hand.mask, uncertainty, _certain(nothing, by_hand.mask, len(self.concept.classes)), 0.0)

    def write(self, decoded: Decoded, result: Result) -> Done:
        """All files of one photograph."""
        start = time.perf_counter()
        try:
            mask, digest, new = self._mask(decoded, result.mask)
            others, found = self._others(decoded, result)
            files = self.out.put({**new, **others})
        except (Error, OSError) as error:
            raise Unwritable(_sentence(decoded.photo, error)) from error
        entry = Entry(
            name=decoded.photo.name,
            key=decoded.photo.key,
            path=decoded.photo.real,
            stamp=decoded.stamp,
            made_with=self.made_with,
            mask=zlib.crc32(mask),
            digest=digest,
            files={name: zlib.crc32(content) for name, content in others.items()},
            figures=self._figures(decoded, result, found, time.perf_counter() - start),
        )
        return Done(entry, files, decoded.notes, decoded.faint)

    def _mask(self, decoded: Decoded, mask: NDArray[np.uint8]) -> tuple[bytes, str, dict[str, bytes]]:
        """The mask's file and digest, and what is to be written: not what a person edited, which stays as it is."""
        name = mask_of(decoded.photo.key)
        if decoded.by_hand is not None and decoded.by_hand.edited:
            with self.out.reading(name) as path:
                if path is not None:
                    return path.read_bytes(), masks.digest_of(path), {}
        content, digest = masks.drawn(mask, self.concept.legend)
        return content, digest, {name: content}

    def _others(self, decoded: Decoded, result: Result) -> tuple[dict[str, bytes], tuple[int, ...]]:
        """The files that the options ask for and the report shows, and how many parts each class has."""
        key, legend = decoded.photo.key, self.concept.legend
        files: dict[str, bytes] = {}
        found: tuple[int, ...] = ()
        if self.options.instances:
            several = parts(result.mask, self.options.min_area)
            found = counts(several, len(legend.names))
            files[f"instances/{key}.png"] = grey(numbered(several, decoded.prepared.size))
        if decoded.whole is not None and self.options.overlay:
            drawn = overlay(decoded.whole, result.mask, colours=legend.colours)
            files[f"overlays/{key}.jpg"] = encoded(drawn, "JPEG")
        if result.uncertainty is not None:
            files[f"uncertainty/{key}.png"] = grey(result.uncertainty)
        small, uncertainty = decoded.thumbnail, result.judged.uncertainty
        return files | thumbnails(key, small, result.mask, uncertainty, legend.colours), found

    def _figures(self, decoded: Decoded, result: Result, found: tuple[int, ...], seconds: float) -> Figures:
        height, width = decoded.prepared.size
        areas = tuple(Image.fromarray(result.mask).histogram()[1 : len(self.concept.classes) + 1])
        return Figures(
            width=width,
            height=height,
            painted=decoded.by_hand is not None and decoded.by_hand.painted,
            edited=decoded.by_hand is not None and decoded.by_hand.edited,
            white=decoded.by_hand is not None and decoded.by_hand.white,
            score=result.judged.score,
            likeness=result.judged.likeness,
            presence=result.judged.presence,
            uncertainty=result.judged.mean_uncertainty,
            novelty=result.judged.mean_novelty,
            areas=areas,
            shares=tuple(area / (width * height) for area in areas),
            counts=found,
            scores=result.judged.class_scores,
            likenesses=result.judged.class_likeness,
            presences=result.judged.class_presence,
            seconds=decoded.seconds + result.seconds + seconds,
        )


class Painted:
    """Photographs that were painted, known again by where they lie or by what is in the file."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._by_path = {os.path.realpath(example.photo): example for example in examples}
        self._by_size: dict[int, dict[bytes, Example]] = {}
        for path, example in self._by_path.items():
            with suppress(OSError):  # gone since it was read
                same = self._by_size.setdefault(os.stat(path).st_size, {})
                same.setdefault(_content(path), example)

    def mask(self, photo: Path | bytes, size: tuple[int, int]) -> NDArray[np.uint8] | None:
        """What was painted on the photograph of this file, or of these bytes of one; None where nothing was."""
        example = self._example(photo)
        return example.mask if example is not None and example.size == size else None

    def has(self, path: Path) -> bool:
        """Whether the photograph of this file was painted; not so where it cannot be read."""
        with suppress(OSError):
            return self._example(path) is not None
        return False

    @cached_property
    def ignores(self) -> bool:
        """Whether any of the masks has something to ignore."""
        return any((example.mask == IGNORE).any() for example in self._by_path.values())

    def _example(self, path: Path | bytes) -> Example | None:
        """The example whose photograph this file is."""
        if isinstance(path, bytes):
            alike = self._by_size.get(len(path))
            return alike.get(hashlib.sha256(path).digest()) if alike else None
        known = self._by_path.get(os.path.realpath(path))
        if known is None and (same := self._by_size.get(path.stat().st_size)):
            return same.get(_content(path))
        return known


def _certain(nothing: NDArray[np.uint8], mask: NDArray[np.uint8], classes: int) -> Judged:
    """What is said of a mask (H, W) that a person made."""
    sure, there = (1.0,) * classes, tuple(float((mask == c).any()) for c in range(1, classes + 1))
    return Judged(nothing, 1.0, 0.0, 0.0, 1.0, max(there), sure, sure, there)


def _content(path: str | Path) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _check_file(photo: Photograph) -> None:
    """An Error, or the system's, for what is no file to read: a pipe would keep a reader for ever."""
    kind = photo.path.stat().st_mode if photo.stored is None else stat.S_IFREG
    if stat.S_ISDIR(kind):
        raise Error(f"{photo.path} is a folder that may not be read; change its permissions.")
    if not stat.S_ISREG(kind):
        raise Error(f"{photo.path} is no file but a pipe or a device; take it out of the folder.")
    if max(len(os.fsencode(part)) for part in photo.key.split("/")) > LONGEST_NAME:
        raise Error(f"{photo.where} has too long a name to write its mask; shorten it.")


def _pixels(task: Task) -> int:
    try:
        _check_file(task.photo)
    except (Error, OSError):
        return 0
    stored = task.photo.stored
    return pixels_of(task.photo.path) if stored is None else PIXELS_A_BYTE * stored.stamp[0]


def _is_ours(path: Path, written: str | None) -> bool:
    """Whether a mask is as a job wrote it: by its seal, or, where a program has stripped that, by the record."""
    try:
        return masks.is_ours(path) or masks.digest_of(path) == written
    except Error:
        return False  # damaged; or saved in another way, and a mask all the same


def told(error: Error | OSError, place: Place) -> str:
    """What went wrong in a sentence; of the system's errors, which know where, the place as well."""
    if isinstance(error, OSError):
        return f"{error.filename2 or error.filename or place}: {error.strerror or error}."
    return str(error)


def _sentence(photo: Photograph, error: BaseException) -> str:
    """What went wrong, naming the file."""
    if isinstance(error, OSError):
        return f"{error.filename or photo.where}: {error.strerror or error}."
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"{photo.where} does not fit into memory; shrink it, or set a lower limit of pixels."
    return str(error) if photo.stored is None else str(error).replace("the given photograph", photo.where)

"""Masks that were found: shown from memory at once, written to files behind the scenes, and there after a restart."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.files import Journal, make_folder
from dgpnet.images import IGNORE, read_mask
from dgpnet.segmenter import masks
from dgpnet.segmenter.entries import Stamp
from dgpnet.segmenter.outputs import write_grey
from dgpnet.segmenter.segmentation import Judged
from dgpnet.segmenter.stages import Result
from dgpnet.studio.paintings import Mask, parts_of

#: Pixels of found masks that are held in memory, a byte each, and that may wait to be written.
RESIDENT, WAITING = 128_000_000, 128_000_000


@dataclass(frozen=True)
class Found:
    """What was found in a photograph.

    key, stamp   of the photograph: what its files are called, and whether it has changed since
    etag         what names the mask's pixels, in quotes
    concept      fingerprint of what it was found with · settled: whether as the folder job finds it, in its batches
    size         (H, W)
    values       of the concept's classes, C numbers
    areas, parts value -> pixels and connected parts; parts are None until they are counted
    judged       what `Judged` has besides its map
    """

    key: str
    stamp: Stamp
    etag: str
    concept: str
    settled: bool
    size: tuple[int, int]
    values: tuple[int, ...]
    areas: dict[int, int]
    parts: dict[int, int] | None
    judged: dict[str, Any]

    @staticmethod
    def of(
        key: str, stamp: Stamp, concept: str, pixels: Mask, legend: Legend, judged: Judged, *, settled: bool
    ) -> Found:
        """pixels: (H, W) values."""
        counts = Image.fromarray(pixels).histogram()
        told = {one.name: getattr(judged, one.name) for one in fields(judged) if one.name != "uncertainty"}
        areas = {value: counts[value] for value in legend.values if counts[value]}
        size = (pixels.shape[0], pixels.shape[1])
        return Found(key, stamp, etag_of(pixels), concept, settled, size, legend.values, areas, None, told)

    def of_class(self, name: str, value: int) -> float | None:
        """What `Judged` says of one class ("class_scores"); None where it does not."""
        numbers = self.judged.get(name)
        return numbers[self.values.index(value)] if numbers and value in self.values else None

    @staticmethod
    def read(line: Mapping[str, Any]) -> Found | None:
        """What a line of the journal says; None where it says nothing."""
        try:
            given = {one.name: line[one.name] for one in fields(Found)}
            for name in ("areas", "parts"):
                given[name] = given[name] and {int(value): int(n) for value, n in given[name].items()}
            return Found(**{**given, **{name: tuple(given[name]) for name in ("stamp", "size", "values")}})
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def etag_of(pixels: Mask) -> str:
    """Of a mask (H, W): the same pixels have the same."""
    digest = hashlib.blake2b(f"{pixels.shape}".encode(), digest_size=9)
    digest.update(np.ascontiguousarray(pixels).data)
    return f'"f{digest.hexdigest()}"'


@dataclass(frozen=True, eq=False)
class _New:
    """A mask on its way to its file, and the map of where it may be wrong (h, w)."""

    found: Found
    pixels: Mask
    uncertainty: NDArray[np.uint8]
    legend: Legend


class Finds:
    """All found masks of a project.

    told: called with what was found, once its parts are counted and its files are written
    """

    def __init__(self, root: Path, told: Callable[[Found], object] = lambda found: None) -> None:
        self.masks = root / "found" / "masks"
        self.maps = root / "found" / "uncertainty"
        self.journal = Journal(root / "found" / "found.jsonl")
        self._told = told
        self._found: dict[str, Found] = {}
        self._new: OrderedDict[str, _New] = OrderedDict()
        self._writing: dict[str, _New] = {}
        self._resident: OrderedDict[str, tuple[str, Mask]] = OrderedDict()
        self._lock = threading.Condition()
        self._files = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write_behind, name="found", daemon=True)

    def open(self) -> None:
        """Read what earlier runs found."""
        for folder in (self.masks, self.maps):
            make_folder(folder)
        lines = self.journal.read()
        for line in lines:
            found = Found.read(line)
            if found is not None:
                self._found[found.key] = found
            else:
                self._found.pop(str(line.get("key")), None)
        if len(lines) > 2 * len(self._found) + 100 or self.journal.damaged:
            self.journal.rewrite([asdict(found) for found in self._found.values()])
        self.journal.__enter__()
        self._thread.start()

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self.journal.__exit__(None, None, None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Found | None:
        """What was found in a photograph."""
        return self._found.get(key)

    def pixels(self, found: Found) -> Mask:
        """(H, W) values; an Error where they are not there any more, and it is forgotten that they were found."""
        with self._lock:
            new = self._new.get(found.key) or self._writing.get(found.key)
            if new is not None and new.found.etag == found.etag:
                return new.pixels
            kept = self._resident.get(found.key)
            if kept is not None and kept[0] == found.etag:
                self._resident.move_to_end(found.key)
                return kept[1]
        try:
            pixels: Mask = np.array(read_mask(self.path(found.key)), np.uint8)
        except Error:
            pixels = np.zeros((1, 1), np.uint8)
        if etag_of(pixels) != found.etag:
            with self._lock:
                if self._found.get(found.key) is found:
                    del self._found[found.key]
            raise Error("This mask has been found anew; load it again.")
        self._keep(found.key, found.etag, pixels)
        return pixels

    def path(self, key: str) -> Path:
        """Of the file that has, or will have, the mask."""
        return self.masks / f"{key}.png"

    def file(self, found: Found) -> Path:
        """The file that has this very mask, written now where it is not there yet; an Error where it is gone."""
        with self._lock:
            new = self._new.pop(found.key, None)
        with self._files:  # whatever is being written is written then
            if new is not None:
                self._write([new])
            self.pixels(found)
            return self.path(found.key)

    def result(self, found: Found, legend: Legend) -> Result:
        """As the folder job has it, for a concept of this legend."""
        table = np.zeros(256, np.uint8)
        table[list(legend.values)] = range(1, len(legend.values) + 1)
        table[IGNORE] = IGNORE
        told = {name: _tuples(value) for name, value in found.judged.items()}
        for name in [name for name in told if name.startswith("class_")]:
            told[name] = tuple(_or_zero(found.of_class(name, value)) for value in legend.values)
        return Result(table[self.pixels(found)], None, Judged(uncertainty=self.uncertainty(found), **told), 0.0)

    def uncertainty(self, found: Found) -> NDArray[np.uint8]:
        """(h, w): 255 where the label is surely wrong; nothing but 0 where that is not known any more."""
        with self._lock:
            new = self._new.get(found.key) or self._writing.get(found.key)
        if new is not None and new.found.etag == found.etag:
            return new.uncertainty
        try:
            return np.array(read_mask(self.maps / f"{found.key}.png"), np.uint8)
        except Error:
            return np.zeros((1, 1), np.uint8)

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, found: Found, pixels: Mask, uncertainty: NDArray[np.uint8], legend: Legend) -> None:
        """Take what was found, to be shown at once and written soon; waits where too much is to be written."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or not self._new or self._waiting() + pixels.size <= WAITING)
            self._new[found.key] = _New(found, pixels, uncertainty, legend)
            self._found[found.key] = found
            self._lock.notify_all()
        self._keep(found.key, found.etag, pixels)

    def drop(self, keys: Sequence[str]) -> None:
        """Forget what was found in photographs."""
        with self._files:
            with self._lock:
                gone = [key for key in keys if self._found.pop(key, None) is not None]
                for key in gone:
                    self._new.pop(key, None)
                    self._resident.pop(key, None)
            if gone:
                self.journal.add(*({"key": key} for key in gone))
            for key in gone:
                for folder in (self.masks, self.maps):
                    (folder / f"{key}.png").unlink(missing_ok=True)

    def flush(self) -> None:
        """Wait until everything is in its file."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or not (self._new or self._writing))

    def _waiting(self) -> int:
        return sum(one.pixels.size for one in (*self._new.values(), *self._writing.values()))

    def _keep(self, key: str, etag: str, pixels: Mask) -> None:
        with self._lock:
            self._resident[key] = etag, pixels
            self._resident.move_to_end(key)
            while sum(one.size for _, one in self._resident.values()) > RESIDENT and len(self._resident) > 1:
                self._resident.popitem(last=False)

    def _write_behind(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed or self._new)
                if not self._new:
                    return
                group = [self._new.popitem(last=False)[1] for _ in range(min(8, len(self._new)))]
                self._writing = {one.found.key: one for one in group}
            with self._files:
                self._write(group)
            with self._lock:
                self._writing = {}
                self._lock.notify_all()

    def _write(self, group: Sequence[_New]) -> None:
        """Files first, then the lines that tell of them. A disk that is full costs what would have been kept."""
        written: list[Found] = []
        for one in group:
            found = one.found
            try:
                for folder, write in ((self.masks, self._write_mask), (self.maps, _write_map)):
                    path = folder / f"{found.key}.png"
                    make_folder(path.parent)
                    write(path, one)
            except (Error, OSError):
                continue
            told = Found(**{**_fields(found), "parts": parts_of(one.pixels)})
            with self._lock:
                if self._found.get(found.key) is found:
                    self._found[found.key] = told
                    written.append(told)
        try:
            if written:
                self.journal.add(*map(asdict, written))
        except OSError:
            return
        for told in written:
            self._told(told)

    @staticmethod
    def _write_mask(path: Path, new: _New) -> None:
        table = np.zeros(256, np.uint8)
        table[list(new.legend.values)] = range(1, len(new.legend.values) + 1)
        masks.write(path, table[new.pixels], new.legend)


def _write_map(path: Path, new: _New) -> None:
    write_grey(path, new.uncertainty)


def _fields(found: Found) -> dict[str, Any]:
    return {one.name: getattr(found, one.name) for one in fields(found)}


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _or_zero(value: float | None) -> float:
    return 0.0 if value is None else value

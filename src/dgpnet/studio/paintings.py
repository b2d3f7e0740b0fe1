"""Painted masks: every change is on the disk before it is answered, and masks are written as files behind the scenes.

A change is a line in the journal. A mask is a PNG as the folder job writes them, in the folders of the photographs, so
that `painted/` is a support set for every command. What the journal has and a PNG has not yet is done again when the
project is opened: changes set pixels, so that doing one twice does no harm.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from dgpnet.segmenter.outputs import counts as count_parts
from dgpnet.segmenter.outputs import parts
from dgpnet.studio.classes import Classes
from dgpnet.studio.strokes import Rectangle, Stroke

Mask = NDArray[np.uint8]
Line = dict[str, Any]

#: Pixels of painted masks that are held in memory, a byte each.
RESIDENT = 256_000_000
#: Ids of strokes that are remembered, so that one which is sent again is known.
REMEMBERED = 5000
#: Seconds without a change after which a mask is written to its file, and after which it is in any case.
QUIET, LATEST = 2.0, 20.0


@dataclass(eq=False)
class Painting:
    """The painted mask of a photograph. Whoever reads or changes it holds the lock of its photograph.

    key, size   of the photograph, (H, W)
    n           number of its last change · saved: of the last one that is in its file
    counts      (256,) pixels of each value
    parts       value -> connected parts, of the mask as it was saved; None where they were not counted yet
    at, since   when it was last changed, and when first since it was saved (seconds)
    pixels      (H, W) values; None where they are in the file alone
    base        the file, beside the journal, that it began with and that is needed until it is saved
    """

    key: str
    size: tuple[int, int]
    n: int
    saved: int
    counts: NDArray[np.int64]
    parts: dict[int, int] | None = None
    at: float = 0.0
    since: float = 0.0
    pixels: Mask | None = field(default=None, repr=False)
    base: str | None = None

    @property
    def dirty(self) -> bool:
        """Whether the file has not all of it."""
        return self.saved < self.n

    @property
    def etag(self) -> str:
        """What names its content, in quotes."""
        return f'"p{self.n}"'

    @property
    def areas(self) -> dict[int, int]:
        """Class -> pixels, of those that it shows."""
        return {int(v): int(self.counts[v]) for v in np.flatnonzero(self.counts) if v not in (0, IGNORE)}


class Paintings:
    """All painted masks of a project, and the journal of what is done to them and to everything else in it.

    folder: of the masks (a support set's) · whole: where masks lie that a line of the journal speaks of
    classes: gives the project's classes
    """

    def __init__(self, root: Path, classes: Callable[[], Classes]) -> None:
        self.folder = root / "painted" / "masks"
        self.whole = root / "whole"
        self.journal = Journal(root / "journal.jsonl")
        self.notes: list[str] = []
        self._classes = classes
        self._lock = threading.RLock()
        self._paintings: dict[str, Painting] = {}
        self._resident: OrderedDict[str, int] = OrderedDict()
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._next = 1

    # -- opening and closing -------------------------------------------------------------------------------------------

    def open(self) -> list[Line]:
        """Read the journal and do what files lack of it; returns the lines that are not about masks."""
        for folder in (self.folder, self.whole):
            make_folder(folder)
        lines = self.journal.read()
        if self.journal.damaged:
            self.notes.append(f"{self.journal.damaged} lines of {self.journal.path} were damaged and are left out.")
        self.journal.__enter__()
        others = self._replay(lines)
        self._adopt()
        return others

    def close(self) -> None:
        """Close the journal; what files lack stays in it."""
        with self._lock:
            self.journal.__exit__(None, None, None)

    def _replay(self, lines: Sequence[Line]) -> list[Line]:
        others: list[Line] = []
        pending: dict[str, list[Line]] = {}
        for line in lines:
            self._next = max(self._next, int(line.get("n", 0)) + 1)
            if line.get("id"):
                self._remember(str(line["id"]))
            match line.get("op"):
                case "saved":
                    self._paintings[line["key"]] = _saved(line)
                    kept = [one for one in pending.get(line["key"], ()) if one["n"] > line["n"]]
                    pending[line["key"]] = kept
                case "begin" | "stroke" | "whole" | "erase":
                    pending.setdefault(line["key"], []).append(line)
                case "delete":
                    pending.pop(line["key"], None)
                    self._paintings.pop(line["key"], None)
                    self.path(line["key"]).unlink(missing_ok=True)
                case _:
                    others.append(line)
        for key, changes in pending.items():
            if changes:
                self._redo(key, changes)
        return others

    def _redo(self, key: str, changes: Sequence[Line]) -> None:
        """Bring a mask to where the journal has it."""
        first = max((i for i, line in enumerate(changes) if line["op"] in ("begin", "whole")), default=0)
        changes = changes[first:]
        try:
            pixels = self._begun(key, changes[0])
            for line in changes:
                pixels = self._changed(pixels, line)
        except (Error, KeyError, IndexError, TypeError, ValueError) as error:
            self.notes.append(f"The last changes of {key} could not be done again ({error}).")
            return
        size = (pixels.shape[0], pixels.shape[1])
        last, now = int(changes[-1]["n"]), time.time()
        painting = Painting(key, size, last, 0, _counted(pixels), at=now, since=now, pixels=pixels)
        painting.base = changes[0].get("file")
        self._paintings[key] = painting
        self._touch(painting)

    def _begun(self, key: str, first: Line) -> Mask:
        """What the first change is done to."""
        if first["op"] in ("begin", "whole"):
            return np.zeros(first["size"], np.uint8)  # what it begins with is in the line itself
        return self._read(self.path(key))

    def _changed(self, pixels: Mask, line: Line) -> Mask:
        match line["op"]:
            case "begin" | "whole":
                name = line["file"]
                return np.zeros(line["size"], np.uint8) if name is None else self._read(self.whole / Path(name).name)
            case "stroke":
                place = Rectangle(line["x"], line["y"], line["w"], line["h"])
                place.check((pixels.shape[0], pixels.shape[1]))
                Stroke.of(place, line["runs"], range(1, IGNORE)).apply(pixels)
            case "erase":
                pixels[pixels == line["value"]] = 0
        return pixels

    def _adopt(self) -> None:
        """Take masks that lie in the folder, and that the journal does not know, for painted; forget those that are
        gone."""
        for key in [key for key, one in self._paintings.items() if not one.dirty and not self.path(key).is_file()]:
            self.notes.append(f"The painted mask of {key} is gone.")
            del self._paintings[key]
        for path in sorted(self.folder.rglob("*.png")):
            key = path.relative_to(self.folder).with_suffix("").as_posix()
            if path.name.startswith(".") or path.is_symlink() or key in self._paintings:
                continue
            try:
                pixels = self._read(path)
            except Error as error:
                self.notes.append(f"{error} It is left out.")
                continue
            size = (pixels.shape[0], pixels.shape[1])
            n = self._number()
            self._paintings[key] = Painting(key, size, n, n - 1, _counted(pixels), at=path.stat().st_mtime)
        used = {one.base for one in self._paintings.values()}
        for path in self.whole.iterdir():
            if path.name not in used:
                path.unlink(missing_ok=True)

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Painting | None:
        """The painting of a photograph."""
        return self._paintings.get(key)

    def keys(self) -> list[str]:
        """Of all photographs that are painted."""
        with self._lock:
            return list(self._paintings)

    def path(self, key: str) -> Path:
        """Of the file that has, or will have, the mask."""
        return self.folder / f"{key}.png"

    def pixels(self, painting: Painting) -> Mask:
        """(H, W) values; not to be changed."""
        if painting.pixels is None:
            painting.pixels = self._read(self.path(painting.key))
        self._touch(painting)
        return painting.pixels

    def knows(self, stroke: str | None) -> bool:
        """Whether the stroke of this id was painted already."""
        return bool(stroke) and stroke in self._ids

    def _read(self, path: Path) -> Mask:
        """A mask file as values."""
        raw = read_mask(path)
        if raw.dtype == np.uint8:
            return np.array(raw)
        legend = self._legend()
        table = np.zeros(256, np.uint8)
        table[1 : len(legend.values) + 1] = legend.values
        table[IGNORE] = IGNORE
        values: Mask = table[masks.read(path, legend)]
        return values

    def _legend(self) -> Legend:
        classes = self._classes()
        return classes.legend(classes.values) if classes.every else Legend.of(["object"])

    # -- changing ------------------------------------------------------------------------------------------------------

    def begin(
        self, key: str, size: tuple[int, int], base: Path | None, stroke: Stroke | None = None, **line: Any
    ) -> Painting:
        """Start to paint a photograph of size (H, W): on nothing, or on a mask file, which is taken as it is now.

        stroke: what it begins with, whose fields in the journal are `line`.
        """
        pixels = np.zeros(size, np.uint8) if base is None else self._read(base)
        n = self._number()
        kept = self._linked(n, base)
        lines: list[Line] = [{"op": "begin", "key": key, "n": n, "size": list(size), "file": kept}]
        if stroke is not None:
            n = self._number()
            lines.append({"op": "stroke", "key": key, "n": n, **line})
        self.write(*lines)
        painting = self._new(key, n, pixels, kept)
        if stroke is not None:
            painting.counts = painting.counts + stroke.apply(pixels)
        return painting

    def stroke(self, painting: Painting, stroke: Stroke, **line: Any) -> None:
        """Paint a stroke; line: its fields in the journal."""
        pixels = self.pixels(painting)
        n = self._number()
        self.write({"op": "stroke", "key": painting.key, "n": n, **line})
        self._advance(painting, n, pixels, stroke.apply(pixels))

    def replace(self, key: str, pixels: Mask) -> Painting:
        """Put a whole mask (H, W) in place of what there is, or of nothing."""
        n, before = self._number(), self._paintings.get(key)
        place = self.whole / f"{n}.png"
        self._write_mask(place, pixels)
        self.write({"op": "whole", "key": key, "n": n, "size": list(pixels.shape), "file": place.name})
        painting = self._new(key, n, pixels, place.name)
        if before is not None:
            self._unlink(before)
        return painting

    def erase(self, painting: Painting, value: int) -> None:
        """Take a class out of a mask."""
        pixels = self.pixels(painting)
        n = self._number()
        self.write({"op": "erase", "key": painting.key, "n": n, "value": value})
        pixels[pixels == value] = 0
        change = np.zeros(256, np.int64)
        change[0], change[value] = painting.counts[value], -painting.counts[value]
        self._advance(painting, n, pixels, change)

    def delete(self, painting: Painting) -> None:
        """Back to what was never painted."""
        self.write({"op": "delete", "key": painting.key, "n": self._number()})
        with self._lock:
            del self._paintings[painting.key]
            self._resident.pop(painting.key, None)
        self.path(painting.key).unlink(missing_ok=True)
        self._unlink(painting)

    def write(self, *lines: Mapping[str, Any]) -> None:
        """Lines for the journal, on the disk before this returns."""
        with self._lock:
            self.journal.add(*lines)
            for line in lines:
                if line.get("id"):
                    self._remember(line["id"])

    def _new(self, key: str, n: int, pixels: Mask, base: str | None) -> Painting:
        now = time.time()
        size = (pixels.shape[0], pixels.shape[1])
        painting = Painting(key, size, n, 0, _counted(pixels), at=now, since=now, pixels=pixels, base=base)
        with self._lock:
            self._paintings[key] = painting
        self._touch(painting)
        return painting

    def _advance(self, painting: Painting, n: int, pixels: Mask, change: NDArray[np.int64]) -> None:
        now = time.time()
        with self._lock:
            if not painting.dirty:
                painting.since = now
            painting.n, painting.at = n, now
            painting.counts = painting.counts + change
            painting.pixels = pixels  # they may have been put out of memory meanwhile
        self._touch(painting)

    def _linked(self, n: int, base: Path | None) -> str | None:
        """The name of a file, on the disk, that has what a mask file has now and will not change."""
        if base is None:
            return None
        place = self.whole / f"{n}.png"
        try:
            os.link(base, place)  # takes no time, and what takes the file's place later is another file
        except OSError:
            shutil.copyfile(base, place)
        with place.open("rb") as file:
            os.fsync(file.fileno())
        return place.name

    def _unlink(self, painting: Painting) -> None:
        """Remove what a painting began with."""
        if painting.base is not None:
            (self.whole / painting.base).unlink(missing_ok=True)
            painting.base = None

    def _number(self) -> int:
        with self._lock:
            self._next += 1
            return self._next - 1

    def _remember(self, stroke: str) -> None:
        self._ids[stroke] = None
        while len(self._ids) > REMEMBERED:
            self._ids.popitem(last=False)

    # -- files behind the scenes ---------------------------------------------------------------------------------------

    def due(self, now: float | None = None) -> list[str]:
        """Photographs whose masks are to be written to their files; with no time, all that are not there yet."""
        with self._lock:
            several = [one for one in self._paintings.values() if one.dirty]
            crowded = sum(self._resident.values()) > RESIDENT
        return [
            one.key
            for one in several
            if now is None or crowded or now - one.at > QUIET or (one.since and now - one.since > LATEST)
        ]

    def copied(self, painting: Painting) -> tuple[int, Mask]:
        """Number of the last change and a copy of the mask, to be written without its lock."""
        return painting.n, self.pixels(painting).copy()

    def save(self, key: str, pixels: Mask) -> dict[int, int]:
        """Write a mask to its file; value -> connected parts."""
        path = self.path(key)
        make_folder(path.parent)
        self._write_mask(path, pixels)
        return parts_of(pixels)

    def saved(self, painting: Painting, n: int, several: dict[int, int]) -> None:
        """Note that the file has all up to change n."""
        painting.saved, painting.parts = n, several
        if not painting.dirty:
            painting.since = 0.0
            self.write(_line(painting))
            self._unlink(painting)

    def shorten(self, others: Iterable[Mapping[str, Any]], *, longest: int) -> None:
        """Begin the journal anew where it has more than so many bytes and all masks are in their files.

        others: lines that stay besides those of masks.
        """
        with self._lock:
            if any(one.dirty for one in self._paintings.values()) or self.journal.path.stat().st_size <= longest:
                return
            lines = [dict(one) for one in others] + [_line(one) for one in self._paintings.values()]
            lines += [{"op": "next", "n": self._next - 1}, *({"op": "id", "id": one} for one in self._ids)]
            self.journal.__exit__(None, None, None)
            try:
                self.journal.rewrite(lines)
            finally:
                self.journal.__enter__()

    def _write_mask(self, path: Path, pixels: Mask) -> None:
        legend = self._legend()
        table = np.zeros(256, np.uint8)
        table[list(legend.values)] = range(1, len(legend.values) + 1)
        table[IGNORE] = IGNORE
        masks.write(path, table[pixels], legend, sync=True)

    def _touch(self, painting: Painting) -> None:
        """Make it the last to be put out of memory, and put others out that are in their files."""
        with self._lock:
            self._resident[painting.key] = painting.size[0] * painting.size[1]
            self._resident.move_to_end(painting.key)
            for key in list(self._resident):
                if sum(self._resident.values()) <= RESIDENT:
                    break
                other = self._paintings.get(key)
                if other is None or (not other.dirty and other is not painting):
                    del self._resident[key]
                    if other is not None:
                        other.pixels = None


def parts_of(pixels: Mask) -> dict[int, int]:
    """Value -> connected parts in a mask (H, W)."""
    found = count_parts(parts(pixels), IGNORE - 1)
    return {value: number for value, number in enumerate(found, 1) if number}


def _counted(pixels: Mask) -> NDArray[np.int64]:
    return np.array(Image.fromarray(pixels).histogram(), np.int64)


def _line(painting: Painting) -> Line:
    return {
        "op": "saved",
        "key": painting.key,
        "n": painting.n,
        "size": list(painting.size),
        "counts": {str(value): int(painting.counts[value]) for value in np.flatnonzero(painting.counts)},
        "parts": painting.parts,
        "at": painting.at,
    }


def _saved(line: Line) -> Painting:
    counts = np.zeros(256, np.int64)
    for value, count in line["counts"].items():
        counts[int(value)] = count
    several = line.get("parts")
    known = None if several is None else {int(value): int(count) for value, count in several.items()}
    height, width = line["size"]
    return Painting(line["key"], (height, width), line["n"], line["n"], counts, known, at=line["at"])

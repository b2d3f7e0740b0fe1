"""Masks that other programs made become painted ones."""

from __future__ import annotations

import os
import stat
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from dgpnet.annotations import Example, SupportSet, read_support
from dgpnet.annotations.layouts import IMAGES
from dgpnet.errors import Error
from dgpnet.files import inside, make_folder, require_space
from dgpnet.images import IGNORE
from dgpnet.segmenter.support import MAX_CLASSES
from dgpnet.serving import Problem
from dgpnet.studio.paintings import Mask
from dgpnet.studio.project import Project, Record

#: Files that an archive may have, and bytes that they may have unpacked.
FILES, UNPACKED = 50_000, 8 << 30
#: Photographs that a message lists.
LISTED = 100

Advance = Callable[[int, int], object]


@dataclass(frozen=True)
class Imported:
    """examples: photographs that are painted now · unmatched: names that are not in the folder · notes: sentences"""

    examples: int
    unmatched: tuple[str, ...]
    notes: tuple[str, ...]


def read(path: Path, folder: Path) -> SupportSet:
    """A support set that brings its photographs, or speaks of those in the folder; an Error where it is none."""
    try:
        return read_support(path, partial=True)
    except Error as alone:
        try:
            return read_support(path, photos=folder, partial=True)
        except Error as together:
            # Whoever brings no photographs is told what is wrong with those of the folder.
            raise (alone if "no support set" in str(together) else together) from None


def unpacked(archive: Path, into: Path) -> Path:
    """The folder of an archive's content; an Error where it is none, or too large, or leads elsewhere."""
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = [one for one in packed.infolist() if not one.is_dir()]
            total = sum(one.file_size for one in entries)
            if len(entries) > FILES or total > UNPACKED:
                raise Error(f"The archive has {len(entries):,} files of {total:,} bytes, which is too much; split it.")
            require_space(into, total)
            for one in entries:
                if stat.S_ISLNK(one.external_attr >> 16) or _is_litter(one.filename):
                    continue
                place = inside(into, one.filename)
                make_folder(place.parent)
                with packed.open(one) as source, place.open("xb") as target:
                    _copied(source, target, one.file_size)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Error(f"The archive cannot be read ({error}); pack it again as a ZIP.") from None
    except FileExistsError as error:
        raise Error(f"The archive has {Path(error.filename).name} twice; pack it again.") from None
    inner = [one for one in into.iterdir() if not one.name.startswith(".")]
    return inner[0] if len(inner) == 1 and inner[0].is_dir() and inner[0].name.lower() not in IMAGES else into


def _is_litter(name: str) -> bool:
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


def _copied(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """As many bytes as were announced; an Error where there are more."""
    while data := source.read(1 << 20):
        size -= len(data)
        if size < 0:
            raise Error("The archive has larger files than it says; pack it again.")
        target.write(data)


def take(project: Project, painted: SupportSet, advance: Advance = lambda done, total: None) -> Imported:
    """Make painted masks of a support set; what is painted in the project already stays."""
    records = _Names(project.records())
    table = _table(project, painted)
    taken, kept, unmatched, notes = 0, 0, [], list(painted.notes)
    for i, example in enumerate(painted.examples):
        advance(i, len(painted.examples))
        record = records.of(example)
        if record is None:
            unmatched.append(example.photo.name)
            continue
        try:
            done = _put(project, record, example, table)
        except (Error, Problem) as error:
            notes.append(f"{record.name}: {getattr(error, 'detail', error)}")
            continue
        taken, kept = taken + done, kept + (not done)
    if kept:
        notes.append(f"{kept} photographs were painted here already and stay as they are.")
    return Imported(taken, tuple(unmatched[:LISTED]), tuple(notes[:LISTED]))


def _put(project: Project, record: Record, example: Example, table: Mask) -> bool:
    """Whether it was put; not where the photograph is painted already."""
    size = project.size(record)
    if example.size != size:
        raise Error(f"It has {size[1]} × {size[0]} pixels here and {example.size[1]} × {example.size[0]} there.")
    with record.lock:
        if project.painted(record) is not None:
            return False
        etag = project.current_etag(record)
        project.put(record, table[example.mask], etag, new=etag is None)
    return True


def _table(project: Project, painted: SupportSet) -> Mask:
    """(256,): the project's value of each number of the support; classes that it has not are added."""
    table = np.zeros(256, np.uint8)
    table[IGNORE] = IGNORE
    legend = painted.legend
    for number, (name, value, colour) in enumerate(zip(legend.names, legend.values, legend.colours, strict=True), 1):
        known = project.classes.named(name)
        if known is None:
            known = project.add_class(name, colour, value if value <= MAX_CLASSES else None)
        table[number] = known.value
    return table


class _Names:
    """Photographs by their names, and by the last part of these where that tells them."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._whole = {_plain(one.name): one for one in records}
        self._real = {os.path.realpath(one.photo.path): one for one in records}
        several: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            for name in {_plain(record.name).rsplit("/", 1)[-1], _stem(record.name).rsplit("/", 1)[-1]}:
                several[name].append(record)
        self._last = {name: some[0] for name, some in several.items() if len(some) == 1}

    def of(self, example: Example) -> Record | None:
        """The photograph that an example speaks of."""
        here = self._real.get(os.path.realpath(example.photo))
        return here or next(filter(None, self._candidates(_plain(example.photo.as_posix()))), None)

    def _candidates(self, name: str) -> Iterator[Record | None]:
        parts = name.split("/")
        yield from (self._whole.get("/".join(parts[n:])) for n in range(len(parts)))
        yield self._last.get(parts[-1])
        yield self._last.get(_stem(parts[-1]))


def _plain(name: str) -> str:
    return name.casefold()


def _stem(name: str) -> str:
    return str(PurePosixPath(_plain(name)).with_suffix(""))

"""Learning from what is painted: from scratch as the commands do, or from what was learned before, which is quick."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations import Example, SupportSet
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.files import read_record, write_record
from dgpnet.images import IGNORE, read_photo
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.concept import anew as learned_anew
from dgpnet.segmenter.entries import Stamp, stamp
from dgpnet.segmenter.fitting import SECONDS
from dgpnet.segmenter.support import Prepared
from dgpnet.studio.project import Project, Record

#: Bytes of decoded photographs that are held: those that are painted are learned from again and again.
DECODED = 250_000_000
#: Photographs that are held at the network's size.
PREPARED = 96
#: The concept that was fitted, and what it was fitted to.
FITTED, FITTED_FROM = "fitted.concept", "fitted.json"
#: Examples that may have changed for what was learned before to be changed, and not thrown away.
FEW = 3

_log = logging.getLogger("dgpnet.studio")


class NothingPainted(Error):
    """There is nothing to learn from."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned, and from what.

    keys        of the K painted photographs, in order · snapshots: key -> number of the change that was learned from
    seconds     that it took
    whole       whether it is as the commands learn it; otherwise another was changed, which is equal but for rounding
    """

    concept: Concept
    keys: tuple[str, ...]
    snapshots: Mapping[str, int]
    seconds: float
    whole: bool

    @property
    def legend(self) -> Legend:
        """The classes that were learned."""
        return self.concept.legend

    @property
    def fingerprint(self) -> str:
        """Of the concept."""
        return self.concept.fingerprint


class Photos:
    """Photographs as they are needed again and again, the latest in memory."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._decoded: OrderedDict[tuple[str, Stamp], NDArray[np.uint8]] = OrderedDict()
        self._prepared: OrderedDict[tuple[str, Stamp, tuple[int, ...]], Prepared] = OrderedDict()

    def decoded(self, record: Record) -> NDArray[np.uint8]:
        """(H, W, 3); an Error where it cannot be read, which is noted."""
        path = self.project.path(record)
        key = record.key, stamp(path)
        photo = self._decoded.pop(key, None)
        if photo is None:
            photo = self._read(record, path)
        self._decoded[key] = photo
        while sum(one.nbytes for one in self._decoded.values()) > DECODED and len(self._decoded) > 1:
            self._decoded.popitem(last=False)
        return photo

    def prepared(self, record: Record, concept: Concept) -> tuple[Prepared, Stamp]:
        """It at the sizes at which a concept sees it, and whether the file has changed; an Error likewise."""
        path = self.project.path(record)
        mark = stamp(path)
        key = record.key, mark, tuple(view.size for view in concept.views)
        prepared = self._prepared.pop(key, None)
        if prepared is None:
            held = self._decoded.get(key[:2])
            prepared = concept.prepare(self._read(record, path) if held is None else held)
        self._prepared[key] = prepared
        while len(self._prepared) > PREPARED:
            self._prepared.popitem(last=False)
        return prepared, mark

    def _read(self, record: Record, path: Path) -> NDArray[np.uint8]:
        try:
            return read_photo(path)
        except (Error, OSError) as error:
            self.project.broken(record, _told(error))
            raise Error(f"{record.name} cannot be read; look at it.") from error


@dataclass(frozen=True, eq=False)
class _Painted:
    """What is painted on a photograph, as of its change n."""

    record: Record
    n: int
    pixels: NDArray[np.uint8]


def examples(project: Project) -> list[Record]:
    """Photographs that can be learned from, by name."""
    return [one for one in project.records() if project.painted(one) is not None and one.problem is None]


def learn(
    segmenter: Segmenter,
    project: Project,
    photos: Photos,
    before: Learned | None = None,
    *,
    fit: float | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> Learned:
    """Learn what is painted now; an Error where nothing is.

    before: what was learned earlier, which is changed where that is quicker · fit: seconds to fit it in, as well
    """
    start = time.perf_counter()
    records = examples(project)
    legend = _legend(project, records)
    if before is not None and fit is None:
        changed = _updated(project, photos, before, records, legend, start)
        if changed is not None:
            return changed
    for again in (True, False):
        painted = [one for one in (_painted(project, record) for record in examples(project)) if one is not None]
        table = numbers_of(legend)
        try:
            concept = segmenter.learn(
                [project.path(one.record) for one in painted],
                (table[one.pixels] for one in painted),
                classes=legend,
                fit=fit is not None,
                fit_seconds=SECONDS if fit is None else fit,
                advance=advance,
            )
            break
        except Error:
            if not again or not _leave_out_broken(project, photos, painted):
                raise
    keys = tuple(one.record.key for one in painted)
    snapshots = {one.record.key: one.n for one in painted}
    return Learned(concept, keys, snapshots, time.perf_counter() - start, whole=True)


def anew(learned: Learned, project: Project) -> Learned | None:
    """The same as the commands learn it: from scratch, by name. None where the examples are not at hand."""
    start = time.perf_counter()
    held = {key: i for i, key in enumerate(learned.keys)}
    names = {one.key: Path(one.name).name for one in project.records() if one.key in held}
    if len(names) < len(held):
        return None
    order, called = [held[key] for key in names], [names[key] for key in learned.keys]
    concept = learned_anew(learned.concept, order, called)
    if concept is None:
        return None
    return replace(learned, concept=concept, keys=tuple(names), seconds=time.perf_counter() - start, whole=True)


def keep(learned: Learned, folder: Path) -> None:
    """Write what was fitted: it took a minute, and a server that stops must not lose it."""
    learned.concept.save(folder / FITTED)
    write_record(
        folder / FITTED_FROM,
        {"concept": learned.fingerprint, "keys": learned.keys, "snapshots": learned.snapshots, "took": learned.seconds},
    )


def kept(segmenter: Segmenter, folder: Path) -> Learned | None:
    """What `keep` wrote last with this model; None where there is nothing or it cannot be read."""
    record = read_record(folder / FITTED_FROM)
    if record is None:
        return None
    try:
        concept = Concept.load(folder / FITTED, segmenter)
        if record["concept"] != concept.fingerprint:  # killed between the two files
            return None
        keys, snapshots = tuple(map(str, record["keys"])), {key: int(n) for key, n in record["snapshots"].items()}
        return Learned(concept, keys, snapshots, float(record["took"]), whole=True)
    except (Error, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("What was fitted before is not used: %s", error)
        return None


def support(project: Project, learned: Learned) -> SupportSet:
    """What is painted, as the folder job takes it."""
    table, several = numbers_of(learned.legend), []
    for record in examples(project):
        painted = _painted(project, record)
        if painted is not None:
            several.append(Example.of(project.path(record), table[painted.pixels]))
    return SupportSet(learned.legend, tuple(several), "folder")


def numbers_of(legend: Legend) -> NDArray[np.uint8]:
    """(256,): the number 1 … C of each value of a mask; values that were not learned are background."""
    table = np.zeros(256, np.uint8)
    table[list(legend.values)] = range(1, len(legend.values) + 1)
    table[IGNORE] = IGNORE
    return table


def _legend(project: Project, records: Sequence[Record]) -> Legend:
    """The classes that are painted; an Error where there are none."""
    paintings = [painting for record in records if (painting := project.painted(record)) is not None]
    shown = {value for painting in paintings for value in painting.areas} & project.classes.values
    if not shown:
        raise NothingPainted("Nothing is painted yet; paint something on any photograph, then learn.")
    return project.classes.legend(shown)


def _painted(project: Project, record: Record) -> _Painted | None:
    with record.lock:
        painting = project.painted(record)
        if painting is None:
            return None
        return _Painted(record, painting.n, project.paintings.pixels(painting).copy())


def _updated(
    project: Project, photos: Photos, before: Learned, records: Sequence[Record], legend: Legend, start: float
) -> Learned | None:
    """What was learned before, with what has changed since; None where learning anew is better."""
    same = (before.legend.names, before.legend.values) == (legend.names, legend.values)
    now = {record.key: record for record in records}
    painted = {key: painting.n for key, record in now.items() if (painting := project.painted(record)) is not None}
    new = [key for key, n in painted.items() if before.snapshots.get(key) != n]
    old = [i for i, key in enumerate(before.keys) if before.snapshots[key] != painted.get(key)]
    if not same or (before.concept.fitted is None and max(len(new), len(old)) > FEW):
        return None
    concept = before.concept if before.legend == legend else replace(before.concept, legend=legend)
    taken = [one for one in (_painted(project, now[key]) for key in new) if one is not None]
    table = numbers_of(legend)
    try:
        if taken:
            read = [photos.decoded(one.record) for one in taken]
            concept = concept.extend(read, [table[one.pixels] for one in taken])
        for i in reversed(old):
            concept = concept.without(i)
    except Error:
        return None
    keys = (*(key for i, key in enumerate(before.keys) if i not in old), *(one.record.key for one in taken))
    snapshots = {key: before.snapshots[key] for key in keys if key in before.snapshots}
    snapshots |= {one.record.key: one.n for one in taken}
    untouched = not taken and not old
    seconds = before.seconds if untouched else time.perf_counter() - start
    return Learned(concept, keys, snapshots, seconds, whole=before.whole and untouched)


def _leave_out_broken(project: Project, photos: Photos, painted: Sequence[_Painted]) -> bool:
    """Note which of the photographs cannot be read; whether there was one."""
    broken = False
    for one in painted:
        try:
            photos.decoded(one.record)
        except Error:
            broken = True
    return broken


def _told(error: Error | OSError) -> str:
    return str(error) if isinstance(error, Error) else f"It cannot be read ({error.strerror})."

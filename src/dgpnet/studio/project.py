"""A project: a folder of photographs, and what is painted, found and said of each, all of it in files."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dgpnet.errors import Error
from dgpnet.files import lock, make_folder, read_record, remove_leftovers, write_record
from dgpnet.segmenter.entries import Stamp, stamp
from dgpnet.segmenter.photographs import JOURNALS, RECORD, Photograph
from dgpnet.serving import Problem
from dgpnet.studio import photos
from dgpnet.studio.classes import Class, Classes
from dgpnet.studio.found import Finds, Found
from dgpnet.studio.paintings import Mask, Painting, Paintings
from dgpnet.studio.strokes import Rectangle, Stroke, check_values

#: What the record of a project calls itself; another layout gets another number.
FORMAT = "dgpnet.studio.1"
#: What may be said of a photograph's mask.
REVIEWS = ("none", "accepted", "rejected")
#: Bytes that the journal may have while the studio runs, and when it starts or ends.
LONG, SHORT = 32 << 20, 1 << 20
#: Seconds between two looks for masks that are to be written.
LOOK = 0.5


@dataclass(eq=False)
class Record:
    """What is known of a photograph.

    photo      where it lies and what it is called · id: what it is called in addresses
    size       (H, W) as viewers show it; None until it was looked at · stamp: whether the file has changed since
    problem    why it cannot be read, in a sentence
    review     what a person said of its mask · revision: of the project when it last changed
    checked    the stamp with which the whole of it could be read
    lock       held by whoever reads or changes its painted mask
    """

    photo: Photograph
    id: str
    size: tuple[int, int] | None = None
    stamp: Stamp | None = None
    problem: str | None = None
    review: str = "none"
    revision: int = 0
    checked: Stamp | None = None
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def key(self) -> str:
        """What its files are called."""
        return self.photo.key

    @property
    def name(self) -> str:
        """Its path in the folder."""
        return self.photo.name


Changed = Callable[[Record], object]


class Project:
    """Photographs and masks. Any thread may call anything.

    folder: of photographs · root: where the project is · told: called with each photograph that has changed
    """

    def __init__(self, folder: Path, root: Path, told: Changed = lambda record: None) -> None:
        self.folder = folder
        self.root = root
        self.told = told
        self.id = ""
        self.notes: list[str] = []
        self.learned = False
        self.classes = Classes.read(root / "painted")
        self.paintings = Paintings(root, lambda: self.classes)
        self.finds = Finds(root, self._counted)
        self._records: dict[str, Record] = {}
        self._keys: dict[str, Record] = {}
        self._known: dict[str, str] = {}
        self._reviews: dict[str, str] = {}
        self._lock = threading.RLock()
        self._revision = 0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("saving", self._save_behind), ("looking", self._look_behind))
        ]
        self._again = threading.Event()

    # -- opening and closing -------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Read what there is, mend what a kill left half done, and begin to work behind the scenes."""
        self.id = _record(self.root)
        others = self.paintings.open()
        self.notes += self.paintings.notes
        for line in others:
            match line.get("op"):
                case "photo":
                    self._known[line["name"]] = line["key"]
                case "review":
                    self._reviews[line["key"]] = line["review"]
                case "learned":
                    self.learned = bool(line["on"])
        self.finds.open()
        self.scan()
        self.save()
        self.paintings.shorten(self._lines(), longest=SHORT)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Bring everything to its file."""
        self._stop.set()
        self._again.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(30)
        self.finds.close()
        self.save()
        self.paintings.shorten(self._lines(), longest=SHORT)
        self.paintings.close()

    def scan(self) -> tuple[int, int]:
        """Look for photographs; how many are new, and how many are gone."""
        found = photos.find(self.folder, self.root, self._known)
        new = [photo for photo in found if photo.name not in self._known]
        _refuse_others(self, found)
        if new:
            self.paintings.write(*({"op": "photo", "name": photo.name, "key": photo.key} for photo in new))
        with self._lock:
            before = self._records
            self._known |= {photo.name: photo.key for photo in new}
            self._records = {}
            for photo in found:
                name = photos.id_of(photo.name)
                record = before.get(name) or Record(photo, name, review=self._reviews.get(photo.key, "none"))
                if record.problem or (record.stamp and record.stamp != _stamp(photo)):
                    record.size = record.problem = None  # to be looked at again
                self._records[name] = record
            self._keys = {record.key: record for record in self._records.values()}
            self._revision += 1
        self._again.set()
        return len(self._records.keys() - before.keys()), len(before.keys() - self._records.keys())

    def _lines(self) -> Iterator[dict[str, Any]]:
        """What stays in the journal besides masks."""
        with self._lock:
            known, reviews = dict(self._known), dict(self._reviews)
        yield from ({"op": "photo", "name": name, "key": key} for name, key in known.items())
        yield from ({"op": "review", "key": key, "review": review} for key, review in reviews.items())
        yield {"op": "learned", "on": self.learned}

    # -- photographs ---------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return self._revision

    def records(self) -> list[Record]:
        """All photographs, by name."""
        with self._lock:
            return list(self._records.values())

    def record(self, name: str) -> Record:
        """The photograph of this id; a Problem where there is none."""
        with self._lock:
            found = self._records.get(name)
        if found is None:
            raise Problem(404, "There is no such photograph.")
        return found

    def of_key(self, key: str) -> Record | None:
        """The photograph whose files are called so."""
        return self._keys.get(key)

    def look(self, record: Record) -> Record:
        """Make sure that a photograph was looked at: its size is known, or why it cannot be read."""
        if record.size is None and record.problem is None:
            self._look(record)
        return record

    def look_again(self, record: Record) -> None:
        """Forget that a photograph could not be read, since its file may have been mended."""
        record.size = record.problem = None
        self._look(record)
        if record.problem is None:
            self.changed(record)

    def size(self, record: Record) -> tuple[int, int]:
        """(H, W); a Problem where it cannot be read."""
        self.look(record)
        if record.size is None:
            raise Problem(409, f"This photograph cannot be read: {record.problem}")
        return record.size

    def path(self, record: Record) -> Path:
        """What to open; a Problem where it cannot be read."""
        try:
            return photos.checked(self.folder, record.photo)
        except Error as error:
            self.broken(record, str(error))
            raise Problem(409, f"This photograph cannot be read: {error}") from None

    def broken(self, record: Record, problem: str) -> None:
        """Note that a photograph cannot be read, and why."""
        if record.problem != problem:
            record.problem = problem
            self.changed(record)

    def changed(self, record: Record) -> None:
        """Tell that something of a photograph has changed."""
        with self._lock:
            self._revision += 1
            record.revision = self._revision
        self.told(record)

    def _look(self, record: Record) -> None:
        try:
            size, mark = photos.seen(self.folder, record.photo)
        except Error as error:
            self.broken(record, str(error))
            return
        painting, found = self.paintings.get(record.key), self.finds.get(record.key)
        if painting is not None and painting.size != size:
            height, width = painting.size
            self.broken(
                record, f"It was painted when it had {width} × {height} pixels, and has {size[1]} × {size[0]} now."
            )
            return
        if found is not None and (tuple(found.stamp) != mark or found.size != size):
            self.finds.drop([record.key])
        record.size, record.stamp, record.problem = size, mark, None

    def _look_behind(self) -> None:
        """Look at photographs that nobody has asked for, so that broken ones are known."""
        while not self._stop.is_set():
            self._again.wait()
            self._again.clear()
            for record in self.records():
                if self._stop.is_set():
                    return
                self.look(record)

    # -- painting ------------------------------------------------------------------------------------------------------

    def painted(self, record: Record) -> Painting | None:
        """What is painted on a photograph, unless it does not fit any more."""
        painting = self.paintings.get(record.key)
        return painting if painting is not None and (record.size is None or record.size == painting.size) else None

    def stroke(
        self, record: Record, stroke: Stroke, base: str, match: str | None, name: str | None, runs: list[int]
    ) -> Painting:
        """Paint a stroke. base: what it was drawn on, "painted", "found" or "empty" · match: the etag of that, where it
        was given · name: of the stroke, where it may be sent again · runs: of the stroke"""
        size, place = self.size(record), stroke.place
        line = {"x": place.x, "y": place.y, "w": place.width, "h": place.height, "runs": runs, "id": name}
        with record.lock:
            painting = self.painted(record)
            if self.paintings.knows(name) and painting is not None:
                return painting
            check_values(stroke.counts, self.classes.values)  # one may have been removed meanwhile
            if painting is not None:
                if base != "painted":
                    raise Problem(412, "This photograph is painted by now; load its mask again.", etag=painting.etag)
                _check(match, painting.etag, needed=False)
                self.paintings.stroke(painting, stroke, **line)
            elif base == "painted":
                raise Problem(412, "This photograph is not painted any more; load its mask again.", etag=None)
            else:
                painting = self.paintings.begin(record.key, size, self._base(record, base, match), stroke, **line)
        self.changed(record)
        return painting

    def _base(self, record: Record, base: str, match: str | None) -> Path | None:
        """The mask file that is painted on; None for nothing."""
        found = self.finds.get(record.key)
        if base == "empty":
            return None
        _check(match, found.etag if found is not None else None, needed=True)
        assert found is not None, "an etag that matches is one's"
        try:
            return self.finds.file(found)
        except Error as error:
            raise Problem(412, str(error), etag=None) from None

    def put(self, record: Record, pixels: Mask, match: str | None, *, new: bool = False) -> Painting:
        """Put a whole mask (H, W) of values in place. new: only where there is none; otherwise `match` is needed."""
        size = self.size(record)
        if pixels.shape != size:
            raise Problem(422, f"The photograph is {size[1]} × {size[0]} pixels; the mask is not.")
        check_values(np.bincount(pixels.ravel(), minlength=256), self.classes.values)
        with record.lock:
            current = self.current_etag(record)
            if new and current is not None:
                raise Problem(412, "There is a mask already; load it first.", etag=current)
            if not new:
                _check(match, current, needed=True)
            painting = self.paintings.replace(record.key, pixels)
        self.changed(record)
        return painting

    def delete(self, record: Record, match: str | None) -> None:
        """Take back everything that was painted on a photograph."""
        with record.lock:
            painting = self.paintings.get(record.key)
            if painting is None:
                raise Problem(404, "This photograph is not painted.")
            _check(match, painting.etag, needed=True)
            self.paintings.delete(painting)
        if record.size is None:
            record.problem = None
        self.look(record)
        self.changed(record)

    def current_etag(self, record: Record) -> str | None:
        """Of the mask that is shown: the painted one, or else the found one."""
        painting, found = self.painted(record), self.finds.get(record.key)
        return painting.etag if painting is not None else found.etag if found is not None else None

    def pixels(self, record: Record, source: str, place: Rectangle | None = None) -> tuple[str, str, Mask]:
        """Where the mask comes from ("painted" or "found"), its etag and (h, w) values; a Problem where there is none.

        source: "current", "painted" or "found" · place: the part that is asked for. What comes back is not to be
        changed, and is a copy of what is painted.
        """
        with record.lock:
            painting = self.painted(record)
            if painting is not None and source in ("current", "painted"):
                pixels = self.paintings.pixels(painting)
                return "painted", painting.etag, (pixels if place is None else place.of(pixels)).copy()
        found = self.finds.get(record.key)
        if found is None or source == "painted":
            raise Problem(404, "There is no such mask.")
        try:
            pixels = self.finds.pixels(found)
            return "found", found.etag, pixels if place is None else place.of(pixels)
        except Error:
            self.changed(record)
            raise Problem(404, "There is no such mask any more; it will be found anew.") from None

    def snapshots(self) -> dict[str, int]:
        """Number of the last change of every painted photograph that can be learned from, by key."""
        records = [record for record in self.records() if self.painted(record) is not None and record.problem is None]
        return {record.key: painting.n for record in records if (painting := self.painted(record)) is not None}

    # -- what is said and found ----------------------------------------------------------------------------------------

    def review(self, record: Record, review: str) -> None:
        """What a person says of the mask."""
        if review not in REVIEWS:
            raise Problem(422, f"A review is one of {', '.join(REVIEWS)}.")
        if review != "none" and self.current_etag(record) is None:
            raise Problem(409, "There is no mask yet that could be accepted or rejected.")
        if record.review != review:
            self.paintings.write({"op": "review", "key": record.key, "review": review})
            with self._lock:
                self._reviews[record.key] = review
            record.review = review
            self.changed(record)

    def is_frozen(self, record: Record) -> bool:
        """Whether its found mask is to stay as it is: a person accepted it."""
        return record.review == "accepted" and self.painted(record) is None and self.finds.get(record.key) is not None

    def set_learned(self, on: bool) -> None:
        """Remember whether masks are to be found by themselves."""
        if self.learned != on:
            self.paintings.write({"op": "learned", "on": on})
            self.learned = on

    def forget_found(self) -> None:
        """Forget what was found, but for what a person accepted."""
        records = [record for record in self.records() if self.finds.get(record.key) and not self.is_frozen(record)]
        self.finds.drop([record.key for record in records])
        for record in records:
            self.changed(record)

    def _counted(self, found: Found) -> None:
        if (record := self.of_key(found.key)) is not None:
            self.changed(record)

    # -- classes -------------------------------------------------------------------------------------------------------

    def add_class(self, name: str, colour: tuple[int, int, int] | None = None, value: int | None = None) -> Class:
        """A new class."""
        with self._lock:
            classes, new = self.classes.with_new(name, colour, value=value)
            self._set(classes)
        return new

    def change_class(self, value: int, name: str | None, colour: tuple[int, int, int] | None) -> Class:
        """Another name or colour for a class."""
        with self._lock:
            self._class(value)
            self._set(self.classes.changed(value, name, colour))
            return self._class(value)

    def remove_class(self, value: int, *, erase: bool) -> None:
        """Remove a class. erase: take it out of all painted masks; otherwise a Problem where it is painted."""
        self._class(value)
        shown = [one for one in self.records() if (at := self.paintings.get(one.key)) and at.counts[value]]
        if shown and not erase:
            raise Problem(409, f"This class is painted in {len(shown)} photographs.", photographs=len(shown))
        with self._lock:
            self._set(self.classes.without(value))  # first, so that nobody paints it any more
        for record in shown:
            with record.lock:
                painting = self.paintings.get(record.key)
                if painting is not None:
                    self.paintings.erase(painting, value)
            self._save(record.key)  # at once, since there may be many of them
            self.changed(record)

    def _class(self, value: int) -> Class:
        found = self.classes.get(value)
        if found is None:
            raise Problem(404, f"There is no class {value}.")
        return found

    def _set(self, classes: Classes) -> None:
        classes.write(self.root / "painted")
        self.classes = classes
        self._revision += 1

    # -- files behind the scenes ---------------------------------------------------------------------------------------

    def save(self, keys: Iterable[str] | None = None) -> None:
        """Bring painted masks to their files: those of these keys, or all."""
        for key in self.paintings.due() if keys is None else keys:
            self._save(key)

    def _save(self, key: str) -> None:
        record = self.of_key(key)
        held = record.lock if record is not None else threading.RLock()  # of a photograph that is gone
        with held:
            painting = self.paintings.get(key)
            if painting is None or not painting.dirty:
                return
            n, pixels = self.paintings.copied(painting)
        several = self.paintings.save(key, pixels)
        with held:
            if self.paintings.get(key) is painting:
                self.paintings.saved(painting, n, several)
            elif self.paintings.get(key) is None:
                self.paintings.path(key).unlink(missing_ok=True)
        if record is not None:
            self.changed(record)

    def _save_behind(self) -> None:
        told = False
        while not self._stop.wait(LOOK):
            try:
                self.save(self.paintings.due(time.time()))
                self.paintings.shorten(self._lines(), longest=LONG)
                told = False
            except (OSError, Error) as error:  # a full disk: the journal has it all, and there may be room later
                if not told:
                    self.notes.append(f"Masks could not be written to their files: {error}")
                told = True


@contextmanager
def opened(folder: Path, root: Path | None, told: Changed = lambda record: None) -> Iterator[Project]:
    """The project of a folder of photographs, alone in it; an Error where that cannot be. root: where it is kept."""
    folder = Path(folder)
    if not folder.is_dir():
        raise Error(f"{folder} is no folder; give a folder of photographs.")
    place = _place(folder, root)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(place / "lock", f"The project {place}"))
            for part in ("", "painted", "painted/masks", "found", "found/masks", "found/uncertainty", "whole"):
                if (place / part).is_dir():
                    remove_leftovers(place / part, below=part in ("painted/masks", "found/masks", "found/uncertainty"))
            make_folder(place / "painted")
            project = Project(folder, place, told)
            stack.callback(project.close)
            project.open()
        except OSError as problem:
            raise _unwritable(folder, place, root, problem) from problem
        yield project


def _place(folder: Path, root: Path | None) -> Path:
    """Where the project is kept, made where it is not there yet."""
    place = folder / RECORD if root is None else Path(root)
    if root is None and any((place / name).exists() for name in JOURNALS):
        raise Error(f"{folder} holds the results of a job; give the photographs that it was made from.")
    if root is not None and place.is_dir() and not (place / "project.json").exists() and any(place.iterdir()):
        raise Error(f"{place} is not empty and no project; give the name of a new folder for --project.")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _unwritable(folder, place, root, problem) from problem
    return place


def _unwritable(folder: Path, place: Path, root: Path | None, problem: OSError) -> Error:
    why = problem.strerror or problem
    if root is None:
        return Error(
            f"{folder} cannot be written to ({why}), and the project is kept in it; "
            "keep it elsewhere with --project DIR."
        )
    return Error(f"{place} cannot be written to ({why}); choose another folder for --project.")


def _record(root: Path) -> str:
    """The project's own id; written where there is none yet."""
    path = root / "project.json"
    known = read_record(path)
    if known is None:
        if path.exists() and path.stat().st_size:
            raise Error(f"{path} is damaged; take it away, and the project is opened without it.")
        known = {"format": FORMAT, "id": secrets.token_hex(8)}
        write_record(path, known)
    if known.get("format") != FORMAT:
        raise Error(f"{root} was made by another version of dgpnet; use that, or choose another --project.")
    return str(known["id"])


def _refuse_others(project: Project, found: Sequence[Photograph]) -> None:
    """An Error where painted masks are of photographs none of which is here."""
    painted = set(project.paintings.keys())
    if painted and found and not painted & {photo.key for photo in found}:
        raise Error(
            f"{project.root} is the project of other photographs ({min(painted)[:60]} was painted, and is not in "
            f"{project.folder}); give these, or choose another --project."
        )


def _stamp(photo: Photograph) -> Stamp | None:
    try:
        return stamp(photo.path)
    except OSError:
        return None


def _check(match: str | None, etag: str | None, *, needed: bool) -> None:
    """A Problem where what was seen is not what is there. match: If-Match, "*" for whatever there is."""
    if match is None:
        if needed:
            raise Problem(428, "Say which mask this is about: If-Match has its etag.", etag=etag)
        return
    if etag is None or (match != "*" and etag.strip('"') not in _etags(match)):
        raise Problem(412, "The mask has changed meanwhile; load it again.", etag=etag)


def _etags(match: str) -> set[str]:
    return {one.strip().removeprefix("W/").strip('"') for one in match.split(",")}

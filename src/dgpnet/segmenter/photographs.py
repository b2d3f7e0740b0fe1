"""Which photographs a job is about, and what its results are called."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice
from pathlib import Path
from posixpath import normpath
from tempfile import SpooledTemporaryFile
from types import MappingProxyType
from typing import Any

from dgpnet.annotations.layouts import alike
from dgpnet.annotations.reading import PHOTO_SUFFIXES
from dgpnet.errors import Error
from dgpnet.segmenter.entries import PAGE, Database, stays_inside, text, untext
from dgpnet.storage import AT_ONCE, Stored, below, is_address, stored, whole

#: Where a job keeps its record, in its output folder.
RECORD = ".dgpnet"
#: The files in it: what the results are made with, and which photographs are done.
JOURNALS = ("job.json", "done.jsonl")
#: What a job writes besides its record.
OUTPUTS = (
    "classes.json",
    "summary.csv",
    "summary.json",
    "masks",
    "instances",
    "overlays",
    "uncertainty",
    "annotations",
    "aside",
    "report",
)
#: A photograph's name, where it lies, and the object that it is in object storage.
Found = tuple[str, Path, Stored | None]
#: Characters of a list that are in memory; a longer one is on the disk.
SPOOLED = 1 << 20
#: What results are files of, beside a folder that may be called the same.
SUFFIXES = (".png", ".jpg")


@dataclass(frozen=True)
class Photograph:
    """A photograph to segment.

    path: the file · name: its path below the folder that was given, with forward slashes ("trip/mug.jpg") ·
    key: what its results are called, without suffix ("trip/mug"; "trip/mug.jpg" where there is a trip/mug.png too)
    stored: the object that it is, in object storage; then `path` is no file
    """

    path: Path
    name: str
    key: str
    stored: Stored | None = None

    @property
    def where(self) -> str:
        """What to call it in a sentence."""
        return str(self.path) if self.stored is None else self.stored.address

    @property
    def real(self) -> str:
        """Where it really lies, links followed."""
        return os.path.realpath(self.path) if self.stored is None else self.stored.address


def find_photographs(
    given: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    skip: Iterable[Path] = (),
) -> list[Photograph]:
    """All photographs among files and below folders, sorted by name; hidden ones and those below `skip` left out.

    A folder may be one of object storage ("s3://bucket/trip"), and "@list.txt" is all that a text file names, a path or
    an address a line; their names begin below the folder that they have in common.

    A file is taken whatever it is called, below a folder those that are called like photographs: also what cannot be
    read (a broken link, a closed folder), for whoever reads it to say so. With several folders, names begin with the
    folder's own. What a job wrote is never a photograph.
    out: where this job writes.
    """
    return list(list_photographs(given, out=out, skip=skip))


def list_photographs(
    given: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    skip: Iterable[Path] = (),
) -> Listing:
    """As `find_photographs`, for any number of them."""
    listing = Listing()
    listing.add(_found(given, whole(str(out)).rstrip("/") if is_address(str(out)) else out, list(skip)))
    if not len(listing):
        kinds = " ".join(sorted(PHOTO_SUFFIXES))
        raise Error(f"There is no photograph in {', '.join(map(str, given))}; photographs are files named {kinds}.")
    listing.give_keys()
    return listing


def _found(
    given: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None, skip: Sequence[Path]
) -> Iterator[Found]:
    apart, out = (str(out), None) if is_address(out) else (None, out)
    given = [whole(str(one)) if is_address(str(one)) else one for one in given]  # a Path has left one slash
    folders = [one for one in given if is_address(one) or Path(one).is_dir()]
    for named, one in zip(given, map(Path, given), strict=True):
        front = f"{(one if is_address(named) else _real(one)).name}/" if len(folders) > 1 else ""  # "." has a name, too
        if is_address(named):
            yield from ((front + name, Path(each.address), each) for name, each in _objects(str(named), apart))
            continue
        _refuse_results(one, out)
        if str(named).startswith("@") and not os.path.lexists(one):
            yield from _named_in(Path(str(named)[1:]))
        elif one.is_dir():
            avoided = {_real(path) for path in (*skip, *([] if out is None else [Path(out)]))} - {_real(one)}
            yield from ((front + path.relative_to(one).as_posix(), path, None) for path in _below(one, avoided))
        elif os.path.lexists(one):
            yield one.name, one, None
        else:
            raise Error(f"There is no photograph or folder {one}; check the path.")


def _named_in(path: Path) -> Iterator[Found]:
    """What each line of a list names: all their folders tell what names begin below. A pipe is a list, too: it is read
    once."""
    common: str | None = None
    kinds: set[bool] = set()
    with SpooledTemporaryFile(SPOOLED, "w+", encoding="utf-8") as copy:
        for line in _lines(path):
            kinds.add(is_address(line))
            if len(kinds) > 1:
                raise Error(f"{path} names both files and addresses; make two lists of it.")
            if not is_address(line) and not os.path.lexists(line):
                raise Error(f"There is no photograph {line}, which {path} names; check the path.")
            folder = os.path.dirname(_from_the_root(line))
            common = folder if common is None else os.path.commonpath([common, folder])
            copy.write(f"{line}\n")
        if common is None:
            raise Error(f"{path} names no photographs; write a path a line.")
        copy.seek(0)
        lines = (line.removesuffix("\n") for line in copy)
        while several := list(islice(lines, AT_ONCE * AT_ONCE)):
            objects = stored(several) if kinds == {True} else [None] * len(several)
            for line, one in zip(several, objects, strict=True):
                yield Path(os.path.relpath(_from_the_root(line), common or ".")).as_posix(), Path(line), one


def _from_the_root(line: str) -> str:
    """A path that says how it leads to what else a list names; of an address, itself."""
    return os.path.normpath(line) if is_address(line) else os.path.abspath(line)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield line.removesuffix("\n")
    except (OSError, UnicodeError) as error:
        raise Error(f"{path} cannot be read as a list of photographs ({error}); write a path a line.") from error


def _objects(address: str, out: str | None) -> Iterator[tuple[str, Stored]]:
    """Names and objects of the photographs below an address; not what jobs wrote, least of all the one that writes to
    `out`."""
    _refuse_results_there(address, out)
    written: set[str] = set()
    for found in below(address):
        # A job's record is hidden, and so comes before what it wrote, or with it.
        records = [name for name in found if f"/{name}".endswith(tuple(f"/{RECORD}/{one}" for one in JOURNALS))]
        written |= {name.rpartition(f"{RECORD}/")[0] + output for name in records for output in OUTPUTS}
        for name, one in found.items():
            if out is not None and one.address.startswith(f"{out}/"):
                continue
            if _is_called_like_one(name) and written.isdisjoint(accumulate(name.split("/"), "{}/{}".format)):
                yield name, one


def _refuse_results_there(address: str, out: str | None) -> None:
    """As `_refuse_results`, of addresses."""
    if out is not None and address.rstrip("/") == out:
        raise Error(f"{address} is both where photographs are and where results would go; choose another --out.")
    if out is not None and any(f"{address}/".startswith(f"{out}/{name}/") for name in OUTPUTS):
        raise Error(f"{address} lies among the results of a job; give the photographs that it was made from.")


def _is_called_like_one(name: str) -> bool:
    parts = name.split("/")
    return not any(part.startswith(".") for part in parts) and Path(parts[-1]).suffix.lower() in PHOTO_SUFFIXES


def with_keys(named: Mapping[str, Path], known: Mapping[str, str] = MappingProxyType({})) -> list[Photograph]:
    """Photographs with a key each, sorted by name; no two keys share a file, on any disk.

    named: name -> path · known: name -> key that earlier runs gave, which stays
    A key is the name without suffix; where another photograph would have the same, the whole name.
    """
    listing = Listing()
    listing.add((name, path, None) for name, path in named.items())
    listing.give_keys(known.items())
    return list(listing)


class Listing(Collection[Photograph]):
    """Photographs sorted by name, on the disk of this machine and not in its memory."""

    def __init__(self) -> None:
        self._database = Database(
            "CREATE TABLE photographs (name BLOB PRIMARY KEY, path BLOB, address TEXT, size INTEGER, change INTEGER,"
            " key BLOB, is_new INTEGER, done INTEGER DEFAULT 0, alike BLOB, stem BLOB)",
            "CREATE INDEX by_alike ON photographs (alike)",
            "CREATE INDEX by_stem ON photographs (stem)",
            "CREATE INDEX by_key ON photographs (key)",
            # Files and folders that results take, as a disk compares them that tells neither A from a nor é from é.
            "CREATE TABLE places (place BLOB, is_folder INTEGER, PRIMARY KEY (place, is_folder)) WITHOUT ROWID",
        )

    def add(self, found: Iterable[Found]) -> None:
        """Add photographs; an Error where two that are not the same file would have one name."""
        add = "INSERT INTO photographs (name, path, address, size, change, alike, stem) VALUES (?, ?, ?, ?, ?, ?, ?)"
        found = iter(found)
        while several := list(islice(found, PAGE)):
            new: dict[str, Photograph] = {}
            for name, path, one in several:
                photo = Photograph(path, name, "", one)
                if not stays_inside(name):
                    raise Error(
                        f"{photo.where} would be called {name[:100]}, which leads outside the folder of results; "
                        "rename it."
                    )
                before = new.get(name) or self._called(name)
                if before is None:
                    new[name] = photo
                elif before.real != photo.real:
                    raise Error(
                        f"{before.where} and {photo.where} would both be called {name}; segment them into two folders."
                    )
            self._database.change(add, map(_row, new.values()))

    def _called(self, name: str) -> Photograph | None:
        rows = self._database.ask(f"SELECT {COLUMNS} FROM photographs WHERE name = ?", text(name))
        return _photograph(*rows[0]) if rows else None

    def give_keys(self, known: Iterable[tuple[str, str]] = ()) -> None:
        """Give each a key; see `with_keys`."""
        ask, change = self._database.ask, self._database.change
        ask("DELETE FROM places")
        ask("UPDATE photographs SET key = NULL")
        known = iter(known)
        while several := list(islice(known, PAGE)):
            change("INSERT OR IGNORE INTO places VALUES (?, ?)", chain(*(_places(key) for _, key in several)))
            change("UPDATE photographs SET key = ? WHERE name = ?", ((text(key), text(name)) for name, key in several))
        ask("UPDATE photographs SET is_new = key IS NULL")
        last = b""
        new = "SELECT name FROM photographs WHERE name > ? AND key IS NULL ORDER BY name LIMIT ?"
        while names := [untext(name) for (name,) in ask(new, last, PAGE)]:
            keys = {name: self._free_key(name) for name in names}
            change("UPDATE photographs SET key = ? WHERE name = ?", ((text(keys[name]), text(name)) for name in names))
            last = text(names[-1])

    def _free_key(self, name: str) -> str:
        short = _stem(name)
        stem = text(_alike(short))
        alike = self._database.ask("SELECT name FROM photographs WHERE stem = ? AND is_new LIMIT 2", stem)
        taken = self._database.one("SELECT 1 FROM photographs WHERE alike = ?", stem)
        candidates = [*([short] if len(alike) == 1 and not taken else []), name]
        key = next(key for key in chain(candidates, _numbered(name)) if self._is_free(key))
        self._database.change("INSERT OR IGNORE INTO places VALUES (?, ?)", _places(key))
        return key

    def _is_free(self, key: str) -> bool:
        files = [self._database.one("SELECT 1 FROM places WHERE place = ?", text(one)) for one in _files(key)]
        folders = (
            self._database.one("SELECT 1 FROM places WHERE place = ? AND is_folder = 0", text(one))
            for one in _folders(key)
        )
        return not any(files) and not any(folders)

    def __len__(self) -> int:
        count: int = self._database.one("SELECT count(*) FROM photographs")
        return count

    def __iter__(self) -> Iterator[Photograph]:
        return self._those("1")

    def __contains__(self, photo: object) -> bool:
        return isinstance(photo, Photograph) and self._called(photo.name) is not None

    def has_key(self, key: str) -> bool:
        """Whether one of them has this key."""
        return self._database.one("SELECT 1 FROM photographs WHERE key = ?", text(key)) is not None

    def set_done(self, names: Iterable[str]) -> int:
        """These need not be done, all others do; returns how many these are."""
        self._database.ask("UPDATE photographs SET done = 0")
        names = iter(names)
        while several := list(islice(names, PAGE)):
            self._database.change("UPDATE photographs SET done = 1 WHERE name = ?", ((text(name),) for name in several))
        count: int = self._database.one("SELECT count(*) FROM photographs WHERE done = 1")
        return count

    def to_do(self) -> Iterator[Photograph]:
        """Those that are not done."""
        return self._those("done = 0")

    def _those(self, where: str) -> Iterator[Photograph]:
        last = b""
        page = f"SELECT {COLUMNS} FROM photographs WHERE name > ? AND {where} ORDER BY name LIMIT ?"
        # A page by itself each: what is read here may be changed meanwhile.
        while rows := self._database.ask(page, last, PAGE):
            yield from (_photograph(*row) for row in rows)
            last = rows[-1][0]


#: What `_photograph` is made of.
COLUMNS = "name, path, address, size, change, key"


def _photograph(name: bytes, path: bytes, address: str | None, size: int, change: int, key: bytes | None) -> Photograph:
    one = None if address is None else Stored(address, (size, change))
    return Photograph(Path(os.fsdecode(path)), untext(name), untext(key or b""), one)


def _row(photo: Photograph) -> tuple[Any, ...]:
    name, one = photo.name, photo.stored
    address, (size, change) = (None, (0, 0)) if one is None else (one.address, one.stamp)
    return text(name), os.fsencode(photo.path), address, size, change, text(_alike(name)), text(_alike(_stem(name)))


def _places(key: str) -> list[tuple[bytes, int]]:
    """The files and the folders that the results of a key take."""
    return [(text(one), 0) for one in _files(key)] + [(text(one), 1) for one in _folders(key)]


def _files(key: str) -> set[str]:
    return {_alike(key) + suffix for suffix in SUFFIXES}


def _folders(key: str) -> set[str]:
    parts = _alike(key).split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def _alike(text: str) -> str:
    """What a disk takes for the same: storage tells a//b and a/./b from a/b as well."""
    return normpath(alike(text))


def _numbered(name: str) -> Iterator[str]:
    """a/b.jpg~2 …, the folders too: one of them may be what is in the way."""
    return ("/".join(f"{part}~{n}" for part in name.split("/")) for n in count(2))


def _stem(name: str) -> str:
    suffix = Path(name).suffix
    return name.removesuffix(suffix) if suffix else name


def _real(path: Path) -> Path:
    """Without links; unlike Path.resolve, of a circle of links too."""
    return Path(os.path.realpath(path))


def _refuse_results(given: Path, out: str | os.PathLike[str] | None) -> None:
    real = _real(given)
    if out is not None and real == _real(Path(out)):
        raise Error(f"{given} is both where photographs are and where results would go; choose another --out.")
    own = [] if out is None else [_real(Path(out))]
    for folder in [*own, *filter(_holds_results, real.parents)]:
        if real.is_relative_to(folder) and real != folder and real.relative_to(folder).parts[0] in OUTPUTS:
            raise Error(f"{given} lies among the results of a job; give the photographs that it was made from.")


def _holds_results(folder: Path) -> bool:
    """Whether a job wrote here; the record of a studio is no job's."""
    return any((folder / RECORD / name).exists() for name in JOURNALS)


def _below(folder: Path, avoided: set[Path]) -> Iterator[Path]:
    """Files that are called like photographs, and folders that may not be read."""
    folders = [folder]
    while folders:
        here = folders.pop()
        written = OUTPUTS if _holds_results(here) else ()
        try:
            with os.scandir(here) as entries:
                for one in entries:
                    path, is_folder = here / one.name, _is_folder(one)
                    if is_folder:
                        fits = one.name not in written and not one.is_symlink()
                    else:
                        fits = path.suffix.lower() in PHOTO_SUFFIXES
                    if not fits or one.name.startswith(".") or _real(path) in avoided:
                        continue
                    if is_folder:
                        folders.append(path)
                    else:
                        yield path
        except OSError as error:
            yield Path(error.filename or here)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle
        return False

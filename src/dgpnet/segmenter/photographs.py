"""Which photographs a job is about, and what its results are called."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, count
from pathlib import Path
from types import MappingProxyType
from unicodedata import normalize

from dgpnet.annotations.layouts import without_ending
from dgpnet.annotations.reading import PHOTO_SUFFIXES
from dgpnet.errors import Error
from dgpnet.storage import Stored, below, is_address, stored, whole

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
    apart = whole(str(out)).rstrip("/") if is_address(str(out)) else None
    out = None if apart else out
    folders = [one for one in given if is_address(one) or Path(one).is_dir()]
    named: dict[str, Path] = {}
    objects: dict[str, Stored] = {}
    for text, one in zip(given, map(Path, given), strict=True):
        if not is_address(text):
            _refuse_results(one, out)
        if is_address(text):
            front = f"{one.name}/" if len(folders) > 1 else ""
            remote = {front + name: each for name, each in _photographs_below(str(text), apart).items()}
            found = [(name, Path(each.address)) for name, each in remote.items()]
            objects |= {name: each for name, each in remote.items() if name not in named}
        elif str(text).startswith("@") and not os.path.lexists(one):
            found, remote = _named_in(Path(str(text)[1:]))
            objects |= {name: each for name, each in remote.items() if name not in named}
        elif one.is_dir():
            front = f"{_real(one).name}/" if len(folders) > 1 else ""
            avoided = {_real(path) for path in (*skip, *([] if out is None else [Path(out)]))} - {_real(one)}
            found = [(front + path.relative_to(one).as_posix(), path) for path in _below(one, avoided)]
        elif os.path.lexists(one):
            found = [(one.name, one)]
        else:
            raise Error(f"There is no photograph or folder {one}; check the path.")
        for name, path in found:
            other = named.setdefault(name, path)
            if _real(other) != _real(path):
                raise Error(f"{other} and {path} would both be called {name}; segment them into two folders.")
    if not named:
        kinds = " ".join(sorted(PHOTO_SUFFIXES))
        raise Error(f"There is no photograph in {', '.join(map(str, given))}; photographs are files named {kinds}.")
    return [replace(photo, stored=objects.get(photo.name)) for photo in with_keys(named)]


def _named_in(path: Path) -> tuple[list[tuple[str, Path]], dict[str, Stored]]:
    """(name, path) of each line of a list, and the objects among them by name."""
    try:
        lines = dict.fromkeys(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeError) as error:
        raise Error(f"{path} cannot be read as a list of photographs ({error}); write a path a line.") from error
    if not lines:
        raise Error(f"{path} names no photographs; write a path a line.")
    remote = [line for line in lines if is_address(line)]
    if remote and len(remote) < len(lines):
        raise Error(f"{path} names both files and addresses; make two lists of it.")
    for line in () if remote else lines:
        if not os.path.lexists(line):
            raise Error(f"There is no photograph {line}, which {path} names; check the path.")
    folder = os.path.commonpath([os.path.dirname(os.path.normpath(line)) for line in lines])
    found = [(Path(os.path.relpath(os.path.normpath(line), folder or ".")).as_posix(), Path(line)) for line in lines]
    return found, {name: one for (name, _), one in zip(found, stored(remote), strict=False)}


def _photographs_below(address: str, out: str | None) -> dict[str, Stored]:
    """Name -> object of the photographs below an address; not what jobs wrote, least of all the one that writes to
    `out`."""
    _refuse_results_there(address, out)
    found = below(address)
    records = [name for name in found if f"/{name}".endswith(tuple(f"/{RECORD}/{journal}" for journal in JOURNALS))]
    written = {name.rpartition(f"{RECORD}/")[0] + output for name in records for output in OUTPUTS}
    return {
        name: one
        for name, one in found.items()
        if _is_called_like_one(name)
        and (out is None or not one.address.startswith(f"{out}/"))
        and written.isdisjoint(accumulate(name.split("/"), "{}/{}".format))
    }


def _refuse_results_there(address: str, out: str | None) -> None:
    """As `_refuse_results`, of addresses."""
    if out is not None and address.rstrip("/") == out:
        raise Error(f"{address} is both where photographs are and where results would go; choose another --out.")
    if out is not None and any(f"{address}/".startswith(f"{out}/{name}/") for name in OUTPUTS):
        raise Error(f"{address} lies among the results of a job; give the photographs that it was made from.")


def _is_called_like_one(name: str) -> bool:
    parts = name.split("/")
    return not any(part.startswith(".") for part in parts) and Path(parts[-1]).suffix.lower() in PHOTO_SUFFIXES


def masks_beside(support: Path, photos: Iterable[Path]) -> list[Path]:
    """What in a support's folder is a mask, going by the names of the photographs that were painted."""
    own = {_real(photo) for photo in photos}
    names = {name for photo in own for name in (photo.stem, photo.name)}
    found = _below(support, set()) if support.is_dir() else []
    return [path for path in found if _real(path) not in own and without_ending(path.with_suffix("")).name in names]


def with_keys(named: Mapping[str, Path], known: Mapping[str, str] = MappingProxyType({})) -> list[Photograph]:
    """Photographs with a key each, sorted by name; no two keys share a file, on any disk.

    named: name -> path · known: name -> key that earlier runs gave, which stays
    A key is the name without suffix; where another photograph would have the same, the whole name.
    """
    places = _Places()
    for key in known.values():
        places.take(key)
    new = [name for name in sorted(named) if name not in known]
    stems = Counter(_alike(_stem(name)) for name in new)
    names = {_alike(name) for name in named}
    keys = {name: known[name] for name in named if name in known}
    for name in new:
        short = _stem(name)
        alone = stems[_alike(short)] == 1 and _alike(short) not in names
        candidates = [*([short] if alone else []), name]
        keys[name] = next(key for key in chain(candidates, _numbered(name)) if places.free(key))
        places.take(keys[name])
    return [Photograph(named[name], name, keys[name]) for name in sorted(named)]


@dataclass
class _Places:
    """Files and folders that results take, as a disk compares them that tells neither A from a nor é from é."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def free(self, key: str) -> bool:
        files, folders = _files(key), _folders(key)
        return not files & (self.files | self.folders) and not folders & self.files

    def take(self, key: str) -> None:
        self.files |= _files(key)
        self.folders |= _folders(key)


def _files(key: str) -> set[str]:
    return {_alike(key) + suffix for suffix in SUFFIXES}


def _folders(key: str) -> set[str]:
    parts = _alike(key).split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def _alike(text: str) -> str:
    return normalize("NFC", normalize("NFC", text).casefold())


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
    closed: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        here = Path(parent)
        written = OUTPUTS if _holds_results(here) else ()
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in written and _real(here / name) not in avoided
        )
        for name in sorted(names):
            path = here / name
            if not name.startswith(".") and path.suffix.lower() in PHOTO_SUFFIXES and _real(path) not in avoided:
                yield path
    yield from closed

"""Which photographs a job is about, and what its results are called."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgpnet.annotations.reading import PHOTO_SUFFIXES
from dgpnet.errors import Error


@dataclass(frozen=True)
class Photograph:
    """A photograph to segment.

    path: the file · name: its path below the folder that was given, with forward slashes ("trip/mug.jpg") ·
    key: what its results are called, without suffix ("trip/mug"; "trip/mug.jpg" where there is a trip/mug.png too)
    """

    path: Path
    name: str
    key: str


def find_photographs(given: Sequence[str | os.PathLike[str]], *, skip: Iterable[Path] = ()) -> list[Photograph]:
    """All photographs among files and below folders, sorted by name; hidden ones and those below `skip` left out.

    A file is taken whatever it is called, below a folder those that are called like photographs. With several
    folders, names begin with the folder's own.
    """
    folders = [Path(one) for one in given if Path(one).is_dir()]
    named: dict[str, Path] = {}
    for one in map(Path, given):
        if one.is_dir():
            front = f"{one.resolve().name}/" if len(folders) > 1 else ""
            found = [(front + path.relative_to(one).as_posix(), path) for path in _below(one, skip)]
        elif one.exists():
            found = [(one.name, one)]
        else:
            raise Error(f"There is no photograph or folder {one}; check the path.")
        for name, path in found:
            other = named.setdefault(name, path)
            if other.resolve() != path.resolve():
                raise Error(f"{other} and {path} would both be called {name}; segment them into two folders.")
    if not named:
        kinds = " ".join(sorted(PHOTO_SUFFIXES))
        raise Error(f"There is no photograph in {', '.join(map(str, given))}; photographs are files named {kinds}.")
    return _with_keys(named)


def _below(folder: Path, skip: Iterable[Path]) -> Iterator[Path]:
    avoided = {path.resolve() for path in skip} - {folder.resolve()}
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and (here / name).resolve() not in avoided
        )
        for name in sorted(names):
            path = here / name
            if not name.startswith(".") and path.suffix.lower() in PHOTO_SUFFIXES and path.resolve() not in avoided:
                yield path


def _with_keys(named: dict[str, Path]) -> list[Photograph]:
    def stem(name: str) -> str:
        suffix = Path(name).suffix
        return name.removesuffix(suffix) if suffix else name

    # Lower case, since on some disks mug.JPG and Mug.png would share a result.
    taken = Counter(stem(name).lower() for name in named)
    return [
        Photograph(path, name, stem(name) if taken[stem(name).lower()] == 1 else name)
        for name, path in sorted(named.items())
    ]

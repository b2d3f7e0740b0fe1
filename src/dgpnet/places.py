"""Where a job's results go: a folder of a disk or one of object storage. What is written comes out the same."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dgpnet import storage
from dgpnet.checks import path_of
from dgpnet.errors import Error
from dgpnet.files import Journal, atomic, lock, remove_leftovers, sealed, to_disk

#: Seconds between two signs of life of a job that holds a lock in object storage, and after how many without any it
#: counts as dead.
BEAT, DEAD = 20.0, 120.0
#: Bytes that the address of an object may have.
LONGEST = 1000
#: What addresses of the disk begin with, to which nothing need be written as to storage.
LOCAL = ("file", "local")
#: Records in a part of a journal that is written anew.
PART = 10_000
#: Places that a file may be put aside in before that is given up.
ASIDE = 1000


class Place(ABC):
    """A folder for results. Names are paths below it, with forward slashes ("masks/trip/mug.png")."""

    @abstractmethod
    def at(self, name: str = "") -> Path | str:
        """What a file or a folder in it is called: its path, or its address."""

    def __str__(self) -> str:
        return str(self.at())

    def takes(self, name: str) -> bool:
        """Whether a file in it can be called so."""
        return True

    @abstractmethod
    def content(self) -> set[str]:
        """Names of the files and folders directly in it."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None where there is none."""

    @abstractmethod
    def reading(self, name: str) -> AbstractContextManager[Path | None]:
        """A file of this machine with the same bytes, for as long as the block lasts; None where there is none."""

    @abstractmethod
    def put(self, contents: Mapping[str, bytes], *, sync: bool = False) -> tuple[Path, ...]:
        """Write files, each whole or not at all; returns those that are not surely kept before `keep`.

        sync: surely kept before this returns.
        """

    @abstractmethod
    def keep(self, files: Iterable[Path]) -> None:
        """Wait until files that `put` returned outlive a power cut."""

    @abstractmethod
    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A file of this machine to write to, which is this file once the block ends, and nothing where it raises."""

    @abstractmethod
    def take(self, file: Path, name: str) -> None:
        """Move a file that was made in `stage` to its place."""

    @abstractmethod
    def stage(self, name: str) -> AbstractContextManager[Path]:
        """An empty folder of this machine to make files ready in: this one, where it is of this machine."""

    @abstractmethod
    def move(self, name: str, to: str) -> bool:
        """Move a file to another name, unless there is one already: then False."""

    def aside(self, name: str) -> str:
        """Move a file to a place of its own below aside/; returns that."""
        front, dot, suffix = name.rpartition(".")
        for to in (name, *(f"{front}~{n}{dot}{suffix}" for n in range(2, ASIDE))):
            if self.move(name, f"aside/{to}"):
                return f"aside/{to}"
        raise Error(f"{self.at('aside')} holds {ASIDE} files called like {name}; move them away.")

    @abstractmethod
    def journal(self, name: str) -> Journal:
        """The journal of this name."""

    @abstractmethod
    def alone(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of this name; an Error where another job does."""

    @abstractmethod
    def tidy(self, folders: Iterable[str]) -> None:
        """Remove what processes that were killed left half-written, directly in it and below these folders."""


def place_of(out: str | os.PathLike[str] | Place) -> Place:
    """The place of a path or of an address ("s3://bucket/found")."""
    if isinstance(out, Place):
        return out
    text = path_of("folder", out)
    if not storage.is_address(text):
        return Folder(Path(text))
    kind, _, rest = storage.whole(text).partition("://")
    if not rest.strip("/"):
        raise Error(f"{text} names no bucket; write it like {kind}://bucket/found.")
    if kind in LOCAL:
        raise Error(f"{text} is a folder of this machine; give its path, {rest}.")
    return Bucket(text)


class Folder(Place):
    """A folder of a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def at(self, name: str = "") -> Path:
        return self.path / name

    def content(self) -> set[str]:
        return set(os.listdir(self.path)) if self.path.exists() else set()

    def read(self, name: str) -> bytes | None:
        path = self.at(name)
        return path.read_bytes() if path.is_file() else None

    @contextmanager
    def reading(self, name: str) -> Iterator[Path | None]:
        path = self.at(name)
        yield path if path.is_file() else None

    def put(self, contents: Mapping[str, bytes], *, sync: bool = False) -> tuple[Path, ...]:
        paths = [self._ready(name) for name in contents]
        for path, content in zip(paths, contents.values(), strict=True):
            with atomic(path, sync=sync) as temporary:
                temporary.write_bytes(content)
        return () if sync else tuple(paths)

    def keep(self, files: Iterable[Path]) -> None:
        to_disk(self.path, files)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with atomic(self._ready(name)) as temporary:
            yield temporary

    def take(self, file: Path, name: str) -> None:
        os.replace(file, self._ready(name))

    @contextmanager
    def stage(self, name: str) -> Iterator[Path]:
        folder = self.at(name)  # on the same disk
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def move(self, name: str, to: str) -> bool:
        target = self._ready(to)
        if target.exists():
            return False
        os.replace(self.at(name), target)
        return True

    def journal(self, name: str) -> Journal:
        return Journal(self.at(name))

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        with lock(self._ready(name), f"The output folder {self}"):
            yield

    def tidy(self, folders: Iterable[str]) -> None:
        remove_leftovers(self.path, below=False)
        for name in folders:
            remove_leftovers(self.at(name))

    def _ready(self, name: str) -> Path:
        """The path of a file, its folder made."""
        path = self.at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class Bucket(Place):
    """A folder of object storage. Objects are written whole by themselves, and none is ever added to."""

    def __init__(self, address: str) -> None:
        """address: also one of which a pathlib.Path has left one slash."""
        self.address = storage.whole(address).rstrip("/")
        self.lost = False
        """Whether another job has taken the lock over."""

    def at(self, name: str = "") -> str:
        return f"{self.address}/{name}" if name else self.address

    def takes(self, name: str) -> bool:
        """Names there are UTF-8, and up to LONGEST bytes with all folders; s3fs ends them before "?versionId="."""
        try:
            return len(self.at(name).encode()) <= LONGEST and "?versionId=" not in name
        except UnicodeEncodeError:
            return False

    def content(self) -> set[str]:
        with self._explained() as system:
            system.invalidate_cache()
            try:
                listed = system.ls(self._path(), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return set()
        return {path.rstrip("/").rpartition("/")[2] for path in listed}

    def read(self, name: str) -> bytes | None:
        with self._explained(name) as system:
            try:
                content: bytes = system.cat_file(self._path(name))
            except (FileNotFoundError, IsADirectoryError):
                return None
        return content

    @contextmanager
    def reading(self, name: str) -> Iterator[Path | None]:
        with tempfile.TemporaryDirectory(prefix="dgpnet-") as folder:
            path: Path | None = Path(folder) / name.rpartition("/")[2]
            with self._explained(name) as system:
                try:
                    system.get_file(self._path(name), str(path))
                except (FileNotFoundError, IsADirectoryError):
                    path = None
            yield path

    def put(self, contents: Mapping[str, bytes], *, sync: bool = False) -> tuple[Path, ...]:
        with self._explained(next(iter(contents), ""), "written") as system:
            system.pipe({self._path(name): content for name, content in contents.items()})
        return ()

    def keep(self, files: Iterable[Path]) -> None:
        """They are kept from the beginning."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dgpnet-") as folder:
            path = Path(folder) / name.rpartition("/")[2]
            yield path
            self.take(path, name)

    def take(self, file: Path, name: str) -> None:
        with self._explained(name, "written") as system:
            system.put_file(str(file), self._path(name))
        file.unlink()

    @contextmanager
    def stage(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dgpnet-") as folder:
            yield Path(folder)

    def move(self, name: str, to: str) -> bool:
        with self._explained(to, "written") as system:
            system.invalidate_cache()
            if system.exists(self._path(to)):
                return False
            system.cp_file(self._path(name), self._path(to))
            system.rm_file(self._path(name))
        return True

    def journal(self, name: str) -> Journal:
        return Parts(self, name)

    def alone(self, name: str) -> AbstractContextManager[None]:
        return _Lease(self, name)

    def tidy(self, folders: Iterable[str]) -> None:
        """Nothing is ever half-written."""

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that is not there yet; False where it is."""
        with self._explained(name, "written") as system:
            try:
                system.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def remove(self, *names: str) -> None:
        """Remove objects; one that is gone already is none."""
        with self._explained(names[0] if names else "", "written") as system:
            for name in names:
                with suppress(FileNotFoundError):
                    system.rm_file(self._path(name))

    def names(self, front: str) -> list[str]:
        """Names of the objects in one folder that begin with this, sorted."""
        folder, _, begin = front.rpartition("/")
        with self._explained(front) as system:
            system.invalidate_cache()
            try:
                listed = system.ls(self._path(folder), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
        found = (path.rpartition("/")[2] for path in listed)
        return sorted(f"{folder}/{name}" for name in found if name.startswith(begin))

    def _path(self, name: str = "") -> str:
        path: str = storage.opened(self.at(name))[1]
        return path

    @contextmanager
    def _explained(self, name: str = "", what: str = "read") -> Iterator[Any]:
        with storage.explained(self.at(name), what):
            yield storage.opened(self.address)[0]


class Parts(Journal):
    """A journal in object storage: an object for each time that something was added, numbered and never changed.

    "done.jsonl" is done-00000001.jsonl, done-00000002.jsonl …; what is in a done.jsonl comes first, so that a folder
    that was copied there is gone on with.
    """

    def __init__(self, place: Bucket, name: str) -> None:
        super().__init__(name)
        self._place = place
        self._name = name
        self._front = name.removesuffix(".jsonl") + "-"
        self._number: int | None = None

    def _parts(self) -> list[str]:
        """What is called otherwise ("done-00000001 copy.jsonl") is none."""
        return [name for name in self._place.names(self._front) if self._number_of(name) is not None]

    def _number_of(self, name: str) -> int | None:
        number = name.removeprefix(self._front).removesuffix(".jsonl")
        return int(number) if number.isdecimal() and name.endswith(".jsonl") else None

    def exists(self) -> bool:
        return bool(self._parts()) or self._place.read(self._name) is not None

    def _lines(self) -> Iterator[bytes]:
        names = [self._name, *self._parts()]
        with ThreadPoolExecutor(storage.AT_ONCE) as pool:
            for start in range(0, len(names), storage.AT_ONCE):
                for content in pool.map(self._place.read, names[start : start + storage.AT_ONCE]):
                    yield from (content or b"").split(b"\n")

    def __enter__(self) -> Self:
        parts = self._parts()
        self._number = self._number_of(parts[-1]) if parts else 0
        return self

    def add(self, *records: Mapping[str, Any]) -> None:
        if self._number is None:
            raise RuntimeError("Records are added inside `with journal`.")
        content = b"".join(map(sealed, records))
        with self._lock:
            name = f"{self._front}{self._number + 1:08}.jsonl"
            # A part that is there already is another job's, or this one's, when its writing was asked for twice.
            new = not self._place.lost and self._place.create(name, content)
            if not new and (self._place.lost or self._place.read(name) != content):
                raise Error(f"Another job writes to {self._place} now; wait until that ends.")
            self._number += 1

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        before = [self._name, *self._parts()]
        records = iter(records)
        with self:
            while several := list(islice(records, PART)):
                self.add(*several)
        self._number = None
        self._place.remove(*before)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._number = None


class _Lease:
    """The lock of a job in object storage: an object that says who holds it, and every few seconds that they live.

    One without a sign of life for DEAD seconds is taken over. Whoever comes back to find another's does no more.
    """

    def __init__(self, place: Bucket, name: str) -> None:
        self._place = place
        self._name = name
        self._key = secrets.token_hex(8)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="lease", daemon=True)

    def __enter__(self) -> None:
        if not self._create():
            holder = self._holder()
            ago = time.time() - holder.get("time", 0.0)
            if holder and ago < DEAD:
                raise Error(
                    f"The output folder {self._place} is in use by {holder.get('by', 'another job')}, last heard of "
                    f"{max(0.0, ago):.0f} seconds ago; wait until that ends, or choose another place. If it is dead, "
                    f"its lock is void after {DEAD:.0f} seconds, or once {self._place.at(self._name)} is removed."
                )
            self._place.remove(self._name)
            if not self._create():
                raise Error(f"The output folder {self._place} is in use by another job; wait until that ends.")
        self._place.lost = False
        self._thread.start()

    def _create(self) -> bool:
        """One that is there already is this job's own where its writing was asked for twice."""
        return self._place.create(self._name, self._sign()) or self._holder().get("key") == self._key

    def _sign(self) -> bytes:
        told = {"by": f"process {os.getpid()} on {socket.gethostname()}", "key": self._key, "time": time.time()}
        return json.dumps(told).encode()

    def _holder(self) -> dict[str, Any]:
        """Who holds it; empty where nobody does, or none of us wrote it."""
        try:
            told = json.loads(self._place.read(self._name) or b"{}")
            return {**told, "time": float(told["time"])} if told else {}
        except (ValueError, TypeError, KeyError):
            return {}

    def _live(self) -> None:
        while not self._ended.wait(BEAT):
            with suppress(Error):  # storage that is away for a moment
                if self._holder().get("key") != self._key:
                    self._place.lost = True
                    return
                self._place.put({self._name: self._sign()})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(Error):  # it is void by itself, after a while
            if self._holder().get("key") == self._key:
                self._place.remove(self._name)

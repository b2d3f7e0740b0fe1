"""Writing files whole or not at all, journals and locks, staying inside a folder, and how many to work on at once."""

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PureWindowsPath
from types import TracebackType
from typing import IO, Any, Self

from dgpnet.checks import path_of
from dgpnet.errors import Error, shortened

#: What the system answers when a place cannot be written to, whoever asks.
_UNWRITABLE = {
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.EROFS: "the disk is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "it is a folder",
}


def at_once() -> int:
    """How many files to read or write at a time: the processors that this process may use, at most 16."""
    affinity = getattr(os, "sched_getaffinity", None)
    return min(len(affinity(0)) if affinity else os.cpu_count() or 1, 16)


@contextmanager
def atomic(path: str | Path, *, sync: bool = False) -> Iterator[Path]:
    """Write `path` whole or not at all.

    Yields a new name in the same folder, with the same suffix, for the caller to write to. It takes the place of
    `path` when the block ends, and is removed when the block raises (Ctrl-C included), so that a reader sees the old
    file or the new one and never half of it. The folder must exist.
    sync: on the disk before this returns, so that it outlives a power cut; for what a promise depends on.
    """
    path = Path(path_of("file", path))
    if path.is_dir() or not path.name:
        raise Error(f"Cannot write {path}: it is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise Error(f"Cannot write {path}: the folder {path.parent} does not exist; create it first.")
    # Hidden, so that nobody mistakes what a killed process left for a result; short, since names have a limit.
    temporary = path.with_name(f".{secrets.token_hex(6)}.part{path.suffix}")  # see `remove_leftovers`
    try:
        yield temporary
        if sync:
            _to_disk(temporary)
        os.replace(temporary, path)
        if sync:
            _to_disk(path.parent)
    except OSError as problem:
        reason = _UNWRITABLE.get(problem.errno or 0)
        # A failure to read something else inside the block is not ours to explain.
        if reason is None or problem.filename not in (None, temporary, str(temporary)):
            raise
        raise Error(f"Cannot write {path}: {reason}; choose another place or make room.") from problem
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: str | Path, *, below: bool = True) -> None:
    """Remove what killed processes left half-written in a folder in which nobody else is writing now.

    below: in the folders below it, too.
    """
    for path in (Path(folder).rglob if below else Path(folder).glob)(".*.part*"):
        if _LEFTOVER.match(path.name):
            path.unlink(missing_ok=True)


#: Names that `atomic` writes to; nothing else can be meant.
_LEFTOVER = re.compile(r"\.[0-9a-f]{12}\.part")


def to_disk(folder: Path, files: Iterable[Path]) -> None:
    """Wait until files below a folder are on the disk: all of its disk in one go where the system can do that, which
    is many times quicker than one file after the other."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
    if syncfs is None:
        several = list(files)
        for path in [*several, *{file.parent for file in several}]:
            _to_disk(path)
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """Records in a file, a line of JSON each, that survive a kill and damage to any byte.

    Every line ends with a checksum of itself. A line that is torn, changed or nothing that was written here is not
    believed: what it told is done again. One process writes at a time; its threads may do so together.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damaged = 0
        """Lines that the last `read` did not believe."""
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    def exists(self) -> bool:
        """Whether anything was ever added."""
        return self.path.exists()

    def records(self) -> Iterator[dict[str, Any]]:
        """The records in the order in which they were added, one at a time; none where there is no file."""
        self.damaged = 0
        for line in filter(None, self._lines()):
            record = _unsealed(line)
            if record is None:
                self.damaged += 1
            else:
                yield record

    def read(self) -> list[dict[str, Any]]:
        """All records."""
        return list(self.records())

    def _lines(self) -> Iterator[bytes]:
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")

    def __enter__(self) -> Self:
        """Open for `add`; after a torn line a new one is begun."""
        # Without a buffer: what could not be written must not be written later.
        self._file = self.path.open("a+b", buffering=0)
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, end - 1))
        if self._file.read(1) not in (b"", b"\n"):
            self._file.write(b"\n")
        return self

    def add(self, *records: Mapping[str, Any]) -> None:
        """Add records, all of them on the disk before this returns, or none where it raises. Values are plain JSON."""
        if self._file is None:
            raise RuntimeError("Records are added inside `with journal`.")
        lines = memoryview(b"".join(map(sealed, records)))
        with self._lock:
            end = self._file.seek(0, os.SEEK_END)
            try:
                while lines:
                    lines = lines[self._file.write(lines) :]
                os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):  # half a line would spoil the next one
                    self._file.truncate(end)
                raise

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Put these records in place of all, whole or not at all; not while it is open for `add`."""
        with atomic(self.path, sync=True) as temporary, temporary.open("wb") as file:
            file.writelines(map(sealed, records))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def sealed(record: Mapping[str, Any]) -> bytes:
    """The line of a record, its checksum at its end."""
    text = json.dumps(dict(record)).encode()
    return text[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(text)


#: How a line ends: the checksum, CRC-32 of the line without it.
_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"}$')


def _unsealed(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None where it is not what was written."""
    found = _SEAL.search(line)
    if found is None or zlib.crc32(text := line[: found.start()] + b"}") != int(found[1], 16):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):  # somebody else's line with a checksum that is right
        return None
    return record if isinstance(record, dict) else None


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """A record (plain JSON values) for people and for `record_of`: indented, with a checksum of its values."""
    return (json.dumps({**record, "crc": _checksum(record)}, indent=1) + "\n").encode()


def record_of(content: bytes | None) -> dict[str, Any] | None:
    """The record of these bytes; None where there are none, or they do not say what was written."""
    try:
        record = json.loads(content or b"")
        return record if record.pop("crc") == _checksum(record) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def write_record(path: str | Path, record: Mapping[str, Any]) -> None:
    """Write a record to a file."""
    with atomic(path, sync=True) as temporary:
        temporary.write_bytes(record_bytes(record))


def read_record(path: str | Path) -> dict[str, Any] | None:
    """The record in a file; None where there is none, or none that says what was written."""
    try:
        return record_of(Path(path).read_bytes())
    except OSError:
        return None


def _checksum(record: Mapping[str, Any]) -> str:
    """CRC-32 of the values as they come back from a file, however they are laid out there."""
    return f"{zlib.crc32(json.dumps(json.loads(json.dumps(dict(record))), sort_keys=True).encode()):08x}"


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where two descriptions (plain JSON values, tuples as lists) differ: "network.size 384, not 512"."""
    left, right = (_by_path(json.loads(json.dumps(dict(each)))) for each in (one, other))
    return [
        f"{name} {_short(left, name)}, not {_short(right, name)}"
        for name in {**left, **right}
        if name not in left or name not in right or left[name] != right[name]
    ]


def _by_path(value: Any, where: str = "") -> dict[str, Any]:
    """Nested JSON values by dotted path; a list of plain values is one value."""
    if isinstance(value, dict) and value:
        inner = {f"{where}.{key}" if where else key: item for key, item in value.items()}
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = {f"{where}[{i}]": item for i, item in enumerate(value)}
    else:
        return {where: value}
    return {path: leaf for name, item in inner.items() for path, leaf in _by_path(item, name).items()}


def _short(values: Mapping[str, Any], name: str) -> str:
    return shortened(json.dumps(values[name], ensure_ascii=False), 40) if name in values else "absent"


class InUse(Error):
    """A lock is held elsewhere; says by whom."""


@contextmanager
def lock(path: str | Path, what: str) -> Iterator[None]:
    """Hold the lock file `path` for this block; InUse where another process, or another block, holds it.

    The system lets go of it when the process ends, however it ends; the file stays.
    what: what is being used, to speak of in InUse.
    """
    with Path(path).open("a+b") as file:
        file.seek(0)
        if not _try_lock(file.fileno()):
            holder = _holder(file)
            raise InUse(f"{what} is in use by {holder}; wait until that ends, or choose another place.")
        file.truncate(0)
        file.write(b"\0" * _HOLDER + f"process {os.getpid()} on {socket.gethostname()}".encode())
        file.flush()
        yield


def _holder(file: IO[bytes]) -> str:
    file.seek(_HOLDER)
    return file.read(200).decode(errors="replace") or "another process"


#: Where a lock file says who holds it: behind the byte that Windows locks, which nobody else may read.
_HOLDER = 1


def _try_lock(handle: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise
        return False
    return True


def inside(root: str | Path, name: str | Path) -> Path:
    """The path `root/name`, refused if it leaves `root`: absolute, through `..`, or through a symbolic link.

    For names read out of files that somebody else wrote. The path need not exist.
    """
    root = Path(root)
    path = root / name
    # Files written on Windows are read here too: a drive or a backslash at the start is absolute there.
    strange = not str(name) or "\0" in str(name) or Path(name).is_absolute() or PureWindowsPath(name).anchor
    if strange or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise Error(f"{str(name)!r} leads outside the folder {root}; name a file inside it.")
    return path


def make_folder(path: str | os.PathLike[str]) -> None:
    """The folder and those above it, where they are not there yet."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Error(f"Cannot make the folder {path}: {problem.strerror}; choose another place.") from problem


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's content, 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: str | Path, size: int) -> None:
    """Refuse with an Error if the disk that holds (or will hold) `folder` has fewer than `size` bytes free."""
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < size:
        raise Error(
            f"{folder} needs {size / 1e9:.2f} GB of disk space and {free / 1e9:.2f} GB are free; "
            "make room or choose another place."
        )


def cache_folder() -> Path:
    """Where what can be made again is kept between runs: $DGPNET_CACHE, else dgpnet in the user's cache folder."""
    if chosen := os.environ.get("DGPNET_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgpnet"

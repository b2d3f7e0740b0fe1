"""Writing files whole or not at all, staying inside a folder, and how many to work on at once."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath

from dgpnet.errors import Error

# What the system answers when a place cannot be written to, whoever asks.
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
def atomic(path: str | Path) -> Iterator[Path]:
    """Write `path` whole or not at all.

    Yields a new name in the same folder, with the same suffix, for the caller to write to. It takes the place of
    `path` when the block ends, and is removed when the block raises (Ctrl-C included), so that a reader sees the old
    file or the new one and never half of it. The folder must exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise Error(f"cannot write {path}: the folder {path.parent} does not exist; create it first.")
    # Hidden, so that nobody mistakes what a killed process left for a result; short, since names have a limit.
    temporary = path.with_name(f".{secrets.token_hex(6)}.part{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as problem:
        reason = _UNWRITABLE.get(problem.errno or 0)
        # A failure to read something else inside the block is not ours to explain.
        if reason is None or problem.filename not in (None, temporary, str(temporary)):
            raise
        raise Error(f"cannot write {path}: {reason}; choose another place or make room.") from problem
    finally:
        temporary.unlink(missing_ok=True)


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

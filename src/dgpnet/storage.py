"""Object storage (s3://, gs://, … whatever fsspec knows): what lies below an address, and the bytes of an object."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dgpnet.errors import Error

#: Objects that are asked about at the same time.
AT_ONCE = 32
#: What tells that an object has changed, in the words of several storages.
CHANGES = ("ETag", "etag", "md5Hash", "LastModified", "updated", "mtime", "created")


@dataclass(frozen=True)
class Stored:
    """An object. stamp: its bytes, and a number that is another when the object is."""

    address: str
    stamp: tuple[int, int]


def is_address(text: object) -> bool:
    """Whether this is an address of object storage, and no path; of two slashes a pathlib.Path has left one."""
    return isinstance(text, str) and re.match(r"[a-z][a-z0-9+.-]+:/", text) is not None


def below(address: str) -> Iterator[dict[str, Stored]]:
    """Name -> object, of all objects below an address, or of the one that it is the address of: first of those directly
    there, then of each folder there by itself, so that a great many are not in memory together."""
    with explained(address):
        system, place = opened(address)
        system.invalidate_cache()
        is_folder = system.isdir(place)
        listed = system.ls(place, detail=True) if is_folder else system.find(place, detail=True).values()
    own = place.rstrip("/")
    front = address.rstrip("/").removesuffix(own)

    def named(several: Iterable[dict[str, Any]]) -> dict[str, Stored]:
        return {
            (one["name"].removeprefix(own).lstrip("/") or own.rpartition("/")[2]): Stored(
                front + one["name"], _stamp(one)
            )
            for one in several
            if one.get("type") != "directory" and not (is_folder and one["name"].rstrip("/") == own)
        }

    yield named(listed)
    for folder in sorted(one["name"] for one in listed if one.get("type") == "directory"):
        with explained(address):
            found = system.find(folder, detail=True).values()
            system.invalidate_cache()
        yield named(found)


def stored(addresses: Iterable[str]) -> list[Stored]:
    """The objects of these addresses, in order; an Error for one that is not there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_stored, addresses))


def read(address: str) -> bytes:
    """The bytes of an object."""
    with explained(address):
        system, place = opened(address)
        content: bytes = system.cat_file(place)
        return content


def _stored(address: str) -> Stored:
    with explained(address):
        system, place = opened(address)
        return Stored(address, _stamp(system.info(place)))


def whole(address: str) -> str:
    """An address with both of its slashes."""
    return re.sub(r"^([a-z][a-z0-9+.-]+):/(?!/)", r"\1://", address)


def opened(address: str) -> tuple[Any, str]:
    """The file system of an address, and what it calls the place there.

    "::" is part of a name; fsspec by itself would read addresses of several file systems in one another.
    """
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise Error("Addresses need the package fsspec; install it with: pip install 'dgpnet[scale]'.") from error
    system, place = fsspec.core.url_to_fs(address.replace("::", ":\0:"))  # which no name has
    return system, place.replace(":\0:", "::")


def _stamp(info: dict[str, Any]) -> tuple[int, int]:
    change = next((info[name] for name in CHANGES if info.get(name)), "")
    told = str(change.timestamp()) if isinstance(change, datetime) else str(change)
    return int(info.get("size") or 0), zlib.crc32(told.encode())


@contextmanager
def explained(address: str, what: str = "read") -> Iterator[None]:
    """What goes wrong in any of many packages, as an Error. what: "read" or "written"."""
    try:
        yield
    except Error:
        raise
    except ImportError as error:  # fsspec says which package it wants
        raise Error(f"{address} cannot be {what} ({error!s:.200}).") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        who = "who may read it" if what == "read" else "who may write there"
        raise Error(f"{address} cannot be {what} ({reason:.200}); check the address and {who}.") from error

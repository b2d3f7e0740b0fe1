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


def below(address: str) -> dict[str, Stored]:
    """Name -> object, of all objects below an address, or of the one that it is the address of."""
    with _explained(address):
        system, place = _opened(address)
        system.invalidate_cache()
        found = system.find(place, detail=True)
    own = place.rstrip("/")
    front = address.rstrip("/").removesuffix(own)
    return {
        (path.removeprefix(own).lstrip("/") or own.rpartition("/")[2]): Stored(front + path, _stamp(info))
        for path, info in found.items()
        if info.get("type") != "directory"
    }


def stored(addresses: Iterable[str]) -> list[Stored]:
    """The objects of these addresses, in order; an Error for one that is not there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_stored, addresses))


def read(address: str) -> bytes:
    """The bytes of an object."""
    with _explained(address):
        system, place = _opened(address)
        content: bytes = system.cat_file(place)
        return content


def _stored(address: str) -> Stored:
    with _explained(address):
        system, place = _opened(address)
        return Stored(address, _stamp(system.info(place)))


def _opened(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise Error("Addresses need the package fsspec; install it with: pip install 'dgpnet[scale]'.") from error
    system, place = fsspec.core.url_to_fs(address)
    return system, place


def _stamp(info: dict[str, Any]) -> tuple[int, int]:
    change = next((info[name] for name in CHANGES if info.get(name)), "")
    told = str(change.timestamp()) if isinstance(change, datetime) else str(change)
    return int(info.get("size") or 0), zlib.crc32(told.encode())


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """What goes wrong in any of many packages, as an Error."""
    try:
        yield
    except Error:
        raise
    except ImportError as error:  # fsspec says which package it wants
        raise Error(f"{address} cannot be read ({error!s:.200}).") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise Error(f"{address} cannot be read ({reason:.200}); check the address and who may read it.") from error

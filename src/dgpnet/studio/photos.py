"""The photographs of a project: which there are, what they are called in addresses, and which cannot be read."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from dgpnet.errors import Error
from dgpnet.files import inside
from dgpnet.images import photo_size
from dgpnet.segmenter.entries import Stamp, stamp
from dgpnet.segmenter.photographs import Photograph, find_photographs, with_keys
from dgpnet.segmenter.stages import LONGEST_NAME


def find(folder: Path, project: Path, known: Mapping[str, str]) -> list[Photograph]:
    """The photographs below a folder, by name; none is no fault. project: where the project is, which has none.

    known: name -> key that earlier runs gave, which stays.
    """
    try:
        found = find_photographs([folder], skip=[project])
    except Error:
        if not folder.is_dir():
            raise
        return []
    return with_keys({photo.name: photo.path for photo in found}, known)


def id_of(name: str) -> str:
    """What a photograph is called in addresses: the same in every run, and nothing that could be taken for a path."""
    digest = hashlib.blake2b(os.fsencode(name), digest_size=9).digest()
    return base64.urlsafe_b64encode(digest).decode()


def checked(folder: Path, photo: Photograph) -> Path:
    """The path to open; an Error where it is no file, or a link that leads out of the folder."""
    path = inside(folder, photo.path.relative_to(folder))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise Error(f"There is no photograph {photo.name} any more; look for photographs again.") from None
    except OSError as problem:
        raise Error(f"{photo.name} cannot be read ({problem.strerror}); check its permissions.") from None
    if stat.S_ISDIR(mode):
        raise Error(f"{photo.name} is a folder that may not be read; change its permissions.")
    if not stat.S_ISREG(mode):
        raise Error(f"{photo.name} is no file but a pipe or a device; take it out of the folder.")
    if max(len(os.fsencode(part)) for part in photo.key.split("/")) > LONGEST_NAME:
        raise Error(f"{photo.name} has too long a name to write its mask; shorten it.")
    return path


def seen(folder: Path, photo: Photograph) -> tuple[tuple[int, int], Stamp]:
    """(H, W) from the header, and what tells whether the file has changed; an Error where it cannot be read."""
    path = checked(folder, photo)
    try:
        mark = stamp(path)
        return photo_size(path), mark
    except OSError as problem:
        raise Error(f"{photo.name} cannot be read ({problem.strerror}).") from None

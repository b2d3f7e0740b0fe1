"""The Label Studio server that the user named: photographs and annotations come from there, and from nowhere else.

A task's data is anybody's text. An address in it is fetched only where it leads to that very server, without following
redirects, or opened as a file below the folder that the user allowed.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urljoin, urlsplit

from dgpnet.checks import shown
from dgpnet.errors import Error
from dgpnet.files import inside

#: Seconds without a byte after which a download is given up, and that it may take in all.
SILENCE, PATIENCE = 10.0, 60.0
#: Bytes of a photograph's file, and of a project's annotations.
LARGEST_PHOTO, LARGEST_EXPORT = 256 << 20, 512 << 20
#: Bytes that are read at a time.
CHUNK = 1 << 20
#: Characters of an address.
LONGEST = 4096
#: Where Label Studio serves files that lie on its own disk.
LOCAL_FILES = "/data/local-files/"
#: What the key is told by.
KEY = "--api-key (or $LABEL_STUDIO_API_KEY), from Account & Settings in Label Studio"


class Server:
    """Where photographs come from.

    url: of Label Studio, "http://localhost:8080" · key: a personal access token of Label Studio, or one of its legacy
    tokens · folder: photographs below it are read from the disk; Label Studio's LOCAL_FILES_DOCUMENT_ROOT
    """

    def __init__(self, url: str, key: str | None = None, folder: Path | None = None) -> None:
        self.url = url.rstrip("/")
        place = _split(self.url)
        if place is None or place.scheme not in ("http", "https") or not place.hostname or place.username is not None:
            raise Error(f"The address of Label Studio is like http://localhost:8080; given {shown(url)}.")
        if folder is not None and not folder.is_dir():
            raise Error(f"There is no folder {folder} with photographs; check --photos.")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise Error("The key of Label Studio has characters that none has; copy it again.")
        self._place = _origin(place)
        self._key = key
        self._folder = folder
        self._bearer: str | None = None
        self._lock = threading.Lock()
        # No redirects, no proxies, no other schemes: what is not here is not done.
        self._opener = urllib.request.OpenerDirector()
        for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
            self._opener.add_handler(handler)

    @property
    def has_key(self) -> bool:
        """Whether annotations can be asked for."""
        return self._key is not None

    def photograph(self, address: object) -> bytes:
        """The file at an address of a task's data; an Error where it may not or cannot be had."""
        if not isinstance(address, str) or not 0 < len(address) <= LONGEST or "\0" in address:
            raise Error(f"A task's photograph is an address, a text; its data has {shown(address)}.")
        path = self._local(address)
        if path is not None:
            return _read(path, address)
        url = urljoin(f"{self.url}/", quote(address, safe="/:?&=%#+,;@!$'()*[]~"))
        place = _split(url)
        if place is None or _origin(place) != self._place:
            raise Error(
                f"{shown(address)} is not on {self.url}, and nothing is fetched from elsewhere; import the photograph "
                "into Label Studio, or name the folder it is in with --photos."
            )
        return self._get(url, LARGEST_PHOTO)

    def annotations(self, project: int) -> list[Any]:
        """All tasks of a project that have annotations, as Label Studio exports them."""
        query = urlencode({"exportType": "JSON", "download_all_tasks": "false"})
        try:
            tasks = json.loads(self._get(f"{self.url}/api/projects/{project}/export?{query}", LARGEST_EXPORT))
        except (ValueError, RecursionError) as error:
            if isinstance(error, Error):
                raise
            tasks = None
        if not isinstance(tasks, list):
            raise Error(f"{self.url} answered with no list of tasks; check that it is Label Studio's address.")
        return tasks

    # -- files ---------------------------------------------------------------------------------------------------------

    def _local(self, address: str) -> Path | None:
        """The file below the folder that an address means; None where it is to be fetched."""
        place = _split(address)
        if place is None:
            raise Error(f"{shown(address)} is no address of a photograph; correct the task.")
        here = not place.scheme and not place.netloc
        if (here or _origin(place) == self._place) and place.path.endswith(LOCAL_FILES):
            names = parse_qs(place.query, errors="surrogateescape").get("d", [""])
            return None if self._folder is None else inside(self._folder, names[0])
        if place.scheme == "file" and place.netloc in ("", "localhost"):
            return self._below(unquote(place.path, errors="surrogateescape"))
        if not here or (address.startswith("/") and not self._holds(address)):
            return None
        return self._below(address)

    def _holds(self, name: str) -> bool:
        """Whether an absolute path is below the folder; otherwise it is one of the server's."""
        return self._folder is not None and Path(os.path.realpath(name)).is_relative_to(os.path.realpath(self._folder))

    def _below(self, name: str) -> Path:
        """A path on this machine, which has to be below the folder that is allowed."""
        if self._folder is None:
            raise Error(f"{shown(name)} is a file on a disk; name the folder that may be read from with --photos.")
        if os.path.isabs(name):
            name = os.path.relpath(os.path.realpath(name), os.path.realpath(self._folder))
        return inside(self._folder, name)

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def _get(self, url: str, most: int) -> bytes:
        status, body = self._ask(urllib.request.Request(url, headers=self._credentials()), most)
        if status == 401 and self._bearer is not None:  # it lives for some minutes
            with self._lock:
                self._bearer = None
            status, body = self._ask(urllib.request.Request(url, headers=self._credentials()), most)
        if status in (401, 403) or (300 <= status < 400 and self._key is None):
            raise Error(f"Label Studio at {self.url} does not let us have {shown(url)}; give it {KEY}.")
        if 300 <= status < 400:
            raise Error(
                f"Label Studio sends {shown(url)} on to another place, which is not followed; let it serve the "
                "photographs itself (without pre-signed addresses)."
            )
        if status != 200:
            raise Error(f"Label Studio at {self.url} answered {status} for {shown(url)}; look whether it is there.")
        return body

    def _credentials(self) -> dict[str, str]:
        """What a request has to say who asks. A personal access token is exchanged for one that lives shortly."""
        if self._key is None:
            return {}
        if self._key.count(".") != 2:
            return {"authorization": f"Token {self._key}"}
        with self._lock:
            if self._bearer is None:
                asked = urllib.request.Request(
                    f"{self.url}/api/token/refresh/",
                    json.dumps({"refresh": self._key}).encode(),
                    {"content-type": "application/json"},
                )
                status, body = self._ask(asked, CHUNK)
                if status != 200:
                    raise Error(f"Label Studio at {self.url} does not take the key; give it another, {KEY}.")
                try:
                    self._bearer = str(json.loads(body)["access"])
                except (ValueError, KeyError, TypeError):
                    raise Error(
                        f"{self.url} answered with no access token; check that it is Label Studio's address."
                    ) from None
            return {"authorization": f"Bearer {self._bearer}"}

    def _ask(self, request: urllib.request.Request, most: int) -> tuple[int, bytes]:
        end = time.monotonic() + PATIENCE
        try:
            with self._opener.open(request, timeout=SILENCE) as answer:
                body = bytearray()
                while chunk := answer.read(CHUNK):
                    body += chunk
                    if len(body) > most:
                        raise Error(f"{shown(request.full_url)} has more than {most:,} bytes; make it smaller.")
                    if time.monotonic() > end:
                        raise Error(f"{shown(request.full_url)} comes too slowly from {self.url}; try again.")
                return int(answer.status), bytes(body)
        except (OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", None) or problem
            raise Error(
                f"Label Studio does not answer at {self.url} ({shown(str(reason))}); check --label-studio."
            ) from problem


def _read(path: Path, address: str) -> bytes:
    """A regular file, of a size that photographs have."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_PHOTO:
                raise Error(f"{shown(address)} is no file of at most {LARGEST_PHOTO:,} bytes; correct the task.")
            return file.read(LARGEST_PHOTO)
    except OSError as problem:
        raise Error(f"{shown(address)} cannot be read ({problem.strerror}); check --photos.") from problem


def _split(address: str) -> SplitResult | None:
    try:
        place = urlsplit(address)
        _ = place.port
    except ValueError:
        return None
    return place


def _origin(place: SplitResult) -> tuple[str, str, int | None]:
    """Scheme, host and port; a name and a password in an address make it another one."""
    port = place.port or {"http": 80, "https": 443}.get(place.scheme)
    return place.scheme, (place.hostname or "") + ("@" if place.username is not None else ""), port

"""What a job has done so far, on disk: how a killed job goes on, and why two jobs never mix in one folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.segmenter.photographs import Photograph

FOLDER = ".dgpnet"
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
    "report",
)


@dataclass(frozen=True)
class Entry:
    """One photograph that is done. `areas` are pixels of each class; `stamp` tells whether the file has changed."""

    name: str
    key: str
    path: str
    stamp: tuple[int, int]
    width: int
    height: int
    score: float
    uncertainty: float
    novelty: float
    likeness: float
    areas: tuple[int, ...]
    seconds: float


def stamp(path: Path) -> tuple[int, int]:
    """Bytes and time of change of a file."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class Ledger:
    """The record of one output folder: what it is made with (`about`) and which photographs are done.

    `.dgpnet/job.json` is written at the start, whole or not at all; `.dgpnet/done.jsonl` gets one line for each
    photograph after its last file is in place. A line that a kill cut off is dropped, and its photograph done again.
    """

    def __init__(self, out: Path, about: Mapping[str, Any]) -> None:
        """Look into the folder; an Error where it was made with something else. Nothing is written before `with`."""
        self.out = out
        self.folder = out / FOLDER
        self.about = about
        #: What the network computes in ("float32"), the same in every run of the job; None until one has chosen.
        self.precision: str | None = None
        if self._job.exists():
            self.precision = _refuse_to_mix(out, self._job, about)
        else:
            _refuse_strangers(out)
        self._recorded = self.precision
        self.entries = self._read()
        self._lock = threading.Lock()
        self._file: IO[str] | None = None

    @property
    def _job(self) -> Path:
        return self.folder / "job.json"

    def _read(self) -> dict[str, Entry]:
        path = self.folder / "done.jsonl"
        if not path.exists():
            return {}
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return {
            one["key"]: Entry(**{**one, "stamp": tuple(one["stamp"]), "areas": tuple(one["areas"])}) for one in found
        }

    def is_done(self, photo: Photograph) -> bool:
        """Whether this very photograph is done; an Error where another one of the same name is."""
        entry = self.entries.get(photo.key)
        if entry is None:
            return False
        try:
            same = stamp(photo.path) == entry.stamp and photo.name == entry.name
        except OSError:
            return False
        if not same and Path(entry.path) != photo.path.resolve():
            raise Error(
                f"{self.folder.parent} holds the result of another photograph called {photo.name} ({entry.path}); "
                "choose another --out."
            )
        return same

    def __enter__(self) -> Ledger:
        """Start or go on; an Error where the folder cannot be written."""
        done = self.folder / "done.jsonl"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._job.exists() or self._recorded != self.precision:
                chosen = {"precision": self.precision} if self.precision else {}
                with atomic(self._job) as temporary:
                    temporary.write_text(json.dumps({**self.about, **chosen}, indent=1))
            _remove_leftovers(self.out)
            if done.exists() and not done.read_bytes().endswith(b"\n"):
                with atomic(done) as temporary:
                    temporary.write_text("".join(map(_line, self.entries.values())), encoding="utf-8")
            self._file = done.open("a", encoding="utf-8")
        except OSError as error:
            raise Error(
                f"The output folder {self.out} cannot be written ({error.strerror}); choose another."
            ) from error
        return self

    def add(self, entry: Entry) -> None:
        """Record a photograph whose files are all in place."""
        assert self._file is not None, "entries are added inside `with ledger`"
        with self._lock:
            self._file.write(_line(entry))
            self._file.flush()
            self.entries[entry.key] = entry

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def _line(entry: Entry) -> str:
    return json.dumps(asdict(entry)) + "\n"


def _refuse_to_mix(out: Path, job: Path, about: Mapping[str, Any]) -> str | None:
    """The precision of the job in the folder, None where it has none; an Error where it is another job."""
    damaged = Error(f"{job} is damaged; remove {out} and start again, or choose another --out.")
    try:
        before: dict[str, Any] = json.loads(job.read_text())
    except ValueError as error:
        raise damaged from error
    precision: str | None = before.pop("precision", None)
    if precision not in (None, "float32", "bfloat16"):
        raise damaged
    now = json.loads(json.dumps(about))
    if before == now:
        return precision
    differs = [name for name in ("support", "model") if before.get(name) != now[name]]
    options = now["options"]
    for name in sorted({*options, *before.get("options", {})}):
        then, asked = before.get("options", {}).get(name), options.get(name)
        if then != asked:
            differs.append(f"{name.replace('_', '-')} ({json.dumps(then)} then, {json.dumps(asked)} now)")
    raise Error(
        f"{out} holds results made with another {', '.join(differs) or 'version'}; "
        "choose another --out, or remove that folder."
    )


def _refuse_strangers(out: Path) -> None:
    """Never write over files of which nobody knows what made them."""
    found = [name for name in OUTPUTS if (out / name).exists()]
    if found:
        raise Error(f"{out} already holds {found[0]}, which this job would overwrite; choose another folder for --out.")


def _remove_leftovers(out: Path) -> None:
    """Half-written files of a killed process; `files.atomic` names them so that nothing else can be meant."""
    for name in OUTPUTS:
        for left in (out / name).rglob(".*.part*"):
            left.unlink(missing_ok=True)

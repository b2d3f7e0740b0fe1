"""What is told of each photograph of a job, on the disk of this machine and not in its memory."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dgpnet.errors import Error
from dgpnet.segmenter.figures import Figures

Stamp = tuple[int, int]
#: Rows that are in memory at a time.
PAGE = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """One photograph that is done.

    name, key   of the photograph · path, stamp: where it lay, and whether it has changed
    made_with   the round it is of (`Round.made_with`)
    mask        checksum of the mask file · digest: of its pixels
    files       path below the output folder -> checksum, of every other file of the photograph
    figures     what is told of it
    """

    name: str
    key: str
    path: str
    stamp: Stamp
    made_with: str
    mask: int
    digest: str
    files: dict[str, int]
    figures: Figures

    @staticmethod
    def of(record: Mapping[str, Any]) -> Entry | None:
        """The entry of a record; None where it is none, or names a place outside the output folder."""
        try:
            given = {field.name: record[field.name] for field in fields(Entry)}
            figures = Figures.of(given["figures"])
            entry = Entry(**{**given, "stamp": (int(given["stamp"][0]), int(given["stamp"][1])), "figures": figures})
            inside = all(stays_inside(name) for name in (entry.key, *entry.files))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None
        return entry if inside else None


def stays_inside(name: str) -> bool:
    """Whether a path below a folder stays below it."""
    return not os.path.isabs(name) and ".." not in name.split("/") and "\0" not in name


def stamp(path: Path) -> Stamp:
    """Bytes and time of change of a file."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class Database:
    """A database in a file without a name: beyond a few megabytes on the disk for temporary files, and gone with its
    process, however that ends. Threads may share it."""

    def __init__(self, *tables: str) -> None:
        """tables: what makes them."""
        self._connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        for statement in ("PRAGMA journal_mode = OFF", *tables):
            self._connection.execute(statement)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as problem:
                raise Error(
                    f"The disk for temporary files cannot be written ({problem}); make room, or name another folder in "
                    "SQLITE_TMPDIR."
                ) from problem

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """The rows of an answer that is short, or of a change."""
        with self._alone():
            return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """The same change with each of many rows; where one raises, those before it stay changed."""
        with self._alone():
            self._connection.execute("BEGIN")
            try:
                self._connection.executemany(statement, rows)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    def one(self, statement: str, *values: Any) -> Any:
        """The first value of the first row; None where there is none."""
        rows = self.ask(statement, *values)
        return rows[0][0] if rows else None

    def pages(self, statement: str, *values: Any) -> Iterator[Any]:
        """The rows of a long answer, few of them in memory. Meanwhile nothing changes what is asked for."""
        with self._alone():
            cursor = self._connection.execute(statement, values)
        while True:
            with self._alone():
                rows = cursor.fetchmany(PAGE)
            if not rows:
                return
            yield from rows


def text(value: str) -> bytes:
    """Text as a database compares it in the order of Python, bytes of a file's name that are no UTF-8 included."""
    return value.encode("utf-8", "surrogatepass")


def untext(value: bytes) -> str:
    """The text that `text` was given."""
    return value.decode("utf-8", "surrogatepass")


class Entries(Mapping[str, Entry]):
    """Key -> entry."""

    def __init__(self) -> None:
        self._database = Database(
            "CREATE TABLE entries (key BLOB PRIMARY KEY, name BLOB, made_with TEXT, by_hand INTEGER, score REAL,"
            " entry TEXT)",
            "CREATE INDEX by_name ON entries (name)",
        )

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries; each takes the place of an earlier one of its key."""
        self._database.change("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", map(_row, entries))

    def __getitem__(self, key: str) -> Entry:
        found = self._database.one("SELECT entry FROM entries WHERE key = ?", text(key))
        if found is None:
            raise KeyError(key)
        return _entry(found)

    def __iter__(self) -> Iterator[str]:
        return (untext(key) for (key,) in self._database.pages("SELECT key FROM entries ORDER BY key"))

    def __len__(self) -> int:
        count: int = self._database.one("SELECT count(*) FROM entries")
        return count

    def names(self) -> Iterator[tuple[str, str]]:
        """(name, key) of each."""
        return ((untext(name), untext(key)) for name, key in self._database.pages("SELECT name, key FROM entries"))

    def of_round(self, made_with: str) -> RoundEntries:
        """Those of one round."""
        return RoundEntries(self._database, "made_with = ?", made_with)

    def of_others(self, made_with: str) -> RoundEntries:
        """Those of all other rounds."""
        return RoundEntries(self._database, "made_with != ?", made_with)


class RoundEntries(Collection[Entry]):
    """Entries in the order of review, the least certain first, what a person made last; read anew each time."""

    def __init__(self, database: Database, where: str, made_with: str) -> None:
        self._database = database
        self._where = where
        self._made_with = made_with

    def __len__(self) -> int:
        count: int = self._database.one(f"SELECT count(*) FROM entries WHERE {self._where}", self._made_with)
        return count

    def __iter__(self) -> Iterator[Entry]:
        # Sorted once: the rows are too many and too long to sort them whenever they are asked for.
        self._database.ask("CREATE INDEX IF NOT EXISTS for_review ON entries (by_hand, score, name)")
        return self._sorted("by_hand, score, name")

    def __contains__(self, entry: object) -> bool:
        return any(one == entry for one in self)

    def by_name(self) -> Iterator[Entry]:
        """The same in the order of their names."""
        return self._sorted("name")

    def _sorted(self, order: str) -> Iterator[Entry]:
        statement = f"SELECT entry FROM entries WHERE {self._where} ORDER BY {order}"
        return (_entry(row) for (row,) in self._database.pages(statement, self._made_with))


def _row(entry: Entry) -> tuple[Any, ...]:
    figures = entry.figures
    record = json.dumps(asdict(entry))
    return text(entry.key), text(entry.name), entry.made_with, figures.by_hand, figures.score, record


def _entry(record: str) -> Entry:
    entry = Entry.of(json.loads(record))
    assert entry is not None, "it was one when it was added"
    return entry

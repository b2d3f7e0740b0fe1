"""What a job has done so far, on disk: how a killed job goes on, and why two jobs never mix in one folder."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from dgpnet.errors import Error
from dgpnet.files import record_bytes, record_of
from dgpnet.places import Place, place_of
from dgpnet.segmenter import masks
from dgpnet.segmenter.entries import Entries, Entry, RoundEntries, stamp
from dgpnet.segmenter.photographs import JOURNALS, OUTPUTS, RECORD, Photograph
from dgpnet.segmenter.rounds import Round, differences

#: Entries that wait to be recorded at the most: whoever adds another waits then.
WAITING = 1000


def checksum(content: bytes | None) -> int | None:
    """CRC-32 of a file's bytes: a disk may lose some and keep size and time. None where there is no file."""
    return None if content is None else zlib.crc32(content)


def mask_of(key: str) -> str:
    """The mask of a photograph, below the output folder."""
    return f"masks/{key}.png"


class Ledger:
    """The record of one output folder: the round that it holds and which photographs are done.

    `.dgpnet/job.json` is written at the start; `.dgpnet/done.jsonl` gets a line for each photograph after its last file
    is on the disk. What cannot be read of either is not believed: its photographs are done again.
    """

    def __init__(self, out: Path | Place, now: Round, *, again: bool = False) -> None:
        """Look into the folder; an Error where it holds another round, unless it is to be done `again`. Nothing is
        written before `with`."""
        self.out = place_of(out)
        self.now = now
        self.again = again
        #: What the network computes in ("float32"), the same in every run of the job; None until one has chosen.
        self.precision: str | None = None
        self.notes: list[str] = []
        self.entries = Entries()
        self._job, self._journal = (f"{RECORD}/{name}" for name in JOURNALS)
        self._done = self.out.journal(self._journal)
        self._lock = threading.Lock()
        self._pending: list[tuple[Entry, list[Path]]] = []
        self._syncing: Future[None] | None = None
        self._open = ExitStack()
        with self._explained():
            self._look()

    def _look(self) -> None:
        about = self.out.read(self._job)
        if about is None and not self._done.exists():
            _refuse_strangers(self.out)
        self.entries, strange = Entries(), 0

        def read() -> Iterator[Entry]:
            nonlocal strange
            for record in self._done.records():
                entry = Entry.of(record)
                if entry is not None:
                    yield entry
                strange += entry is None

        self.entries.add(read())
        self._damaged = self._done.damaged + strange
        job = record_of(about) or {}
        before = Round.of(job)
        self.precision = job.get("precision") if before and before.made_with == self.now.made_with else None
        if before is not None:
            self._refuse_to_mix(before)
        elif about is not None or self.entries:
            self._refuse_unknown(about)

    def _refuse_unknown(self, about: bytes | None) -> None:
        """Where nothing says what the folder is made with, its photographs may."""
        if about and b'"crc"' not in about and not self.entries:  # and which masks are a person's, none can tell
            raise Error(f"{self.out} holds results of an earlier version of dgpnet; choose another --out.")
        if not self.again and not self.current():
            raise Error(
                f"{self.out.at(self._job)} is missing or damaged, so nobody knows what {self.out} was made with; "
                "add --again to segment anew into it, or choose another --out."
            )

    def _refuse_to_mix(self, before: Round) -> None:
        if moved := before.moved(self.now):
            raise Error(f"{self.out}: {moved}, so that masks in it would mean something else; choose another --out.")
        changed = differences(before, self.now)
        if changed and not self.again:
            raise Error(
                f"{self.out} holds an earlier round: {changed}. Add --again to segment anew into it (what you painted "
                "or edited by hand is kept), or choose another --out."
            )

    def current(self) -> RoundEntries:
        """What is done in this round, in the order of review."""
        return self.entries.of_round(self.now.made_with)

    def is_done(self, photo: Photograph) -> bool:
        """Whether this very photograph is done, its files all there and as they were written.

        An Error where the folder has the results of another photograph of that name.
        """
        entry = self.entries.get(photo.key)
        if entry is None:
            return False
        try:
            same = (stamp(photo.path) if photo.stored is None else photo.stored.stamp) == entry.stamp
        except OSError:
            return False
        if not same and entry.path != photo.real:
            raise Error(
                f"{self.out} holds the result of another photograph called {photo.name} ({entry.path}); "
                "choose another --out."
            )
        return same and entry.made_with == self.now.made_with and self._is_whole(entry)

    def _is_whole(self, entry: Entry) -> bool:
        mask = mask_of(entry.key)
        try:
            if any(checksum(self.out.read(name)) != known for name, known in entry.files.items()):
                return False
            if checksum(self.out.read(mask)) == entry.mask:
                return True
            with self.out.reading(mask) as path:
                return path is not None and masks.digest_of(path) == entry.digest
        except (OSError, Error):
            return False

    def __enter__(self) -> Ledger:
        """Start or go on, alone in this folder; an Error where that cannot be."""
        try:
            with self._explained():
                self._open.enter_context(self.out.alone(f"{RECORD}/lock"))
                self._look()  # what another process did meanwhile
                self._begin()
                self._open.enter_context(self._done)
        except BaseException:
            self._open.close()
            raise
        self._pool = self._open.enter_context(ThreadPoolExecutor(1, thread_name_prefix="sync"))
        return self

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Error(
                f"The output folder {self.out} cannot be written ({error.strerror}); choose another."
            ) from error

    def tidy(self) -> None:
        """Remove what processes that were killed left half-written."""
        self.out.tidy((*OUTPUTS, RECORD))

    def _begin(self) -> None:
        self.tidy()
        if self._damaged:
            self.notes.append(
                f"{self._damaged} lines of {self.out.at(self._journal)} were damaged; what they told is done again."
            )
            self._done.rewrite(asdict(entry) for entry in self.entries.values())
        self.write_job()

    def write_job(self) -> None:
        """Say what the folder is made with, where that is not said yet."""
        record = json.loads(json.dumps({**asdict(self.now), "precision": self.precision}))
        if record_of(self.out.read(self._job)) != record:
            self.out.put({self._job: record_bytes(record)}, sync=True)

    def add(self, entry: Entry, files: Iterable[Path]) -> None:
        """Record a photograph whose files are all in place: they are brought to the disk first, if they are given.

        That is done behind the scenes, for all that came in meanwhile at once. Raises what earlier attempts raised.
        """
        with self._lock:
            self._pending.append((entry, list(files)))
            if self._syncing is None or self._syncing.done():
                if self._syncing is not None:
                    self._syncing.result()
                self._syncing = self._pool.submit(self._commit)
            waiting = self._syncing if len(self._pending) >= WAITING else None
        if waiting is not None:
            waiting.result()

    def _commit(self) -> None:
        with self._lock:
            group, self._pending = self._pending, []
        if group:
            if files := [file for _, several in group for file in several]:
                self.out.keep(files)
            self._done.add(*(asdict(entry) for entry, _ in group))
            self.entries.add(entry for entry, _ in group)

    def settle(self) -> None:
        """Wait until all that was added is recorded."""
        if self._syncing is not None:
            self._syncing.result()
        self._commit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            try:
                self.settle()
            except (OSError, Error):
                if error is None:
                    raise


def _refuse_strangers(out: Place) -> None:
    """Never write over files of which nobody knows what made them."""
    content = out.content()
    found = [name for name in OUTPUTS if name in content]
    if found:
        raise Error(f"{out} already holds {found[0]}, which this job would overwrite; choose another folder for --out.")

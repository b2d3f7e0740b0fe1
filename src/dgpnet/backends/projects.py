"""What Label Studio told of one of its projects, as files that outlive the server, and what was learned from them."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpnet.backends.interface import Interface
from dgpnet.errors import Error
from dgpnet.files import atomic, make_folder, read_record, write_record
from dgpnet.segmenter import Concept, Segmenter

#: Files of a project.
INTERFACE, CONCEPT, LEARNED = "interface.xml", "learned.concept", "learned.json"

_log = logging.getLogger("dgpnet.backends")


@dataclass(frozen=True)
class Annotation:
    """An annotation of a task. when: as Label Studio writes the time at which it was changed last, to compare by."""

    id: int
    task: int
    when: str
    address: str
    digest: str

    @property
    def key(self) -> str:
        """What is learned from: another one where the painting, or the photograph, is another."""
        return f"{self.task}:{self.digest}"

    @staticmethod
    def of(record: Mapping[str, Any]) -> Annotation:
        """Of what `Project.keep` writes."""
        drawn = json.dumps([record["address"], record["result"]], sort_keys=True).encode()
        digest = hashlib.blake2b(drawn, digest_size=12).hexdigest()
        return Annotation(record["id"], record["task"], record["when"], record["address"], digest)


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned, and from which annotations, in order."""

    concept: Concept
    keys: tuple[str, ...]

    @property
    def version(self) -> str:
        """What Label Studio calls it: predictions of one version are made once."""
        return f"dgpnet-{self.concept.fingerprint[:16]}"


class Project:
    """One of Label Studio's projects, in a folder of its own, which is made when there is something to keep.

    number: Label Studio's · lock: for whoever changes files · pending: the learning that was asked for last
    """

    def __init__(self, folder: Path, number: int, segmenter: Segmenter) -> None:
        self.folder = folder
        self.number = number
        self.lock = threading.RLock()
        self.pending: Future[None] | None = None
        self.missed = True
        """Whether annotations may have been missed: those that were made while this server was not there."""
        self._annotations = _read_annotations(folder / "annotations")
        self.learned = _read_learned(folder, segmenter)

    # -- the interface -------------------------------------------------------------------------------------------------

    @property
    def interface(self) -> Interface:
        """The labelling interface as it was told last; an Error where it was not, or does not do."""
        try:
            return Interface.parse((self.folder / INTERFACE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Error("Label Studio has not told the labelling interface; connect the project again.") from None

    def set_interface(self, text: str) -> None:
        """Keep a configuration that does; an Error with what is missing in it."""
        Interface.parse(text)
        with self.lock:
            path = self.folder / INTERFACE
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                make_folder(self.folder)
                with atomic(path, sync=True) as temporary:
                    temporary.write_text(text, encoding="utf-8")

    # -- annotations ---------------------------------------------------------------------------------------------------

    @property
    def known(self) -> set[int]:
        """The annotations that are kept."""
        return set(self._annotations)

    def keep(self, record: Mapping[str, Any]) -> None:
        """Keep an annotation: {id, task, when, address, result}; on the disk when this returns. One that is older than
        what is known of it is not: events may come in another order."""
        with self.lock:
            if (held := self._annotations.get(record["id"])) is not None and held.when > record["when"]:
                return
            make_folder(self.folder / "annotations")
            write_record(self._path(record["id"]), record)
            self._annotations[record["id"]] = Annotation.of(record)

    def drop(self, annotations: Iterable[int]) -> None:
        """Forget annotations."""
        with self.lock:
            for one in annotations:
                if self._annotations.pop(one, None) is not None:
                    self._path(one).unlink(missing_ok=True)

    def drop_tasks(self, tasks: Iterable[int]) -> None:
        """Forget all of some tasks."""
        gone = set(tasks)
        self.drop([one.id for one in list(self._annotations.values()) if one.task in gone])

    def examples(self) -> dict[str, Annotation]:
        """What to learn from, by key and in the order of tasks: of each task the annotation that was changed last."""
        with self.lock:
            latest: dict[int, Annotation] = {}
            for one in sorted(self._annotations.values(), key=lambda one: (one.when, one.id)):
                latest[one.task] = one
            return {latest[task].key: latest[task] for task in sorted(latest)}

    def result(self, annotation: Annotation) -> list[Any]:
        """The regions of an annotation."""
        record = read_record(self._path(annotation.id))
        if record is None:
            raise Error(f"Annotation {annotation.id} is damaged on the disk; save it again in Label Studio.")
        regions: list[Any] = record["result"]
        return regions

    def photograph(self, annotation: Annotation) -> Path:
        """Where the photograph of an annotation is kept, or will be."""
        name = hashlib.blake2b(annotation.address.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
        return self.folder / "photographs" / f"{annotation.task}-{name}"

    def keep_photograph(self, annotation: Annotation, content: bytes) -> Path:
        """Keep the photograph of an annotation: learning anew needs it, and Label Studio may be away then."""
        path = self.photograph(annotation)
        make_folder(path.parent)
        with atomic(path) as temporary:
            temporary.write_bytes(content)
        return path

    def tidy(self) -> None:
        """Remove photographs of which nothing is painted any more."""
        with self.lock:
            used = {self.photograph(one) for one in self._annotations.values()}
            for path in (self.folder / "photographs").glob("*"):
                if path not in used:
                    path.unlink(missing_ok=True)

    def _path(self, annotation: int) -> Path:
        return self.folder / "annotations" / f"{annotation}.json"

    # -- what was learned ----------------------------------------------------------------------------------------------

    def became(self, learned: Learned | None) -> None:
        """Take what was learned, and keep it."""
        with self.lock:
            if learned is None:
                for name in (LEARNED, CONCEPT):
                    (self.folder / name).unlink(missing_ok=True)
            else:
                learned.concept.save(self.folder / CONCEPT)
                write_record(
                    self.folder / LEARNED, {"concept": learned.concept.fingerprint, "keys": list(learned.keys)}
                )
            self.learned = learned
            self.tidy()


def _read_annotations(folder: Path) -> dict[int, Annotation]:
    found = {}
    for path in folder.glob("*.json") if folder.is_dir() else ():
        record = read_record(path)
        if record is None:
            _log.warning("%s is damaged and left out; save that annotation again in Label Studio.", path)
        else:
            found[record["id"]] = Annotation.of(record)
    return found


def _read_learned(folder: Path, segmenter: Segmenter) -> Learned | None:
    """What was learned last with this model; None where there is nothing, or it is to be learned again."""
    record = read_record(folder / LEARNED)
    if record is None:
        return None
    try:
        concept = Concept.load(folder / CONCEPT, segmenter)
    except (Error, OSError) as error:
        _log.warning("What was learned before is learned again: %s", error)
        return None
    # Other where it was killed between the two files.
    return Learned(concept, tuple(record["keys"])) if record["concept"] == concept.fingerprint else None

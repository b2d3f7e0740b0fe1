"""The studio: a project, a model that learns from it, and everybody who listens."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dgpnet.annotations import FORMATS
from dgpnet.errors import Error
from dgpnet.segmenter import Segmenter
from dgpnet.segmenter.options import Options
from dgpnet.serving import Hub, Problem, Worker
from dgpnet.studio import describe, exports, imports
from dgpnet.studio.counting import status
from dgpnet.studio.jobs import Job, Jobs
from dgpnet.studio.learned import Learned
from dgpnet.studio.mind import Mind
from dgpnet.studio.pictures import Thumbnails
from dgpnet.studio.project import Project, Record, opened

#: Seconds between two words that the counts of all photographs have changed.
PACE = 0.5
#: Endings of what is imported as it is; anything else has to be an archive.
ANNOTATIONS = (".json", ".xml")


class Studio:
    """All that the API speaks of. Made by `open_studio`."""

    def __init__(self, segmenter: Segmenter, project: Project, hub: Hub, worker: Worker) -> None:
        self.segmenter = segmenter
        self.project = project
        self.hub = hub
        self.worker = worker
        self.jobs = Jobs(lambda job: hub.send({"type": "job", "job": describe.job(job).model_dump()}))
        self.mind = Mind(segmenter, project, worker, self.jobs, self._heard)
        self.thumbnails = Thumbnails(project.root / "thumbnails")
        self._shown: dict[str, tuple[Any, ...]] = {}
        self._told_at = 0.0
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End what is under way."""
        self.mind.close()
        self.jobs.close()
        self.hub.close()
        self.worker.close()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    # -- who is told what ----------------------------------------------------------------------------------------------

    def changed(self, record: Record) -> None:
        """Tell that something of a photograph has changed."""
        self.hub.send({"type": "photograph", "photograph": describe.photograph(self.project, record).model_dump()})
        told = status(self.project, record)
        shown = told.state, record.review, tuple(sorted(told.areas))
        if self._shown.get(record.key) != shown:
            self._shown[record.key] = shown
            self.counts_changed()

    def painted(self, record: Record, client: str, place: tuple[int, int, int, int] | None = None) -> None:
        """Tell that a mask was painted, whole or in a rectangle (x, y, width, height), and learn from it."""
        painting = self.project.painted(record)
        event: dict[str, Any] = {"type": "mask", "id": record.id, "client": client}
        event |= {"source": "none" if painting is None else "painted", "etag": painting and painting.etag}
        if place is not None:
            event |= dict(zip(("x", "y", "width", "height"), place, strict=True))
        self.hub.send(event)
        self.mind.follow()

    def classes_changed(self) -> None:
        """Tell that there are other classes, or other names."""
        self.hub.send({"type": "classes"})
        self.mind.follow()

    def counts_changed(self) -> None:
        """Tell that counts of all photographs have changed, not too often."""
        with self._lock:
            wait = self._told_at + PACE - time.monotonic()
            if self._timer is not None:
                return
            if wait > 0:
                self._timer = threading.Timer(wait, self._tell_counts)
                self._timer.daemon = True
                self._timer.start()
                return
        self._tell_counts()

    def _tell_counts(self) -> None:
        with self._lock:
            self._timer, self._told_at = None, time.monotonic()
        self.hub.send({"type": "project"})

    def _heard(self, event: dict[str, Any]) -> None:
        if event["type"] == "concept":
            concept = describe.concept(self)
            event = {**event, "concept": concept and concept.model_dump()}
        self.hub.send(event)

    # -- files ---------------------------------------------------------------------------------------------------------

    def export(self, only: str, options: dict[str, Any]) -> Job:
        """Write everything in the background; a Problem where that cannot be."""
        unknown = [name for name in options["formats"] if name not in FORMATS]
        if unknown:
            raise Problem(422, f"There is no format {unknown[0]!r}; there are {', '.join(FORMATS)}.")
        Options.of(options)
        return self.jobs.start("export", lambda job: self._export(job, only, options))

    def _export(self, job: Job, only: str, options: dict[str, Any]) -> dict[str, Any]:
        learned = self._whole()

        def advance(done: int, total: int) -> None:
            job.check()
            self.jobs.advance(job, done, total)

        made = exports.export(self.project, learned, only, job.id, options, advance)
        return {
            "download": f"/api/v1/exports/{job.id}/archive",
            "folder": str(made.folder),
            "files": made.files,
            "bytes": made.bytes,
            "notes": [*made.notes, *made.failures.values()],
        }

    def _whole(self) -> Learned:
        """What is painted now, learned as the commands learn it."""
        return self.worker.put(self.mind.whole, priority=0).result()

    def archive(self, name: str) -> Path:
        """The archive of an export; a Problem where it is not there any more."""
        found = [one for one in (self.project.root / "exports").glob("*.zip") if one.stem.endswith(f"-{name}")]
        if not name.isalnum() or not found:
            raise Problem(404, "There is no such archive any more; export again.")
        return found[0]

    def take(self, file: Path, name: str) -> Job:
        """Import a file, which is taken away afterwards. name: as its owner calls it."""
        return self.jobs.start("import", lambda job: self._import(job, file, name))

    def _import(self, job: Job, file: Path, name: str) -> dict[str, Any]:
        try:
            with tempfile.TemporaryDirectory(dir=file.parent) as place:
                suffix = Path(name).suffix.lower()
                if suffix in ANNOTATIONS:
                    path = Path(place) / f"annotations{suffix}"
                    file.rename(path)
                else:
                    path = imports.unpacked(file, Path(place))
                painted = imports.read(path, self.project.folder)
                done = self.take_support(painted, job)
        except Error as error:
            told = str(error).replace(str(file.parent), "").replace(place, name)
            raise Error(told) from None
        finally:
            file.unlink(missing_ok=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(done).items()}

    def take_support(self, painted: Any, job: Job | None = None) -> imports.Imported:
        """Make painted masks of a support set, and tell everybody."""

        def advance(done: int, total: int) -> None:
            if job is not None:
                job.check()
                self.jobs.advance(job, done, total)

        try:
            return imports.take(self.project, painted, advance)
        finally:
            self.classes_changed()
            self.counts_changed()


@contextmanager
def open_studio(segmenter: Segmenter, folder: Path, root: Path | None = None) -> Iterator[Studio]:
    """The studio of a folder of photographs; what is painted is safe when this ends, however it ends."""
    held: list[Studio] = []

    def changed(record: Record) -> None:
        for studio in held:  # none as long as the project is being opened
            studio.changed(record)

    with opened(folder, root, changed) as project:
        studio = Studio(segmenter, project, Hub(), Worker("model"))
        held.append(studio)
        try:
            studio.mind.start()
            yield studio
        finally:
            studio.close()

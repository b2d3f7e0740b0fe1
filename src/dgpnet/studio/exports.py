"""What is painted and found, written as `dgpnet segment` writes it."""

from __future__ import annotations

import shutil
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpnet.errors import Error
from dgpnet.files import atomic, make_folder
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.photographs import RECORD, Photograph
from dgpnet.segmenter.stages import Result
from dgpnet.studio.learned import Learned, support
from dgpnet.studio.project import Project, Record

#: Archives that are kept to be downloaded; folders stay until somebody takes them away.
KEPT = 3
#: Files that are packed as they are, since they are packed already.
PACKED = (".png", ".jpg", ".zip")

Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """folder, archive: where it is · files, bytes: of the archive · notes: sentences · failures: name -> why"""

    folder: Path
    archive: Path
    files: int
    bytes: int
    notes: tuple[str, ...]
    failures: dict[str, str]


def chosen(project: Project, only: str) -> list[Record]:
    """Photographs to export: all but those that were rejected or cannot be read; accepted ones; painted ones."""
    readable = [one for one in project.records() if project.look(one).problem is None and one.review != "rejected"]
    if only == "accepted":
        return [one for one in readable if one.review == "accepted"]
    if only == "painted":
        return [one for one in readable if project.painted(one) is not None]
    return readable


def export(
    project: Project, learned: Learned, only: str, name: str, options: dict[str, Any], advance: Advance
) -> Exported:
    """Write the files below the project's exports/, and an archive of them. name: of this export."""
    records = chosen(project, only)
    if not records:
        raise Error("None of the photographs is to be exported; accept some, or export all.")
    out = project.root / "exports" / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}"
    make_folder(out)
    named = {one.name: one for one in records}
    try:
        outcome = segment_folder(
            learned.concept,
            [Photograph(project.path(one), one.name, one.key) for one in records],
            out,
            painted=support(project, learned),
            known=lambda photo: known(project, learned, named.get(photo.name)),
            advance=advance,
            **options,
        )
        if outcome.stopped:
            raise Error(outcome.stopped)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # half an export is none
        raise
    archive = project.root / "exports" / f"{out.name}.zip"
    files = packed(out, archive)
    forget(archive.parent)
    return Exported(out, archive, files, archive.stat().st_size, outcome.notes, outcome.failures)


def known(project: Project, learned: Learned, record: Record | None) -> Result | None:
    """What need not be found again: what a person accepted, and what was found as the folder job finds it."""
    found = None if record is None else project.finds.get(record.key)
    if record is None or found is None:
        return None
    if not project.is_frozen(record) and not (found.settled and found.concept == learned.fingerprint):
        return None
    try:
        return project.finds.result(found, learned.legend)
    except Error:
        return None


def packed(folder: Path, archive: Path) -> int:
    """Put a folder into an archive, without its record; how many files it has."""
    files = [one for one in sorted(folder.rglob("*")) if one.is_file() and RECORD not in one.relative_to(folder).parts]
    with atomic(archive) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as into:
        for file in files:
            how = zipfile.ZIP_STORED if file.suffix in PACKED else zipfile.ZIP_DEFLATED
            into.write(file, f"{folder.name}/{file.relative_to(folder).as_posix()}", compress_type=how)
    return len(files)


def forget(folder: Path, kept: int = KEPT) -> None:
    """Remove the oldest archives."""
    archives = sorted(folder.glob("*.zip"), key=lambda one: one.stat().st_mtime_ns)
    for one in archives[: max(0, len(archives) - kept)]:
        one.unlink(missing_ok=True)

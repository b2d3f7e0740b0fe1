"""Finished parts of an evaluation on disk, one line each, so that a run that was cut off goes on where it was.

A folder holds `about.json`, what is evaluated, and one `.jsonl` file for every process that ever worked on it. What a
kill cut off, or what is damaged in any byte, is not believed: it is measured again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.evaluation.measure import Measured
from dgpnet.files import Journal, differences, make_folder, read_record, write_record
from dgpnet.metrics import HISTOGRAM_BINS

#: Seed and number of the first episode: which unit of work it is.
Key = tuple[int, int]
#: The file of a folder that says what is evaluated.
ABOUT = "about.json"


@dataclass(frozen=True)
class Record:
    """What was measured with one number of shots on one unit of work: classes (E,), counts (E, 4), scores (E,), and
    the histogram (2, HISTOGRAM_BINS) of right and wrong pixels."""

    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    scores: NDArray[np.float64]
    histogram: NDArray[np.int64]

    @staticmethod
    def of(classes: list[int], measured: Measured) -> Record:
        """The one place that waits for the device."""
        counts, scores, histogram = (t.cpu().numpy() for t in (measured.counts, measured.score, measured.histogram))
        return Record(np.array(classes, np.int64), counts, scores, histogram)

    def to_json(self) -> dict[str, Any]:
        """Plain lists; of the histogram only the bins that are not empty, as [bin, right, wrong]."""
        bins = np.flatnonzero(self.histogram.any(axis=0))
        return {
            "classes": self.classes.tolist(),
            "counts": self.counts.tolist(),
            "scores": self.scores.tolist(),
            "histogram": np.column_stack([bins, self.histogram[:, bins].T]).tolist(),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Record:
        """What `to_json` gave."""
        histogram = np.zeros((2, HISTOGRAM_BINS), np.int64)
        for place, right, wrong in fields["histogram"]:
            histogram[:, place] = right, wrong
        classes = np.array(fields["classes"], np.int64)
        counts = np.array(fields["counts"], np.int64).reshape(-1, 4)
        return Record(classes, counts, np.array(fields["scores"], np.float64), histogram)


#: Shots -> what was measured with them.
Unit = Mapping[int, Record]


@dataclass
class Records:
    """Finished units, in memory and, where there is a folder, on disk."""

    folder: Path | None = None
    name: str = "part"
    of: str = ""
    """Digest of what is evaluated; every line carries it."""
    found: dict[Key, Unit] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path | None, about: Mapping[str, Any], *, name: str = "part") -> Records:
        """The records of this very evaluation; those of another one are refused. name: of this process's file."""
        if folder is None:
            return Records()
        make_folder(folder)
        before = read_record(folder / ABOUT)
        if before is None:  # new, or damaged: what the lines are of, they say themselves
            write_record(folder / ABOUT, about)
        elif differing := differences(before, about):
            raise _another(folder, "; ".join(differing))
        records = Records(folder, name, hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16])
        records.refresh()
        return records

    def add(self, key: Key, unit: Unit) -> None:
        """Keeps a finished unit, on disk before this returns."""
        self.found[key] = unit
        if self.folder is None:
            return
        shots = {str(k): record.to_json() for k, record in unit.items()}
        with Journal(self.folder / f"{self.name}.jsonl") as journal:
            journal.add({"of": self.of, "seed": key[0], "first": key[1], "shots": shots})

    def refresh(self) -> None:
        """Reads what all processes have finished so far."""
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder else []:
            for fields in Journal(path).read():
                if fields.get("of") != self.of:
                    raise _another(path, "its lines say so")
                unit = {int(k): Record.from_json(record) for k, record in fields["shots"].items()}
                self.found.setdefault((fields["seed"], fields["first"]), unit)

    def count_lines(self) -> int:
        """How many units all processes have finished, without reading them."""
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob("*.jsonl")) if self.folder else 0


def _another(place: Path, how: str) -> Error:
    return Error(f"{place} holds parts of another evaluation ({how}); remove it or choose another --out.")

"""Finished parts of an evaluation on disk, one line each, so that a run that was cut off goes on where it was.

A folder holds `about.json`, what is evaluated, and one `.jsonl` file for every process that ever worked on it. A line
is written whole; of a process killed while it wrote, the last one is torn, and is not counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.evaluation.measure import Measured
from dgpnet.files import atomic
from dgpnet.metrics import HISTOGRAM_BINS

Key = tuple[int, int]
"""Seed and number of the first episode: which unit of work it is."""


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


Unit = Mapping[int, Record]
"""Shots -> what was measured with them."""


@dataclass
class Records:
    """Finished units, in memory and, where there is a folder, on disk."""

    folder: Path | None = None
    name: str = "part"
    found: dict[Key, Unit] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path | None, about: Mapping[str, Any], *, name: str = "part") -> Records:
        """The records of this very evaluation; those of another one are refused. name: of this process's file."""
        if folder is None:
            return Records()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise Error(f"{folder} cannot be made ({problem.strerror}); choose another place.") from problem
        described = folder / "about.json"
        if described.exists():
            differing = differences(json.loads(described.read_text()), about)
            if differing:
                raise Error(
                    f"{folder} holds parts of another evaluation ({differing}); remove it or choose another --out."
                )
        else:
            with atomic(described) as temporary:
                temporary.write_text(json.dumps(about, indent=1))
        records = Records(folder, name)
        records._mend()
        records.refresh()
        return records

    def add(self, key: Key, unit: Unit) -> None:
        """Keeps a finished unit, on disk before this returns."""
        self.found[key] = unit
        if self.folder is None:
            return
        line = {"seed": key[0], "first": key[1], "shots": {str(k): record.to_json() for k, record in unit.items()}}
        with open(self.folder / f"{self.name}.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def refresh(self) -> None:
        """Reads what all processes have finished so far."""
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder else []:
            for line in path.read_text().split("\n")[:-1]:  # what follows the last line break is torn, or nothing
                fields = json.loads(line)
                unit = {int(k): Record.from_json(record) for k, record in fields["shots"].items()}
                self.found.setdefault((fields["seed"], fields["first"]), unit)

    def count_lines(self) -> int:
        """How many units all processes have finished, without reading them."""
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob("*.jsonl")) if self.folder else 0

    def _mend(self) -> None:
        """Cuts a torn last line off this process's own file, so that the next one starts on a new line."""
        path = self.folder / f"{self.name}.jsonl" if self.folder else None
        if path is not None and path.exists():
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(path, whole)


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In words, which fields of two descriptions differ; empty where none does."""
    other = json.loads(json.dumps(other))  # as it comes back from a file: tuples as lists, keys as strings
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return ", ".join(f"{name} {_short(one.get(name))}, not {_short(other.get(name))}" for name in names)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:36] + " …"

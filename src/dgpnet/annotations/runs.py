"""Masks as runs of pixels, along the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dgpnet.annotations.shapes import Bool, Patch

Ints = NDArray[np.int64]


class Runs(NamedTuple):
    """Pixels of a (H, W) photograph, numbered row by row: each from `first` up to, not including, `last`."""

    first: Ints
    last: Ints

    @property
    def area(self) -> int:
        """Pixels, where no run lies on another."""
        return int((self.last - self.first).sum())


def runs(mask: Bool) -> tuple[Ints, Ints, Ints]:
    """Rows, first columns and columns after the last of all runs in a (H, W) mask, in reading order."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), bool)
    padded[:, 1:-1] = mask
    line, column = np.nonzero(padded[:, 1:] != padded[:, :-1])
    return line[::2], column[::2], column[1::2]


def runs_of(patch: Patch, width: int) -> Runs:
    """The runs of a patch in a photograph of that width."""
    line, first, last = runs(patch.pixels)
    base = (patch.top + line) * width + patch.left
    return Runs(base + first, base + last)


def counts_of(patch: Patch, size: tuple[int, int]) -> Ints:
    """How many pixels of a (H, W) photograph, read row by row, are outside, inside, outside ... the patch."""
    height, width = size
    line, first, last = runs(patch.pixels)
    base = (patch.top + line) * width + patch.left
    edges = np.stack([base + first, base + last], 1).ravel()
    gaps = edges[1:-1].reshape(-1, 2)
    gaps = gaps[gaps[:, 0] != gaps[:, 1]]  # a run to the end of a row may go on in the next
    counts = np.diff(np.concatenate([[0], edges[:1], gaps.ravel(), edges[1:][-1:], [height * width]]))
    return counts if counts[-1] else counts[:-1]


def counted(counts: Ints) -> Runs:
    """The inverse: counts are not negative."""
    return between(np.cumsum(counts)[: len(counts) // 2 * 2])


def between(places: Ints) -> Runs:
    """Pixels from the first to the second of `places`, from the third to the fourth, …, which ascend."""
    first, last = places.reshape(-1, 2).T
    there = first < last
    return Runs(first[there], last[there])


def together(parts: Iterable[Runs]) -> Runs:
    """All that any of the parts covers, in runs that ascend and do not touch."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    nothing = np.zeros(0, np.int64)
    first = np.concatenate([nothing, *(part.first for part in parts)])
    last = np.concatenate([nothing, *(part.last for part in parts)])
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    begins = np.ones(len(first), bool)
    begins[1:] = first[1:] > reach[:-1]
    ends = np.roll(begins, -1)  # the last run ends, since the first begins
    return Runs(first[begins], reach[ends])

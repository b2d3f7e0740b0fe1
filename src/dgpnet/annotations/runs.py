"""Masks as runs of pixels, along the rows."""

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations import shapes
from dgpnet.annotations.shapes import Bool, Patch

Ints = NDArray[np.int64]


def runs(mask: Bool) -> tuple[Ints, Ints, Ints]:
    """Rows, first columns and columns after the last of all runs in a (H, W) mask, in reading order."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), bool)
    padded[:, 1:-1] = mask
    line, column = np.nonzero(padded[:, 1:] != padded[:, :-1])
    return line[::2], column[::2], column[1::2]


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


def patch_of(counts: Ints, size: tuple[int, int]) -> Patch:
    """The inverse: counts are not negative and add up to H * W."""
    width = size[1]
    lengths, end = counts[1::2], np.cumsum(counts)[1::2]
    start, end = (end - lengths)[lengths > 0], end[lengths > 0]
    if not len(start):
        return Patch(0, 0, np.zeros((0, 0), bool))
    top, bottom = int(start[0]) // width, (int(end[-1]) - 1) // width + 1
    steps = np.zeros((bottom - top) * width + 1, np.int8)
    steps[start - top * width] += 1
    steps[end - top * width] -= 1
    inner, left, pixels = shapes.crop(np.cumsum(steps[:-1], dtype=np.int8).astype(bool).reshape(-1, width))
    return Patch(top + inner, left, pixels)

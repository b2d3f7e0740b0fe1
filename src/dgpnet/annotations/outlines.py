"""Pixels to shapes: connected parts of a mask, and polygons that fill back to exactly the same pixels."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from dgpnet.annotations.runs import Ints, runs
from dgpnet.annotations.shapes import Bool, Float, Patch

Walk = list[Any]  # of points (x, y) and of further walks, to any depth


def parts(mask: Bool) -> Iterator[Patch]:
    """The 8-connected parts of a (H, W) mask, in the order in which their first pixels are read."""
    line, start, end = runs(mask)
    part = _joined(len(line), *_touching(line, start, end, mask.shape[1]))
    _, part = np.unique(part, return_inverse=True)  # a run's root is the part's first run, so the order is the reader's
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(part.max(initial=-1) + 2))
    for first, last in pairwise(bounds):
        its = order[first:last]
        top, left = int(line[its].min()), int(start[its].min())
        shape = (int(line[its].max()) - top + 1, int(end[its].max()) - left)
        pixels = np.zeros(shape[0] * (shape[1] + 1), np.int8)  # one column more, so that a run's end stays in its row
        base = (line[its] - top) * (shape[1] + 1) - left
        pixels[base + start[its]] = 1
        pixels[base + end[its]] -= 1
        yield Patch(top, left, np.cumsum(pixels.reshape(shape[0], -1), axis=1, dtype=np.int8)[:, :-1].astype(bool))


def _touching(line: Ints, start: Ints, end: Ints, width: int) -> tuple[Ints, Ints]:
    """Pairs of runs in neighbouring rows that touch, by a side or a corner."""
    stride = width + 2
    # In the row above, the runs that touch [start, end) are those with end >= start and start <= end.
    above = (line - 1) * stride
    first = np.searchsorted(line * stride + end, above + start, side="left")
    last = np.searchsorted(line * stride + start, above + end, side="right")
    counts = np.maximum(last - first, 0)
    below = np.repeat(np.arange(len(line)), counts)
    return below, np.arange(len(below)) - np.repeat(np.cumsum(counts) - counts, counts) + first[below]


def _joined(count: int, a: Ints, b: Ints) -> Ints:
    """Union-find on whole arrays: for each of `count` nodes, the smallest node that the pairs (a, b) join it to."""
    root = np.arange(count)
    while True:
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        open_ = low != high
        if not open_.any():
            return root
        a, b = a[open_], b[open_]
        np.minimum.at(root, high[open_], low[open_])
        while not np.array_equal(root, shorter := root[root]):
            root = shorter


def polygons(mask: Bool) -> list[Float]:
    """One polygon (N, 2) of x, y per 8-connected part of a (H, W) mask, walking along the sides of its pixels.

    A hole is joined to its part by a bridge that is walked there and back, inside the part all the way. Filled by
    the even-odd rule (`shapes.fill_polygon`) the polygons give exactly the mask.
    """
    return _Boundary(mask).polygons()


def single_polygon(mask: Bool) -> Float:
    """All parts of a mask in one polygon (N, 2), joined by bridges between their first corners."""
    walks = polygons(mask)
    if not walks:
        return np.zeros((0, 2))
    back = [walk[:1] for walk in walks[-2:0:-1]]
    return np.concatenate([piece for walk in walks for piece in (walk, walk[:1])] + back)


class _Boundary:
    """The lines between a mask and its outside, as rings of corners.

    Every corner has one horizontal and one vertical side; where two pixels meet only at a corner there are two
    corners in one place, paired so that the two pixels stay together. Sorted by rows, corners 2k and 2k + 1 are the
    ends of horizontal side k; sorted by columns, likewise for vertical sides. Rings are walked with the mask on the
    right hand: outer rings clockwise, holes the other way round.
    """

    def __init__(self, mask: Bool) -> None:
        self.mask = mask
        padded = np.pad(mask, 1)
        nw, ne, sw, se = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
        cross = (nw == se) & (ne == sw) & (nw != ne)
        y, x = np.nonzero((nw ^ ne ^ sw ^ se) | cross)
        times = 1 + cross[y, x]
        self.y, self.x = np.repeat(y, times), np.repeat(x, times)
        count = len(self.y)
        second = np.zeros(count, bool)  # the eastern corner of two in one place
        second[1:] = (self.y[1:] == self.y[:-1]) & (self.x[1:] == self.x[:-1])
        southern = second ^ (cross & nw)[self.y, self.x]
        column_order = np.lexsort((southern, self.y, self.x))
        self.side_key = self._key(self.x, self.y)[column_order[::2]]  # of each vertical side's upper end, ascending
        side = np.empty(count, np.int64)
        side[column_order] = np.arange(count) // 2
        other = np.empty(count, np.int64)  # the other end of a corner's vertical side
        other[column_order] = column_order.reshape(-1, 2)[:, ::-1].ravel()

        even = np.arange(0, count, 2)
        self.rightward = se[self.y[::2], self.x[::2]]  # the mask is below: walk to the right
        self.start = np.where(self.rightward, even, even + 1)
        self.end = np.where(self.rightward, even + 1, even)
        self.next = other[self.end] // 2
        self.side_after = np.empty(count // 2, np.int64)  # vertical side -> the horizontal side walked before it
        self.side_after[side[self.end]] = even // 2

    def _key(self, x: Ints, y: Ints) -> Ints:
        key: Ints = x * (self.mask.shape[0] + 1) + y
        return key

    def rings(self) -> list[list[int]]:
        """Horizontal sides of each ring in walking order, starting from the ring's first in reading order."""
        following = self.next.tolist()
        seen = bytearray(len(following))
        found = []
        for first in range(len(following)):
            if seen[first]:
                continue
            ring, side = [], first
            while not seen[side]:
                seen[side] = 1
                ring.append(side)
                side = following[side]
            found.append(ring)
        return found

    def polygons(self) -> list[Float]:
        start = list(zip(self.x[self.start].tolist(), self.y[self.start].tolist(), strict=True))
        end = list(zip(self.x[self.end].tolist(), self.y[self.end].tolist(), strict=True))
        detours: dict[int, list[Walk]] = {}  # horizontal side -> walks that leave from the vertical side after it

        def walk(ring: list[int]) -> Walk:
            path: Walk = []
            for side, following in zip(ring, ring[1:] + ring[:1], strict=True):
                path += (start[side], end[side])
                if side in detours:
                    downward = start[following][1] > end[side][1]
                    path += sorted(detours[side], key=lambda detour: detour[0][1], reverse=not downward)
            return path

        holes, outer = [], []
        for ring in self.rings():
            if self.rightward[ring[0]]:
                outer.append(ring)
            else:
                leftmost = min(range(len(ring)), key=lambda i: end[ring[i]][0])
                holes.append((end[ring[leftmost]][0], ring[leftmost + 1 :] + ring[: leftmost + 1]))
        # A bridge runs to the left from a hole's leftmost side, so it lands on the outer ring or on a hole that
        # reaches further left: taking holes from the right, everything that hangs on a hole is there before it.
        for x, ring in sorted(holes, key=lambda hole: -hole[0]):
            row = min(end[ring[-1]][1], start[ring[0]][1])
            outside = np.flatnonzero(~self.mask[row, :x])
            landing = int(outside[-1]) + 1 if outside.size else 0
            side = np.searchsorted(self.side_key, landing * (self.mask.shape[0] + 1) + row, side="right") - 1
            here, there = (x, row + 0.5), (landing, row + 0.5)
            detours.setdefault(int(self.side_after[side]), []).append([there, here, *walk(ring), here, there])
        return [np.array(_flattened(walk(ring)), np.float64) for ring in outer]


def _flattened(walk: Walk) -> list[tuple[float, float]]:
    """All points in order; without recursion, since holes can hang on one another by the thousand."""
    points, open_ = [], [iter(walk)]
    while open_:
        for step in open_[-1]:
            if isinstance(step, list):
                open_.append(iter(step))
                break
            points.append(step)
        else:
            open_.pop()
    return points

"""Pixels to shapes: connected parts of a mask, and polygons that fill back to exactly the same pixels."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np

from dgpnet.annotations.runs import Ints, runs
from dgpnet.annotations.shapes import Bool, Float, Patch

#: Arrays of points (N, 3): x, y, whether a bridge ends there; and further walks, to any depth.
Walk = list[Any]

#: How far inside the sides of the pixels an outline runs, in pixels. Then pixels that meet at a corner are joined by
#: a neck and not by a point, and corners are never whole numbers, which readers take for the centres of pixels.
INSET: Final = 0.1
#: By how much an outline moves, in pixels, when it runs from the middle of a side to the next instead of by corners.
CUT: Final = 0.36
#: A simplified outline encloses at least this share of what the exact one does, and at most as much more.
KEPT: Final = 0.9
#: Outlines are not simplified by less than this, in pixels.
FINEST: Final = 0.1


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


def polygons(mask: Bool, *, centres: bool = False, simplify: float = 0.0) -> list[Float]:
    """One polygon (N, 2) of x, y per 8-connected part of a (H, W) mask, N >= 3.

    It runs along the sides of the pixels, for programs that fill what lies inside (`shapes.fill_polygon`, COCO's
    tools); with `centres` from pixel to pixel, their corners whole numbers, for programs that draw the outline along
    with what lies inside (OpenCV, Pillow). A hole is joined to its part by a bridge that is walked there and back,
    inside the part all the way. Either way the polygons give exactly the mask.

    simplify: corners are left out as long as the outline moves by at most so many pixels, but no part is lost.
    """
    middles = not centres and simplify > CUT + FINEST  # a slope is a straight line by them, and a stair by corners
    points, first = _turns(*_Boundary(mask, centres, middles).walks())
    tolerance = simplify - CUT if middles else simplify
    return [_thinned(points[start:end], tolerance) for start, end in pairwise([*first.tolist(), len(points)])]


def _thinned(points: Float, tolerance: float) -> Float:
    """Points (N, 3) of a closed walk with fewer corners, (M, 2); M >= 3."""
    found = points[:, :2]
    area = abs(_area(found)) if tolerance >= FINEST else 0.0
    while tolerance >= FINEST:  # a part too small or too thin for it is simplified less
        fewer = _simplified(points, tolerance)
        if len(fewer) >= 3 and KEPT * area <= abs(_area(fewer)) <= (2 - KEPT) * area:
            return fewer
        tolerance /= 2
    return found if len(found) >= 3 else found[np.arange(3) % len(found)]


def _turns(points: Float, first: Ints) -> tuple[Float, Ints]:
    """Points (N, 3) of closed walks and where each begins; without those where a walk stands still or goes straight on,
    but with the ends of bridges."""
    if not len(points):
        return points, first
    moves = np.append(True, (points[1:, :2] != points[:-1, :2]).any(1))
    moves[first] = True
    points = np.maximum.reduceat(points, np.flatnonzero(moves))  # in one place, equal but for the mark of a bridge
    first = (np.cumsum(moves) - 1)[first]
    last = np.append(first[1:], len(points)) - 1
    back = (points[first, :2] == points[last, :2]).all(1) & (first < last)  # a walk that ends where it began
    points[first, 2] = np.maximum(points[first, 2], points[last, 2] * back)
    points, first = _chosen(points, first, ~np.isin(np.arange(len(points)), last[back]))

    last = np.append(first[1:], len(points)) - 1
    before, after = np.arange(len(points)) - 1, np.arange(len(points)) + 1
    before[first], after[last] = last, first
    xy = points[:, :2]
    turns = (np.sign(xy - xy[before]) != np.sign(xy[after] - xy)).any(1) | (points[:, 2] > 0)
    turns[first[first == last]] = True
    return _chosen(points, first, turns)


def _chosen(points: Float, first: Ints, chosen: Bool) -> tuple[Float, Ints]:
    """Some points of walks; at least one of each."""
    counts = np.add.reduceat(chosen, first, dtype=np.int64)
    return points[chosen], np.cumsum(counts) - counts


def _simplified(points: Float, tolerance: float) -> Float:
    """Points (N, 3) of a closed walk, fewer by Ramer, Douglas and Peucker, (M, 2); the ends of bridges stay."""
    points = np.roll(points, -int(np.argmax(points[:, 2])), axis=0)
    xy = np.concatenate([points, points[:1]])[:, :2]
    stays = np.append(points[:, 2] > 0, True)
    stays[[0, int(np.argmax(((xy - xy[0]) ** 2).sum(1)))]] = True
    open_ = list(pairwise(np.flatnonzero(stays).tolist()))
    while open_:
        first, last = open_.pop()
        if last - first > 1:
            distance = _distance(xy[first + 1 : last], xy[first], xy[last])
            middle = first + 1 + int(np.argmax(distance))
            if distance.max() > tolerance:
                stays[middle] = True
                open_ += ((first, middle), (middle, last))
    kept: Float = xy[:-1][stays[:-1]]
    return kept


def _distance(points: Float, start: Float, end: Float) -> Float:
    """Of points (N, 2) from the line between two points, which may be one point; (N,)."""
    along = end - start
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-12), 0, 1)
    distance: Float = np.hypot(*(points - start - share[:, None] * along).T)
    return distance


def _area(xy: Float) -> float:
    """Enclosed by a polygon (N, 2), holes taken off; clockwise on the screen is positive."""
    x, y = (xy - xy[0]).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


class _Boundary:
    """The lines between a mask and its outside, as rings of corners.

    Every corner has one horizontal and one vertical side; where two pixels meet only at a corner there are two
    corners in one place, paired so that the two pixels stay together. Sorted by rows, corners 2k and 2k + 1 are the
    ends of horizontal side k; sorted by columns, likewise for vertical sides. Rings are walked with the mask on the
    right hand: outer rings clockwise, holes the other way round.
    """

    def __init__(self, mask: Bool, centres: bool, middles: bool) -> None:
        self.mask, self.centres, self.middles = mask, centres, middles
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

    def points(self) -> Float:
        """(S, 4, 3): for each horizontal side S where the outline begins and ends beside it, then beside the vertical
        side after it; marked 0: no bridge ends there."""
        x0, x1 = self.x[self.start], self.x[self.end]
        y0, y1 = self.y[self.start], self.y[self.start[self.next]]
        below = np.where(self.rightward, 1, -1)  # the mask is below, or above
        beside = np.where(y1 < y0, 1, -1)  # to the right of the vertical side after, or to the left
        if self.centres:  # of the pixels at the ends of a side
            xs = [x0 + (below - 1) // 2, x1 - (below + 1) // 2, *[x1 + (beside - 1) // 2] * 2]
            ys = [*[y0 + (below - 1) // 2] * 2, y0 - (beside + 1) // 2, y1 + (beside - 1) // 2]
        elif self.middles:  # half a pixel from the ends of a side
            xs = [x0 + below / 2, x1 - below / 2, x1, x1]
            ys = [y0, y0, y0 - beside / 2, y1 + beside / 2]
        else:
            before = np.empty_like(beside)
            before[self.next] = beside
            xs = [x0 + INSET * before, *[x1 + INSET * beside] * 3]
            ys = [*[y0 + INSET * below] * 3, y1 + INSET * below[self.next]]
        return np.stack([np.stack(xs, 1), np.stack(ys, 1), np.zeros((len(x0), 4))], 2).astype(np.float64)

    def bridge(self, landing: int, hole: int, row: int) -> Float:
        """(2, 3): from the side `landing` of a row to that of a hole on its right, marked as the ends of a bridge."""
        if self.centres:
            return np.array([(landing, row, 1), (hole - 1, row, 1)], np.float64)
        inset = 0 if self.middles else INSET
        return np.array([(landing + inset, row + 0.5, 1), (hole - inset, row + 0.5, 1)])

    def walks(self) -> tuple[Float, Ints]:
        """Points (N, 3) of all parts, in walking order, and where each part begins."""
        points = self.points()
        start_y, end_x, end_y = self.y[self.start], self.x[self.end], self.y[self.end]
        detours: dict[int, list[Walk]] = {}  # horizontal side -> walks that leave from the vertical side after it

        def walk(ring: list[int]) -> Walk:
            way = points[ring].reshape(-1, 3)
            path: Walk = []
            done = 0
            for place, side in enumerate(ring) if detours else ():
                if side in detours:
                    downward = start_y[self.next[side]] > end_y[side]
                    leaving = sorted(detours[side], key=lambda detour: float(detour[0][0, 1]), reverse=not downward)
                    path += (way[done : 4 * place + 3], *leaving)
                    done = 4 * place + 3
            return [*path, way[done:]]

        holes, outer = [], []
        for ring in self.rings():
            if self.rightward[ring[0]]:
                outer.append(ring)
            else:
                leftmost = int(np.argmin(end_x[ring]))
                holes.append((int(end_x[ring[leftmost]]), ring[leftmost + 1 :] + ring[: leftmost + 1]))
        # A bridge runs to the left from a hole's leftmost side, so it lands on the outer ring or on a hole that
        # reaches further left: taking holes from the right, everything that hangs on a hole is there before it.
        for x, ring in sorted(holes, key=lambda hole: -hole[0]):
            row = int(min(end_y[ring[-1]], start_y[ring[0]]))
            outside = np.flatnonzero(~self.mask[row, :x])
            landing = int(outside[-1]) + 1 if outside.size else 0
            side = np.searchsorted(self.side_key, landing * (self.mask.shape[0] + 1) + row, side="right") - 1
            bridge = self.bridge(landing, x, row)
            *path, last = walk(ring)  # the bridge comes down on the last side, of which the end is walked first
            detour = [bridge, last[-1:], *path, last[:-1], bridge[::-1]]
            detours.setdefault(int(self.side_after[side]), []).append(detour)
        found = [_flattened(walk(ring)) if detours else [points[ring].reshape(-1, 3)] for ring in outer]
        lengths = np.array([sum(map(len, pieces)) for pieces in found], np.int64)
        pieces = [piece for pieces in found for piece in pieces]
        return np.concatenate([np.zeros((0, 3)), *pieces]), np.cumsum(lengths) - lengths


def _flattened(walk: Walk) -> list[Float]:
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

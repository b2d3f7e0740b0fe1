"""Shapes to pixels: polygons, rectangles, circles and ellipses, and pieces of masks.

One convention everywhere: coordinates are continuous, pixel (row i, column j) is the square [j, j+1] x [i, i+1], and a
pixel belongs to a shape when its centre (j + 0.5, i + 0.5) does. Outlines whose corners are all whole numbers go from
pixel to pixel instead (`fill_outline`): programs that follow the border of a mask write them so.

What a shape covers is kept as runs, which take little memory however large the photograph is. What drawing will cost
is counted before it is done (`Work`), since small files can ask for a lot.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations.runs import Ints, Runs, between, runs_of, together
from dgpnet.errors import Error

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Labels = NDArray[np.signedinteger[Any]]

#: How far a shape may lie outside, as a part of the longer side: tools let a hand slip over the border by this much;
#: more is another photograph.
OVERSHOOT: Final = 0.02
#: What all shapes of a photograph may cost, in units of about 50 nanoseconds.
MOST_WORK: Final = 20_000_000
#: What a shape costs at least, in the same units.
A_SHAPE: Final = 1000
#: Of a run of pixels, and of how many pixels one unit is enough for.
_A_RUN, _PIXELS_A_UNIT = 8, 128
#: Runs closer together than this, on the average, are drawn as pixels, so many of them for one unit.
_DENSE, _SPREAD = 64, 8
#: Crossings, or runs, that are held in memory several times over while they are worked on.
_CHUNK: Final = 1 << 18
#: How many times finer than pixels the grid is on which COCO's tools draw outlines.
_FINER: Final = 5
#: How far from a whole number a corner may be and still be one, in pixels and in parts of the photograph's longer side:
#: some programs keep five decimals of a fraction.
_ROUNDING: Final = (0.05, 1e-5)


class Patch(NamedTuple):
    """A piece of a mask: `pixels` (h, w) bool, its first pixel at (top, left) of the photograph."""

    top: int
    left: int
    pixels: Bool

    @property
    def area(self) -> int:
        """Pixels of the mask in it."""
        return int(np.count_nonzero(self.pixels))

    @property
    def turned(self) -> "Patch":
        """The same with rows and columns exchanged."""
        return Patch(self.left, self.top, self.pixels.T)

    def placed(self, xy: Float) -> Float:
        """Points (N, 2) of the patch as points of the photograph."""
        return np.add(xy, [self.left, self.top])


class Work:
    """What drawing the shapes of one photograph may still cost; spent before it is done."""

    def __init__(self, where: object = "the photograph") -> None:
        self.where = where
        self.left = MOST_WORK

    def spend(self, units: float) -> None:
        self.left -= int(units)
        if self.left < 0:
            raise Error(
                f"{self.where}: its shapes have too many corners, runs or pixels to be drawn; remove what overlaps, "
                "simplify outlines, or store it as a mask."
            )


def crop(mask: Bool) -> Patch:
    """The smallest patch that holds all of a (H, W) mask."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return Patch(0, 0, mask[:0, :0])
    top, left = int(rows[0]), int(columns[0])
    return Patch(top, left, mask[top : rows[-1] + 1, left : columns[-1] + 1])


def paint(size: tuple[int, int], pieces: Iterable[tuple[int, Patch | Runs]], work: Work | None = None) -> Labels:
    """Draw (value, shape) pieces on a (H, W) int16 background of zeros, later ones on top, one at a time."""
    canvas = np.zeros(size, np.int16)
    flat = canvas.reshape(-1)
    work = work or Work()
    for value, shape in pieces:
        covered = runs_of(shape, size[1]) if isinstance(shape, Patch) else shape
        if not len(covered.first):
            continue
        start, span = int(covered.first[0]), int(covered.last[-1] - covered.first[0])
        dense = span < _DENSE * len(covered.first)
        work.spend(span / _SPREAD if dense else _A_RUN * len(covered.first) + covered.area / _PIXELS_A_UNIT)
        if dense:
            flat[start : start + span][_spread(covered)] = value
        else:
            for first, last in zip(covered.first.tolist(), covered.last.tolist(), strict=True):
                flat[first:last] = value
    return canvas


def _spread(covered: Runs) -> Bool:
    """From the first pixel that is covered to the last, whether each is."""
    steps = np.zeros(int(covered.last[-1] - covered.first[0]) + 1, np.int8)
    steps[covered.first - covered.first[0]] = 1
    steps[covered.last - covered.first[0]] -= 1
    np.cumsum(steps, out=steps)
    return steps[:-1].view(bool)


def large_first(pieces: Iterable[tuple[int, Runs]]) -> list[tuple[int, Runs]]:
    """Order for formats that keep none: small objects lie on top of large ones."""
    return sorted(pieces, key=lambda piece: -piece[1].area)


def pairs(points: object, where: object, least: int) -> Float:
    """Check that `points`, read from a file, are at least `least` pairs of numbers; (N, 2) float64."""
    try:
        xy = np.asarray(points, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Error(f"{where}: the points are not numbers, expected pairs x, y; draw the shape again.") from None
    if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) < least:
        raise Error(f"{where}: expected at least {least} points x, y, got an array of shape {xy.shape}; draw it again.")
    return np.nan_to_num(xy, nan=np.inf)


def vertices(
    points: object, size: tuple[int, int], where: object, *, least: int = 3, unit: float | None = None
) -> Float:
    """Check that `points`, read from a file, are at least `least` finite (x, y) pairs inside a (H, W) photograph.

    Returns them in pixels, (N, 2) float64. unit: what stands for the whole width or height in the file (1 or 100);
    None for pixels. Up to `OVERSHOOT` over the border is let through and cut off when drawn.
    """
    height, width = size
    xy = pairs(points, where, least)
    if unit is not None:
        with np.errstate(over="ignore"):
            xy = xy * np.array([width, height]) / unit
    slack = OVERSHOOT * max(size)
    if xy.min() < -slack or (xy.max(0) > (width + slack, height + slack)).any():
        raise Error(
            f"{where}: the shape lies outside the photograph of {width} x {height} pixels; "
            "give the photograph that it was drawn on, in the same size."
        )
    return xy


def whole(xy: Float, size: tuple[int, int]) -> bool:
    """Whether all corners of an outline (N, 2) are whole numbers, as they are where it goes from pixel to pixel.

    What was written as a fraction of the photograph's sides need not be quite whole any more."""
    return bool(np.abs(xy - np.rint(xy)).max() <= min(_ROUNDING[0], _ROUNDING[1] * max(size)))


def fill_polygon(xy: Float, size: tuple[int, int], work: Work | None = None) -> Runs:
    """Pixels whose centre lies inside the closed polygon `xy` (N, 2) by the even-odd rule, cut off at the border.

    An edge that is walked back and forth encloses nothing and leaves no trace, which is what lets one polygon
    hold holes and several parts.
    """
    height, width = size
    start, end = xy, np.roll(xy, -1, axis=0)
    upward = (end[:, 1] < start[:, 1])[:, None]  # the same edge gives the same numbers in both directions
    (x0, y0), (x1, y1) = np.where(upward, end, start).T, np.where(upward, start, end).T
    first = np.clip(np.ceil(y0 - 0.5), 0, height).astype(np.int64)
    counts = np.clip(np.ceil(y1 - 0.5), 0, height).astype(np.int64) - first
    (work or Work()).spend(A_SHAPE + len(xy) + 2 * counts.sum())
    places = [np.zeros(0, np.int64)]
    for edge, step in _steps(counts):
        row = first[edge] + step
        x = x0[edge] + (row + 0.5 - y0[edge]) * ((x1 - x0)[edge] / (y1 - y0)[edge])
        places.append(row * width + np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64))
    return between(np.sort(np.concatenate(places)))


def fill_outline(xy: Float, size: tuple[int, int], work: Work | None = None) -> Runs:
    """Pixels of an outline from pixel to pixel, `xy` (N, 2) their columns and rows, and all that it encloses."""
    height, width = size
    work = work or Work()
    xy = np.rint(xy)
    steps = np.diff(xy, axis=0, append=xy[:1])
    counts = np.abs(steps).max(1).astype(np.int64) + 1
    work.spend(2 * counts.sum())
    parts = [fill_polygon(xy + 0.5, size, work)]
    for edge, step in _steps(counts):
        share = step / np.maximum(counts[edge] - 1, 1)
        column, row = np.floor(xy[edge] + steps[edge] * share[:, None] + 0.5).astype(np.int64).T
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        place = (row * width + column)[inside]
        parts.append(Runs(place, place + 1))
    return together(parts)


def fill_as_coco(xy: Float, size: tuple[int, int], work: Work | None = None) -> Runs:
    """The pixels that COCO's own tools give the closed polygon `xy` (N, 2), as runs down the columns.

    They walk along the outline on a grid five times as fine, one step at a time in the direction in which an edge is
    longer, and turn a column on or off, from there downwards, wherever the walk passes the middle of it.
    """
    height, width = size
    x, y = (_FINER * xy.T + 0.5).astype(np.int64)
    dx, dy = np.roll(x, -1) - x, np.roll(y, -1) - y
    upright = abs(dy) > abs(dx)  # an edge is longer in y
    start, other = np.where(upright, y, x), np.where(upright, x, y)
    most, drift = np.where(upright, dy, dx), np.where(upright, dx, dy)
    backward = most < 0  # drawn from its other end, so that rounding is the same
    start, other = start + np.where(backward, most, 0), other + np.where(backward, drift, 0)
    most = abs(most)
    slope = np.where(backward, -drift, drift) / np.maximum(most, 1)
    (work or Work()).spend(A_SHAPE + len(xy) + 2 * most.sum())
    places = [np.zeros(0, np.int64)]
    u, v = x[:1], y[:1]
    for edge, step in _steps(most + 1):
        step = np.where(backward[edge], most[edge] - step, step)
        along = start[edge] + step
        beside = (other[edge] + slope[edge] * step + 0.5).astype(np.int64)
        u = np.concatenate([u[-1:], np.where(upright[edge], beside, along)])
        v = np.concatenate([v[-1:], np.where(upright[edge], along, beside)])
        passed = np.flatnonzero(u[1:] != u[:-1])
        column = np.minimum(u[passed + 1], u[passed])
        middle = (column % _FINER == _FINER // 2) & (column >= 0) & (column < _FINER * width)
        column, passed = column[middle], passed[middle]
        row = np.clip(-((_FINER // 2 - np.minimum(v[passed + 1], v[passed])) // _FINER), 0, height)
        places.append(column // _FINER * height + row)
    return between(np.sort(np.concatenate(places)))


def _steps(counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Each edge's number as often as it has steps, and the steps 0, 1, …; a few edges at a time, to spare memory."""
    total = np.cumsum(counts)
    begin, done = 0, 0
    while begin < len(counts) and done < total[-1]:
        end = max(begin + 1, int(np.searchsorted(total, done + _CHUNK, side="right")))
        edge = np.repeat(np.arange(begin, end), counts[begin:end])
        yield edge, np.arange(done, done + len(edge)) - (total - counts)[edge]
        begin, done = end, int(total[end - 1])


def _nothing() -> Runs:
    return Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))


def fill_rectangle(corner: Float, opposite: Float, size: tuple[int, int], work: Work | None = None) -> Runs:
    """Pixels of the upright rectangle between two opposite (x, y) corners."""
    (x0, y0), (x1, y1) = corner, opposite
    return fill_polygon(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.float64), size, work)


def fill_ellipse(
    centre: Float, radii: tuple[float, float], degrees: float, size: tuple[int, int], work: Work | None = None
) -> Runs:
    """Pixels of an ellipse with half axes `radii`, turned clockwise by `degrees`, cut off at the border.

    Row by row: the ends of a chord are where a x² + 2 b x y + c y² = 1, x and y from the centre.
    """
    height, width = size
    if not (all(map(math.isfinite, (*centre, *radii, degrees))) and min(radii) > 0):
        return _nothing()
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    with np.errstate(all="ignore"):
        one, two = np.float64(radii[0]) ** -2, np.float64(radii[1]) ** -2
        a, b, c = cos**2 * one + sin**2 * two, cos * sin * (one - two), sin**2 * one + cos**2 * two
        row = np.arange(height)
        y = row + 0.5 - centre[1]
        half = np.sqrt((b * y) ** 2 - a * (c * y**2 - 1)) / a  # not a number where a row does not meet it
        middle = centre[0] - b * y / a
        first, last = (np.clip(np.ceil(middle + sign * half - 0.5), 0, width) for sign in (-1, 1))
    (work or Work()).spend(A_SHAPE + height)
    there = first < last
    line = (row * width)[there]
    return Runs(line + first[there].astype(np.int64), line + last[there].astype(np.int64))

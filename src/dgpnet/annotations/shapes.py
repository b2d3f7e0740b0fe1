"""Shapes to pixels: polygons, rectangles, circles and ellipses, and pieces of masks.

One convention everywhere: coordinates are continuous, pixel (row i, column j) is the square [j, j+1] x [i, i+1], and a
pixel belongs to a shape when its centre (j + 0.5, i + 0.5) does.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Labels = NDArray[np.int32]

OVERSHOOT = 0.02  # of the longer side: tools let a hand slip over the border by this much; more is another photograph


class Patch(NamedTuple):
    """A piece of a mask: `pixels` (h, w) bool, its first pixel at (top, left) of the photograph."""

    top: int
    left: int
    pixels: Bool

    @property
    def turned(self) -> "Patch":
        """The same with rows and columns exchanged."""
        return Patch(self.left, self.top, self.pixels.T)

    def placed(self, xy: Float) -> Float:
        """Points (N, 2) of the patch as points of the photograph."""
        return np.add(xy, [self.left, self.top])


def crop(mask: Bool) -> Patch:
    """The smallest patch that holds all of a (H, W) mask."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return Patch(0, 0, mask[:0, :0])
    top, left = int(rows[0]), int(columns[0])
    return Patch(top, left, mask[top : rows[-1] + 1, left : columns[-1] + 1])


def paint(size: tuple[int, int], pieces: Iterable[tuple[int, Patch]]) -> Labels:
    """Draw (value, patch) pieces on a (H, W) int32 background of zeros, later ones on top."""
    canvas = np.zeros(size, np.int32)
    for value, (top, left, pixels) in pieces:
        height, width = pixels.shape
        canvas[top : top + height, left : left + width][pixels] = value
    return canvas


def large_first(pieces: Iterable[tuple[int, Patch]]) -> list[tuple[int, Patch]]:
    """Order for formats that keep none: small objects lie on top of large ones."""
    return sorted(pieces, key=lambda piece: -int(piece[1].pixels.sum()))


def pairs(points: object, where: str, least: int) -> Float:
    """Check that `points`, read from a file, are at least `least` pairs of numbers; (N, 2) float64."""
    try:
        xy = np.asarray(points, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Error(f"{where}: the points are not numbers, expected pairs x, y; draw the shape again") from None
    if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) < least:
        raise Error(f"{where}: expected at least {least} points x, y, got an array of shape {xy.shape}; draw it again")
    return np.nan_to_num(xy, nan=np.inf)


def vertices(points: object, size: tuple[int, int], where: str, *, least: int = 3, unit: float | None = None) -> Float:
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
    if not np.isfinite(xy).all() or (xy < -slack).any() or (xy > (width + slack, height + slack)).any():
        raise Error(
            f"{where}: the shape lies outside the photograph of {width} x {height} pixels; "
            "was it drawn on another photograph, or on another size of this one?"
        )
    return xy


def fill_polygon(xy: Float, size: tuple[int, int]) -> Patch:
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
    if not counts.any():
        return Patch(0, 0, np.zeros((0, 0), bool))
    edge = np.repeat(np.arange(len(xy)), counts)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    x = x0[edge] + (row + 0.5 - y0[edge]) * ((x1 - x0)[edge] / (y1 - y0)[edge])
    column = np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)
    top, left = int(row.min()), int(column.min())
    shape = (int(row.max()) - top + 1, int(column.max()) - left + 1)
    crossings = np.bincount((row - top) * shape[1] + column - left, minlength=shape[0] * shape[1])
    inside = np.bitwise_xor.accumulate((crossings & 1).astype(bool).reshape(shape), axis=1)
    return Patch(top, left, inside[:, :-1])


def fill_rectangle(corner: Float, opposite: Float, size: tuple[int, int]) -> Patch:
    """Pixels of the upright rectangle between two opposite (x, y) corners."""
    (x0, y0), (x1, y1) = corner, opposite
    return fill_polygon(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.float64), size)


def fill_ellipse(centre: Float, radii: tuple[float, float], degrees: float, size: tuple[int, int]) -> Patch:
    """Pixels of an ellipse with half axes `radii`, turned clockwise by `degrees`, cut off at the border."""
    if not (all(map(math.isfinite, (*centre, *radii, degrees))) and min(radii) > 0):
        return Patch(0, 0, np.zeros((0, 0), bool))
    reach = max(radii)
    left, top = (int(np.clip(math.floor(c - reach), 0, n)) for c, n in zip(centre, size[::-1], strict=True))
    right, bottom = (int(np.clip(math.ceil(c + reach), 0, n)) for c, n in zip(centre, size[::-1], strict=True))
    x = np.arange(left, right) + 0.5 - centre[0]
    y = (np.arange(top, bottom) + 0.5 - centre[1])[:, None]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return Patch(top, left, ((x * cos + y * sin) / radii[0]) ** 2 + ((y * cos - x * sin) / radii[1]) ** 2 <= 1)

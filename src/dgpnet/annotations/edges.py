"""Soft edges of painted masks: which values are only the shades between two others, and which of the two they are.

A brush with smooth edges leaves dozens of values in a mask that nobody meant as classes. They are known by three signs:
no 3 × 3 block of the picture has such a value, it lies between the values on both sides of it, and there are many.
Values are given as places 0 … U-1 and what is painted there, `channels` (U, 1) for grey or (U, 3) for colours.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations.shapes import Bool

Places = NDArray[np.uint8] | NDArray[np.uint16]
Channels = NDArray[np.int32]

#: How far from an edge its two sides are looked for, in pixels.
REACH = 12
#: Pixels that are looked at together: bounds the memory of what is computed for each.
BAND = 1 << 20
#: How finely distances of up to REACH are measured, in pixels.
_CELL = 4
#: Thin pixels that are enough to tell whether a value is a shade.
_SAMPLE = 500_000
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


def bands(height: int, width: int) -> Iterator[slice]:
    """Slices of rows, about BAND pixels each."""
    rows = max(BAND // max(width, 1), 1)
    for top in range(0, height, rows):
        yield slice(top, min(top + rows, height))


def histogram(places: Places, size: int, among: Bool | None = None) -> NDArray[np.int64]:
    """(size,): pixels at each place. among: (H, W), only these pixels."""
    counts = np.zeros(size, np.int64)
    for rows in bands(*places.shape):
        piece = places[rows] if among is None else places[rows][among[rows]]
        counts += np.bincount(piece.ravel(), minlength=size)
    return counts


def core(places: Places) -> Bool:
    """(H, W): pixels that lie in a 3 × 3 block of one value."""
    height, width = places.shape
    found = np.zeros((height, width), bool)
    if min(height, width) < 3:
        return found
    for rows in bands(height - 2, width):
        piece = places[rows.start : rows.stop + 2]
        beside = piece[:, 1:] == piece[:, :-1]
        below = piece[1:] == piece[:-1]
        three = beside[:, 1:] & beside[:, :-1]
        block = three[2:] & three[1:-1] & three[:-2] & below[1:, 1:-1] & below[:-1, 1:-1]
        for down in range(3):
            for across in range(3):
                found[rows.start + down : rows.stop + down, across : across + width - 2] |= block
    return found


def stray(inside: Bool) -> float:
    """Share of the picture that lies further than an edge reaches from everything thick. inside: `core`."""
    near = _cells(inside)
    for axis in (near, near.T):
        for step in (1, 2):
            before = axis.copy()
            axis[step:] |= before[:-step]
            axis[:-step] |= before[step:]
    return 1.0 - float(near.mean())


def _cells(pixels: Bool) -> Bool:
    """Which squares of _CELL × _CELL pixels have one; a rest at the right and at the bottom is left out."""
    height, width = (max(side // _CELL, 1) for side in pixels.shape)
    found = np.zeros((height, width), bool)
    for down in range(min(_CELL, pixels.shape[0])):
        rows = pixels[down : height * _CELL : _CELL]
        for across in range(min(_CELL, pixels.shape[1])):
            found[: len(rows)] |= rows[:, across : width * _CELL : _CELL]
    return found


def ramps(places: Places, channels: Channels, thin: Bool) -> list[int]:
    """Places of which most pixels are a step between the pixels on two opposite sides. thin: (U,) where to look."""
    width = places.shape[1]
    flat = places.ravel()
    at = _sample(places, thin)
    here = channels[flat[at]]
    step = np.zeros(len(at), bool)
    for down, across in _DIRECTIONS:
        offset = down * width + across
        one, other = channels[flat[at - offset]], channels[flat[at + offset]]
        between = ((np.minimum(one, other) <= here) & (here <= np.maximum(one, other))).all(1)
        step |= between & (here != one).any(1) & (here != other).any(1)
    seen = np.bincount(flat[at], minlength=len(channels))
    steps = np.bincount(flat[at[step]], minlength=len(channels))
    found: list[int] = np.flatnonzero((seen > 0) & (2 * steps >= seen)).tolist()
    return found


def _sample(places: Places, thin: Bool) -> NDArray[np.int64]:
    """Pixels of thin places, not of the border, of very many some."""
    height, width = places.shape
    step = max(int(histogram(places, len(thin))[thin].sum()) // _SAMPLE, 1)
    found = [np.zeros(0, np.int64)]
    for rows in bands(height, width):
        at = np.flatnonzero(thin[places[rows]])[::step] + rows.start * width
        row, column = np.divmod(at, width)
        found.append(at[(row > 0) & (row < height - 1) & (column > 0) & (column < width - 1)])
    return np.concatenate(found)


def snapped(places: Places, channels: Channels, anchors: Sequence[int]) -> Places:
    """The mask with every soft edge made hard: each of its pixels becomes the nearer of what lies on its two sides.

    anchors: the places that stay. A pixel of an edge has at least two of them around it, of which it takes the nearest
    in value; one that has not is a thin stroke of its own and takes the nearest of all.
    """
    anchor_of = np.full(len(channels), -1, np.int32)
    anchor_of[list(anchors)] = np.arange(len(anchors))
    inside = core(places) & (anchor_of >= 0)[places]
    result = places.copy()
    for rows in bands(*places.shape):
        at = np.flatnonzero(~inside[rows]) + rows.start * places.shape[1]
        result.ravel()[at] = _nearest(places, channels, np.array(anchors), anchor_of, inside, at)
    return result


def _nearest(
    places: Places,
    channels: Channels,
    anchors: NDArray[np.int64],
    anchor_of: NDArray[np.int32],
    inside: Bool,
    at: NDArray[np.int64],
) -> NDArray[Any]:
    """The place for each pixel of `at`."""
    flat, solid = places.ravel(), inside.ravel()
    colours = channels[flat[at]].astype(np.float32)
    paint = channels[anchors].astype(np.float32)
    shown, which = np.unique(flat[at], return_inverse=True)
    distance = np.zeros((len(shown), len(anchors)), np.float32)
    for channel, painted in zip(channels[shown].astype(np.float32).T, paint.T, strict=True):
        distance += (channel[:, None] - painted) ** 2
    best, label = np.full(len(at), np.inf, np.float32), np.full(len(at), -1, np.int32)
    low, high = np.full_like(colours, np.inf), np.full_like(colours, -np.inf)
    for hit, pixel in _sides(at, places.shape, solid):
        near = anchor_of[flat[pixel]]
        apart = distance[which[hit], near]
        closer = apart < best[hit]
        best[hit[closer]], label[hit[closer]] = apart[closer], near[closer]
        low[hit], high[hit] = np.minimum(low[hit], paint[near]), np.maximum(high[hit], paint[near])
    own = anchor_of[flat[at]]
    between = ((low <= colours) & (colours <= high)).all(1) & (low < high).any(1)
    edge = between & (best > 0)
    alone = np.where(own >= 0, own, distance.argmin(1)[which])
    return anchors[np.where(edge | ((own < 0) & (low < high).any(1)), label, alone)]


def _sides(
    at: NDArray[np.int64], size: tuple[int, ...], solid: Bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """In each of eight directions: which of `at` meet something solid there, and the first such pixel."""
    row, column = np.divmod(at, size[1])
    for down, across in (sign * np.array(direction) for direction in _DIRECTIONS for sign in (1, -1)):
        waiting = np.arange(len(at))
        for step in range(1, REACH + 1):
            y, x = row[waiting] + step * down, column[waiting] + step * across
            there = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
            waiting, pixel = waiting[there], (y * size[1] + x)[there]
            met = solid[pixel]
            yield waiting[met], pixel[met]
            waiting = waiting[~met]

"""Masks as runs, in the small: what a stroke changes, and what a rectangle of a mask shows.

Runs are [gap, length, value, gap, length, value, …], row by row inside a rectangle: skip `gap` pixels, then `length`
pixels have `value`. In a stroke the pixels of gaps stay as they are; in a mask they are background.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.images import IGNORE


@dataclass(frozen=True)
class Rectangle:
    """Part of a photograph: its left upper corner and its size, in pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def area(self) -> int:
        """Pixels."""
        return self.width * self.height

    def of(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """This part of (H, W); what is written to it is written there."""
        return pixels[self.y : self.y + self.height, self.x : self.x + self.width]

    def check(self, size: tuple[int, int]) -> Rectangle:
        """Itself; an Error where it is empty, or not inside a photograph of size (H, W)."""
        if min(self.width, self.height) < 1 or min(self.x, self.y) < 0:
            raise Error("A rectangle has at least one pixel and begins inside the photograph.")
        if self.x + self.width > size[1] or self.y + self.height > size[0]:
            raise Error(f"The rectangle is not inside the photograph, which is {size[1]} × {size[0]} pixels.")
        return self


@dataclass(frozen=True, eq=False)
class Stroke:
    """What a stroke does: inside a rectangle, which pixels (h, w) it sets, and to what (h, w); how often to each."""

    place: Rectangle
    touched: NDArray[np.bool_]
    values: NDArray[np.uint8]
    counts: NDArray[np.int64]

    @staticmethod
    def of(place: Rectangle, runs: Sequence[int], known: Collection[int]) -> Stroke:
        """The stroke of these runs; an Error where they are none. known: values of classes."""
        flat, touched = decoded(runs, place.area)
        counts = np.bincount(flat[touched], minlength=256)
        check_values(counts, known)
        shape = (place.height, place.width)
        return Stroke(place, touched.reshape(shape), flat.reshape(shape), counts)

    def apply(self, pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Paint it onto a mask (H, W), in place; how many pixels more each of 256 values has."""
        part = self.place.of(pixels)
        before = np.bincount(part[self.touched], minlength=256)
        part[self.touched] = self.values[self.touched]
        change: NDArray[np.int64] = self.counts - before
        return change


def decoded(runs: Sequence[int], area: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """(area,) values and whether each was set; an Error where runs do not fit."""
    if len(runs) % 3:
        raise Error("Runs come in threes: gap, length and value.")
    try:
        numbers = np.array(runs, np.int64).reshape(-1, 3)
    except (OverflowError, ValueError, TypeError):
        raise Error("Runs are whole numbers: gap, length and value.") from None
    steps, values = numbers[:, :2], numbers[:, 2]
    if numbers.size and (steps.min() < 0 or steps.max() > area or steps.sum() > area):
        raise Error(f"Runs go beyond their rectangle, which has {area:,} pixels.")
    if values.size and not 0 <= values.min() <= values.max() <= IGNORE:
        raise Error(f"Values are 0 (nothing) to {IGNORE} (ignore).")
    filled = np.zeros((len(values), 2), np.uint8)
    filled[:, 1] = values
    rest = area - int(steps.sum())
    flat = np.concatenate([np.repeat(filled.ravel(), steps.ravel()), np.zeros(rest, np.uint8)])
    which = np.tile(np.array([False, True]), len(values))
    touched = np.concatenate([np.repeat(which, steps.ravel()), np.zeros(rest, bool)])
    return flat, touched


def encoded(pixels: NDArray[np.uint8]) -> list[int]:
    """The runs of (h, w), background left out."""
    flat = np.ascontiguousarray(pixels).ravel()
    ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]) + 1, flat.size)
    starts = np.concatenate([[0], ends[:-1]])
    values = flat[starts]
    shown = values != 0
    starts, ends, values = starts[shown], ends[shown], values[shown]
    gaps = starts - np.concatenate([[0], ends[:-1]])
    runs: list[int] = np.stack([gaps, ends - starts, values.astype(np.int64)], 1).ravel().tolist()
    return runs


def check_values(counts: NDArray[np.int64], known: Collection[int]) -> None:
    """An Error where a mask with so many pixels of each of 256 values has one that is no class."""
    strange = [value for value in np.flatnonzero(counts).tolist() if value not in (0, IGNORE) and value not in known]
    if strange:
        raise Error(f"There is no class {strange[0]}; add it first.")

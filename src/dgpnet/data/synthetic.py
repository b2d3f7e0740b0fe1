"""Textured shapes on textured ground, rendered on the fly: for tests and a first try, no download.

A class is a star shape in two colours, one for each half, with a texture. Photographs show several classes side by
side, so that nothing but the supports tells which one is meant; and the mean of a class's two colours may well be the
colour of another class, so that one mean feature does not describe it.
"""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.data import draws
from dgpnet.data.dataset import Dataset, Rendered, check_fold, class_id_of, in_fold, label_of
from dgpnet.errors import Error

#: Places for objects, 2 × 2.
CELLS = 4
Array = NDArray[np.float64]


class Synthetic(Rendered):
    """numbers: the classes that occur, `objects` of them in each photograph."""

    def __init__(self, numbers: list[int], photographs: int, side: int, objects: int, seed: int) -> None:
        if len(numbers) < objects or not 1 <= objects <= CELLS:
            raise Error(f"A synthetic photograph shows 1 to {CELLS} of the classes; given {objects} of {len(numbers)}.")
        self.numbers, self.objects, self.seed = numbers, objects, seed
        names = {class_id_of(n): f"shape-{n}" for n in numbers}
        pairs = [(i, class_id_of(n)) for i in range(photographs) for n in self.shown(i)]
        super().__init__("synthetic", names, pairs, photographs, side)

    def shown(self, i: int) -> list[int]:
        """The classes in photograph i; every class has its turn. Their labels differ."""
        order = np.argsort(draws.uniform(self.seed, draws.SYNTHETIC, [2 * i], len(self.numbers))[0])
        chosen: dict[int, int] = {}
        for n in (self.numbers[i % len(self.numbers)], *(self.numbers[k] for k in order)):
            chosen.setdefault(label_of(class_id_of(n)), n)
            if len(chosen) == self.objects:
                break
        return list(chosen.values())

    def fingerprint(self) -> str:
        text = repr((self.numbers, self.photographs, self.side, self.objects, self.seed, "1"))
        return hashlib.sha256(text.encode()).hexdigest()

    def render(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        u = draws.uniform(self.seed, draws.SYNTHETIC, [2 * i + 1], 16 + 8 * CELLS)[0]
        line = (np.arange(self.side) + 0.5) / self.side
        y, x = np.meshgrid(line, line, indexing="ij")
        grain = draws.uniform(self.seed, draws.TEXTURE, np.arange(self.side) + i * self.side, self.side)
        # Ground: from one dull colour to another, with waves.
        blend = 0.5 + 0.5 * np.sin(6 * (u[0] * x + u[1] * y) + 6 * u[2]) * np.cos(5 * (u[3] * x - u[4] * y))
        photo = (0.25 + 0.5 * u[5:8]) * blend[..., None] + (0.25 + 0.5 * u[8:11]) * (1 - blend[..., None])
        mask = np.zeros((self.side, self.side), np.uint8)
        cells = np.argsort(u[11 : 11 + CELLS])
        for cell, number, row in zip(cells, self.shown(i), u[16:].reshape(CELLS, 8), strict=False):
            radius = 0.13 + 0.09 * row[0]
            cy, cx = (
                0.25 + 0.5 * (cell // 2) + (0.23 - radius) * (2 * row[1] - 1),
                0.25 + 0.5 * (cell % 2) + (0.23 - radius) * (2 * row[2] - 1),
            )
            inside, colour = _shape(number, x - cx, y - cy, radius, 2 * np.pi * row[3])
            photo = np.where(inside[..., None], colour * (0.85 + 0.3 * row[4]), photo)
            mask[inside] = label_of(class_id_of(number))
        photo = photo + 0.12 * (grain[..., None] - 0.5)
        return np.clip(np.round(255 * photo), 0, 255).astype(np.uint8), mask


def _shape(number: int, x: Array, y: Array, radius: float, turn: float) -> tuple[NDArray[np.bool_], Array]:
    """Where a class's object is, (s, s) bool, and its colours, (s, s, 3). Drawn by the class's number."""
    u = draws.uniform(0, draws.SYNTHETIC, [-1 - number], 10)[0]
    cos, sin = np.cos(turn), np.sin(turn)
    x, y = cos * x + sin * y, cos * y - sin * x
    lobes, depth = 3 + int(4 * u[0]), 0.1 + 0.25 * u[1]
    inside = np.hypot(x, y) < radius * (1 - depth * (0.5 + 0.5 * np.cos(lobes * np.arctan2(y, x))))
    first = u[2]
    second = first + 0.3 + 0.4 * u[3]
    halves = np.where((y > 0)[..., None], _hue(first, u[4]), _hue(second, u[5]))
    waves = np.sin((60 + 60 * u[6]) * x) * (np.sin((60 + 60 * u[7]) * y) if u[8] < 0.5 else 1.0)
    return inside, halves * (1 + 0.2 * waves[..., None])


def _hue(hue: float, light: float) -> Array:
    """A strong colour, (3,), of hue in turns."""
    return (0.6 + 0.3 * light) * (0.5 + 0.5 * np.cos(2 * np.pi * (hue - np.array([0, 1, 2]) / 3)))


def synthetic(
    root: str | Path | None = None,
    *,
    fold: int | None = None,
    split: str = "train",
    folds: int = 4,
    kinds: int = 40,
    photographs: int = 1000,
    side: int = 96,
    objects: int = 3,
    seed: int = 0,
) -> Dataset:
    """`kinds` classes, any number; fold i tests classes i, i + folds, ... and trains the others. root is not used."""
    check_fold("synthetic", fold, split, folds)
    numbers = [n for n in range(kinds) if in_fold(n, fold, split, folds)]
    # Other photographs for testing than for training, also of the same classes.
    return Synthetic(numbers, photographs, side, objects, 2 * seed + (split == "test"))

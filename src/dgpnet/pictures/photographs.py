"""Photographs with their masks, uncertainty as colour, and grids of pictures.

Photographs are (H, W, 3) uint8, masks (H, W) integers (0 background, 1… classes, 255 ignore); every function returns a
PIL image in RGB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from dgpnet.colours import PALETTE, Colour
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.images import IGNORE
from dgpnet.pictures.canvas import INK, PAPER, font, spell

Picture = Image.Image

#: From certain to uncertain: near black, violet, red, orange, pale yellow; lightness rises evenly.
HEAT: tuple[Colour, ...] = (
    (4, 4, 16),
    (43, 17, 86),
    (102, 23, 110),
    (161, 38, 99),
    (214, 68, 71),
    (245, 122, 34),
    (251, 188, 70),
    (252, 250, 190),
)


def overlay(
    photo: NDArray[np.uint8],
    mask: NDArray[Any],
    *,
    opacity: float = 0.55,
    outline: bool = True,
    colours: Sequence[Colour] = (),
) -> Picture:
    """The photograph with its classes tinted and outlined; ignore is greyed.

    colours: of the classes 1, 2, …; where there are none, those of `images.PALETTE`.
    """
    if photo.shape[:2] != mask.shape:
        raise Error(f"A mask of {mask.shape} does not lie on a photograph of {photo.shape[:2]}; resize one of them.")
    palette = PALETTE.copy()
    palette[1 : len(colours) + 1] = colours or PALETTE[1:1]
    palette[IGNORE] = 128
    tint = palette[mask.astype(np.uint8)].astype(np.float32)
    shown = mask != 0
    strength = np.where(shown, opacity, 0.0).astype(np.float32)
    if outline:
        strength[_border(mask, max(1, round(max(mask.shape) / 300)))] = 1.0
    mixed = photo + strength[..., None] * (tint - photo)
    return Image.fromarray(np.clip(mixed + 0.5, 0, 255).astype(np.uint8))


def _border(mask: NDArray[Any], width: int) -> NDArray[np.bool_]:
    """Pixels of a class that lie within `width` rows or columns of another label."""
    border = np.zeros(mask.shape, bool)
    for step in range(1, width + 1):
        rows, columns = mask[step:] != mask[:-step], mask[:, step:] != mask[:, :-step]
        border[step:] |= rows
        border[:-step] |= rows
        border[:, step:] |= columns
        border[:, :-step] |= columns
    return np.asarray(border & (mask != 0) & (mask != IGNORE))


def heat_map(values: NDArray[Any], *, photo: NDArray[np.uint8] | None = None, high: float = 1.0) -> Picture:
    """Values (H, W) between 0 and `high` from dark to bright, over the photograph's grey where it is given."""
    place = np.clip(np.nan_to_num(values.astype(np.float64)) / high, 0, 1) * (len(HEAT) - 1)
    stops = np.array(HEAT, dtype=np.float64)
    colours = np.stack([np.interp(place, np.arange(len(HEAT)), stops[:, c]) for c in range(3)], axis=-1)
    if photo is not None:
        colours = 0.75 * colours + 0.25 * photo.mean(axis=-1, keepdims=True)
    return Image.fromarray(np.clip(colours + 0.5, 0, 255).astype(np.uint8))


def mosaic(pictures: Sequence[Picture], size: tuple[int, int]) -> Picture:
    """Several pictures as one of size (width, height): 1, 2×2, 3×3 … tiles, each cut to fill its own."""
    side = math.ceil(math.sqrt(max(len(pictures), 1)))
    sheet = Image.new("RGB", size, PAPER)
    gap = 0 if side == 1 else 2
    for i, picture in enumerate(pictures):
        left, right = (size[0] + gap) * (i % side) // side, (size[0] + gap) * (i % side + 1) // side - gap
        top, bottom = (size[1] + gap) * (i // side) // side, (size[1] + gap) * (i // side + 1) // side - gap
        sheet.paste(_cut(picture, (right - left, bottom - top)), (left, top))
    return sheet


def _cut(picture: Picture, size: tuple[int, int]) -> Picture:
    """The middle of the picture, scaled to fill `size` (width, height)."""
    scale = max(size[0] / picture.width, size[1] / picture.height)
    width, height = size[0] / scale, size[1] / scale
    left, top = (picture.width - width) / 2, (picture.height - height) / 2
    return picture.convert("RGB").resize(size, Image.Resampling.LANCZOS, (left, top, left + width, top + height))


def grid(
    rows: Sequence[Sequence[Picture | None]],
    *,
    columns: Sequence[str] = (),
    labels: Sequence[str] = (),
    cell: tuple[int, int] = (240, 180),
) -> Picture:
    """Pictures in a table with a heading over each column and a label before each row, cells (width, height) filled."""
    if not rows or (columns and any(len(row) != len(columns) for row in rows)) or (labels and len(labels) != len(rows)):
        raise Error(
            f"{len(rows)} rows with {len(columns)} headings and {len(labels)} labels do not make a grid; give"
            " each row as many pictures as there are headings, and one label a row."
        )
    gap, lettering = 8, font(17)
    left = gap + (int(max(lettering.getlength(spell(text)) for text in labels)) + 2 * gap if labels else 0)
    top = gap + (28 if columns else 0)
    width = left + max(len(row) for row in rows) * (cell[0] + gap)
    sheet = Image.new("RGB", (width, top + len(rows) * (cell[1] + gap)), PAPER)
    draw = ImageDraw.Draw(sheet)
    for c, text in enumerate(columns):
        draw.text((left + c * (cell[0] + gap) + cell[0] / 2, top - 8), spell(text), INK, lettering, anchor="ms")
    for r, row in enumerate(rows):
        y = top + r * (cell[1] + gap)
        if labels:
            draw.text((left - 2 * gap, y + cell[1] / 2), spell(labels[r]), INK, lettering, anchor="rm")
        for c, picture in enumerate(row):
            if picture is not None:
                sheet.paste(_cut(picture, cell), (left + c * (cell[0] + gap), y))
    return sheet


def caption(picture: Picture, text: str) -> Picture:
    """The picture with a line of text in its lower left corner, on a dark ground; its size grows with the picture."""
    size = max(12, picture.height // 11)
    lettering, labelled = font(size), picture.convert("RGB")
    draw = ImageDraw.Draw(labelled)
    left, top, right, bottom = draw.textbbox(
        (size * 0.5, picture.height - size * 0.5), spell(text), lettering, anchor="ls"
    )
    draw.rectangle((left - size * 0.3, top - size * 0.3, right + size * 0.3, bottom + size * 0.3), fill=INK)
    draw.text((size * 0.5, picture.height - size * 0.5), spell(text), PAPER, lettering, anchor="ls")
    return labelled


def save(picture: Picture, path: Path) -> None:
    """Writes the picture in the format of the path's suffix; the file appears whole or not at all."""
    with atomic(path) as temporary:
        picture.save(temporary, format=Image.registered_extensions().get(path.suffix.lower(), "PNG"))

"""Masks of a job in files: in the values and colours that were painted, and sealed, so that a person's edits are known.

A mask is an index PNG whose palette has the classes' colours, so that it reads back by values and by colours alike; one
with values over 255 is a 16-bit grey PNG.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dgpnet.annotations.legend import LARGEST, Legend
from dgpnet.annotations.reading import IGNORE_LABEL
from dgpnet.colours import PALETTE, Colour, packed
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.images import IGNORE, MAX_PIXELS, RUNS, distinct, encoded, read_mask

#: The text in a PNG that has the digest of the pixels that were written.
SEAL = "dgpnet"
#: Formats that a person may save a mask in, whatever its name ends in.
LOSSLESS = ("PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM")


def classes_json(legend: Legend) -> dict[str, int | list[int]]:
    """What `classes.json` says: the value of each name, or its colour where colours tell classes."""
    if legend.coded_by == "value":
        return dict(zip(legend.names, legend.values, strict=True))
    named = {name: list(colour) for name, colour in zip(legend.names, legend.colours, strict=True)}
    return {**named, IGNORE_LABEL: list(_ignore_colour(legend))}


def write(path: Path, mask: NDArray[np.uint8], legend: Legend, *, sync: bool = False) -> str:
    """Write a mask (H, W) of 0, 1 … C and 255, whole or not at all; returns the digest of what was written.

    sync: on the disk before this returns.
    """
    content, own = drawn(mask, legend)
    with atomic(path, sync=sync) as temporary:
        temporary.write_bytes(content)
    return own


def drawn(mask: NDArray[np.uint8], legend: Legend) -> tuple[bytes, str]:
    """The bytes of a mask's file, and its digest."""
    pixels = legend.applied(mask)
    image = Image.fromarray(pixels)
    if pixels.dtype == np.uint8:
        palette = PALETTE.copy()
        palette[IGNORE] = _ignore_colour(legend)
        palette[list(legend.values)] = legend.colours
        image.putpalette(palette.tobytes())
    own, text = _digest(pixels), PngInfo()
    text.add_text(SEAL, own)
    return encoded(image, "PNG", pnginfo=text, **RUNS), own


def read(path: Path, legend: Legend, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """The mask (H, W) of 0, 1 … C and 255 that a file has; an Error where it is none of these classes.

    size: the (H, W) that it must have. Colours are taken for classes in every mask that is saved in colours.
    """
    return _numbers(path, _raw(path, legend, size), legend)


def read_edited(
    path: Path, legend: Legend, size: tuple[int, int] | None = None, *, ignores: Callable[[], bool]
) -> tuple[NDArray[np.uint8], bool]:
    """As `read`, of a mask that a person saved, and whether it is one of 0 and 255 alone (65535 of 16 bits), which no
    class has: as in what is painted, that is the one class, or an Error where it may be something else.

    ignores: asked then, whether 255 is ignore in what was painted.
    """
    raw = _raw(path, legend, size)
    white = _white_alone(raw, legend)
    if white is None:
        return _numbers(path, raw, legend), False
    if len(legend.names) > 1 or ignores():
        listed = ", ".join((*legend.names[:20], "ignore"))
        raise Error(
            f"{path} shows nothing but black and white, which may be any of {listed}; save it with the values that "
            "classes.json has."
        )
    return (raw == white).astype(np.uint8), True


def _raw(path: Path, legend: Legend, size: tuple[int, int] | None) -> NDArray[Any]:
    """The values or colours of a file, whichever tell its classes."""
    raw = read_mask(path, size=size, max_pixels=MAX_PIXELS if size is None else size[0] * size[1])
    if legend.coded_by == "colour" and raw.dtype != np.uint32:
        with Image.open(path) as image:
            return read_mask(image.convert("RGB"))
    return raw


def _white_alone(raw: NDArray[Any], legend: Legend) -> int | None:
    """White, where a mask shows nothing else but 0; None where it does, or where white is a class's value."""
    shown = [int(value) for value in distinct(raw) if value]
    if raw.dtype == np.uint32:  # as programs that paint in colours save it
        white = packed((0xFF, 0xFF, 0xFF))
        colours = map(packed, legend.colours)
        return white if shown == [white] and legend.coded_by == "value" and white not in colours else None
    return shown[0] if shown in ([IGNORE], [LARGEST]) and shown[0] not in legend.values else None


def _numbers(path: Path, raw: NDArray[Any], legend: Legend) -> NDArray[np.uint8]:
    """0, 1 … C and 255 for values or colours; an Error where these are none of the classes."""
    codes = _codes(legend, coloured=raw.dtype == np.uint32)
    known = np.array(sorted(codes))
    place = np.searchsorted(known, raw).clip(max=len(known) - 1)
    strange = raw[known[place] != raw]
    if strange.size:
        shown = f"#{int(strange[0]):06x}" if raw.dtype == np.uint32 else int(strange[0])
        raise Error(f"{path} shows {shown}, which is none of {', '.join(legend.names[:20])}; paint these alone.")
    numbers: NDArray[np.uint8] = np.array([codes[int(code)] for code in known], np.uint8)[place]
    return numbers


def digest(mask: NDArray[np.uint8], legend: Legend) -> str:
    """Digest of what `write` would write."""
    return _digest(legend.applied(mask))


def digest_of(path: Path) -> str:
    """Digest of what a mask file shows; an Error where it cannot be read."""
    return _opened(path)[0]


def is_ours(path: Path) -> bool:
    """Whether a file is, to the pixel, a mask that a job wrote, for whichever photograph."""
    own, seal = _opened(path)
    return own == seal


def _opened(path: Path) -> tuple[str, str]:
    """Digest of a file's pixels, and the one that it was sealed with, "" where it was not."""
    try:
        with Image.open(path, formats=LOSSLESS) as image:
            return _digest(np.asarray(image)), str(image.info.get(SEAL, ""))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Error(f"{path} cannot be read as a mask.") from error


def _digest(pixels: NDArray[Any]) -> str:
    digest = hashlib.blake2b(f"{pixels.shape} {pixels.dtype.itemsize}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def _codes(legend: Legend, *, coloured: bool) -> dict[int, int]:
    """What values, or colours as 0xRRGGBB, stand for: 0, 1 … C, or IGNORE."""
    if not coloured:
        ignore = LARGEST if max(legend.values) > 0xFF else IGNORE
        return {0: 0, ignore: IGNORE, **{value: c for c, value in enumerate(legend.values, 1)}}
    if len(set(legend.colours)) < len(legend.colours):
        return {0: 0}  # two classes of one colour: colours tell nothing
    classes = {packed(colour): c for c, colour in enumerate(legend.colours, 1)}
    return {0: 0, packed(_ignore_colour(legend)): IGNORE, **classes}


def _ignore_colour(legend: Legend) -> Colour:
    """A pale grey that is no class's colour."""
    return next((grey,) * 3 for grey in range(0xE0, 0, -1) if (grey,) * 3 not in legend.colours)

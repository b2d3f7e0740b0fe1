"""Colours, each of red, green and blue 0 … 255: of classes, as one number 0xRRGGBB, and as web pages write them."""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
#: What ignored pixels are drawn in.
IGNORE_COLOUR: Final[Colour] = (224, 224, 224)


def _palette() -> NDArray[np.uint8]:
    """(256, 3) uint8: black, seven colours of Okabe and Ito, 17 as far from all before as can be seen, then hues a
    golden section apart; ignore, the last, is pale."""
    far_apart = [(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)]
    far_apart += [(0, 114, 178), (213, 94, 0), (204, 121, 167)]
    far_apart += [(0, 0, 255), (0, 255, 0), (255, 0, 221), (255, 0, 102), (0, 102, 255), (102, 119, 0)]
    far_apart += [(153, 255, 136), (119, 17, 136), (119, 51, 34), (0, 255, 255), (255, 170, 136), (204, 136, 255)]
    far_apart += [(0, 153, 0), (170, 68, 255), (187, 204, 136), (255, 0, 34), (153, 0, 85)]
    n = np.arange(256)
    hue = (n * 0.618034 % 1.0)[:, None] * 6.0
    value = (0.95, 0.7, 0.45) @ (n % 3 == np.arange(3)[:, None])
    wave = np.clip(np.abs((hue + np.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0, 0.0, 1.0)
    palette: NDArray[np.uint8] = np.round(255 * value[:, None] * (0.3 + 0.7 * wave)).astype(np.uint8)
    palette[: len(far_apart)] = far_apart
    palette[-1] = IGNORE_COLOUR
    palette.flags.writeable = False
    return palette


#: (256, 3) uint8: the colour of each value in the masks that are written.
PALETTE: Final = _palette()


def class_colour(value: int) -> Colour:
    """The palette's colour of class 1, 2, …; after 254 they begin again."""
    red, green, blue = PALETTE[(value - 1) % 254 + 1].tolist()
    return red, green, blue


def to_hex(colour: Colour) -> str:
    """As web pages write it: #rrggbb."""
    return f"#{packed(colour):06x}"


def from_hex(text: str) -> Colour | None:
    """The colour of #rrggbb; None for any other text."""
    return unpacked(int(text[1:], 16)) if re.fullmatch("#[0-9a-fA-F]{6}", text) else None


def packed(colour: Colour) -> int:
    """As one number, 0xRRGGBB."""
    return colour[0] << 16 | colour[1] << 8 | colour[2]


def unpacked(number: int) -> Colour:
    """The colour of 0xRRGGBB."""
    return number >> 16, number >> 8 & 0xFF, number & 0xFF

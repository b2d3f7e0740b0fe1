"""labelmap.txt: the names and colours of PASCAL VOC masks, as CVAT and Datumaro write them.

    # label:color_rgb:parts:actions
    background:0,0,0::
    mug:255,0,0::

A label without a colour has the one that PASCAL VOC gives to its place in the file.
"""

from pathlib import Path
from typing import Final

from dgpnet.annotations.reading import IGNORE_LABEL
from dgpnet.colours import packed
from dgpnet.errors import Error

#: What PASCAL VOC draws ignored pixels in.
VOID: Final = 0xE0E0C0
_IGNORED: Final = frozenset({"ignored", "void"})


def voc_colour(number: int) -> int:
    """0xRRGGBB of class `number`, 0 … 255: its bits, three at a time, are the highest bits of the three channels."""
    red = green = blue = 0
    for bit in range(8):
        three = number >> 3 * bit
        red |= (three & 1) << 7 - bit
        green |= (three >> 1 & 1) << 7 - bit
        blue |= (three >> 2 & 1) << 7 - bit
    return packed((red, green, blue))


def read_labelmap(path: Path, text: str) -> dict[int, str]:
    """Colour 0xRRGGBB -> label, in the order of the file."""
    lines = [line.strip() for line in text.splitlines()]
    found: dict[int, str] = {}
    for number, line in enumerate(line for line in lines if line and not line.startswith("#")):
        label, _, rest = line.partition(":")
        colour = _colour(rest.partition(":")[0].strip(), number, path)
        if colour in found:
            raise Error(f"{path} has the colour #{colour:06x} twice; give each label its own.")
        found[colour] = IGNORE_LABEL if colour == VOID and label.strip() in _IGNORED else label.strip()
    if not found:
        raise Error(f"{path} names no classes; write lines such as mug:255,0,0::.")
    return found


def _colour(text: str, number: int, path: Path) -> int:
    parts = text.split(",")
    if not text and number < 256:
        return voc_colour(number)
    if len(parts) != 3 or not all(p.strip().isascii() and p.strip().isdecimal() and len(p) < 6 for p in parts):
        raise Error(f"{path}: label {number + 1} has no colour; write lines such as mug:255,0,0::.")
    red, green, blue = map(int, parts)
    if max(red, green, blue) > 255:
        raise Error(f"{path}: label {number + 1} has a colour beyond 255; write lines such as mug:255,0,0::.")
    return packed((red, green, blue))

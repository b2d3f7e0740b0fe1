"""What the writers of all formats share: an item to write, how to write it, and the objects in its mask."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from dgpnet import files, images
from dgpnet.annotations import outlines, shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import IGNORE_LABEL
from dgpnet.annotations.shapes import Float, Patch
from dgpnet.colours import IGNORE_COLOUR, Colour, class_colour
from dgpnet.errors import Error

#: What XML cannot hold, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Item:
    """A photograph's mask to write.

    name: the photograph's path in its folder, with forward slashes ("trip/mug.jpg"). mask: (H, W) uint8, 0 background,
    1..C classes, 255 ignore, on the photograph as viewers show it. score: of the photograph, scores: of its C classes,
    in [0, 1]; written where the format has a place for them.
    """

    name: str
    mask: NDArray[np.uint8]
    score: float | None = None
    scores: Sequence[float] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        height, width = self.mask.shape
        return height, width

    def score_of(self, value: int) -> float | None:
        """The score of an object of class `value`: its class's, else the photograph's; None for ignore."""
        if value == images.IGNORE:
            return None
        return self.score if self.scores is None else float(self.scores[value - 1])


@dataclass(frozen=True)
class Style:
    """How masks become annotations; `annotations.export` says what each field means."""

    instances: bool = False
    min_area: int = 0
    polygons: bool = False
    simplify: float = 0.0
    prefix: str = ""

    def outlines(self, patch: Patch, *, centres: bool = False) -> list[Float]:
        """Of each part of a patch a polygon (N, 2) of x, y in the photograph."""
        return [patch.placed(xy) for xy in outlines.polygons(patch.pixels, centres=centres, simplify=self.simplify)]


def objects(mask: NDArray[np.uint8], legend: Legend, style: Style) -> Iterator[tuple[int, Patch]]:
    """(value, patch) of ignore (if there is any) and of each class 1..C in the mask, or of each part of a class."""
    shown = np.bincount(mask.ravel(), minlength=256) > 0
    for value in (images.IGNORE, *range(1, len(legend.names) + 1)):
        if not shown[value]:
            continue
        patch = shapes.crop(mask == value)
        if not style.instances or value == images.IGNORE:
            yield value, patch
        else:
            for top, left, pixels in outlines.parts(patch.pixels):
                if pixels.sum() >= style.min_area:
                    yield value, Patch(patch.top + top, patch.left + left, pixels)


def name_of(value: int, legend: Legend) -> str:
    """What an object of class 1..C, or ignore, is called."""
    return IGNORE_LABEL if value == images.IGNORE else legend.names[value - 1]


def colours_of(legend: Legend, ignored: bool) -> dict[str, Colour]:
    """A colour for each name that a file lists, no colour twice: classes, then those not learned, then ignore."""
    spare = [colour for value in range(254, 0, -1) if (colour := class_colour(value)) not in legend.colours]
    found: dict[str, Colour] = {}
    for name, colour in zip(legend.names, legend.colours, strict=True):
        found[name] = colour if any(colour) and colour not in found.values() else spare.pop()
    for value, name in legend.unused:
        if name not in found and name != IGNORE_LABEL and spare:
            own = class_colour(value)
            if own in spare:
                spare.remove(own)
                spare.append(own)
            found[name] = spare.pop()
    if ignored:
        found[IGNORE_LABEL] = IGNORE_COLOUR
    return found


def attribute(text: str) -> str:
    """The text as the value of an XML attribute, quotes included; in percents where XML cannot hold it as it is."""
    return quoteattr(quote(text, safe="/", errors="surrogateescape") if _NOT_XML.search(text) else text)


def place(folder: Path, name: str, suffix: str, taken: set[int], *, longer: bool = True) -> Path:
    """folder/name with another suffix, its folders made; refused when that leads out of the folder.

    Where that is `taken` (a.jpg and a.png are two photographs), the suffix is put behind the name, or, unless the
    format knows such `longer` names, the photograph is refused.
    """
    path = files.inside(folder, str(PurePosixPath(name).with_suffix(suffix)))
    if hash(path) in taken and longer:  # hashes: a hundred thousand paths would be tens of megabytes
        path = files.inside(folder, name + suffix)
    if hash(path) in taken:
        raise Error(f"Two photographs would be written to {path}, {name} is one of them; rename it.")
    taken.add(hash(path))
    files.make_folder(path.parent)
    return path

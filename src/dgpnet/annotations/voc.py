"""PASCAL VOC, as CVAT's "Segmentation mask 1.1" has it: a palette PNG per photograph and a list of colours."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet import files, images
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.writing import Item, Style, colours_of, place
from dgpnet.colours import IGNORE_COLOUR, Colour

#: The largest value that leaves room for ignore in a palette.
_LARGEST: Final = images.IGNORE - 1


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/voc/: SegmentationClass/, labelmap.txt and ImageSets/Segmentation/default.txt.

    Photographs belong in JPEGImages/; they are not copied. Classes are told by their colours; the format has neither
    outlines nor instances, so the style changes nothing.
    """
    folder = out / "voc"
    masks, lists = folder / "SegmentationClass", folder / "ImageSets" / "Segmentation"
    files.make_folder(masks)
    files.make_folder(lists)
    colours = colours_of(legend, ignored=True)
    values = legend.values if max(legend.values) <= _LARGEST else tuple(range(1, len(legend.names) + 1))
    palette = _palette([colours[name] for name in legend.names], values)
    table = np.zeros(256, np.uint8)
    table[1 : len(values) + 1] = values
    table[images.IGNORE] = images.IGNORE
    ignored = False
    taken: set[int] = set()
    # A name is written as the bytes that it has on the disk, whatever they mean.
    with (
        files.atomic(lists / "default.txt") as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape") as names,
    ):
        for item in items:
            ignored = ignored or bool((item.mask == images.IGNORE).any())
            path = place(masks, item.name, ".png", taken)
            _write_png(path, table[item.mask], palette)
            names.write(path.relative_to(masks).with_suffix("").as_posix() + "\n")
    with files.atomic(folder / "labelmap.txt") as temporary:
        temporary.write_text(_labelmap(colours_of(legend, ignored)), encoding="utf-8", errors="surrogateescape")
    return folder


def _palette(colours: Iterable[Colour], values: Iterable[int]) -> bytes:
    """256 colours: those of the classes at their values, ignore at 255, everything else black."""
    palette = np.zeros((256, 3), np.uint8)
    for value, colour in zip(values, colours, strict=True):
        palette[value] = colour
    palette[images.IGNORE] = IGNORE_COLOUR
    return palette.tobytes()


def _write_png(path: Path, mask: NDArray[np.uint8], palette: bytes) -> None:
    picture = Image.fromarray(mask).convert("L")
    picture.putpalette(palette)
    with files.atomic(path) as temporary:
        picture.save(temporary, format="PNG", **images.RUNS)


def _labelmap(colours: dict[str, Colour]) -> str:
    """CVAT's list: name, colour, and two fields (parts, actions) that stay empty."""
    lines = [f"{name}:{red},{green},{blue}::\n" for name, (red, green, blue) in colours.items()]
    return "".join(["# label:color_rgb:parts:actions\n", "background:0,0,0::\n", *lines])

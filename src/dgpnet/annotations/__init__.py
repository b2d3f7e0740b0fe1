"""Masks in and out of files: index PNG, COCO, labelme, YOLO-seg, Label Studio, CVAT, PASCAL VOC."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from dgpnet import checks, files, images
from dgpnet.annotations import coco, cvat, labelme, labelstudio, voc, yolo
from dgpnet.annotations.legend import LEGEND_FILE, Legend
from dgpnet.annotations.support import MOST_CLASSES, Example, SupportSet, read_support
from dgpnet.annotations.writing import Item, Style
from dgpnet.errors import Error

__all__ = ["FORMATS", "Example", "Item", "Legend", "SupportSet", "export", "read_support"]

#: What writes each format into a folder, and returns the path written.
FORMATS: Final[dict[str, Callable[[Path, Legend, Iterable[Item], Style], Path]]] = {
    "coco": coco.write,
    "labelme": labelme.write,
    "yolo": yolo.write,
    "labelstudio": labelstudio.write,
    "cvat": cvat.write,
    "voc": voc.write,
}

#: Pixels that an outline can be asked to be off: more than any photograph is wide.
MOST_SIMPLIFIED: Final = 1e6


def export(
    format: str,
    out: str | Path,
    classes: Sequence[str] | Legend,
    items: Iterable[Item],
    *,
    instances: bool = False,
    min_area: int = 0,
    polygons: bool = False,
    simplify: float = 0.0,
    prefix: str = "",
) -> Path:
    """Write masks into the folder `out` as "coco" (coco.json), "labelme" (labelme/), "yolo" (yolo/), "labelstudio"
    (labelstudio.json), "cvat" (cvat.xml) or "voc" (voc/), and return the path written. `read_support(path,
    photos=...)` reads it back.

    classes: names of the values 1..C, or a Legend that says by which numbers and colours files know them; it is written
    beside them (legend.json), since not every format has a place for numbers and colours.
    items are taken one by one, so memory does not grow with their number; every file appears whole or not at all.
    instances: one object per connected part instead of one per class; parts of fewer than `min_area` pixels are left
    out. polygons: outlines instead of pixel masks, for programs that know no others (YOLO always has outlines, VOC
    never). simplify: by how many pixels an outline may move, to have fewer corners.
    prefix: what stands before the photographs' names in Label Studio's addresses ("mugs/").
    """
    write = FORMATS[checks.choice("format", format, FORMATS)]
    legend = classes if isinstance(classes, Legend) else Legend.of(checks.names("classes", classes, MOST_CLASSES))
    style = Style(
        checks.flag("instances", instances),
        checks.whole("min_area", min_area, 0),
        checks.flag("polygons", polygons),
        checks.number("simplify", simplify, 0, MOST_SIMPLIFIED),
        checks.kind("prefix", prefix, str),
    )
    out = Path(checks.path_of("folder", out))
    files.make_folder(out)
    path = write(out, legend, _checked(items, len(legend.names)), style)
    with files.atomic(out / LEGEND_FILE) as temporary:
        temporary.write_text(json.dumps(legend.to_json(), indent=1), encoding="utf-8")
    return path


def _checked(items: Iterable[Item], classes: int) -> Iterator[Item]:
    for item in checks.each("items", items):
        checks.kind("An entry of items", item, Item, "an")
        checks.path_of("photograph", item.name)
        if not isinstance(item.mask, np.ndarray):
            raise Error(f"{item.name}: a mask is an array, (H, W) uint8; given {checks.shown(item.mask)}.")
        if item.mask.ndim != 2 or item.mask.dtype != np.uint8:
            raise Error(f"{item.name}: a mask is (H, W) uint8, this one {item.mask.shape} {item.mask.dtype}.")
        if (over := item.mask[(item.mask > classes) & (item.mask != images.IGNORE)]).size:
            raise Error(
                f"{item.name}: the mask has the value {over[0]}, there are only {classes} classes; name them all."
            )
        if item.scores is not None and len(item.scores) != classes:
            raise Error(f"{item.name}: {len(item.scores)} scores for {classes} classes; give one for each.")
        yield item

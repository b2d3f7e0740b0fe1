"""Masks in and out of files: index PNG, COCO, labelme, YOLO-seg, Label Studio."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from dgpnet import images
from dgpnet.annotations import coco, labelme, labelstudio, yolo
from dgpnet.annotations.support import Example, SupportSet, read_support
from dgpnet.annotations.writing import Item, make_folder
from dgpnet.errors import Error

__all__ = ["FORMATS", "Example", "Item", "SupportSet", "export", "read_support"]

FORMATS = {"coco": coco.write, "labelme": labelme.write, "yolo": yolo.write, "labelstudio": labelstudio.write}


def export(
    format: str,
    out: str | Path,
    classes: Sequence[str],
    items: Iterable[Item],
    *,
    instances: bool = False,
    polygons: bool = False,
) -> Path:
    """Write masks into the folder `out` as "coco" (coco.json), "labelme" (labelme/), "yolo" (yolo/) or "labelstudio"
    (labelstudio.json), and return the path written. `read_support(path, photos=...)` reads it back.

    items are taken one by one, so memory does not grow with their number; every file appears whole or not at all.
    instances: one object per connected part instead of one per class. polygons: outlines instead of pixel masks,
    for programs that know no others (YOLO always has them).
    """
    if format not in FORMATS:
        raise Error(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    out = Path(out)
    make_folder(out)
    return FORMATS[format](out, classes, _checked(items, len(classes)), instances=instances, polygons=polygons)


def _checked(items: Iterable[Item], classes: int) -> Iterator[Item]:
    for item in items:
        if item.mask.ndim != 2 or item.mask.dtype != np.uint8:
            raise Error(f"{item.name}: a mask is (H, W) uint8, this one {item.mask.shape} {item.mask.dtype}")
        if (over := item.mask[(item.mask > classes) & (item.mask != images.IGNORE)]).size:
            raise Error(
                f"{item.name}: the mask has the value {over[0]}, there are only {classes} classes; name them all"
            )
        yield item

"""What the writers of all formats share: an item to write and the objects in its mask."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from dgpnet import files, images
from dgpnet.annotations import outlines, shapes
from dgpnet.annotations.shapes import Patch
from dgpnet.errors import Error


@dataclass(frozen=True)
class Item:
    """A photograph's mask to write.

    name: the photograph's path in its folder, with forward slashes ("trip/mug.jpg"). mask: (H, W) uint8, 0 background,
    1..C classes, 255 ignore, on the photograph as viewers show it. score: in [0, 1], written where the format has one.
    """

    name: str
    mask: NDArray[np.uint8]
    score: float | None = None


def objects(mask: NDArray[np.uint8], classes: int, instances: bool) -> Iterator[tuple[int, Patch]]:
    """(value, patch) of ignore (if there is any) and of each class in the mask, or of each part with `instances`."""
    shown = np.bincount(mask.ravel(), minlength=256) > 0
    for value in (images.IGNORE, *range(1, classes + 1)):
        if not shown[value]:
            continue
        patch = shapes.crop(mask == value)
        if not instances or value == images.IGNORE:
            yield value, patch
        else:
            for top, left, pixels in outlines.parts(patch.pixels):
                yield value, Patch(patch.top + top, patch.left + left, pixels)


def place(folder: Path, name: str, suffix: str, taken: set[Path]) -> Path:
    """folder/name with another suffix, its folders made; refused when that leads out of the folder or is `taken`."""
    path = files.inside(folder, str(PurePosixPath(name).with_suffix(suffix)))
    if path in taken:
        raise Error(f"two photographs would be written to {path}, {name} is one of them; rename it")
    taken.add(path)
    make_folder(path.parent)
    return path


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"cannot make the folder {path}: {error.strerror}; choose another place") from None

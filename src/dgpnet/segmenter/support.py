"""Photographs and masks as people give them, made into what the network learns from."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.images import IGNORE, MEAN, STD, photo_size, read_mask, read_photo, resize_mask, resize_photo
from dgpnet.segmenter.streams import ahead

if TYPE_CHECKING:
    from dgpnet.network import Config

#: What a photograph or a mask may be: a path, a PIL image, an array or a tensor.
Source = str | os.PathLike[str] | Image.Image | NDArray[Any] | Tensor
MAX_CLASSES = IGNORE - 1
#: The deepest stride: what photographs are padded to a multiple of.
STRIDE = 32


@dataclass(frozen=True, eq=False)
class Prepared:
    """A photograph as the network takes it before padding: (h, w, 3) uint8, h and w at most the network's side."""

    photo: NDArray[np.uint8]
    size: tuple[int, int]
    """(H, W) of the photograph itself."""


@dataclass(frozen=True)
class Origin:
    """What a concept remembers of an example, to speak of it and to know it again.

    name     of the photograph's file, or "example 3"
    side     √(H·W) of the photograph, in pixels
    shown    C times whether its mask shows the class
    digest   SHA-256 (hexadecimal) of photograph and masks as the network sees them
    """

    name: str
    side: float
    shown: tuple[bool, ...]
    digest: str


@dataclass(frozen=True, eq=False)
class Shot:
    """An annotated photograph as the network takes it: (h, w, 3) uint8, and masks (C, H, W) bool, H and W padded."""

    photo: NDArray[np.uint8]
    masks: NDArray[np.bool_]
    origin: Origin


def fitted(size: tuple[int, int], config: Config) -> tuple[int, int]:
    """(h, w) that a photograph of `size` (H, W) has in the network, before padding."""
    if config.resize == "square":
        return config.size, config.size
    scale = min(1.0, config.size / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def prepare(photo: NDArray[np.uint8] | Image.Image, config: Config) -> Prepared:
    """photo: (H, W, 3) uint8, or an image in RGB."""
    size = (photo.height, photo.width) if isinstance(photo, Image.Image) else (photo.shape[0], photo.shape[1])
    return Prepared(resize_photo(photo, fitted(size, config)), size)


def padded(photo: NDArray[np.uint8]) -> tuple[int, int]:
    """Sides of a photograph (h, w, 3) when padded to what the strides need."""
    height, width = (math.ceil(side / STRIDE) * STRIDE for side in photo.shape[:2])
    return height, width


def as_input(photos: Sequence[NDArray[np.uint8]], device: torch.device, *, count: int = 1) -> Tensor:
    """Photographs (h, w, 3) uint8 -> (N, 3, H, W) float32, normalised; zeros below and right of them.

    H, W: their `padded` size, which must be the same for all: what pads a photograph must not depend on others.
    count: the least that N should be; what is beyond the photographs means nothing.
    One copy takes the whole batch to the device, as bytes and channels last, which is how they lie in memory.
    """
    (size,) = {padded(photo) for photo in photos}
    pixels = np.zeros((max(count, len(photos)), *size, 3), dtype=np.uint8)
    for place, photo in zip(pixels, photos, strict=False):
        place[: photo.shape[0], : photo.shape[1]] = photo
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (MEAN, STD))
    batch = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float().div_(255).sub_(mean).div_(std)
    for place, photo in zip(batch, photos, strict=False):
        if photo.shape[:2] != size:
            place[:, photo.shape[0] :] = 0
            place[:, :, photo.shape[1] :] = 0
    return batch


def read_examples(
    photos: Iterable[Source], masks: Iterable[Source], classes: Sequence[str] | None, config: Config, *, first: int = 0
) -> tuple[list[Shot], tuple[str, ...]]:
    """Read and check K examples, a few at a time; `classes` None takes as many classes as the masks' largest value.

    Whether every class is shown is for the caller to check: further examples need not show all of them.
    first: the number (from 0) of the first example, by which those without a file name are called.
    """
    stream = ahead(_pairs(photos, masks), lambda pair: _read(*pair, config, first), cost=_cost)
    read = [future.result() for _, future in stream]
    if not read:
        raise Error("No example was given; learning needs at least one photograph with its mask.")
    names = _class_names(classes, max(max(one.masks, default=0) for one in read))
    for one in read:
        unknown = sorted(value for value in one.masks if value not in range(1, len(names) + 1))
        if unknown:
            raise Error(
                f"{one.mask_name} has the values {', '.join(map(str, unknown[:8]))}, which are no class; "
                f"masks hold 0 for background, 1 … {len(names)} for {', '.join(names)} and {IGNORE} for ignore."
            )
    return [_shot(one, len(names)) for one in read], names


@dataclass(frozen=True, eq=False)
class _Read:
    """One example: the photograph, and the mask of each value that it shows, at the network's size."""

    name: str
    mask_name: str
    prepared: Prepared
    masks: dict[int, NDArray[np.bool_]]


def _pairs(photos: Iterable[Source], masks: Iterable[Source]) -> Iterator[tuple[int, Source, Source]]:
    for what, given in (("photos", photos), ("masks", masks)):
        if isinstance(given, str | os.PathLike | Image.Image):
            raise Error(f"{what} is a list with one entry an example; given {type(given).__name__}: put it in a list.")
    try:
        yield from ((i, *pair) for i, pair in enumerate(zip(photos, masks, strict=True)))
    except ValueError as error:
        if isinstance(error, Error):
            raise
        raise Error("Each photograph needs one mask: there are not as many masks as photographs.") from error


def _cost(pair: tuple[int, Source, Source]) -> int:
    return pixels_of(pair[1])


def _read(i: int, photo_source: Source, mask_source: Source, config: Config, first: int) -> _Read:
    name = _name(mask_source, f"mask {i}")
    photo = read_photo(photo_source)
    size = (photo.shape[0], photo.shape[1])
    path = Path(photo_source) if isinstance(photo_source, str | os.PathLike) else None
    label = read_mask(mask_source, size=size, photo=path)
    if label.dtype == np.uint32:
        raise Error(f"{name} holds colours; give a mask of class numbers 0, 1, 2 … instead.")
    prepared = prepare(photo, config)
    inside = (prepared.photo.shape[0], prepared.photo.shape[1])
    shown = {int(value) for value in np.unique(label)} - {0, IGNORE}
    if len(shown) > MAX_CLASSES or min(shown, default=1) < 0:
        raise Error(f"{name} has {len(shown)} different values, which is no mask; give class numbers 0, 1, 2 …")
    own_name = path.name if path is not None else f"example {first + i + 1}"
    return _Read(own_name, name, prepared, {value: shrunk(label == value, inside) for value in shown})


def _name(source: Source, otherwise: str) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else otherwise


def _class_names(classes: Sequence[str] | None, largest: int) -> tuple[str, ...]:
    if isinstance(classes, str):
        raise Error(f"classes is a list of names, given the text {classes!r}; write [{classes!r}].")
    if classes is not None:
        names = tuple(str(name) for name in classes)
        if not names or len(set(names)) < len(names):
            raise Error(f"classes needs at least one name and each name once, given {list(names)}.")
    elif largest == 0:
        raise Error(
            "No mask shows anything: all are 0 (background) or 255 (ignore); paint the object with 1. "
            "A mask saved as black and white has 255 for the object: pass `mask > 0`."
        )
    else:
        names = tuple(f"class {i}" for i in range(1, largest + 1)) if largest > 1 else ("object",)
    if len(names) > MAX_CLASSES:
        raise Error(f"At most {MAX_CLASSES} classes fit into an 8-bit mask; given {len(names)}: learn them in parts.")
    return names


def _shot(read: _Read, classes: int) -> Shot:
    photo = read.prepared.photo
    masks = np.zeros((classes, *padded(photo)), dtype=bool)
    for value, mask in read.masks.items():
        masks[value - 1, : photo.shape[0], : photo.shape[1]] = mask
    digest = hashlib.sha256(f"{photo.shape} {masks.shape}".encode())
    digest.update(np.ascontiguousarray(photo).data)
    digest.update(np.packbits(masks).data)
    side = (read.prepared.size[0] * read.prepared.size[1]) ** 0.5
    shown = tuple(value in read.masks for value in range(1, classes + 1))
    return Shot(photo, masks, Origin(read.name, side, shown, digest.hexdigest()))


def pixels_of(source: Source) -> int:
    """Pixels of a photograph without decoding it; 0 where they cannot be known, which reading it will explain."""
    try:
        if isinstance(source, str | os.PathLike):
            height, width = photo_size(source)
        elif isinstance(source, Image.Image):
            height, width = source.size
        else:
            height, width = sorted(source.shape)[-2:]
        return int(height) * int(width)
    except (Error, AttributeError, TypeError, ValueError):
        return 0


def shrunk(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """A mask (H, W) at `size`, nearest; what would vanish stays as every cell that it touches."""
    small: NDArray[np.bool_] = resize_mask(mask, size)
    if small.any():
        return small
    rows, columns = np.nonzero(mask)
    touched = np.zeros(size, dtype=bool)
    touched[rows * size[0] // mask.shape[0], columns * size[1] // mask.shape[1]] = True
    return touched

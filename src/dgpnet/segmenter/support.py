"""Photographs and masks as people give them, made into what the network learns from."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dgpnet.annotations.legend import Legend
from dgpnet.checks import each, names, path_of
from dgpnet.errors import Error, Notice
from dgpnet.images import IGNORE, MEAN, STD, distinct, photo_size, read_mask, read_photo, resize_mask
from dgpnet.segmenter.resizing import CPU, pays, resized
from dgpnet.segmenter.streams import ahead

if TYPE_CHECKING:
    from dgpnet.images import ImageSource
    from dgpnet.network import Config

#: As many as an 8-bit mask has values for, besides background and ignore.
MAX_CLASSES = IGNORE - 1
#: The deepest stride: what photographs are padded to a multiple of.
STRIDE = 32
#: Pixels of a photograph in memory that is shrunk in a moment; 1920 × 1080 has fewer.
QUICK = 1 << 21


@dataclass(frozen=True, eq=False)
class Prepared:
    """A photograph as networks take it before padding: (h, w, 3) uint8 for each of the sizes at which it is seen, h and
    w at most that size."""

    photos: tuple[NDArray[np.uint8], ...]
    size: tuple[int, int]
    """(H, W) of the photograph itself."""

    @property
    def photo(self) -> NDArray[np.uint8]:
        """It at the first of the sizes."""
        return self.photos[0]


@dataclass(frozen=True)
class Origin:
    """What a concept remembers of an example, to speak of it and to know it again.

    name     of the photograph's file, or "example 3"
    side     √(H·W) of the photograph, in pixels
    shown    C times whether its mask shows the class
    digest   SHA-256 (hexadecimal) of the photograph as the network sees it and of every pixel of its mask
    """

    name: str
    side: float
    shown: tuple[bool, ...]
    digest: str


@dataclass(frozen=True, eq=False)
class Shot:
    """An annotated photograph as the network takes it.

    photo    (h, w, 3) uint8
    masks    (C, H, W) bool, H and W padded
    ignore   (H, W) bool: where nobody said what there is, the padding among it
    """

    photo: NDArray[np.uint8]
    masks: NDArray[np.bool_]
    ignore: NDArray[np.bool_]
    origin: Origin


def fitted(size: tuple[int, int], config: Config) -> tuple[int, int]:
    """(h, w) that a photograph of `size` (H, W) has in the network, before padding."""
    if config.resize == "square":
        return config.size, config.size
    scale = min(1.0, config.size / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def prepare(photo: NDArray[np.uint8] | Image.Image, *configs: Config, device: torch.device = CPU) -> Prepared:
    """For networks of these configurations, on that device. photo: (H, W, 3) uint8, or an image in RGB."""
    size = (photo.height, photo.width) if isinstance(photo, Image.Image) else (photo.shape[0], photo.shape[1])
    return Prepared(tuple(resized(photo, fitted(size, config), device) for config in configs), size)


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
    mean, std = _normal(device)
    batch = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float().div_(255).sub_(mean).div_(std)
    for place, photo in zip(batch, photos, strict=False):
        if photo.shape[:2] != size:
            place[:, photo.shape[0] :] = 0
            place[:, :, photo.shape[1] :] = 0
    return batch


@cache
def _normal(device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of photographs, (3, 1, 1) each."""
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (MEAN, STD))
    return mean, std


def read_examples(
    photos: Iterable[ImageSource],
    masks: Iterable[ImageSource],
    classes: Iterable[str] | Legend | None,
    *configs: Config,
    device: torch.device = CPU,
    first: int = 0,
) -> tuple[list[list[Shot]], Legend]:
    """Read and check K examples, a few at a time; `classes` None takes as many classes as the masks' largest value.

    Returns, for each of the networks' configurations, the K examples as it takes them.
    With a legend the masks hold its own numbers; without one, `meaning` says what their values stand for.
    Whether every class is shown is for the caller to check: further examples need not show all of them.
    device: theirs · first: the number (from 0) of the first example, by which those without a file name are called.
    """
    coded = isinstance(classes, Legend)
    given = classes if classes is None or isinstance(classes, Legend) else _named(classes)
    with closing(
        ahead(
            _pairs(photos, masks),
            lambda pair: _read(*pair, configs, device, first, coded),
            cost=lambda pair: pixels_of(pair[1]),
            quick=lambda pair: quick(pair[1], device) and type(pair[2]) is np.ndarray,
        )
    ) as stream:
        read = [future.result() for _, future in stream]
    if not read:
        raise Error("No example was given; learning needs at least one photograph with its mask.")
    legend = given or _numbered(max(abs(value) for one in read for value in (0, *one.masks)))
    read = _settled(read, len(legend.names))
    for one in read:
        unknown = sorted(value for value in one.masks if value not in range(1, len(legend.names) + 1))
        if unknown:
            raise Error(
                f"{one.mask_name} has the values {', '.join(map(str, unknown[:8]))}, which are no class; masks hold 0 "
                f"for background, 1 … {len(legend.names)} for {', '.join(legend.names):.200} and {IGNORE} for ignore."
            )
    return [[shot_of(one, len(legend.names), which) for one in read] for which in range(len(configs))], legend


def meaning(label: NDArray[Any], name: str) -> dict[int, int]:
    """Which value of a mask (H, W), read by `read_mask`, stands for which class.

    A mask of one colour on black, or of nothing but 0 and white (255, or 65535 of 16 bits), shows one object, LONE.
    Otherwise values are class numbers, and 255 is ignore. name: how to call the mask in an Error.
    """
    values = [int(value) for value in distinct(label) if value]
    if label.dtype == np.uint32:
        if not values:
            return {}
        if len(values) > 1:
            raise Error(
                f"{name} has {len(values)} colours, and which class each of them is was not said; give masks of class "
                "numbers 0, 1, 2 …, or paint one class in one colour on black."
            )
        return {LONE: values[0]}
    return {LONE: values[0]} if values in ([IGNORE], [0xFFFF]) else numbers(label, name)


def numbers(label: NDArray[Any], name: str) -> dict[int, int]:
    """The classes of a mask (H, W) that holds class numbers, and 255 for ignore: each stands for itself."""
    values = {int(value) for value in distinct(label)} - {0, IGNORE}
    if len(values) > MAX_CLASSES or min(values, default=1) < 0:
        raise Error(
            f"{name} has {len(values)} different values, which is no mask; number the classes 1, 2, 3 and so on."
        )
    return {value: value for value in values}


def _settled(read: Sequence[Read], classes: int) -> list[Read]:
    """Examples in which LONE is class 1, where that is the only one; which is said."""
    lone = [one.mask_name for one in read if LONE in one.masks]
    if lone and classes > 1:
        raise Error(
            f"{lone[0]} has nothing but one colour, or 0 and white, and there are {classes} classes; "
            "write the class's own number (1, 2 …) in place of it."
        )
    if lone:
        more = f" and {len(lone) - 1} more" if len(lone) > 1 else ""
        said = f"{lone[0]}{more} with one colour or white on black: taken for the object, not for ignore."
        warnings.warn(Notice(said), stacklevel=4)
    return [replace(one, masks={1: one.masks[LONE]}) if LONE in one.masks else one for one in read]


#: The class of a mask that shows one object, until it is known that there is one class.
LONE = -1
#: What stands for an example's photograph or mask where there are too few.
_MISSING: Any = object()


@dataclass(frozen=True, eq=False)
class Read:
    """One example at each of the sizes at which it is seen: the photograph, the mask of each class 1 … C that it shows,
    and what is to be ignored. name, mask_name: what the two are called · digest: of the mask at its own size."""

    name: str
    mask_name: str
    prepared: Prepared
    masks: dict[int, tuple[NDArray[np.bool_], ...]]
    ignore: tuple[NDArray[np.bool_], ...]
    digest: bytes


def _pairs(
    photos: Iterable[ImageSource], masks: Iterable[ImageSource]
) -> Iterator[tuple[int, ImageSource, ImageSource]]:
    every = zip_longest(each("photos", photos, single=3), each("masks", masks, single=2), fillvalue=_MISSING)
    for i, (photo, mask) in enumerate(every):
        if photo is _MISSING or mask is _MISSING:
            raise Error("Each photograph needs one mask: there are not as many masks as photographs.")
        yield i, photo, mask


def _read(
    i: int,
    photo_source: ImageSource,
    mask_source: ImageSource,
    configs: Sequence[Config],
    device: torch.device,
    first: int,
    coded: bool,
) -> Read:
    name = _name(mask_source, f"mask {i}")
    photo = read_photo(photo_source)
    size = (photo.shape[0], photo.shape[1])
    path = Path(path_of("photograph", photo_source)) if isinstance(photo_source, str | os.PathLike) else None
    label = read_mask(mask_source, size=size, photo=path)
    prepared = prepare(photo, *configs, device=device)
    sizes = [(one.shape[0], one.shape[1]) for one in prepared.photos]
    classes = (numbers if coded else meaning)(label, name)
    ignored = label == IGNORE if IGNORE not in classes.values() else np.zeros(size, bool)
    return Read(
        path.name if path is not None else f"example {first + i + 1}",
        name,
        prepared,
        {number: tuple(shrunk(label == value, inside) for inside in sizes) for number, value in classes.items()},
        tuple(resize_mask(ignored, inside) for inside in sizes),
        _digest(label, classes),
    )


def _digest(label: NDArray[Any], classes: dict[int, int]) -> bytes:
    """SHA-256 of a mask (H, W) as it was read, ignore included: the same in whatever way it was saved, and another for
    every pixel that is another, though the network may not see it."""
    # Values that bytes have no room for are refused before anybody asks.
    seen = (label == classes[LONE] if LONE in classes else label).astype(np.uint8, copy=False)
    bits = bool(seen.max() <= 1)
    digest = hashlib.sha256(f"{seen.shape} {bits}".encode())
    digest.update((np.packbits(seen) if bits else np.ascontiguousarray(seen)).data)  # a fifth of the time, as bits
    return digest.digest()


def _name(source: ImageSource, otherwise: str) -> str:
    return path_of("mask", source) if isinstance(source, str | os.PathLike) else otherwise


def _named(classes: Iterable[str]) -> Legend:
    """Classes by the names that a caller gave."""
    return Legend.of(names("classes", classes, MAX_CLASSES))


def _numbered(largest: int) -> Legend:
    """Names for as many classes as the masks' largest value."""
    if largest == 0:
        raise Error("No mask shows anything: all are 0 (background) or 255 (ignore); paint the object with 1.")
    if largest > MAX_CLASSES:
        raise Error(
            f"A mask has the value {largest}, and at most {MAX_CLASSES} classes fit into an 8-bit mask; "
            "number the classes 1, 2, 3 and so on."
        )
    return Legend.of([f"class {i}" for i in range(1, largest + 1)] if largest > 1 else ["object"])


def shot_of(read: Read, classes: int, which: int = 0) -> Shot:
    """The example at the size of that number, with C classes."""
    photo = read.prepared.photos[which]
    inside = (slice(photo.shape[0]), slice(photo.shape[1]))
    masks, ignore = np.zeros((classes, *padded(photo)), dtype=bool), np.ones(padded(photo), dtype=bool)
    for value, several in read.masks.items():
        masks[value - 1][inside] = several[which]
    ignore[inside] = read.ignore[which]
    digest = hashlib.sha256(f"{photo.shape} {masks.shape}".encode())
    digest.update(np.ascontiguousarray(photo).data)
    digest.update(read.digest)
    side = (read.prepared.size[0] * read.prepared.size[1]) ** 0.5
    shown = tuple(value in read.masks for value in range(1, classes + 1))
    return Shot(photo, masks, ignore, Origin(read.name, side, shown, digest.hexdigest()))


def pixels_of(source: ImageSource) -> int:
    """Pixels of a photograph without decoding it; 0 where they cannot be known, which reading it will explain."""
    try:
        if isinstance(source, str | os.PathLike | bytes):
            height, width = photo_size(source)
        elif isinstance(source, Image.Image):
            height, width = source.size
        else:
            height, width = sorted(source.shape)[-2:]
        return int(height) * int(width)
    except Exception:
        return 0


def quick(source: ImageSource, device: torch.device) -> bool:
    """Whether a photograph is read in a moment: it is an array as networks on that device take it, which shrinks it by
    itself."""
    return (
        pays(device)
        and type(source) is np.ndarray
        and source.dtype == np.uint8
        and source.shape[2:] == (3,)
        and pixels_of(source) <= QUICK
    )


def shrunk(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """A mask (H, W) at `size`, nearest; what would vanish stays as every cell that it touches."""
    small: NDArray[np.bool_] = resize_mask(mask, size)
    if small.any():
        return small
    rows, columns = np.nonzero(mask)
    touched = np.zeros(size, dtype=bool)
    touched[rows * size[0] // mask.shape[0], columns * size[1] // mask.shape[1]] = True
    return touched

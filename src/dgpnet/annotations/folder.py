"""A folder of images/ and masks/: index, palette, RGB-coded, boolean and 16-bit masks, with or without classes.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet import images
from dgpnet.annotations.reading import (
    IGNORED,
    PHOTO_SUFFIXES,
    Found,
    Photos,
    Request,
    class_names,
    files_in,
    numbers,
    only_photo,
    photos_by_stem,
    read_json,
    within,
)
from dgpnet.annotations.shapes import Labels
from dgpnet.errors import Error

_MOST_VALUES: Final = 256  # more than that is a photograph, or a mask with blurred edges
_WHITE: Final = (0xFF, 0xFFFF)  # 8 and 16 bits: ignore, or the inside of a mask that is only black and white


@dataclass(frozen=True)
class Codes:
    """What the values of masks stand for. coded_by: "value" or "colour" (0xRRGGBB)."""

    coded_by: str
    labels: dict[int, str]


def recognises(path: Path) -> bool:
    """Whether a folder holds masks as pictures."""
    return (path / "masks").is_dir()


def read(request: Request) -> Found:
    """Every mask with its photograph; a photograph without a mask is no example."""
    root, folder, max_pixels, classes = request.path, request.photos, request.max_pixels, request.names
    if folder is None and not (root / "images").is_dir():
        raise Error(f"{root} has masks/ and no images/; put the photographs in {root / 'images'}.")
    place = root / "images" if folder is None else folder
    photos = Photos(root if folder is None else folder, (place,), max_pixels)
    candidates = photos_by_stem(place)
    masks = files_in(root / "masks", PHOTO_SUFFIXES)
    if not masks:
        raise Error(f"{root / 'masks'} holds no masks; put a PNG there for each photograph that you painted")
    stated = _stated_codes(root / "classes.json")

    problems: list[str] = []
    values: dict[Path, tuple[str, NDArray[np.int64]]] = {}
    for mask in masks:
        try:
            within(root, mask.relative_to(root), str(mask))
            values[mask] = _values(mask, max_pixels, stated is not None and stated.coded_by == "colour")
        except Error as error:
            problems.append(str(error))
    codes = _found_codes(values, classes) if stated is None else _white_as_class(stated, values)
    names = class_names(codes.labels.values())
    drawings = []
    for mask in values:
        name = mask.relative_to(root / "masks").with_suffix("")
        drawings.append(partial(_draw, mask, candidates.get(name, []), place / name, photos, codes, names))
    return Found(names, drawings, problems)


def _raw(path: Path, max_pixels: int, colours: bool, photo: Path | None = None) -> tuple[str, NDArray[Any]]:
    """How the mask is coded ("value" or "colour") and its values (H, W); `colours` looks values up in the palette."""
    raw = images.read_mask(path, photo=photo, max_pixels=max_pixels)
    if raw.dtype == np.uint32:
        grey = bool(((raw & 0xFF) * 0x010101 == raw).all())
        if grey and not colours:
            return "value", (raw & 0xFF).astype(np.uint8)
        return "colour", raw
    if not colours:
        return "value", raw
    with Image.open(path) as image:
        palette = image.getpalette("RGB") if image.mode == "P" else None
    if palette is None:
        return "colour", raw.astype(np.int64) * 0x010101
    red, green, blue = np.pad(palette, (0, 768 - len(palette))).reshape(256, 3).astype(np.int64).T
    return "colour", (red << 16 | green << 8 | blue)[raw]


def _values(path: Path, max_pixels: int, colours: bool) -> tuple[str, NDArray[np.int64]]:
    coded_by, raw = _raw(path, max_pixels, colours)
    shown = _shown(raw)
    if len(shown) > _MOST_VALUES:
        raise Error(
            f"{path} has {len(shown)} different {coded_by}s, which is no mask; "
            "save it as PNG, painted without smooth edges"
        )
    return coded_by, shown


def _shown(raw: NDArray[Any]) -> NDArray[np.int64]:
    """The values that occur, ascending; counting is many times quicker than sorting where values are few."""
    if raw.dtype.itemsize <= 2:
        return np.flatnonzero(np.bincount(raw.ravel()))
    return np.unique(raw).astype(np.int64)


def _stated_codes(path: Path) -> Codes | None:
    """classes.json: a list of names, or names to values or colours, either way round."""
    if not path.is_file():
        return None
    data = read_json(path)
    if isinstance(data, list):
        first = 0 if data and data[0] == "background" else 1
        data = {str(number): name for number, name in enumerate(data, first)}
    if not isinstance(data, dict) or not data:
        raise Error(f'{path} names no classes; write {{"1": "mug", "2": "spoon"}} or ["mug", "spoon"]')
    labels: dict[int, str] = {}
    kinds = set()
    for key, value in data.items():
        if isinstance(value, str) and (code := _code(int(key) if key.isdecimal() else key)):
            label = value
        elif code := _code(value):
            label = key
        else:
            raise Error(
                f"{path}: {key!r}: {value!r} gives no class a value or a colour; write "
                '{"1": "mug"} or {"mug": 1}, and for colours {"mug": [255, 0, 0]} or {"mug": "#ff0000"}'
            )
        kinds.add(code[0])
        labels[code[1]] = label
    if len(kinds) > 1:
        raise Error(f"{path} mixes values and colours; give every class a value, or every class a colour")
    coded_by = kinds.pop()
    return Codes(coded_by, dict(sorted(labels.items())) if coded_by == "value" else labels)


def _code(value: Any) -> tuple[str, int] | None:
    """("value", n) or ("colour", 0xRRGGBB)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF:
        return "value", value
    if isinstance(value, str) and value.startswith("#") and len(value) == 7:
        try:
            return "colour", int(value[1:], 16)
        except ValueError:
            return None
    if isinstance(value, list) and len(value) == 3 and all(type(v) is int and 0 <= v <= 255 for v in value):
        return "colour", value[0] << 16 | value[1] << 8 | value[2]
    return None


def _white_as_class(codes: Codes, values: dict[Path, tuple[str, NDArray[np.int64]]]) -> Codes:
    """With one class, masks that are all black and white show it in white, whatever its number."""
    if codes.coded_by == "value" and len(class_names(codes.labels.values())) == 1:
        shown = {int(v) for _, found in values.values() for v in found} - {0}
        if len(shown) == 1 and shown <= set(_WHITE):
            return Codes("value", codes.labels | {shown.pop(): class_names(codes.labels.values())[0]})
    return codes


def _found_codes(values: dict[Path, tuple[str, NDArray[np.int64]]], classes: Sequence[str] | None) -> Codes:
    """Codes for the values that masks show, where nothing states them."""
    coded_by = "colour" if any(kind == "colour" for kind, _ in values.values()) else "value"
    shown = {int(value) for kind, found in values.values() if kind == coded_by for value in found} - {0}
    if coded_by == "value" and not (len(shown) == 1 and shown <= set(_WHITE)):
        shown -= set(_WHITE)
    ordered = sorted(shown)
    if classes is not None and coded_by == "value" and max(ordered, default=0) <= len(classes):
        return Codes(coded_by, dict(enumerate(classes, 1)))
    if classes is not None and len(classes) == len(ordered):
        return Codes(coded_by, dict(zip(ordered, classes, strict=True)))
    if classes is not None:
        listed = ", ".join(_written(coded_by, value) for value in ordered[:20])
        raise Error(
            f"masks show {len(ordered)} {coded_by}s ({listed}), but {len(classes)} classes were given; name each"
        )
    if len(ordered) == 1:
        return Codes(coded_by, {ordered[0]: "object"})
    return Codes(coded_by, {value: _written(coded_by, value) for value in ordered})


def _written(coded_by: str, value: int) -> str:
    return f"#{value:06x}" if coded_by == "colour" else str(value)


def _draw(
    mask: Path, candidates: list[Path], expected: Path, photos: Photos, codes: Codes, names: tuple[str, ...]
) -> tuple[Path, Labels]:
    photo = only_photo(photos.root, candidates, expected, str(mask))
    photos.size(photo)
    coded_by, raw = _raw(mask, photos.max_pixels, codes.coded_by == "colour", photo)
    if coded_by != codes.coded_by:
        raise Error(f"{mask} is coded by {coded_by}, expected {codes.coded_by}; save all masks in the same way")
    values = numbers(names)
    meaning = {0: 0} | {white: IGNORED for white in _WHITE if coded_by == "value"}
    meaning |= {code: values[label] for code, label in codes.labels.items()}
    shown = _shown(raw)
    unknown = [_written(coded_by, int(value)) for value in shown if int(value) not in meaning]
    if unknown:
        known = {0: "background", **codes.labels} | ({255: "ignore"} if coded_by == "value" else {})
        listed = ", ".join(f"{_written(coded_by, code)} ({label})" for code, label in list(known.items())[:12])
        raise Error(f"{mask} shows {', '.join(unknown[:10])}, which is no class; expected {listed}")
    return photo, np.array([meaning[int(value)] for value in shown], np.int32)[np.searchsorted(shown, raw)]

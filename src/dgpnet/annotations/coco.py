"""COCO instances: polygons, run lengths compressed or not, crowds as ignore or as objects."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from dgpnet import files, images
from dgpnet.annotations import reading, shapes
from dgpnet.annotations.legend import LARGEST, Legend
from dgpnet.annotations.reading import IGNORED, Found, Photos, Request, brief, class_names, label_field, numbers
from dgpnet.annotations.runs import Ints, Runs, counted, counts_of, together
from dgpnet.annotations.shapes import Float, Labels, Patch, Work
from dgpnet.annotations.writing import Item, Style, objects
from dgpnet.colours import Colour, from_hex
from dgpnet.errors import Error

Key = int | str
#: Of `Work`, to look at a part of an annotation.
_A_PART: Final = 20
#: What `crowds` may ask for.
CROWDS: Final = ("objects", "ignore")


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and "images" in data and "categories" in data


@dataclass(frozen=True)
class Parsed:
    """What a COCO file holds, by its identifiers, and what is wrong with it, a sentence each.

    annotations: of each image, in the file's order. colours: of the categories that have one. ours: written by this
    program.
    """

    path: Path
    images: dict[Key, dict[str, Any]]
    categories: dict[Key, str]
    annotations: dict[Key, list[dict[str, Any]]]
    problems: list[str] = field(default_factory=list)
    colours: dict[str, Colour] = field(default_factory=dict)
    ours: bool = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All annotations."""
        return (annotation for each in self.annotations.values() for annotation in each)


def parse(path: Path, data: Any, notes: reading.Notes) -> Parsed:
    """Images, categories and annotations, each once."""
    found = once(path, data, "categories", "category", notes)
    annotated = reading.field(data, "annotations", list, str(path))
    categories = {key: label_field(record, "name", f"{path}, category {brief(key)}") for key, record in found.items()}
    records = once(path, data, "images", "image", notes)
    annotations: dict[Key, list[dict[str, Any]]] = {key: [] for key in records}
    problems: list[str] = []
    seen: dict[Key, Any] = {}
    if len(annotated) > shapes.MOST_WORK // shapes.A_SHAPE * len(records):
        raise Error(f"{path} has {len(annotated)} annotations for {len(records)} images, which is too many to draw.")
    for annotation in annotated:
        where = _Place(path, "annotation", annotation)
        try:
            image, category = key_field(annotation, "image_id", where), key_field(annotation, "category_id", where)
            if image not in records:
                raise Error(
                    f"{where}: image_id {brief(image)} is none of the file's images; remove it or add the image."
                )
            if category not in categories:
                raise Error(
                    f"{where}: category_id {brief(category)} is none of the file's categories; add the category."
                )
            if _repeated(annotation, seen, where):
                notes.add("{n} annotations stand in the file twice and are read once", where)
            else:
                annotations[image].append(annotation)
        except Error as error:
            problems.append(str(error))
    info = data.get("info")
    ours = isinstance(info, dict) and info.get("description") == "dgpnet"
    colours = {categories[key]: colour for key, record in found.items() if (colour := _colour(record)) is not None}
    return Parsed(path, records, categories, annotations, problems, colours, ours)


def _colour(category: dict[str, Any]) -> Colour | None:
    """What a category is drawn in, [red, green, blue] or "#rrggbb"; None where it does not say."""
    given = category.get("color")
    if isinstance(given, str):
        return from_hex(given)
    if isinstance(given, list) and len(given) == 3 and all(type(part) is int and 0 <= part <= 255 for part in given):
        return given[0], given[1], given[2]
    return None


def once(path: Path, data: Any, key: str, what: str, notes: reading.Notes) -> dict[Key, dict[str, Any]]:
    """The records of a list by their id; the same record may stand there twice, another with its id may not."""
    records: dict[Key, dict[str, Any]] = {}
    for record in reading.field(data, key, list, str(path)):
        where = _Place(path, what, record)
        number = key_field(record, "id", where)
        if number in records:
            if record != records[number]:
                raise Error(f"{where}: its id stands for two of them; give each an id of its own.")
            notes.add(f"{{n}} of {key} stand in the file twice and are read once", where)
        records[number] = record
    return records


def _repeated(annotation: Any, seen: dict[Key, Any], where: object) -> bool:
    if annotation.get("id") is None:
        return False
    key = key_field(annotation, "id", where)
    if key in seen and seen[key] != annotation:
        raise Error(f"{where}: its id stands for two annotations; give each an id of its own.")
    return seen.setdefault(key, annotation) is not annotation


class _Place(NamedTuple):
    """Where something stands, put into words only when they are needed: there may be many thousands of places."""

    path: Path
    what: str
    record: Any

    def __str__(self) -> str:
        named = brief(self.record.get("id", "without id")) if isinstance(self.record, dict) else "that is no object"
        return f"{self.path}, {self.what} {named}"


def key_field(record: Any, key: str, where: object) -> Key:
    """An identifier: tools write whole numbers, some write text."""
    value = record.get(key) if isinstance(record, dict) else None
    if isinstance(value, str) or type(value) is int:
        return value
    return reading.field(record, key, int, where)


def read(request: Request, documents: dict[Path, Any]) -> Found:
    """All images of the file, also those without annotation (negatives); several files are splits of one set."""
    splits = [parse(path, data, request.notes) for path, data in documents.items()]
    categories = splits[0].categories
    if any(split.categories != categories for split in splits):
        listed = ", ".join(str(split.path) for split in splits[:5])
        raise Error(f"{request.path} holds {len(splits)} COCO files with different categories; name one: {listed}.")
    ignore = _crowds_are_ignore(request, splits)
    used = {
        annotation["category_id"] for split in splits for annotation in split if not (ignore and is_crowd(annotation))
    }
    labels = {key: name for key, name in categories.items() if key in used}
    names = class_names(labels.values())
    _note_names(request, categories, labels, names)
    of_name = numbers(names)
    values = {key: of_name.get(name, 0) for key, name in categories.items()}
    drawings = []
    for split in splits:
        drawn = _Split(request, split, _photos(request, split.path), values, ignore)
        drawings += [partial(drawn.draw, key) for key in split.images]
    problems = [problem for split in splits for problem in split.problems]
    kept = category_values(request, labels, names)
    return Found(names, drawings, problems, kept, _colours(splits[0], names, kept))


def _colours(parsed: Parsed, names: tuple[str, ...], values: tuple[int, ...] | None) -> tuple[Colour, ...] | None:
    """Those that the file gives, and the palette's for classes without."""
    if not any(name in parsed.colours for name in names):
        return None
    others = Legend.of(names, values).colours
    return tuple(parsed.colours.get(name, other) for name, other in zip(names, others, strict=True))


@dataclass(frozen=True)
class _Split:
    """How the images of a file are drawn. values: of each category. ignore: what crowds are, or else objects."""

    request: Request
    parsed: Parsed
    photos: Photos
    values: dict[Key, int]
    ignore: bool

    def draw(self, key: Key) -> tuple[Path, Labels]:
        image = self.parsed.images[key]
        where = _Place(self.parsed.path, "image", image)
        name = reading.field(image, "file_name", str, where)
        photo = self.photos.find([name, reading.last_part(name)], where)
        size = reading.size_field(image, "height", "width", where) or self.photos.size(photo)
        turn = self.photos.turn(size, photo, where)
        return photo, images.orient(self.painted(key, size, Work(where)), turn)

    def painted(self, key: Key, size: tuple[int, int], work: Work) -> Labels:
        crowds, objects_ = [], []
        for annotation in self.parsed.annotations[key]:
            where = _Place(self.parsed.path, "annotation", annotation)
            covered = covers(annotation, size, where, work, self.request.notes, centres=not self.parsed.ours)
            if covered is not None and self.ignore and is_crowd(annotation):
                crowds.append((IGNORED, covered))
            elif covered is not None:
                objects_.append((self.values[annotation["category_id"]], covered))
        return shapes.paint(size[::-1], crowds + shapes.large_first(objects_), work).T


def _note_names(request: Request, categories: dict[Key, str], labels: dict[Key, str], names: tuple[str, ...]) -> None:
    unused = [name for key, name in categories.items() if key not in labels]
    if unused and names:
        listed = ", ".join(unused[:10])
        request.notes.add(f"{{n}} categories have no annotation and are left out: {listed}", count=len(unused))
    if shared := len(labels) - len(set(labels.values())):
        request.notes.add("{n} categories have the name of another and are one class with it", count=shared)


def category_values(request: Request, categories: dict[Key, str], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """The ids of the categories that are used, where a mask has room for them."""
    ids: dict[str, Any] = {}
    for key, name in categories.items():
        ids.setdefault(name, key)
    values = tuple(ids[name] for name in names)
    if all(isinstance(value, int) and 1 <= value <= LARGEST for value in values):
        return values
    request.notes.add(f"category ids that are not 1 … {LARGEST} are given anew, as 1, 2, …")
    return None


def _crowds_are_ignore(request: Request, splits: list[Parsed]) -> bool:
    """Some programs write every mask as a crowd: where there is nothing else, they are objects."""
    all_ = [annotation for split in splits for annotation in split]
    crowds = sum(map(is_crowd, all_))
    if not crowds:
        return True
    ours = all(split.ours for split in splits)
    others = any(not is_crowd(annotation) and annotation.get("segmentation") for annotation in all_)
    ignore = request.crowds == "ignore" or (request.crowds is None and (others or ours))
    if ignore and not ours:
        hint = "" if request.crowds else '; if they are objects, say --crowds objects (crowds="objects" in Python)'
        request.notes.add(f"{{n}} crowds (iscrowd: 1) are taken as ignore{hint}", count=crowds)
    if not ignore and request.crowds is None:
        hint = 'if they are not, say --crowds ignore (crowds="ignore" in Python)'
        request.notes.add(
            f"{{n}} crowds (iscrowd: 1) are taken for objects, there being no others; {hint}", count=crowds
        )
    return ignore


def is_crowd(annotation: dict[str, Any]) -> bool:
    """Whether an annotation says that it is a crowd, in any of the ways that tools write a truth."""
    return annotation.get("iscrowd") in (1, True, "1", "true", "True")


def _photos(request: Request, path: Path) -> Photos:
    """Beside the file or in images/, or in a folder named like the split: annotations/instances_NAME.json and NAME/."""
    base, split = path.parent, path.stem.removeprefix("instances_")
    if base.name == "annotations":
        base = base.parent
    root = request.path if base.is_relative_to(request.path) else base
    if request.photos is not None:
        root = base = request.photos
    bases = (base, base / "images", base / split, base / "images" / split)
    return Photos(root, bases, request.max_pixels)


def covers(
    annotation: dict[str, Any],
    size: tuple[int, int],
    where: object,
    work: Work,
    notes: reading.Notes,
    *,
    centres: bool = False,
    first_only: bool = False,
) -> Runs | None:
    """The pixels of an annotation, as runs down the columns; None, which is noted, where it has none.

    centres: corners that are whole numbers are pixels. first_only: only the first polygon of the object counts.
    """
    found = []
    parts = _parts(annotation)
    work.spend(_A_PART * len(parts))
    for part in parts:
        if isinstance(part, dict):
            found.append(_run_lengths(part, size, where, work))
        elif (xy := _corners(part, size, where)) is not None:
            if centres and shapes.whole(xy, size):
                notes.add(reading.WHOLE, where)
                found.append(shapes.fill_outline(xy[:, ::-1], size[::-1], work))
            else:
                found.append(shapes.fill_as_coco(xy, size, work))
            if first_only:
                break
    covered = together(found)
    if not parts:
        notes.add("{n} annotations have no mask, only a box, and are left out", where)
    elif not found:
        notes.add("{n} annotations have fewer than 3 corners and are left out", where)
    elif not covered.area:
        notes.add("{n} annotations cover no pixel and are left out", where)
    return covered if covered.area else None


def _parts(annotation: dict[str, Any]) -> list[Any]:
    """Polygons and run lengths; a single one need not be in a list."""
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, dict):
        return [segmentation] if segmentation else []
    if not isinstance(segmentation, list):
        return []
    return [segmentation] if segmentation and isinstance(segmentation[0], (int, float)) else segmentation


def _corners(polygon: Any, size: tuple[int, int], where: object) -> Float | None:
    """(N, 2) of a list x, y, x, y, ... or of pairs; None for fewer than three."""
    if not isinstance(polygon, list) or (polygon and not isinstance(polygon[0], list) and len(polygon) % 2):
        raise Error(f"{where}: a polygon is a list x, y, x, y, ... of even length; draw it again.")
    if not polygon or not isinstance(polygon[0], list):
        polygon = list(zip(polygon[::2], polygon[1::2], strict=True))
    return shapes.vertices(polygon, size, where) if len(polygon) >= 3 else None


def _run_lengths(segmentation: dict[str, Any], size: tuple[int, int], where: object, work: Work) -> Runs:
    if segmentation.get("size") != list(size):
        raise Error(
            f"{where}: its run lengths are for size {brief(segmentation.get('size'))}, its image has {list(size)}."
        )
    counts = segmentation.get("counts")
    work.spend(shapes.A_SHAPE + (8 * len(counts) if isinstance(counts, (str, list)) else 0))
    return counted(_checked(_stated_counts(counts, where), size, where))


def _stated_counts(counts: Any, where: object) -> Ints:
    if isinstance(counts, str):
        return _decompressed(counts.encode("utf-8", "replace"), where)
    try:
        stated = np.asarray(counts, np.float64)
        if stated.ndim == 1 and (stated == np.clip(np.rint(stated), -(2**53), 2**53)).all():
            return stated.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise Error(f"{where}: 'counts' is neither a list of whole numbers nor their compressed text; export it again.")


def _checked(counts: Ints, size: tuple[int, int], where: object) -> Ints:
    """Only counts that fill the image exactly are ever drawn, so that a broken file cannot ask for more memory."""
    pixels = size[0] * size[1]
    if (counts < 0).any() or (counts > pixels).any() or counts.sum() != pixels:
        raise Error(f"{where}: its run lengths do not add up to the {pixels} pixels of its image; export it again.")
    return counts


def _decompressed(text: bytes, where: object) -> Ints:
    """COCO's compressed counts: digits of 5 bits with a continuation bit, signed; from the fourth on, differences."""
    digits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    last = np.flatnonzero((digits & 0x20) == 0)
    lengths = np.diff(last, prepend=-1)
    if not len(digits) or (digits < 0).any() or (digits > 63).any() or last[-1:].sum() != len(digits) - 1:
        raise Error(f"{where}: 'counts' is not COCO's compressed text; export it again.")
    if (lengths > 8).any():
        raise Error(f"{where}: 'counts' holds numbers that no image is large enough for; export it again.")
    place = np.arange(len(digits)) - np.repeat(last - lengths + 1, lengths)
    values = np.add.reduceat((digits & 0x1F) << (5 * place), last - lengths + 1)
    values -= np.where(digits[last] & 0x10, np.int64(1) << (5 * lengths), 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return values


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/coco.json: one annotation per class and photograph, or per part with `instances`; ignore as a crowd.

    The legend's values are the categories' ids, and its colours their `color`, as in COCO's panoptic files.
    """
    path = out / "coco.json"
    # Annotations come after all images in the file, but are known with them: they wait in a file of their own.
    with (
        files.atomic(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
        tempfile.TemporaryFile("w+", dir=out, encoding="utf-8") as waiting,
    ):
        head = {"info": {"description": "dgpnet"}, "licenses": [], "categories": _categories(legend)}
        file.write(json.dumps(head)[:-1] + ', "images": [')
        count = 0
        for number, item in enumerate(items, 1):
            height, width = item.size
            image = {"id": number, "file_name": item.name, "width": width, "height": height}
            file.write(("\n" if number == 1 else ",\n") + json.dumps(image))
            for annotation in _annotations(item, legend, style):
                count += 1
                annotation = {"id": count, "image_id": number, **annotation}
                waiting.write(("\n" if count == 1 else ",\n") + json.dumps(annotation))
        file.write('\n], "annotations": [')
        waiting.seek(0)
        shutil.copyfileobj(waiting, file)
        file.write("\n]}\n")
    return path


def _categories(legend: Legend) -> list[dict[str, Any]]:
    """The classes, then those that were not learned."""
    learned = [
        {"id": value, "name": name, "color": list(colour)}
        for value, name, colour in zip(legend.values, legend.names, legend.colours, strict=True)
    ]
    return learned + [{"id": value, "name": name} for value, name in legend.unused]


def _annotations(item: Item, legend: Legend, style: Style) -> Iterator[dict[str, Any]]:
    for value, patch in objects(item.mask, legend, style):
        height, width = patch.pixels.shape
        crowd = value == images.IGNORE
        annotation: dict[str, Any] = {
            # A crowd needs some category; every reader takes it for ignore.
            "category_id": legend.values[0 if crowd else value - 1],
            "iscrowd": int(crowd),
            "bbox": [patch.left, patch.top, width, height],
            "area": patch.area,
            "segmentation": _outline(patch, style) if style.polygons and not crowd else _encoded(patch, item.size),
        }
        if (score := item.score_of(value)) is not None:
            annotation["score"] = score
        yield annotation


def _outline(patch: Patch, style: Style) -> list[list[float]]:
    return [xy.ravel().round(2).tolist() for xy in style.outlines(patch)]


def _encoded(patch: Patch, size: tuple[int, int]) -> dict[str, Any]:
    height, width = size
    counts = counts_of(patch.turned, (width, height))  # COCO goes down the columns
    return {"size": [height, width], "counts": _compressed(counts).decode()}


def _compressed(counts: Ints) -> bytes:
    """The inverse of `_decompressed`."""
    values = counts.copy()
    values[3:] -= counts[1:-2]
    magnitude = np.where(values < 0, ~values, values)
    lengths = 1 + (magnitude[:, None] >= 1 << (5 * np.arange(1, 8) - 1)).sum(1)  # digits; the highest bit is the sign
    last = np.cumsum(lengths) - 1
    place = np.arange(last[-1] + 1) - np.repeat(last - lengths + 1, lengths)
    digits = np.repeat(values, lengths) >> (5 * place) & 0x1F
    digits += np.where(place < np.repeat(lengths, lengths) - 1, 0x20, 0) + 48
    return bytes(digits.astype(np.uint8))

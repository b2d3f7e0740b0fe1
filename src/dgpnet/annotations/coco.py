"""COCO instances: polygons, run lengths compressed or not, crowds as ignore."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dgpnet import files, images
from dgpnet.annotations import outlines, shapes
from dgpnet.annotations.reading import IGNORED, Found, Photos, class_names, field, numbers, size_field
from dgpnet.annotations.runs import Ints, counts_of, patch_of
from dgpnet.annotations.shapes import Labels, Patch
from dgpnet.annotations.writing import Item, objects
from dgpnet.errors import Error


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and "images" in data and ("annotations" in data or "categories" in data)


def read(path: Path, data: Any, folder: Path | None, max_pixels: int) -> Found:
    """All images of the file, also those without annotation (negatives)."""
    photos = _photos(path, folder, max_pixels)
    labels: dict[Any, str] = {}
    for category in field(data, "categories", list, str(path)):
        where = f"{path}, category {_id(category)}"
        labels[_key(category, "id", where)] = field(category, "name", str, where)
    names = class_names(labels.values())
    values = {key: numbers(names)[label] for key, label in labels.items()}

    records: dict[Any, Any] = {}
    for image in field(data, "images", list, str(path)):
        records[_key(image, "id", f"{path}, image {_id(image)}")] = image
    annotations: dict[Any, list[Any]] = {key: [] for key in records}
    problems = []
    for annotation in field(data, "annotations", list, str(path)):
        where = f"{path}, annotation {_id(annotation)}"
        try:
            image, category = _key(annotation, "image_id", where), _key(annotation, "category_id", where)
            if image not in records:
                raise Error(f"{where}: image_id {image} is none of the file's images; remove it or add the image")
            if category not in labels:
                raise Error(f"{where}: category_id {category} is none of the file's categories; add the category")
            annotations[image].append(annotation)
        except Error as error:
            problems.append(str(error))
    drawings = [partial(_draw, path, photos, records[key], annotations[key], values) for key in records]
    return Found(names, drawings, problems)


def _photos(path: Path, folder: Path | None, max_pixels: int) -> Photos:
    """Beside the file or in images/; COCO's own tree has annotations/instances_NAME.json and NAME/ beside it."""
    if folder is not None:
        return Photos(folder, (folder,), max_pixels)
    root = path.parent
    if root.name == "annotations":
        root = root.parent
        return Photos(root, (root / "images", root / path.stem.removeprefix("instances_"), root), max_pixels)
    return Photos(root, (root, root / "images"), max_pixels)


def _id(record: Any) -> str:
    return str(record.get("id", "without id") if isinstance(record, dict) else "that is no object")


def _key(record: Any, key: str, where: str) -> int | str:
    """An identifier: tools write whole numbers, some write text."""
    if isinstance(record, dict) and isinstance(record.get(key), str):
        return str(record[key])
    return field(record, key, int, where)


def _draw(
    path: Path, photos: Photos, image: Any, annotations: list[Any], values: dict[Any, int]
) -> tuple[Path, Labels]:
    where = f"{path}, image {_id(image)}"
    photo = photos.find([field(image, "file_name", str, where)], where)
    size = size_field(image, "height", "width", where) or photos.size(photo)
    turn = photos.turn(size, photo, where)
    crowds, objects_ = [], []
    for annotation in annotations:
        patch = _patch(annotation, size, f"{path}, annotation {_id(annotation)}")
        if annotation.get("iscrowd"):
            crowds.append((IGNORED, patch))
        else:
            objects_.append((values[annotation["category_id"]], patch))
    return photo, images.orient(shapes.paint(size, crowds + shapes.large_first(objects_)), turn)


def _patch(annotation: Any, size: tuple[int, int], where: str) -> Patch:
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, list) and segmentation:
        counts = _polygon_counts(segmentation, size, where)
    elif isinstance(segmentation, dict):
        if segmentation.get("size") != list(size):
            raise Error(f"{where}: its run lengths are for size {segmentation.get('size')}, its image has {list(size)}")
        counts = _checked(_stated_counts(segmentation, where), size, where)
    else:
        raise Error(f"{where}: it has no mask, only a box; expected polygons or run lengths under 'segmentation'")
    patch = patch_of(counts, size[::-1]).turned  # COCO goes down the columns
    if not patch.pixels.size:
        raise Error(f"{where}: its mask covers no pixel; remove the annotation or draw it again")
    return patch


def _polygon_counts(polygons: list[Any], size: tuple[int, int], where: str) -> Ints:
    """The pixels that COCO's own tools give polygons, all parts together."""
    from pycocotools import mask as pycoco

    flat = []
    for polygon in polygons:
        if not isinstance(polygon, list) or len(polygon) % 2:
            raise Error(f"{where}: a polygon is a list x, y, x, y, ... of even length; draw it again")
        pairs = list(zip(polygon[::2], polygon[1::2], strict=True))
        flat.append(shapes.vertices(pairs, size, where).ravel().tolist())
    return _decompressed(pycoco.merge(pycoco.frPyObjects(flat, *size))["counts"], where)


def _stated_counts(segmentation: dict[str, Any], where: str) -> Ints:
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        return _decompressed(counts.encode(), where)
    try:
        stated = np.asarray(counts)
        if stated.ndim == 1 and stated.dtype.kind in "iu":
            return stated.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    raise Error(f"{where}: 'counts' is neither a list of whole numbers nor their compressed text; export it again")


def _checked(counts: Ints, size: tuple[int, int], where: str) -> Ints:
    """Only counts that fill the image exactly are ever drawn, so that a broken file cannot ask for more memory."""
    pixels = size[0] * size[1]
    if (counts < 0).any() or (counts > pixels).any() or counts.sum() != pixels:
        raise Error(f"{where}: its run lengths do not add up to the {pixels} pixels of its image; export it again")
    return counts


def _decompressed(text: bytes, where: str) -> Ints:
    """COCO's compressed counts: digits of 5 bits with a continuation bit, signed; from the fourth on, differences."""
    digits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    last = np.flatnonzero((digits & 0x20) == 0)
    lengths = np.diff(last, prepend=-1)
    if not len(digits) or (digits < 0).any() or (digits > 63).any() or last[-1:].sum() != len(digits) - 1:
        raise Error(f"{where}: 'counts' is not COCO's compressed text; export it again")
    if (lengths > 8).any():
        raise Error(f"{where}: 'counts' holds numbers that no image is large enough for; export it again")
    place = np.arange(len(digits)) - np.repeat(last - lengths + 1, lengths)
    values = np.add.reduceat((digits & 0x1F) << (5 * place), last - lengths + 1)
    values -= np.where(digits[last] & 0x10, np.int64(1) << (5 * lengths), 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return values


def write(out: Path, classes: Sequence[str], items: Iterable[Item], *, instances: bool, polygons: bool) -> Path:
    """`out`/coco.json: one annotation per class and photograph, or per part with `instances`; ignore as a crowd."""
    path = out / "coco.json"
    categories = [{"id": number, "name": name} for number, name in enumerate(classes, 1)]
    # Annotations come after all images in the file, but are known with them: they wait in a file of their own.
    with (
        files.atomic(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
        tempfile.TemporaryFile("w+", dir=out, encoding="utf-8") as waiting,
    ):
        file.write(f'{{"info": {{"description": "dgpnet"}}, "categories": {json.dumps(categories)}, "images": [')
        count = 0
        for number, item in enumerate(items, 1):
            height, width = item.mask.shape
            image = {"id": number, "file_name": item.name, "width": width, "height": height}
            file.write(("\n" if number == 1 else ",\n") + json.dumps(image))
            for annotation in _annotations(item, len(classes), instances, polygons):
                count += 1
                annotation = {"id": count, "image_id": number, **annotation}
                waiting.write(("\n" if count == 1 else ",\n") + json.dumps(annotation))
        file.write('\n], "annotations": [')
        waiting.seek(0)
        shutil.copyfileobj(waiting, file)
        file.write("\n]}\n")
    return path


def _annotations(item: Item, classes: int, instances: bool, polygons: bool) -> Iterator[dict[str, Any]]:
    for value, patch in objects(item.mask, classes, instances):
        height, width = patch.pixels.shape
        crowd = value == images.IGNORE
        annotation: dict[str, Any] = {
            "category_id": 1 if crowd else value,  # a crowd needs some category; every reader takes it for ignore
            "iscrowd": int(crowd),
            "bbox": [patch.left, patch.top, width, height],
            "area": int(patch.pixels.sum()),
            "segmentation": _outline(patch) if polygons and not crowd else _compressed(patch, item.mask.shape),
        }
        if item.score is not None:
            annotation["score"] = item.score
        yield annotation


def _outline(patch: Patch) -> list[list[float]]:
    return [patch.placed(xy).ravel().tolist() for xy in outlines.polygons(patch.pixels)]


def _compressed(patch: Patch, size: tuple[int, ...]) -> dict[str, Any]:
    from pycocotools import mask as pycoco

    height, width = size
    counts = counts_of(patch.turned, (width, height)).tolist()
    compressed = pycoco.frPyObjects({"counts": counts, "size": [height, width]}, height, width)
    return {"size": [height, width], "counts": compressed["counts"].decode()}

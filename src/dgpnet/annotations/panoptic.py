"""COCO's panoptic format: a JSON file, and a PNG for each photograph whose colours number its segments."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dgpnet import images
from dgpnet.annotations import coco
from dgpnet.annotations.reading import (
    IGNORED,
    Found,
    Photos,
    Request,
    brief,
    class_names,
    field,
    label_field,
    last_part,
    numbers,
    only,
)
from dgpnet.annotations.shapes import Labels
from dgpnet.errors import Error


def recognises(data: Any) -> bool:
    annotations = data.get("annotations") if isinstance(data, dict) else None
    return (
        isinstance(annotations, list)
        and bool(annotations)
        and isinstance(annotations[0], dict)
        and "segments_info" in annotations[0]
    )


def read(request: Request, documents: dict[Path, Any]) -> Found:
    """Every annotated photograph. What no segment covers, and crowds, is ignore."""
    path, data = only(request, documents)
    categories = coco.once(path, data, "categories", "category", request.notes)
    labels = {key: label_field(record, "name", f"{path}, category {brief(key)}") for key, record in categories.items()}
    photographs = coco.once(path, data, "images", "image", request.notes)
    annotations = []
    problems = []
    used = set()
    for annotation in field(data, "annotations", list, path):
        where = (
            f"{path}, annotation of image {brief(annotation.get('image_id')) if isinstance(annotation, dict) else ''}"
        )
        try:
            image = coco.key_field(annotation, "image_id", where)
            if image not in photographs:
                raise Error(f"{where}: it is none of the file's images; remove it or add the image.")
            segments = _segments(annotation, labels, where)
            used |= {category for category in segments.values() if category is not None}
            annotations.append((where, photographs[image], field(annotation, "file_name", str, where), segments))
        except Error as error:
            problems.append(str(error))
    names = class_names(name for key, name in labels.items() if key in used)
    of_name = numbers(names)
    if unused := len(labels) - len(used):
        request.notes.add("{n} categories have no segment and are left out", path, unused)
    values = {key: of_name.get(name, 0) for key, name in labels.items()}
    photos, pictures = _places(request, path)
    drawings = [partial(_Drawing(request, photos, pictures, values), *entry) for entry in annotations]
    return Found(
        names,
        drawings,
        problems,
        coco.category_values(request, {key: labels[key] for key in labels if key in used}, names),
        masks=(path.parent / path.stem, path.parent / "panoptic"),
    )


def _segments(annotation: dict[str, Any], labels: dict[coco.Key, str], where: str) -> dict[int, coco.Key | None]:
    """The category of each segment; None for a crowd."""
    segments: dict[int, coco.Key | None] = {}
    for segment in field(annotation, "segments_info", list, where):
        number, category = field(segment, "id", int, where), coco.key_field(segment, "category_id", where)
        if category not in labels:
            raise Error(f"{where}: category_id {brief(category)} is none of the file's categories; add the category.")
        if not 0 <= number < 1 << 24 or number in segments:
            raise Error(f"{where}: {brief(number)} is no id, or that of two segments; give each one of 0 … 16777215.")
        segments[number] = None if coco.is_crowd(segment) else category
    return segments


def _places(request: Request, path: Path) -> tuple[Photos, Photos]:
    """Where photographs and PNGs may lie: COCO has panoptic_NAME.json, panoptic_NAME/ beside it, and NAME/."""
    name, base = path.stem.removeprefix("panoptic_"), path.parent
    top = base.parent if base.name == "annotations" else base
    pictures = Photos(top, (base / path.stem, base / "panoptic", base), request.max_pixels)
    if request.photos is not None:
        return Photos(request.photos, (request.photos, request.photos / name), request.max_pixels), pictures
    return Photos(top, (top / "images", top / name, top / "images" / name, top), request.max_pixels), pictures


@dataclass(frozen=True)
class _Drawing:
    """Draws a photograph's segments. values: of each category."""

    request: Request
    photos: Photos
    pictures: Photos
    values: dict[coco.Key, int]

    def __call__(
        self, where: str, image: dict[str, Any], name: str, segments: dict[int, coco.Key | None]
    ) -> tuple[Path, Labels]:
        file_name = field(image, "file_name", str, where)
        photo = self.photos.find([file_name, last_part(file_name)], where)
        picture = self.pictures.find([name, last_part(name)], where)
        raw = images.read_mask(picture, photo=photo, max_pixels=self.request.max_pixels)
        if raw.dtype == np.uint32:  # 0xRRGGBB, and a segment's number is R + 256 G + 65536 B
            raw = (raw >> 16) | (raw & 0xFF00) | ((raw & 0xFF) << 16)
        numbers_ = np.array(sorted({0, *segments}), np.int64)
        lookup = np.array([self.value(segments, int(number)) for number in numbers_], np.int16)
        labels = np.empty(raw.shape, np.int16)
        void = False
        for line, drawn in zip(raw, labels, strict=True):  # by rows, to spare memory
            place = np.minimum(np.searchsorted(numbers_, line), len(numbers_) - 1)
            if (unknown := line[numbers_[place] != line]).size:
                raise Error(f"{picture} shows segment {unknown[0]}, which {where} does not list; export both again.")
            drawn[:] = lookup[place]
            void = void or not line.all()
        if void and 0 not in segments:
            self.request.notes.add("{n} photographs have pixels without a segment, which are taken as ignore", where)
        if crowds := sum(category is None for category in segments.values()):
            self.request.notes.add("{n} crowds (iscrowd: 1) are taken as ignore", where, crowds)
        return photo, labels

    def value(self, segments: dict[int, coco.Key | None], number: int) -> int:
        """What to draw for a segment; ignore where there is none, and for crowds."""
        category = segments.get(number)
        return IGNORED if category is None else self.values[category]

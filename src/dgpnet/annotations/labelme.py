"""labelme: one JSON file per photograph, with polygons, rectangles, circles and masks."""

import base64
import binascii
import io
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
from PIL import Image

from dgpnet import files, images
from dgpnet.annotations import shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import (
    Found,
    Notes,
    Photos,
    Request,
    brief,
    class_names,
    field,
    filled,
    label_field,
    last_part,
    numbers,
    size_field,
)
from dgpnet.annotations.runs import Runs
from dgpnet.annotations.shapes import Bool, Labels, Patch, Work
from dgpnet.annotations.writing import Item, Style, name_of, objects, place
from dgpnet.errors import Error

#: Kinds of shapes that enclose nothing.
_OPEN: Final = frozenset({"point", "points", "line", "linestrip"})
#: Kinds whose corners are all given: labelme's polygons and, turned, those of labelme 6 and of X-AnyLabeling.
_OUTLINED: Final = frozenset({"polygon", "oriented_rectangle", "rotation", "quadrilateral"})


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and "shapes" in data


def read(request: Request, documents: dict[Path, Any]) -> Found:
    """Photographs lie beside their file, or where it says, but inside the folder that is read."""
    root = request.path if request.path.is_dir() else request.path.parent
    labels: set[str] = set()
    problems = []
    readable = []
    for path, data in documents.items():
        data.pop("imageData", None)  # the photograph once more, in base64
        try:
            found = [label_field(shape, "label", str(path)) for shape in field(data, "shapes", list, str(path))]
            labels.update(found)
            readable.append(path)
        except Error as error:
            problems.append(str(error))
    names = class_names(sorted(labels))
    values = numbers(names)
    drawings = []
    for path in readable:
        top = root if request.photos is None else request.photos
        photos = Photos(top, (top / path.parent.relative_to(root),), request.max_pixels)
        drawings.append(partial(_draw, request.notes, path, documents[path], photos, values))
    return Found(names, drawings, problems)


def _draw(notes: Notes, path: Path, data: Any, photos: Photos, values: dict[str, int]) -> tuple[Path, Labels]:
    name = field(data, "imagePath", str, path)
    photo = photos.find([name, last_part(name)], path)
    size = size_field(data, "imageHeight", "imageWidth", path) or photos.size(photo)
    turn = photos.turn(size, photo, path)
    work = Work(path)

    def pieces() -> Iterator[tuple[int, Patch | Runs]]:
        for number, shape in enumerate(data["shapes"], 1):
            where = f"{path}, shape {number} ({shape['label']})"
            covered = _covers(shape, size, where, work, notes)
            if covered is not None:
                yield values[shape["label"]], covered

    return photo, images.orient(shapes.paint(size, pieces(), work), turn)


def _kind(shape: Any, where: object) -> str:
    """Files from before 2019 have polygons only and do not say so."""
    return field(shape, "shape_type", str, where) if shape.get("shape_type") is not None else "polygon"


def _covers(shape: Any, size: tuple[int, int], where: object, work: Work, notes: Notes) -> Patch | Runs | None:
    """The pixels of a shape; None, which is noted, where it has none."""
    kind = _kind(shape, where)
    points = field(shape, "points", list, where)
    if kind in _OPEN:
        notes.add("{n} points and lines enclose nothing and are left out", where)
        return None
    if (kind in _OUTLINED and len(points) < 3) or len(points) < 2:
        notes.add("{n} shapes have too few points and are left out", where)
        return None
    covered = _drawn(kind, shape, points, size, where, work, notes)
    if not covered.area:
        notes.add("{n} shapes cover no pixel and are left out", where)
        return None
    return covered


def _drawn(
    kind: str, shape: Any, points: list[Any], size: tuple[int, int], where: object, work: Work, notes: Notes
) -> Patch | Runs:
    if kind == "polygon":
        return filled(shapes.vertices(points, size, where), size, where, work, notes)
    if kind in _OUTLINED or (kind == "rectangle" and len(points) == 4):
        return shapes.fill_polygon(shapes.vertices(points, size, where), size, work)
    if kind == "rectangle":
        corners = shapes.vertices(points, size, where, least=2)
        return shapes.fill_rectangle(corners[0], corners[1], size, work)
    if kind == "mask":
        return _mask_patch(shape, shapes.vertices(points, size, where, least=2), size, where, work)
    if kind == "circle":
        centre, rim = shapes.pairs(points, where, least=2)[:2]  # the rim may well lie outside the photograph
        shapes.vertices([centre], size, where, least=1)
        radius = float(np.hypot(*(rim - centre)))
        return shapes.fill_ellipse(centre, (radius, radius), 0, size, work)
    raise Error(f"{where}: {brief(kind)} is no shape known here; use a polygon, rectangle, circle or mask.")


def _mask_patch(shape: Any, corners: shapes.Float, size: tuple[int, int], where: object, work: Work) -> Patch:
    """A PNG of the box whose first and last pixels are the two points."""
    (left, top), (right, bottom) = np.rint(corners[:2]).astype(int).tolist()
    pixels = _decoded(field(shape, "mask", str, where), size, where, work)
    height, width = pixels.shape
    if abs(bottom - top + 1 - height) > 1 or abs(right - left + 1 - width) > 1:
        raise Error(f"{where}: its mask is {width} x {height} pixels, its box {right - left + 1} x {bottom - top + 1}.")
    if top < 0 or left < 0 or top + height > size[0] or left + width > size[1]:
        raise Error(f"{where}: its mask of {width} x {height} pixels at ({left}, {top}) leaves the photograph.")
    return Patch(top, left, pixels)


def _decoded(text: str, size: tuple[int, int], where: object, work: Work) -> Bool:
    try:
        with Image.open(io.BytesIO(base64.b64decode(text, validate=False)), formats=["PNG"]) as image:
            if image.width > size[1] or image.height > size[0]:
                raise Error(
                    f"{where}: its mask of {image.width} x {image.height} pixels is larger than the photograph."
                )
            work.spend(shapes.A_SHAPE + image.width * image.height / 12)
            pixels: Bool = np.asarray(image.convert("L") if image.mode != "1" else image) > 0
            return pixels
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, binascii.Error) as error:
        if isinstance(error, Error):
            raise
        raise Error(f"{where}: 'mask' is not a PNG in base64; draw it again.") from None


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/labelme/: a JSON file per photograph; one shape per class, or per part with `instances`."""
    folder = out / "labelme"
    files.make_folder(folder)
    taken: set[int] = set()
    for item in items:
        height, width = item.size
        document: dict[str, Any] = {
            "version": "5.5.0",  # of labelme, whose layout this is
            "flags": {},
            "shapes": [
                shape | {"label": name_of(value, legend)}
                for number, (value, patch) in enumerate(objects(item.mask, legend, style), 1)
                for shape in (_polygon_shapes(patch, style, number) if style.polygons else [_mask_shape(patch)])
            ],
            "imagePath": PurePosixPath(item.name).name,
            "imageData": None,
            "imageHeight": height,
            "imageWidth": width,
        }
        with files.atomic(place(folder, item.name, ".json", taken)) as temporary:
            temporary.write_text(json.dumps(document), encoding="utf-8")
    return folder


_EMPTY_SHAPE: Final[dict[str, Any]] = {"group_id": None, "description": "", "flags": {}, "mask": None}


def _polygon_shapes(patch: Patch, style: Style, group: int) -> list[dict[str, Any]]:
    """One polygon per part, in a group that tells labelme that they are one object. Corners are centres of pixels."""
    return [
        _EMPTY_SHAPE | {"shape_type": "polygon", "group_id": group, "points": xy.tolist()}
        for xy in style.outlines(patch, centres=True)
    ]


def _mask_shape(patch: Patch) -> dict[str, Any]:
    height, width = patch.pixels.shape
    png = io.BytesIO()
    Image.fromarray(patch.pixels.astype(np.uint8)).save(png, "PNG")
    corners = [[patch.left, patch.top], [patch.left + width - 1, patch.top + height - 1]]
    return _EMPTY_SHAPE | {"shape_type": "mask", "points": corners, "mask": base64.b64encode(png.getvalue()).decode()}

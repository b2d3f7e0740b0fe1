"""Label Studio: a JSON export with brush strokes, polygons, rectangles and ellipses."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from dgpnet import files, images
from dgpnet.annotations import brush, outlines, shapes
from dgpnet.annotations.reading import IGNORE_LABEL, PHOTO_SUFFIXES, Found, Photos, class_names, field, numbers
from dgpnet.annotations.shapes import Labels, Patch
from dgpnet.annotations.writing import Item, objects
from dgpnet.errors import Error

_LOCAL_FILES = "/data/local-files/?d="


def recognises(data: Any) -> bool:
    tasks = data if isinstance(data, list) else [data]
    return bool(tasks) and isinstance(tasks[0], dict) and isinstance(tasks[0].get("data"), dict)


def read(path: Path, data: Any, folder: Path | None, max_pixels: int) -> Found:
    """Every task with an annotation; the predictions instead in a file without any annotation, like those we write."""
    root = path.parent if folder is None else folder
    photos = Photos(root, (root, root / "images"), max_pixels)
    tasks = data if isinstance(data, list) else [data]
    readable: list[tuple[str, Any, list[Any]]] = []
    problems = []
    labels: set[str] = set()
    annotated = any(isinstance(task, dict) and task.get("annotations") for task in tasks)
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {task.get('id', number) if isinstance(task, dict) else number}"
        try:
            regions = _regions(task, "annotations" if annotated else "predictions", where)
            if regions is not None:
                labels.update(label for region in regions if (label := _label(region, where)) is not None)
                readable.append((where, task, regions))
        except Error as error:
            problems.append(str(error))
    names = class_names(sorted(labels))
    values = numbers(names)
    return Found(names, [partial(_draw, *entry, photos, values) for entry in readable], problems)


def _regions(task: Any, key: str, where: str) -> list[Any] | None:
    """The regions of the task's last version that was not cancelled; None for a task that nobody has done."""
    field(task, "data", dict, where)
    if not task.get(key):
        return None
    versions = field(task, key, list, where)
    valid = [version for version in versions if not (isinstance(version, dict) and version.get("was_cancelled"))]
    return field(valid[-1], "result", list, where) if valid else None


def _label(region: Any, where: str) -> str | None:
    """The region's label; None for what is no labelled region (a choice, a text, a stroke labelled elsewhere)."""
    value = region.get("value") if isinstance(region, dict) else None
    if not isinstance(value, dict):
        return None
    for key, labels in value.items():
        if key.endswith("labels"):
            if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str):
                raise Error(f"{where}: a region has the labels {labels}, expected exactly one; give it one label")
            return labels[0]
    return None


def _draw(where: str, task: Any, regions: list[Any], photos: Photos, values: dict[str, int]) -> tuple[Path, Labels]:
    photo = photos.find(_photo_names(task["data"], where), where)
    labelled = [(label, region) for region in regions if (label := _label(region, where)) is not None]
    sizes = {
        (field(region, "original_height", int, where), field(region, "original_width", int, where))
        for _, region in labelled
    }
    if len(sizes) > 1:
        raise Error(f"{where}: its regions were drawn on different sizes {sorted(sizes)}; draw them on one photograph")
    size = sizes.pop() if sizes else photos.size(photo)
    turn = photos.turn(size, photo, where)
    pieces = []
    for label, region in labelled:
        patch = _patch(region, size, f"{where}, region {region.get('id')} ({label})")
        pieces.append((values[label], patch))
    return photo, images.orient(shapes.paint(size, pieces), turn)


def _photo_names(data: dict[str, Any], where: str) -> list[str]:
    """What the photograph may be called here: Label Studio keeps an address, and puts eight digits before uploads."""
    for address in [data.get("image"), *data.values()]:
        if not isinstance(address, str):
            continue
        name = _name(address)
        if PurePosixPath(name).suffix.lower() in PHOTO_SUFFIXES:
            last = PurePosixPath(name).name
            return list(dict.fromkeys([name, last, re.sub(r"^[0-9a-f]{8}-", "", last)]))
    raise Error(f"{where}: none of its data is the address of a photograph; export a project with images")


def _name(address: str) -> str:
    try:
        url = urlsplit(address)
    except ValueError:
        return address
    if url.query and (local := parse_qs(url.query).get("d")):
        return local[0]
    if url.scheme or address.startswith("/data/"):
        return PurePosixPath(unquote(url.path)).name
    return address


def _patch(region: Any, size: tuple[int, int], where: str) -> Patch:
    if region.get("image_rotation"):
        raise Error(f"{where}: the photograph was rotated in Label Studio; turn it back, or rotate the file itself")
    value = region["value"]
    height, width = size
    scale = np.array([width, height]) / 100  # coordinates are percentages
    if "rle" in value:
        try:
            patch = brush.decode(bytes(field(value, "rle", list, where)), size)
        except (TypeError, ValueError) as error:
            fix = str(error) if isinstance(error, Error) else "its 'rle' is not a list of bytes; export it again"
            raise Error(f"{where}: {fix}") from None
    elif "points" in value:
        patch = shapes.fill_polygon(shapes.vertices(value["points"], size, where, unit=100), size)
    elif "radiusX" in value:
        x, y, across, down = (field(value, key, float, where) for key in ("x", "y", "radiusX", "radiusY"))
        centre = shapes.vertices([(x, y)], size, where, least=1, unit=100)[0]
        radii = (across * scale[0], down * scale[1])
        patch = shapes.fill_ellipse(centre, radii, _rotation(value, where), size)
    elif "width" in value and "height" in value:
        x, y, across, down = (field(value, key, float, where) for key in ("x", "y", "width", "height"))
        corners = np.array([(0, 0), (across, 0), (across, down), (0, down)]) * scale
        angle = np.radians(_rotation(value, where))  # about the corner at x, y
        turned = corners @ np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
        patch = shapes.fill_polygon(shapes.vertices(turned + (x, y) * scale, size, where), size)
    else:
        raise Error(f"{where}: a {region.get('type')} encloses nothing; use a brush, polygon, rectangle or ellipse")
    if not patch.pixels.any():
        raise Error(f"{where}: it covers no pixel; remove it or draw it again")
    return patch


def _rotation(value: Any, where: str) -> float:
    return field(value, "rotation", float, where) if value.get("rotation") is not None else 0.0


def write(out: Path, classes: Sequence[str], items: Iterable[Item], *, instances: bool, polygons: bool) -> Path:
    """`out`/labelstudio.json: a task per photograph, the mask as a prediction for people to correct."""
    path = out / "labelstudio.json"
    with files.atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, item in enumerate(items, 1):
            prediction: dict[str, Any] = {"model_version": "dgpnet", "result": []}
            if item.score is not None:
                prediction["score"] = item.score
            for value, patch in objects(item.mask, len(classes), instances):
                label = classes[value - 1] if value <= len(classes) else IGNORE_LABEL
                for region in _polygons(patch, item, label) if polygons else [_stroke(patch, item, label)]:
                    region["id"] = f"{number}-{len(prediction['result']) + 1}"
                    prediction["result"].append(region)
            task = {"data": {"image": _LOCAL_FILES + quote(item.name)}, "predictions": [prediction]}
            file.write(("\n" if number == 1 else ",\n") + json.dumps(task))
        file.write("\n]\n")
    return path


def _region(item: Item, kind: str, label: str, value: dict[str, Any]) -> dict[str, Any]:
    height, width = item.mask.shape
    return {
        "type": kind,
        "from_name": "label",
        "to_name": "image",
        "original_width": width,
        "original_height": height,
        "image_rotation": 0,
        "value": {**value, kind: [label]},
    }


def _stroke(patch: Patch, item: Item, label: str) -> dict[str, Any]:
    height, width = item.mask.shape
    return _region(item, "brushlabels", label, {"format": "rle", "rle": list(brush.encode(patch, (height, width)))})


def _polygons(patch: Patch, item: Item, label: str) -> Iterator[dict[str, Any]]:
    height, width = item.mask.shape
    for xy in outlines.polygons(patch.pixels):
        percent = patch.placed(xy) * 100 / (width, height)
        yield _region(item, "polygonlabels", label, {"points": percent.tolist(), "closed": True})

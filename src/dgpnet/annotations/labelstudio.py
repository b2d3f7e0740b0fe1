"""Label Studio: a JSON export with brush strokes, polygons, rectangles and ellipses."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from dgpnet import files, images
from dgpnet.annotations import brush, shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import (
    PHOTO_SUFFIXES,
    Found,
    Notes,
    Photos,
    Request,
    brief,
    class_name,
    class_names,
    field,
    numbers,
    only,
    size_field,
)
from dgpnet.annotations.runs import Runs, counted
from dgpnet.annotations.shapes import Labels, Patch, Work
from dgpnet.annotations.writing import Item, Style, attribute, colours_of, name_of, objects
from dgpnet.colours import to_hex
from dgpnet.errors import Error

_LOCAL_FILES = "/data/local-files/?d="
#: Characters in the address of a photograph.
_LONGEST_ADDRESS = 4096


def recognises(data: Any) -> bool:
    tasks = data if isinstance(data, list) else [data]
    return bool(tasks) and isinstance(tasks[0], dict) and (isinstance(tasks[0].get("data"), dict) or _is_min(tasks[0]))


def _is_min(task: dict[str, Any]) -> bool:
    """JSON-MIN: a task's data and its labels side by side, which leaves out what belongs together."""
    return "annotation_id" in task and "annotator" in task


def read(request: Request, documents: dict[Path, Any]) -> Found:
    """Every task with an annotation; the predictions instead in a file without any annotation, like those we write."""
    path, data = only(request, documents)
    tasks = data if isinstance(data, list) else [data]
    if isinstance(tasks[0], dict) and _is_min(tasks[0]):
        raise Error(f"{path} is Label Studio's JSON-MIN; export the project again, as JSON.")
    root = path.parent if request.photos is None else request.photos
    photos = Photos(root, (root, root / "images"), request.max_pixels)
    readable: list[tuple[str, Any, list[Any]]] = []
    problems = []
    labels: set[str] = set()
    annotated = any(isinstance(task, dict) and task.get("annotations") for task in tasks)
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {brief(task.get('id', number)) if isinstance(task, dict) else number}"
        try:
            regions = _regions(task, "annotations" if annotated else "predictions", where, request.notes)
            if regions is not None:
                labels.update(label for region in regions if (label := _label(region, where)) is not None)
                readable.append((where, task, regions))
        except Error as error:
            problems.append(str(error))
    names = class_names(sorted(labels))
    values = numbers(names)
    return Found(names, [partial(_draw, request.notes, *entry, photos, values) for entry in readable], problems)


def _regions(task: Any, key: str, where: object, notes: Notes) -> list[Any] | None:
    """The regions of the task's last version that was not cancelled; None for a task that nobody has done."""
    field(task, "data", dict, where)
    if not task.get(key):
        notes.add("{n} tasks have no annotation and are left out", where)
        return None
    versions = field(task, key, list, where)
    valid = [version for version in versions if not (isinstance(version, dict) and version.get("was_cancelled"))]
    if len(valid) > 1:
        notes.add("{n} tasks were annotated several times; the last annotation counts", where)
    if not valid:
        notes.add("{n} tasks have only cancelled annotations and are left out", where)
    return field(valid[-1], "result", list, where) if valid else None


def _label(region: Any, where: object) -> str | None:
    """The region's label; None for what is no labelled region (a choice, a text, a stroke labelled elsewhere)."""
    value = region.get("value") if isinstance(region, dict) else None
    if not isinstance(value, dict):
        return None
    for key, labels in value.items():
        if key.endswith("labels"):
            if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str):
                raise Error(
                    f"{where}: a region has the labels {brief(labels)}, expected exactly one; give it one label."
                )
            return class_name(labels[0], where)
    return None


def _draw(
    notes: Notes, where: str, task: Any, regions: list[Any], photos: Photos, values: dict[str, int]
) -> tuple[Path, Labels]:
    photo = photos.find(_photo_names(task["data"], where), where)
    return photo, drawn(regions, photo, photos, values, where, notes)


def drawn(regions: list[Any], photo: Path, photos: Photos, values: dict[str, int], where: str, notes: Notes) -> Labels:
    """The regions of an annotation on its photograph as viewers show it.

    values: the value of each label. where: what to call the annotation in an Error. notes: what is left out is told.
    """
    labelled = []
    for region in regions:
        if (label := _label(region, where)) is not None:
            labelled.append((label, region))
        elif isinstance(region, dict) and isinstance(region.get("value"), dict) and encloses(region["value"]):
            notes.add("{n} regions have no label and are left out", where)
    sizes = {size_field(region, "original_height", "original_width", where) for _, region in labelled} - {None}
    if len(sizes) > 1:
        raise Error(f"{where}: its regions were drawn on {len(sizes)} different sizes; draw them on one photograph.")
    size = sizes.pop() if sizes else None
    size = size or photos.size(photo)
    turn = photos.turn(size, photo, where)
    work = Work(where)

    def pieces() -> Iterator[tuple[int, Runs]]:
        for label, region in labelled:
            covered = _covers(region, size, f"{where}, region {brief(region.get('id'))} ({label})", work, notes)
            if covered is not None:
                yield values[label], covered

    return images.orient(shapes.paint(size, pieces(), work), turn)


def _photo_names(data: dict[str, Any], where: object) -> list[str]:
    """What the photograph may be called here: Label Studio keeps an address, and puts eight digits before uploads."""
    for address in [data.get("image"), *data.values()]:
        if not isinstance(address, str) or len(address) > _LONGEST_ADDRESS:
            continue
        for name in _addressed(address):
            if PurePosixPath(name).suffix.lower() in PHOTO_SUFFIXES:
                parts = PurePosixPath(name).parts
                ends = ["/".join(parts[start:]) for start in range(len(parts[:10]))]  # under whatever folder it was
                names = [name, *ends[1:], re.sub(r"^[0-9a-f]{8}-", "", parts[-1])]
                return list(
                    dict.fromkeys(each for way in names for each in (way, unquote(way, errors="surrogateescape")))
                )
    raise Error(f"{where}: none of its data is the address of a photograph; export a project with images.")


def _addressed(address: str) -> list[str]:
    """The path in an address."""
    try:
        url = urlsplit(address)
        if url.query and (local := parse_qs(url.query, errors="surrogateescape").get("d")):
            return local
    except ValueError:
        return [address]
    if url.scheme or address.startswith("/data/"):
        return [PurePosixPath(unquote(url.path, errors="surrogateescape")).name]
    return [address]


def encloses(value: dict[str, Any]) -> bool:
    """Whether a region's value is of a kind that has pixels: not a key point, a choice, a text."""
    return any(key in value for key in ("rle", "points", "radiusX")) or ("width" in value and "height" in value)


def _covers(region: Any, size: tuple[int, int], where: object, work: Work, notes: Notes) -> Runs | None:
    """The pixels of a region; None, which is noted, where it has none."""
    if region.get("image_rotation"):
        raise Error(f"{where}: the photograph was rotated in Label Studio; turn it back, or rotate the file itself.")
    value = region["value"]
    if not encloses(value):
        notes.add("{n} regions enclose nothing (key points, lines) and are left out", where)
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that no photograph has room for, which is told
        covered = shape(value, size, where, work)
    if not covered.area:
        notes.add("{n} regions cover no pixel and are left out", where)
        return None
    return covered


def shape(value: dict[str, Any], size: tuple[int, int], where: object, work: Work) -> Runs:
    """The pixels of a (H, W) photograph that a region's value encloses: a stroke, polygon, rectangle or ellipse."""
    height, width = size
    scale = np.array([width, height]) / 100  # coordinates are percentages
    if "rle" in value:
        work.spend(shapes.A_SHAPE)
        try:
            return brush.decode(bytes(field(value, "rle", list, where)), size, work)
        except (TypeError, ValueError) as error:
            fix = str(error) if isinstance(error, Error) else "its 'rle' is not a list of bytes; export it again."
            raise Error(fix if fix.startswith(str(work.where)) else f"{where}: {fix}") from None
    if "points" in value:
        if len(field(value, "points", list, where)) < 3:
            return counted(np.zeros(0, np.int64))
        return shapes.fill_polygon(shapes.vertices(value["points"], size, where, unit=100), size, work)
    if "radiusX" in value:
        x, y, across, down = (field(value, key, float, where) for key in ("x", "y", "radiusX", "radiusY"))
        centre = shapes.vertices([(x, y)], size, where, least=1, unit=100)[0]
        radii = (across * scale[0], down * scale[1])
        return shapes.fill_ellipse(centre, radii, _rotation(value, where), size, work)
    x, y, across, down = (field(value, key, float, where) for key in ("x", "y", "width", "height"))
    corners = np.array([(0, 0), (across, 0), (across, down), (0, down)]) * scale
    angle = np.radians(_rotation(value, where))  # about the corner at x, y
    turned = corners @ np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
    return shapes.fill_polygon(shapes.vertices(turned + (x, y) * scale, size, where), size, work)


def _rotation(value: Any, where: object) -> float:
    return field(value, "rotation", float, where) if value.get("rotation") is not None else 0.0


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/labelstudio.json: a task per photograph, the mask as a prediction for people to correct; and beside it
    labelstudio.xml, the labelling interface of a project that takes them."""
    path = out / "labelstudio.json"
    ignored = False
    with files.atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, item in enumerate(items, 1):
            ignored = ignored or bool((item.mask == images.IGNORE).any())
            regions = [
                {"id": f"{number}-{position}", **region}
                for position, region in enumerate(regions_of(item, legend, style), 1)
            ]
            prediction: dict[str, Any] = {"model_version": "dgpnet", "result": regions}
            if item.score is not None:
                prediction["score"] = item.score
            address = _LOCAL_FILES + quote(style.prefix + item.name, errors="surrogateescape")
            task = {"data": {"image": address}, "predictions": [prediction]}
            file.write(("\n" if number == 1 else ",\n") + json.dumps(task))
        file.write("\n]\n")
    with files.atomic(path.with_suffix(".xml")) as temporary:
        temporary.write_text(_interface(legend, style, ignored), encoding="utf-8")
    return path


def _interface(legend: Legend, style: Style, ignored: bool) -> str:
    """Label Studio's configuration of a project: what to label, with which tool, in which colours."""
    tool = "PolygonLabels" if style.polygons else "BrushLabels"
    labels = "".join(
        f"    <Label value={attribute(name)} background={attribute(to_hex(colour))}/>\n"
        for name, colour in colours_of(legend, ignored).items()
    )
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <{tool} name="label" toName="image">\n{labels}  </{tool}>\n</View>\n'
    )


def regions_of(
    item: Item, legend: Legend, style: Style, *, from_name: str = "label", to_name: str = "image"
) -> Iterator[dict[str, Any]]:
    """The regions of a mask, as strokes or as polygons. from_name, to_name: tags of the labelling interface."""
    for value, patch in objects(item.mask, legend, style):
        score = item.score_of(value)
        for kind, outline in _polygons(patch, item, style) if style.polygons else [_stroke(patch, item)]:
            yield {
                "type": kind,
                "from_name": from_name,
                "to_name": to_name,
                "original_width": item.size[1],
                "original_height": item.size[0],
                "image_rotation": 0,
                "value": {**outline, kind: [name_of(value, legend)]},
                **({} if score is None else {"score": score}),
            }


def _stroke(patch: Patch, item: Item) -> tuple[str, dict[str, Any]]:
    return "brushlabels", {"format": "rle", "rle": list(brush.encode(patch, item.size))}


def _polygons(patch: Patch, item: Item, style: Style) -> Iterator[tuple[str, dict[str, Any]]]:
    height, width = item.size
    for xy in style.outlines(patch):
        yield "polygonlabels", {"points": (xy * 100 / (width, height)).round(6).tolist(), "closed": True}

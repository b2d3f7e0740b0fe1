"""VGG Image Annotator (VIA), versions 1 to 3: annotations or a whole project as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from dgpnet.annotations import shapes
from dgpnet.annotations.reading import (
    Found,
    Notes,
    Photos,
    Request,
    brief,
    class_name,
    class_names,
    field,
    filled,
    last_part,
    numbers,
    only,
)
from dgpnet.annotations.runs import Runs
from dgpnet.annotations.shapes import Labels, Work
from dgpnet.errors import Error

#: Attributes that name a class, where several could.
_USUAL: Final = ("label", "class", "name", "type", "category")
#: What the class is called where regions have no attributes at all.
_UNNAMED: Final = "object"
#: The shapes of VIA 3 by their number, and the names of their coordinates.
_SHAPES: Final = {
    2: ("rect", ("x", "y", "width", "height")),
    3: ("circle", ("cx", "cy", "r")),
    4: ("ellipse", ("cx", "cy", "rx", "ry")),
    7: ("polygon", ()),
}


@dataclass(frozen=True)
class _Region:
    """shape: VIA 2's shape_attributes. attributes: name -> value, of those that are text."""

    where: str
    shape: dict[str, Any]
    attributes: dict[str, str]


def recognises(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    if "_via_img_metadata" in data or all(key in data for key in ("metadata", "file", "view", "attribute")):
        return True
    first = next(iter(data.values()), None)
    return isinstance(first, dict) and "filename" in first and "regions" in first


def read(request: Request, documents: dict[Path, Any]) -> Found:
    """Photographs with at least one region that encloses something; VIA lists also those that nobody has looked at."""
    path, data = only(request, documents)
    pictures = _third(path, data) if "metadata" in data and "view" in data else _second(path, data)
    attribute = _class_attribute(path, [region for regions in pictures.values() for region in regions])
    if attribute is None:
        request.notes.add(f"regions have no attribute that names a class; all are called {_UNNAMED}", path)
    labels: dict[str, None] = {}
    problems = []
    for region in (region for regions in pictures.values() for region in regions):
        try:
            labels[_label(region, attribute)] = None
        except Error as error:
            problems.append(str(error))
    names = class_names(sorted(labels))
    root = path.parent if request.photos is None else request.photos
    photos = Photos(root, (root, root / "images"), request.max_pixels)
    drawings = []
    for name, regions in pictures.items():
        if regions:
            drawings.append(partial(_draw, request.notes, path, name, regions, attribute, photos, numbers(names)))
        else:
            request.notes.add("{n} photographs have no region and are left out", name)
    return Found(names, [] if problems else drawings, problems)


def _second(path: Path, data: dict[str, Any]) -> dict[str, list[_Region]]:
    """VIA 1 and 2: photograph -> its regions."""
    pictures: dict[str, list[_Region]] = {}
    records = field(data, "_via_img_metadata", dict, path) if "_via_img_metadata" in data else data
    for key, record in records.items():
        where = f"{path}, {brief(key)}"
        name = field(record, "filename", str, where)
        if name in pictures:
            raise Error(f"{where}: the photograph {brief(name)} is there twice; keep one of them.")
        regions = record.get("regions") or []
        regions = list(regions.values()) if isinstance(regions, dict) else field(record, "regions", list, where)
        pictures[name] = [
            _Region(
                f"{where}, region {number}",
                field(region, "shape_attributes", dict, where),
                _texts(region.get("region_attributes")),
            )
            for number, region in enumerate(regions, 1)
        ]
    return pictures


def _third(path: Path, data: dict[str, Any]) -> dict[str, list[_Region]]:
    """VIA 3: the same out of its tables, which point to one another."""
    files, views, attributes = (field(data, key, dict, path) for key in ("file", "view", "attribute"))
    of_view = {}
    for view, record in views.items():
        listed = [str(each) for each in field(record, "fid_list", list, f"{path}, view {brief(view)}")]
        if len(listed) != 1 or listed[0] not in files:
            raise Error(f"{path}, view {brief(view)}: expected one file in it; export a project of photographs.")
        of_view[view] = field(files[listed[0]], "fname", str, f"{path}, file {brief(listed[0])}")
    pictures: dict[str, list[_Region]] = {name: [] for name in of_view.values()}
    if len(pictures) < len(of_view):
        raise Error(f"{path}: a photograph is there twice; keep one of them.")
    for key, record in field(data, "metadata", dict, path).items():
        where = f"{path}, region {brief(key)}"
        view = str(record.get("vid")) if isinstance(record, dict) else ""
        if view not in of_view:
            raise Error(f"{where}: it is of no photograph in the file; export it again.")
        given = field(record, "av", dict, where)
        texts = _texts({_named(attributes, aid): _option(attributes, aid, value) for aid, value in given.items()})
        if coordinates := field(record, "xy", list, where):
            pictures[of_view[view]].append(_Region(where, _third_shape(coordinates, where), texts))
    return pictures


def _named(attributes: dict[str, Any], key: str) -> str:
    attribute = attributes.get(key)
    return str(attribute.get("aname", key)) if isinstance(attribute, dict) else key


def _option(attributes: dict[str, Any], key: str, value: Any) -> Any:
    """What a chosen option is called; a text that was typed is itself."""
    attribute = attributes.get(key)
    options = attribute.get("options") if isinstance(attribute, dict) else None
    return options.get(value, value) if isinstance(options, dict) and isinstance(value, str) else value


def _third_shape(coordinates: list[Any], where: str) -> dict[str, Any]:
    kind, *rest = coordinates
    name, keys = _SHAPES.get(kind, ("line", ())) if isinstance(kind, int) else ("line", ())
    if name == "polygon":
        return {"name": name, "all_points_x": rest[::2], "all_points_y": rest[1::2]}
    if keys and len(rest) != len(keys):
        raise Error(f"{where}: a {name} has {len(keys)} numbers, this one {len(rest)}; draw it again.")
    return {"name": name, **dict(zip(keys, rest, strict=False))}


def _texts(attributes: Any) -> dict[str, str]:
    """Attributes that have a value: a text, or the one box of several that is ticked."""
    found = {}
    for key, value in attributes.items() if isinstance(attributes, dict) else ():
        if isinstance(value, dict):
            ticked = [name for name, on in value.items() if on is True]
            value = ticked[0] if len(ticked) == 1 else None
        if isinstance(value, str) and value.strip():
            found[str(key)] = value.strip()
    return found


def _class_attribute(path: Path, regions: list[_Region]) -> str | None:
    """The attribute that names the class: the only one that all regions have, or one with a usual name."""
    known = {key for region in regions for key in region.attributes}
    if not known:
        return None
    common = {key for key in known if all(key in region.attributes for region in regions)}
    usual = [key for key in _USUAL for each in common or known if each.lower() == key]
    if len(common) == 1:
        return common.pop()
    if usual:
        return next(each for each in common or known if each.lower() == usual[0])
    listed = ", ".join(sorted(known)[:5])
    raise Error(f"{path}: which of the attributes {listed} is the class? Call it 'label', and give it to every region.")


def _label(region: _Region, attribute: str | None) -> str:
    if attribute is None:
        return _UNNAMED
    if attribute not in region.attributes:
        raise Error(f"{region.where}: it has no {brief(attribute)}, which names the class; give it one.")
    return class_name(region.attributes[attribute], region.where)


def _draw(
    notes: Notes,
    path: Path,
    name: str,
    regions: list[_Region],
    attribute: str | None,
    photos: Photos,
    values: dict[str, int],
) -> tuple[Path, Labels]:
    photo = photos.find([name, last_part(name)], path)
    size = photos.size(photo)
    work = Work(f"{path}, {brief(name)}")

    def pieces() -> Iterator[tuple[int, Runs]]:
        for region in regions:
            covered = _covers(region, size, work, notes)
            if covered is not None:
                yield values[_label(region, attribute)], covered

    return photo, shapes.paint(size, pieces(), work)


def _covers(region: _Region, size: tuple[int, int], work: Work, notes: Notes) -> Runs | None:
    """The pixels of a region; None, which is noted, where it has none."""
    kind = region.shape.get("name")
    if kind not in ("polygon", "rect", "circle", "ellipse"):
        notes.add("{n} points and lines enclose nothing and are left out", region.where)
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that no photograph has room for, which is told
        covered = _polygon(region, size, work, notes) if kind == "polygon" else _round_or_box(region, size, work)
    if not covered.area:
        notes.add("{n} regions cover no pixel and are left out", region.where)
        return None
    return covered


def _polygon(region: _Region, size: tuple[int, int], work: Work, notes: Notes) -> Runs:
    x, y = (field(region.shape, key, list, region.where) for key in ("all_points_x", "all_points_y"))
    if len(x) != len(y):
        raise Error(f"{region.where}: it has {len(x)} x and {len(y)} y; draw it again.")
    if len(x) < 3:
        return Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    xy = shapes.vertices(list(zip(x, y, strict=True)), size, region.where)
    return filled(xy, size, region.where, work, notes)


def _round_or_box(region: _Region, size: tuple[int, int], work: Work) -> Runs:
    def number(key: str) -> float:
        return field(region.shape, key, float, region.where)

    if region.shape["name"] == "rect":
        (x, y), (width, height) = (number("x"), number("y")), (number("width"), number("height"))
        corners = shapes.vertices([(x, y), (x + width, y + height)], size, region.where, least=2)
        return shapes.fill_rectangle(corners[0], corners[1], size, work)
    centre = shapes.vertices([(number("cx"), number("cy"))], size, region.where, least=1)[0]
    if region.shape["name"] == "circle":
        return shapes.fill_ellipse(centre, (number("r"), number("r")), 0, size, work)
    turned = np.degrees(number("theta")) if region.shape.get("theta") is not None else 0.0
    return shapes.fill_ellipse(centre, (number("rx"), number("ry")), float(turned), size, work)

"""CVAT for images 1.1: one XML file with masks, polygons, boxes and ellipses."""

import re
import shutil
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from xml.sax.saxutils import escape

import numpy as np

from dgpnet import files, images
from dgpnet.annotations import shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import (
    Found,
    Notes,
    Photos,
    Request,
    class_name,
    class_names,
    filled,
    last_part,
    numbers,
    read_text,
)
from dgpnet.annotations.runs import Runs, counted, counts_of
from dgpnet.annotations.shapes import Labels, Patch, Work
from dgpnet.annotations.writing import Item, Style, attribute, colours_of, name_of, objects
from dgpnet.colours import Colour, from_hex, to_hex
from dgpnet.errors import Error

#: Elements of an image that enclose pixels; others (tags, lines, points) enclose none.
_SHAPES: Final = ("mask", "polygon", "box", "ellipse")
_LINES: Final = ("polyline", "points", "skeleton", "cuboid")


def recognises(path: Path) -> bool:
    """Whether an XML file begins like CVAT's."""
    if path.suffix.lower() != ".xml" or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(4096).decode("utf-8-sig", "replace")
    return re.match(r"\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)*<annotations\b", start, re.DOTALL) is not None


def read(request: Request) -> Found:
    """Every image of the file, also those without a shape (negatives). Photographs lie beside it or in images/."""
    path = request.path
    root = _parsed(path)
    base = path.parent if request.photos is None else request.photos
    photos = Photos(base, (base, base / "images", base / "images" / "default"), request.max_pixels)
    colours = {label.findtext("name") or "": label.findtext("color") or "" for label in root.iterfind("meta//label")}
    pictures = list(root.iterfind("image"))
    drawn = {shape.get("label", "") for image in pictures for shape in image if shape.tag in _SHAPES}
    listed = [name for name in colours if name in drawn]  # in the file's order, and what it does not list
    names = class_names(class_name(name, path) for name in [*listed, *sorted(drawn - colours.keys())])
    if unused := [name for name in colours if name not in drawn]:
        request.notes.add("{n} labels have no shape and are left out", path, len(unused))
    problems = [] if pictures else [f"{path} holds no <image>; export the task as CVAT for images 1.1."]
    values = numbers(names)
    drawings = [partial(_draw, request.notes, path, image, photos, values) for image in pictures]
    return Found(names, drawings, problems, None, _colours(names, colours))


def _colours(names: tuple[str, ...], stated: dict[str, str]) -> tuple[Colour, ...] | None:
    """Those that the file gives, and the palette's for classes without."""
    if not names:
        return None
    others = Legend.of(names).colours
    return tuple(from_hex(stated.get(name, "")) or other for name, other in zip(names, others, strict=True))


def _parsed(path: Path) -> ElementTree.Element:
    text = read_text(path)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # CVAT writes none, and they can make a small file a large one
        raise Error(f"{path} declares its own XML entities, which CVAT's files never do; export it again.")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise Error(f"{path} is not XML ({str(error)[:80]}); export it again.") from None


def _draw(
    notes: Notes, path: Path, image: ElementTree.Element, photos: Photos, values: dict[str, int]
) -> tuple[Path, Labels]:
    name = _text(image, "name", path)
    where = f"{path}, image {name[:80]}"
    photo = photos.find([name, unquote(name, errors="surrogateescape"), last_part(name)], where)
    size = int(_number(image, "height", where)), int(_number(image, "width", where))
    turn = photos.turn(size, photo, where)
    work = Work(where)

    def pieces() -> Iterator[tuple[int, Patch | Runs]]:
        ordered = sorted(image, key=lambda shape: _number(shape, "z_order", where, default=0))
        for number, shape in enumerate(ordered, 1):
            covered = _covers(shape, size, f"{where}, {shape.tag[:20]} {number}", work, notes)
            if covered is not None:
                yield values[_text(shape, "label", where)], covered

    return photo, images.orient(shapes.paint(size, pieces(), work), turn)


def _covers(
    shape: ElementTree.Element, size: tuple[int, int], where: str, work: Work, notes: Notes
) -> Patch | Runs | None:
    """The pixels of a shape; None, which is noted, where it has none."""
    if shape.tag in _LINES:
        notes.add("{n} points and lines enclose nothing and are left out", where)
    if shape.tag not in _SHAPES:
        return None
    covered = _drawn(shape, size, where, work, notes)
    if not covered.area:
        notes.add("{n} shapes cover no pixel and are left out", where)
        return None
    return covered


def _drawn(shape: ElementTree.Element, size: tuple[int, int], where: str, work: Work, notes: Notes) -> Patch | Runs:
    if shape.tag == "mask":
        return _mask_patch(shape, size, where, work)
    if shape.tag == "polygon":
        points = [point.split(",") for point in _text(shape, "points", where).split(";")]
        return filled(shapes.vertices(points, size, where), size, where, work, notes)
    if shape.tag == "box":
        (x0, y0), (x1, y1) = ([_number(shape, key, where) for key in keys] for keys in (("xtl", "ytl"), ("xbr", "ybr")))
        corners = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        turned = _turned(corners, corners.mean(0), _number(shape, "rotation", where, default=0))
        return shapes.fill_polygon(shapes.vertices(turned, size, where), size, work)
    centre = shapes.vertices([[_number(shape, key, where) for key in ("cx", "cy")]], size, where, least=1)[0]
    radii = _number(shape, "rx", where), _number(shape, "ry", where)
    return shapes.fill_ellipse(centre, radii, _number(shape, "rotation", where, default=0), size, work)


def _mask_patch(shape: ElementTree.Element, size: tuple[int, int], where: str, work: Work) -> Patch:
    """Run lengths of a box, row by row, the first of them outside."""
    left, top, width, height = (int(_number(shape, key, where)) for key in ("left", "top", "width", "height"))
    if left < 0 or top < 0 or width < 1 or height < 1 or left + width > size[1] or top + height > size[0]:
        raise Error(f"{where}: its box leaves the photograph of {size[1]} x {size[0]} pixels; export it again.")
    pixels = width * height
    text = _text(shape, "rle", where)
    work.spend(shapes.A_SHAPE + 4 * len(text) + pixels / 12)
    try:
        counts = np.array([int(count) for count in text.split(",")])
    except (ValueError, OverflowError):
        raise Error(f"{where}: 'rle' is not a list of whole numbers; export it again.") from None
    if counts.dtype == object or (counts < 0).any() or (counts > pixels).any() or counts.sum() != pixels:
        raise Error(f"{where}: its run lengths do not add up to the {pixels} pixels of its box; export it again.")
    return Patch(top, left, shapes.paint((height, width), [(1, counted(counts))], work).astype(bool))


def _turned(corners: shapes.Float, centre: shapes.Float, degrees: float) -> shapes.Float:
    """Points (N, 2) turned clockwise on the screen."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turned: shapes.Float = (corners - centre) @ np.array([(cos, sin), (-sin, cos)]) + centre
    return turned


def _text(element: ElementTree.Element, key: str, where: object) -> str:
    value = element.get(key)
    if value is None:
        raise Error(f"{where}: {key!r} is missing; export it again.")
    return value


def _number(element: ElementTree.Element, key: str, where: object, default: float | None = None) -> float:
    if default is not None and element.get(key) is None:
        return default
    text = _text(element, key, where)
    try:
        value = float(text)
        if abs(value) < 2**31:  # false for what is not a number
            return value
    except ValueError:
        pass
    raise Error(f"{where}: {key!r} is {text[:40]!r}, expected a number; export it again.")


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/cvat.xml: a mask per class and photograph, or per part with `instances`; labels with their colours."""
    path = out / "cvat.xml"
    ignored, count = False, 0
    # The labels come first in the file, but whether ignore is one of them is known last.
    with (
        files.atomic(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
        tempfile.TemporaryFile("w+", dir=out, encoding="utf-8") as waiting,
    ):
        for count, item in enumerate(items, 1):
            ignored = ignored or bool((item.mask == images.IGNORE).any())
            height, width = item.size
            waiting.write(f'  <image id="{count - 1}" name={attribute(item.name)} width="{width}" height="{height}">\n')
            waiting.writelines(f"    {shape}\n" for shape in _shapes(item, legend, style))
            waiting.write("  </image>\n")
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n')
        file.write(f"  <meta>\n    <task>\n      <name>dgpnet</name>\n      <size>{count}</size>\n      <labels>\n")
        for name, colour in colours_of(legend, ignored).items():
            file.write(
                f"        <label><name>{_content(name)}</name><color>{to_hex(colour)}</color>"
                "<type>any</type><attributes></attributes></label>\n"
            )
        file.write("      </labels>\n    </task>\n  </meta>\n")
        waiting.seek(0)
        shutil.copyfileobj(waiting, file)
        file.write("</annotations>\n")
    return path


def _content(name: str) -> str:
    """A name as the text of an XML element: that of the attribute which it has to equal."""
    return escape(ElementTree.fromstring(f"<a b={attribute(name)}/>").get("b", ""), {"\r": "&#13;"})


def _shapes(item: Item, legend: Legend, style: Style) -> Iterator[str]:
    for value, patch in objects(item.mask, legend, style):
        label = f'label={attribute(name_of(value, legend))} source="auto" occluded="0" z_order="0"'
        if style.polygons:
            for xy in style.outlines(patch):
                points = ";".join(f"{x:.2f},{y:.2f}" for x, y in xy.tolist())
                yield f'<polygon {label} points="{points}"/>'
        else:
            height, width = patch.pixels.shape
            counts = ", ".join(map(str, counts_of(Patch(0, 0, patch.pixels), (height, width)).tolist()))
            box = f'left="{patch.left}" top="{patch.top}" width="{width}" height="{height}"'
            yield f'<mask {label} rle="{counts}" {box}/>'

"""YOLO-seg: labels/*.txt beside images/, a class number and a polygon in fractions of the photograph per line."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from dgpnet import files, images
from dgpnet.annotations import outlines, shapes
from dgpnet.annotations.reading import (
    Found,
    Photos,
    class_names,
    files_in,
    numbers,
    only_photo,
    photos_by_stem,
    read_text,
    within,
)
from dgpnet.annotations.shapes import Labels
from dgpnet.annotations.writing import Item, make_folder, objects, place
from dgpnet.errors import Error

_LISTS = ("data.yaml", "data.yml", "classes.txt", "labels/classes.txt")


def class_list(folder: Path) -> Path | None:
    """The file that names the classes of a YOLO folder, None where there is none."""
    return next((folder / name for name in _LISTS if (folder / name).is_file()), None)


def read(listing: Path, root: Path, folder: Path | None, max_pixels: int) -> Found:
    """Every labels/ folder below `root`, with photographs at the same place below images/.

    The folders that data.yaml names are not followed: they are often those of another machine.
    """
    text = read_text(listing)
    labels = _yaml_names(text, listing) if listing.suffix != ".txt" else [line.strip() for line in text.splitlines()]
    labels = [label for label in labels if label]
    if not labels:
        raise Error(f"{listing} names no classes; write one per line, or names: [...] in a data.yaml")
    names = class_names(labels)
    values = [numbers(names)[label] for label in labels]
    drawings = []
    found: dict[Path, dict[Path, list[Path]]] = {}  # a folder's photographs are listed once
    for path in files_in(root, [".txt"]):
        parts = path.relative_to(root).parts[:-1]
        if "labels" not in parts or path.name == "classes.txt":
            continue
        last = len(parts) - 1 - parts[::-1].index("labels")
        place_ = root.joinpath(*parts[:last], "images") if folder is None else folder
        if place_ not in found:
            found[place_] = photos_by_stem(place_)
        name = Path(*parts[last + 1 :], path.stem)
        within(root, path.relative_to(root), str(path))
        photos = Photos(root if folder is None else folder, (place_,), max_pixels)
        drawings.append(partial(_draw, path, found[place_].get(name, []), place_ / name, photos, values))
    if not drawings:
        raise Error(f"there is no labels/*.txt beside {listing}; put labels/ and images/ next to it")
    return Found(names, drawings)


def _yaml_names(text: str, path: Path) -> list[str]:
    """`names` of a data.yaml, in any of the ways it is written: [a, b], {0: a, 1: b}, - a, 0: a."""
    lines = [re.sub(r"(^|\s)#.*", "", line).rstrip() for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if re.match(r"names\s*:", line)), None)
    if start is None:
        raise Error(f"{path} has no 'names'; add the class names, as in names: [mug, spoon]")
    rest = lines[start].split(":", 1)[1].strip()
    block = []
    for line in lines[start + 1 :]:
        if line and not line.startswith((" ", "\t", "-", "]", "}")):
            break
        block.append(line.strip())
    if rest:  # in brackets, perhaps over several lines
        inner = " ".join([rest, *block]).strip("[]{} ")
        entries = re.findall(r"(?:[^,'\"]|'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\")+", inner)
    else:
        entries = [line.removeprefix("-") for line in block if line]
    numbered = []
    for position, entry in enumerate(entry.strip() for entry in entries if entry.strip()):
        match = re.match(r"(\d+)\s*:\s*(.*)", entry)
        numbered.append((int(match[1]), match[2]) if match else (position, entry))
    if sorted(number for number, _ in numbered) != list(range(len(numbered))):
        raise Error(f"{path}: 'names' does not number the classes 0, 1, 2, ...; number them so")
    return [_unquoted(name) for _, name in sorted(numbered)]


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _draw(path: Path, candidates: list[Path], expected: Path, photos: Photos, values: list[int]) -> tuple[Path, Labels]:
    photo = only_photo(photos.root, candidates, expected, str(path))
    size = photos.size(photo)
    pieces = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        category, *numbers_ = line.split()
        if len(numbers_) == 4:
            raise Error(f"{where}: it is a box, expected a polygon x y x y x y ...; export for segmentation")
        if not category.isascii() or not category.isdigit() or int(category) >= len(values):
            raise Error(f"{where}: class {category!r} is none of 0..{len(values) - 1}; correct it or name the class")
        if len(numbers_) % 2:
            raise Error(f"{where}: {len(numbers_)} coordinates are not pairs x y; draw it again")
        pairs = list(zip(numbers_[::2], numbers_[1::2], strict=True))
        patch = shapes.fill_polygon(shapes.vertices(pairs, size, where, unit=1), size)
        if not patch.pixels.any():
            raise Error(f"{where}: the polygon covers no pixel; remove it or draw it again")
        pieces.append((values[int(category)], patch))
    return photo, shapes.paint(size, shapes.large_first(pieces))


def write(out: Path, classes: Sequence[str], items: Iterable[Item], *, instances: bool, polygons: bool) -> Path:
    """`out`/yolo/: data.yaml and labels/, for photographs in images/; a line per class, or per part with `instances`.

    The format has polygons only, so `polygons` changes nothing; it has no ignore, which becomes background.
    """
    folder = out / "yolo"
    make_folder(folder / "labels")
    taken: set[Path] = set()
    for item in items:
        height, width = item.mask.shape
        lines = []
        for value, patch in objects(item.mask, len(classes), instances):
            if value != images.IGNORE:
                xy = patch.placed(outlines.single_polygon(patch.pixels)) / (width, height)
                lines.append(f"{value - 1} " + " ".join(f"{number:.7g}" for number in xy.ravel().tolist()))
        with files.atomic(place(folder / "labels", item.name, ".txt", taken)) as temporary:
            temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    names = "".join(f"  {number}: {json.dumps(name)}\n" for number, name in enumerate(classes))
    with files.atomic(folder / "data.yaml") as temporary:
        temporary.write_text(f"path: .\ntrain: images\nval: images\nnames:\n{names}", encoding="utf-8")
    return folder

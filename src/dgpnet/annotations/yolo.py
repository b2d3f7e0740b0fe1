"""YOLO-seg: labels/*.txt beside images/, a class number and a polygon in fractions of the photograph per line."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from dgpnet import files, images
from dgpnet.annotations import shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import (
    MOST_NAMES,
    Found,
    Notes,
    Photos,
    Request,
    brief,
    class_name,
    class_names,
    files_in,
    filled,
    numbers,
    only_photo,
    photos_by_stem,
    read_text,
    within,
)
from dgpnet.annotations.runs import Runs
from dgpnet.annotations.shapes import Float, Labels, Work
from dgpnet.annotations.writing import Item, Style, objects, place
from dgpnet.errors import Error

#: What YAML does not take as it is.
_UNPRINTABLE: Final = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
#: Files that name the classes, the first that is there counts.
_LISTS: Final = ("data.yaml", "data.yml", "classes.txt", "labels/classes.txt")
#: Bytes of a list of classes.
_LARGEST_LIST: Final = 1 << 20
#: Polygons that a photograph may have.
_MOST_LINES: Final = shapes.MOST_WORK // shapes.A_SHAPE


def recognises(path: Path) -> bool:
    """A folder with a list of classes, or that list."""
    if path.is_dir():
        return _class_list(path) is not None
    return path.suffix.lower() in (".yaml", ".yml") or path.name == "classes.txt"


def _class_list(folder: Path) -> Path | None:
    """The file that names the classes of a YOLO folder, None where there is none."""
    return next((folder / name for name in _LISTS if (folder / name).is_file()), None)


def read(request: Request) -> Found:
    """Every labels/ folder below the list of classes, with photographs at the same place below images/.

    The folders that data.yaml names are not followed: they are often those of another machine.
    """
    listing = _class_list(request.path) if request.path.is_dir() else request.path
    root = request.path if request.path.is_dir() else request.path.parent
    if listing is None:
        raise Error(f"{root} has none of {', '.join(_LISTS)}; write the names of the classes there.")
    names_by_number = _listed(root, listing)
    labels = {path: place for path in files_in(root, [".txt"]) if (place := _place(root, path, request.photos))}
    if not labels:
        raise Error(f"There is no labels/*.txt beside {listing}; put labels/ and images/ next to it.")
    problems = []
    used: set[int] = set()
    for path in list(labels):
        try:
            used |= _classes_in(within(root, path.relative_to(root), path))
        except Error as error:
            problems.append(str(error))
            del labels[path]
    names, values = _named(request, names_by_number, used)
    found: dict[Path, dict[Path, list[Path]]] = {}  # a folder's photographs are listed once
    drawings = []
    for path, (place_, name) in labels.items():
        if place_ not in found:
            found[place_] = photos_by_stem(place_)
        photos = Photos(root if request.photos is None else request.photos, (place_,), request.max_pixels)
        if request.photos is not None and name not in found[place_] and len(name.parts) > 1:
            name = Path(*name.parts[1:])  # a folder of photographs need not know of labels/train/
        candidates = found[place_].get(name, [])
        drawings.append(partial(_draw, request.notes, path, candidates, place_ / name, photos, values))
    return Found(names, drawings, problems, _numbers(names, names_by_number))


def _place(root: Path, path: Path, photos: Path | None) -> tuple[Path, Path] | None:
    """The folder of photographs that a file of labels belongs to, and its name there; None for other files."""
    parts = path.relative_to(root).parts[:-1]
    if "labels" not in parts or path.name == "classes.txt":
        return None
    last = len(parts) - 1 - parts[::-1].index("labels")
    folder = root.joinpath(*parts[:last], "images") if photos is None else photos
    return folder, Path(*parts[last + 1 :], path.stem)


def _listed(root: Path, listing: Path) -> list[str]:
    """The names of the classes 0, 1, 2, …"""
    text = read_text(within(root, listing.relative_to(root), listing), _LARGEST_LIST)
    if listing.suffix == ".txt":
        found = [line.strip() for line in text.rstrip().splitlines()]
    else:
        if re.search(r"^kpt_shape\s*:", text, re.MULTILINE):
            raise Error(f"{listing} is of key points (kpt_shape), which are no masks; export for segmentation.")
        found = yaml_names(text, listing)
    if len(found) > MOST_NAMES:
        raise Error(f"{listing} names {len(found)} classes, at most {MOST_NAMES} are read; remove what is not used.")
    if not found:
        raise Error(f"{listing} names no classes; write one per line, or names: [...] in a data.yaml.")
    return [class_name(name, listing) for name in found]


def _classes_in(path: Path) -> set[int]:
    """The classes of a file of labels; what is wrong with it is told when it is drawn."""
    text = read_text(path)
    if (count := text.count("\n")) > _MOST_LINES:
        raise Error(f"{path} has {count} lines, at most {_MOST_LINES} are drawn on a photograph; split it.")
    words = {line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip()}
    return {int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 10}


def _named(request: Request, listed: list[str], used: set[int]) -> tuple[tuple[str, ...], list[int]]:
    """The classes that occur, and the value to draw for each number."""
    names = class_names(name for number, name in enumerate(listed) if number in used)
    if unused := [name for number, name in enumerate(listed) if number not in used]:
        shown = ", ".join(unused[:10])
        request.notes.add(f"{{n}} classes of the list are nowhere and are left out: {shown}", count=len(unused))
    if repeated := len(listed) - len(set(listed)):
        request.notes.add("{n} classes have the name of another and are one class with it", count=repeated)
    of_name = numbers(names)
    return names, [of_name.get(name, 0) for name in listed]


def _numbers(names: tuple[str, ...], listed: list[str]) -> tuple[int, ...]:
    """What stands for each class in a mask: its number, which begins with 0, plus 1."""
    number = {name: position for position, name in reversed(list(enumerate(listed, 1)))}
    return tuple(number[name] for name in names)


def _draw(
    notes: Notes, path: Path, candidates: list[Path], expected: Path, photos: Photos, values: list[int]
) -> tuple[Path, Labels]:
    photo = only_photo(photos.root, candidates, expected, str(path))
    size = photos.size(photo)
    lines = [(number, line) for number, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]
    work = Work(path)
    polygons = []
    for number, line in lines:
        where = f"{path}, line {number}"
        category, *rest = line.split()
        if not category.isascii() or not category.isdigit() or len(category) > 9 or int(category) >= len(values):
            known = f"0..{len(values) - 1}"
            raise Error(f"{where}: class {brief(category)} is none of {known}; correct it or name the class.")
        if len(rest) == 4:
            notes.add("{n} lines are boxes, which are no masks, and are left out", where)
        elif len(rest) % 2:
            raise Error(
                f"{where}: {len(rest)} coordinates are not pairs x y; draw it again, or export it without scores."
            )
        elif len(rest) < 6:
            notes.add("{n} lines have fewer than 3 corners and are left out", where)
        else:
            work.spend(len(rest))
            pairs = list(zip(rest[::2], rest[1::2], strict=True))
            polygons.append((where, values[int(category)], shapes.vertices(pairs, size, where, unit=1)))
    return photo, shapes.paint(size, shapes.large_first(_pieces(notes, polygons, size, work)), work)


def _pieces(
    notes: Notes, polygons: list[tuple[str, int, Float]], size: tuple[int, int], work: Work
) -> Iterator[tuple[int, Runs]]:
    """(value, pixels) of the polygons that have any."""
    for where, value, xy in polygons:
        covered = filled(xy, size, where, work, notes)
        if covered.area:
            yield value, covered
        else:
            notes.add("{n} polygons cover no pixel and are left out", where)


#: A quoted text of YAML, as far as it goes, and what may follow a backslash in double quotes.
_QUOTED: Final = re.compile(r"""\"((?:[^"\\]|\\.)*)\"|'((?:[^']|'')*)'""")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_SHORT: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def yaml_names(text: str, path: Path) -> list[str]:
    """`names` of a data.yaml, in any of the ways it is written: [a, b], {0: a, 1: b}, - a, 0: a."""
    start = re.search(r"^(names|'names'|\"names\")[ \t]*:(?=\s|$)", text, re.MULTILINE)
    if start is None:
        raise Error(f"{path} has no 'names'; add the class names, as in names: [mug, spoon].")
    rest = text[start.end() :]
    # What belongs to it is indented, a list, or closes a bracket; anything else begins another key.
    end = re.search(r"^(?![\s#\-\]}]|$)", rest[rest.find("\n") + 1 :] if "\n" in rest else "", re.MULTILINE)
    value = rest[: rest.find("\n") + 1 + end.start()] if end and "\n" in rest else rest
    opened = re.match(r"(?:\s|#.*)*([\[{])", value)
    try:
        entries = _flow(value, opened.end(), opened[1] == "{") if opened else _block(value)
    except ValueError:
        raise Error(f"{path}: 'names' cannot be read; write it as names: [mug, spoon].") from None
    numbered = [(number if key is None else key, name) for number, (key, name) in enumerate(entries)]
    if sorted(number for number, _ in numbered) != list(range(len(numbered))):
        raise Error(f"{path}: 'names' does not number the classes 0, 1, 2, ...; number them so.")
    return [name for _, name in sorted(numbered)]


def _flow(text: str, at: int, keyed: bool) -> list[tuple[int | None, str]]:
    """Entries in brackets, from behind the first one, over any number of lines."""
    entries: list[tuple[int | None, str]] = []
    while True:
        at = _skipped(text, at)
        if text[at] in "]}":
            return entries
        key, at = _scalar(text, at, ",[]{}") if keyed else (None, at)
        if keyed:
            at = _skipped(text, at)
            if text[at] != ":":
                raise ValueError
            at = _skipped(text, at + 1)
        name, at = _scalar(text, at, ",[]{}")
        entries.append((None if key is None else int(key), name))
        if len(entries) > MOST_NAMES:
            return entries
        at = _skipped(text, at)
        if text[at] == ",":
            at += 1
        elif text[at] not in "]}":
            raise ValueError


def _block(text: str) -> list[tuple[int | None, str]]:
    """Entries a line each, after a dash or a number."""
    entries: list[tuple[int | None, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = re.match(r"""\s*(?:-|(['"]?)(\d{1,9})\1[ \t]*:)(?=\s|$)[ \t]*""", line)
        if found is None:
            raise ValueError
        name, at = _scalar(line, found.end(), "")
        if line[at:].strip() and not line[at:].lstrip().startswith("#"):
            raise ValueError
        entries.append((None if found[2] is None else int(found[2]), name))
    return entries


def _skipped(text: str, at: int) -> int:
    """Where the next character stands that is no space and no comment."""
    found = re.compile(r"(?:\s|(?<=\s)#.*)*").match(text, at)
    at = found.end() if found else at
    if at >= len(text):
        raise ValueError
    return at


def _scalar(text: str, at: int, stops: str) -> tuple[str, int]:
    """The text that begins at `at`, in quotes or plain, and where it ends."""
    if text[at : at + 1] in ("'", '"'):
        found = _QUOTED.match(text, at)
        if found is None:
            raise ValueError
        return (_unescaped(found[1]) if found[1] is not None else found[2].replace("''", "'")), found.end()
    end = at
    while end < len(text) and text[end] != "\n" and text[end] not in stops:
        if stops and text[end] == ":" and text[end + 1 : end + 2] in ("", " ", "\t", "\n", *stops):
            break
        if text[end] == "#" and text[end - 1] in " \t":
            break
        end += 1
    plain = text[at:end].rstrip()
    if not plain or plain[0] in "!&*|>%@`":
        raise ValueError
    return plain, end


def _unescaped(text: str) -> str:
    def written(found: re.Match[str]) -> str:
        digits = found[1] or found[2] or found[3]
        return chr(int(digits, 16)) if digits else _SHORT.get(found[4], found[4])

    joined = _ESCAPE.sub(written, text)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16")  # halves of a character, as JSON has them


def write(out: Path, legend: Legend, items: Iterable[Item], style: Style) -> Path:
    """`out`/yolo/: data.yaml and labels/train/, for photographs in images/train/; a line for each part of a class.

    The format has polygons only, so `polygons` and `instances` change nothing; it has no ignore, which becomes
    background. Corners are centres of pixels, as the programs that read it draw them.
    """
    folder = out / "yolo"
    files.make_folder(folder / "labels" / "train")
    names = _numbered(legend)
    numbers_ = [names.index(name) for name in legend.names]
    taken: set[int] = set()
    for item in items:
        height, width = item.size
        path = place(folder / "labels" / "train", item.name, ".txt", taken, longer=False)
        with files.atomic(path) as temporary, temporary.open("w", encoding="ascii") as file:
            for value, patch in objects(item.mask, legend, style):
                for xy in style.outlines(patch, centres=True) if value != images.IGNORE else ():
                    corners = " ".join(map(_fraction, (xy / (width, height)).ravel().tolist()))
                    file.write(f"{numbers_[value - 1]} {corners}\n")
    listed = "".join(f"  {number}: {_quoted(name)}\n" for number, name in enumerate(names))
    with files.atomic(folder / "data.yaml") as temporary:
        temporary.write_text(f"train: images/train\nval: images/train\nnames:\n{listed}", encoding="utf-8")
    return folder


def _fraction(number: float) -> str:
    """With seven digits, and so much above that programs which read 32 bits and cut off come out on the same pixel."""
    return f"{(math.ceil(number * 1e7) + 1) / 1e7:.7f}"


def _numbered(legend: Legend) -> list[str]:
    """Names of the classes 0, 1, 2, …, in the order of their values: programs want numbers without gaps."""
    names = dict(legend.unused) | dict(zip(legend.values, legend.names, strict=True))
    return [names[value] for value in sorted(names)]


def _quoted(name: str) -> str:
    """A string that JSON and YAML read alike, whatever is in it."""
    return re.sub(_UNPRINTABLE, lambda match: f"\\u{ord(match[0]):04x}", json.dumps(name, ensure_ascii=False))

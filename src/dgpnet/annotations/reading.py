"""What the readers of all formats share: what is asked of them and what they hand over, careful JSON, photographs."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Final, TypeVar

from dgpnet import files, images
from dgpnet.annotations import shapes
from dgpnet.annotations.legend import LARGEST, Legend
from dgpnet.annotations.runs import Runs
from dgpnet.annotations.shapes import Float, Labels, Work
from dgpnet.colours import Colour
from dgpnet.errors import Error, shortened

#: Names that are no classes, in every format that has names; the first two are labelme's customs.
IGNORE_LABEL: Final = "__ignore__"
BACKGROUND_LABELS: Final = frozenset({"_background_", "__background__", "background"})
#: Ignore in masks as readers draw them; they may have more than 254 classes before some are chosen.
IGNORED: Final = -1
#: Classes that a set may name before some are chosen: what the masks that readers draw have room for.
MOST_NAMES: Final = 0x7FFF
#: Characters in the name of a class.
LONGEST_NAME: Final = 200
#: Kinds of characters that no name has: control characters, halves of characters, ends of lines and paragraphs.
_UNWRITABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Bytes of an annotation file that is read at all.
LARGEST_FILE: Final = 512 << 20

#: How the names of photographs end, in lower case.
PHOTO_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".gif", ".bmp", ".ppm", ".pgm"}
    | {".avif", ".jp2", ".heic", ".heif"}
)
#: The note on annotations of photographs that are not there.
ABSENT: Final = "{n} annotated photographs are not here and are left out"
#: The note on outlines that go from pixel to pixel (`shapes.fill_outline`).
WHOLE: Final = "the corners of {n} outlines are whole numbers and taken for pixels, which belong to the shape"

#: Finds a photograph and draws its mask: (H, W) of integers, 0 background, 1..N the reader's names, IGNORED. Raises
#: Error.
Drawing = Callable[[], tuple[Path, Labels]]
T = TypeVar("T")


class NoPhotograph(Error):
    """An annotated photograph is not where photographs are."""


class Notes:
    """What was decided or left out while reading, counted, so that nothing is so in silence: a line for each kind."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: object = "", count: int = 1) -> None:
        """kind: a sentence with the place `{n}` for how often ("{n} shapes cover no pixel and are left out").
        where: the file it was seen in, of which the first is told."""
        before, first = self._kinds.get(kind) or (0, str(where))
        self._kinds[kind] = before + count, first

    def lines(self) -> tuple[str, ...]:
        """A sentence for each kind, in the order in which they were first seen."""
        return tuple(
            shortened(kind.replace("{n}", str(count)) + (f" (first: {first})." if first else "."))
            for kind, (count, first) in self._kinds.items()
        )


@dataclass(frozen=True)
class Request:
    """What is to be read.

    path        a file or a folder
    photos      the folder that photographs' names are relative to, where it is not the annotations' own
    names       for mask folders that name no classes: names for the values (or colours) in order
    crowds      COCO's crowds: "ignore", "objects", or None: objects where a file has nothing else
    max_pixels  larger photographs and masks are refused before they are decoded
    partial     whether annotated photographs that are not there are left out; otherwise they are problems
    notes       where a reader tells what it decided or left out
    """

    path: Path
    photos: Path | None = None
    names: Sequence[str] | None = None
    crowds: str | None = None
    max_pixels: int = images.MAX_PIXELS
    partial: bool = False
    notes: Notes = dataclass_field(default_factory=Notes)


@dataclass(frozen=True)
class Found:
    """What a reader found.

    names      N class names; drawings have the numbers 1 … N for them
    drawings   one per photograph
    problems   what it could not make sense of, a sentence each
    values     N numbers that stand for the classes in the files; None: 1 … N
    colours    N colours that the files give the classes; None: the palette's
    coded_by   "value", or "colour" where the files tell classes by their colours
    masks      files and folders that hold masks and no photographs
    """

    names: tuple[str, ...]
    drawings: Sequence[Drawing]
    problems: Sequence[str] = ()
    values: tuple[int, ...] | None = None
    colours: tuple[Colour, ...] | None = None
    coded_by: str = "value"
    masks: tuple[Path, ...] = ()

    def known_by(self, legend: Legend) -> "Found":
        """The same with the numbers and colours of a legend for classes of its names; others keep theirs, or get the
        next number that is free."""
        told = dict(zip(legend.names, zip(legend.values, legend.colours, strict=True), strict=True))
        taken = set(legend.values)
        own = self.legend(self.names)
        known = []
        for name, value, colour in zip(own.names, own.values, own.colours, strict=True):
            while name not in told and value in taken:
                value = value % LARGEST + 1
            taken.add(value)
            known.append(told.get(name, (value, colour)))
        values, colours = zip(*known, strict=True)
        coded_by = legend.coded_by if told.keys() >= set(self.names) else self.coded_by
        return replace(self, values=values, colours=colours, coded_by=coded_by)

    def legend(self, chosen: Sequence[str]) -> Legend:
        """The chosen classes in their order, with what stands for each; the others are told as unused."""
        values = self.values or tuple(range(1, len(self.names) + 1))
        colours = self.colours or Legend.of(self.names, values).colours
        place = {name: i for i, name in enumerate(self.names)}
        order = [place[name] for name in chosen]
        unused = tuple((values[i], name) for name, i in place.items() if name not in chosen)
        codes = tuple(values[i] for i in order)
        return Legend(tuple(chosen), codes, tuple(colours[i] for i in order), self.coded_by, unused)


@dataclass(frozen=True)
class Photos:
    """Where the photographs that an annotation file names may lie.

    root: nothing outside it is ever opened. bases: folders in it that names may be relative to, tried in order.
    """

    root: Path
    bases: tuple[Path, ...]
    max_pixels: int

    def find(self, names: Sequence[str], where: object) -> Path:
        """The first of `names` that is a file under one of the bases; the first name is the one to speak of."""
        outside: Error | None = None
        for name in names:
            for base in self.bases:
                try:
                    path = within(self.root, base.relative_to(self.root) / name.replace("\\", "/"), where)
                except Error as error:
                    outside = outside or error
                    continue
                if _is_file(path):
                    return path
        if outside is not None:
            raise outside
        places = " or ".join(dict.fromkeys(str(base) for base in self.bases))
        raise NoPhotograph(
            f"{where}: there is no photograph {_brief(names[0], 100)} in {places}; put it there, correct the name, or "
            "say where photographs are with --images (photos= in Python)."
        )

    def size(self, photo: Path) -> tuple[int, int]:
        """(H, W) as viewers show it, refused when it is too large to draw a mask on."""
        return images.photo_size(photo, max_pixels=self.max_pixels)

    def turn(self, annotated: tuple[int, int], photo: Path, where: object) -> int:
        """The EXIF orientation by which a mask drawn at the `annotated` (H, W) has to be turned to lie on the photo.

        1 when it was annotated as viewers show it; checked before anything of that size is allocated.
        """
        shown = self.size(photo)
        if annotated == shown:
            return 1
        orientation = images.orientation(photo, max_pixels=self.max_pixels)
        if annotated == shown[::-1] and orientation >= 5:
            return orientation
        raise Error(
            f"{where}: annotated at {annotated[1]} x {annotated[0]} pixels, but {photo} has {shown[1]} x {shown[0]}; "
            "use the photograph that was annotated."
        )


def within(root: Path, name: str | Path, where: object) -> Path:
    """`files.inside`, saying where the name stands written."""
    try:
        return files.inside(root, name)
    except Error as error:
        raise Error(f"{where}: {error}") from None
    except ValueError:  # half a character, which no file system has
        raise Error(f"{where}: {brief(str(name))} is no name of a file; correct it.") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long to be one
        return False


def files_in(folder: Path, suffixes: Iterable[str]) -> list[Path]:
    """All files below a folder with one of the (lower-case) suffixes, sorted, hidden ones left out."""
    wanted = frozenset(suffixes)
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in wanted
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    )


def photos_by_stem(folder: Path) -> dict[Path, list[Path]]:
    """Photographs below a folder, by their path in it without suffix; with suffix too, for names like a.jpg.png."""
    found: dict[Path, list[Path]] = {}
    for path in files_in(folder, PHOTO_SUFFIXES):
        name = path.relative_to(folder)
        found.setdefault(name.with_suffix(""), []).append(path)
        found.setdefault(name, []).append(path)
    return found


def only_photo(root: Path, candidates: Sequence[Path], expected: Path, where: object) -> Path:
    """The one photograph that belongs to an annotation, known by its name without suffix."""
    if not candidates:
        raise NoPhotograph(
            f"{where}: there is no photograph {expected}.*; put it there, take this file away, or say where "
            "photographs are with --images (photos= in Python)."
        )
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise Error(f"{where}: {names} all have its name in {expected.parent}; keep one of them.")
    return within(root, candidates[0].relative_to(root), where)


def filled(xy: Float, size: tuple[int, int], where: object, work: Work, notes: Notes) -> Runs:
    """The pixels of a polygon (N, 2), by the rule that its corners tell: whole numbers are pixels."""
    if not shapes.whole(xy, size):
        return shapes.fill_polygon(xy, size, work)
    notes.add(WHOLE, where)
    return shapes.fill_outline(xy, size, work)


def last_part(name: str) -> str:
    """The file's own name at the end of a path, written on whatever system."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The content of a regular file of at most so many bytes."""
    try:
        if not path.is_file():
            raise Error(f"{path} is no file that can be read; give the path of an annotation file.")
        if (size := path.stat().st_size) > largest:
            raise Error(f"{path} has {size:,} bytes, at most {largest:,} are read; split it.")
        return path.read_bytes()
    except OSError as error:
        raise Error(f"{path} cannot be read: {error.strerror}; check its permissions.") from None


def read_text(path: Path, largest: int = LARGEST_FILE) -> str:
    """The text of a UTF-8 file."""
    return _text_of(read_bytes(path, largest), path)


def _text_of(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Error(f"{path} is not a text file in UTF-8; export it again.") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json_of(read_bytes(path), path)


def json_of(data: bytes, path: Path) -> Any:
    """What the bytes of the file at `path` hold as JSON."""
    try:
        return json.loads(_text_of(data, path), object_pairs_hook=_once)
    except RecursionError:
        raise Error(f"{path} is nested too deeply to be an annotation file; export it again.") from None
    except Error:
        raise
    except ValueError as error:
        raise Error(f"{path} is not JSON ({error}); export it again.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a key that stands twice would silently be the last of them."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"{brief(twice)} stands twice in one object")
    return found


_KINDS = {dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number"}


def field(record: Any, key: str, kind: type[T], where: object) -> T:
    """record[key], of the kind it should be; whole numbers pass for numbers, infinity, true and false do not."""
    if not isinstance(record, dict):
        raise Error(f"{where}: expected an object with {key!r}, found {type(record).__name__}; export it again.")
    if key not in record:
        raise Error(f"{where}: {key!r} is missing, expected {_KINDS[kind]}; export it again.")
    value = record[key]
    if kind is float and isinstance(value, int):
        value = float(value) if abs(value) < 2**53 else value
    endless = isinstance(value, float) and not math.isfinite(value)
    if not isinstance(value, kind) or isinstance(value, bool) or endless:
        raise Error(f"{where}: {key!r} is {brief(value)}, expected {_KINDS[kind]}; export it again.")
    return value


def size_field(record: Any, height: str, width: str, where: object) -> tuple[int, int] | None:
    """The (H, W) that a record states, None where it states none."""
    if record.get(height) is None or record.get(width) is None:
        return None
    stated = field(record, height, float, where), field(record, width, float, where)
    if not all(side > 0 and side == int(side) for side in stated):
        raise Error(
            f"{where}: {height!r} and {width!r} are {stated}, expected whole numbers of pixels; export it again."
        )
    return int(stated[0]), int(stated[1])


def brief(value: object) -> str:
    """A value out of a file as it may stand in a message: never long, whatever the file holds."""
    return _brief(value, 40)


def _brief(value: object, longest: int) -> str:
    if isinstance(value, (str, bytes, list, dict)) and len(value) > longest:  # its repr could fill the memory
        return (
            f"{type(value).__name__} of length {len(value)}" if not isinstance(value, str) else f"{value[:longest]!r}…"
        )
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number with thousands of digits, a list in a list in a list …
        return type(value).__name__
    return text if len(text) <= longest + 2 else text[:longest] + "…"


def only(request: Request, documents: dict[Path, Any]) -> tuple[Path, Any]:
    """The one file of formats that are not spread over several."""
    if len(documents) > 1:
        listed = ", ".join(str(path) for path in list(documents)[:5])
        raise Error(f"{request.path} holds {len(documents)} annotation files; give the path of one of them: {listed}.")
    return next(iter(documents.items()))


def label_field(record: Any, key: str, where: object) -> str:
    """record[key], which is the name of a class."""
    return class_name(field(record, key, str, where), where)


def class_name(text: str, where: object) -> str:
    """The name of a class, refused where it could not be shown on a line and written again."""
    if not text.strip() or len(text) > LONGEST_NAME or any(unicodedata.category(c) in _UNWRITABLE for c in text):
        raise Error(
            f"{where}: {brief(text)} is no name for a class; use 1 to {LONGEST_NAME} characters that can be printed."
        )
    return text


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels that are classes, each once, in order."""
    names = dict.fromkeys(label for label in labels if label != IGNORE_LABEL and label not in BACKGROUND_LABELS)
    if len(names) > MOST_NAMES:
        raise Error(f"{len(names)} classes are named, at most {MOST_NAMES} are read; remove those that are not used.")
    return tuple(names)


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The value to draw each label with: classes by position, and the labels that are none."""
    return {
        **dict.fromkeys(BACKGROUND_LABELS, 0),
        IGNORE_LABEL: IGNORED,
        **{name: number for number, name in enumerate(names, 1)},
    }

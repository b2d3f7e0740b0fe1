"""What the readers of all formats share: what is asked of them and what they hand over, careful JSON, photographs."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Final, TypeVar

from dgpnet import files, images
from dgpnet.annotations.legend import Colour, Legend
from dgpnet.annotations.shapes import Labels
from dgpnet.errors import Error

# Names that are no classes, in every format that has names; the first two are labelme's customs.
IGNORE_LABEL: Final = "__ignore__"
BACKGROUND_LABELS: Final = frozenset({"_background_", "__background__", "background"})
IGNORED: Final = -1  # ignore in masks as readers draw them; they may have more than 254 classes before some are chosen

PHOTO_SUFFIXES: Final = frozenset(
    (
        ".jpg",
        ".jpeg",
        ".png",
        ".tif",
        ".tiff",
        ".webp",
        ".gif",
        ".bmp",
        ".ppm",
        ".pgm",
        ".avif",
        ".jp2",
        ".heic",
        ".heif",
    )
)

# Finds one photograph and draws its mask: (H, W) int32, 0 background, 1..N the reader's names, IGNORED. Raises Error.
Drawing = Callable[[], tuple[Path, Labels]]
T = TypeVar("T")


class Notes:
    """What was decided or left out while reading, counted, so that nothing is so in silence: a line for each kind."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: str = "", count: int = 1) -> None:
        """kind: a sentence with the place `{n}` for how often ("{n} shapes cover no pixel and are left out").
        where: the file it was seen in, of which the first is told."""
        before, first = self._kinds.get(kind, (0, where))
        self._kinds[kind] = before + count, first

    def lines(self) -> tuple[str, ...]:
        """A sentence for each kind, in the order in which they were first seen."""
        return tuple(
            kind.format(n=count) + (f" (first: {first})." if first else ".")
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
    notes       where a reader tells what it decided or left out
    """

    path: Path
    photos: Path | None = None
    names: Sequence[str] | None = None
    crowds: str | None = None
    max_pixels: int = images.MAX_PIXELS
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
    """

    names: tuple[str, ...]
    drawings: Sequence[Drawing]
    problems: Sequence[str] = ()
    values: tuple[int, ...] | None = None
    colours: tuple[Colour, ...] | None = None
    coded_by: str = "value"

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

    def find(self, names: Sequence[str], where: str) -> Path:
        """The first of `names` that is a file under one of the bases; the first name is the one to speak of."""
        for name in names:
            for base in self.bases:
                path = within(self.root, base.relative_to(self.root) / name.replace("\\", "/"), where)
                if _is_file(path):
                    return path
        places = " or ".join(dict.fromkeys(str(base) for base in self.bases))
        raise Error(f"{where}: there is no photograph {names[0]!r} in {places}; put it there or correct the name")

    def size(self, photo: Path) -> tuple[int, int]:
        """(H, W) as viewers show it, refused when it is too large to draw a mask on."""
        return images.photo_size(photo, max_pixels=self.max_pixels)

    def turn(self, annotated: tuple[int, int], photo: Path, where: str) -> int:
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
            "use the photograph that was annotated"
        )


def within(root: Path, name: str | Path, where: str) -> Path:
    """`files.inside`, saying where the name stands written."""
    try:
        return files.inside(root, name)
    except Error as error:
        raise Error(f"{where}: {error}") from None


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


def only_photo(root: Path, candidates: Sequence[Path], expected: Path, where: str) -> Path:
    """The one photograph that belongs to an annotation, known by its name without suffix."""
    if not candidates:
        raise Error(f"{where}: there is no photograph {expected}.*; put it there or take this file away")
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise Error(f"{where}: {names} all have its name in {expected.parent}; keep one of them")
    return within(root, candidates[0].relative_to(root), where)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Error(f"{path} is not a text file in UTF-8; export it again") from None
    except OSError as error:
        raise Error(f"{path} cannot be read: {error.strerror}; check its permissions") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except RecursionError:
        raise Error(f"{path} is nested too deeply to be an annotation file; export it again") from None
    except Error:
        raise
    except ValueError as error:
        raise Error(f"{path} is not JSON ({error}); export it again") from None


_KINDS = {dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number"}


def field(record: Any, key: str, kind: type[T], where: str) -> T:
    """record[key], of the kind it should be; whole numbers pass for numbers, infinity, true and false do not."""
    if not isinstance(record, dict):
        raise Error(f"{where}: expected an object with {key!r}, found {type(record).__name__}; export it again")
    if key not in record:
        raise Error(f"{where}: {key!r} is missing, expected {_KINDS[kind]}; export it again")
    value = record[key]
    if kind is float and isinstance(value, int):
        value = float(value) if abs(value) < 2**53 else value
    endless = isinstance(value, float) and not math.isfinite(value)
    if not isinstance(value, kind) or isinstance(value, bool) or endless:
        raise Error(f"{where}: {key!r} is {_brief(value)}, expected {_KINDS[kind]}; export it again")
    return value


def size_field(record: Any, height: str, width: str, where: str) -> tuple[int, int] | None:
    """The (H, W) that a record states, None where it states none."""
    if record.get(height) is None or record.get(width) is None:
        return None
    return field(record, height, int, where), field(record, width, int, where)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels that are classes, each once, in order."""
    return tuple(dict.fromkeys(label for label in labels if label != IGNORE_LABEL and label not in BACKGROUND_LABELS))


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The value to draw each label with: classes by position, and the labels that are none."""
    return {
        **dict.fromkeys(BACKGROUND_LABELS, 0),
        IGNORE_LABEL: IGNORED,
        **{name: number for number, name in enumerate(names, 1)},
    }

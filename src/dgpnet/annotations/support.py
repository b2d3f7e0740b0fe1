"""Support sets: whatever format the masks are in, one value comes out."""

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgpnet import checks, images
from dgpnet.annotations import coco, cvat, folder, labelme, labelstudio, panoptic, via, yolo
from dgpnet.annotations.legend import LEGEND_FILE, Legend
from dgpnet.annotations.reading import (
    ABSENT,
    IGNORED,
    MOST_NAMES,
    Found,
    NoPhotograph,
    Request,
    files_in,
    json_of,
    only,
    read_bytes,
    read_json,
    within,
)
from dgpnet.errors import Error, refusal

#: Bytes of a legend.
_LARGEST_LEGEND: Final = 1 << 20
#: What fits into a mask of bytes beside background and ignore.
MOST_CLASSES: Final = 254
#: Pixels that are counted at a time: NumPy makes eight bytes of each.
_COUNTED: Final = 1 << 20
#: Problems after which no more photographs are looked at.
_MOST_PROBLEMS: Final = 100


class ByPath(NamedTuple):
    """A format that is known by a folder or by the name of a file.

    what: to be called by in a message. recognises: whether a path may be that. read: what is asked -> what is there."""

    what: str
    recognises: Callable[[Path], bool]
    read: Callable[[Request], Found]


class ByContent(NamedTuple):
    """A format of JSON files, known by what they hold; `read` takes one or several of them, by their paths."""

    what: str
    recognises: Callable[[Any], bool]
    read: Callable[[Request, dict[Path, Any]], Found]


#: Readers by the names of their formats, asked in this order.
BY_PATH: Final = {
    "folder": ByPath("a folder with images/ and masks/", folder.recognises, folder.read),
    "yolo": ByPath("a YOLO folder with data.yaml or classes.txt, labels/ and images/", yolo.recognises, yolo.read),
    "cvat": ByPath("CVAT's XML for images 1.1", cvat.recognises, cvat.read),
}
BY_CONTENT: Final = {
    "labelme": ByContent("labelme files", labelme.recognises, labelme.read),
    "panoptic": ByContent("a panoptic COCO file", panoptic.recognises, panoptic.read),
    "coco": ByContent("a COCO file", coco.recognises, coco.read),
    "labelstudio": ByContent("a Label Studio JSON export", labelstudio.recognises, labelstudio.read),
    "via": ByContent("a VIA file", via.recognises, via.read),
}
_JSON: Final = ", ".join(reader.what for reader in BY_CONTENT.values())
_KNOWN: Final = ", ".join(reader.what for reader in BY_PATH.values()) + ", " + _JSON


@dataclass(frozen=True)
class Example:
    """A photograph and its mask. The mask is kept compressed, so that hundreds of large ones fit in memory."""

    photo: Path
    size: tuple[int, int]
    packed: bytes

    @classmethod
    def of(cls, photo: Path, mask: NDArray[np.uint8]) -> "Example":
        """mask: (H, W) uint8."""
        height, width = mask.shape
        return cls(photo, (height, width), zlib.compress(mask.tobytes(), 1))

    @property
    def mask(self) -> NDArray[np.uint8]:
        """(H, W) uint8 on the photograph as viewers show it: 0 background, 1..C classes, 255 ignore."""
        return np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.size).copy()


@dataclass(frozen=True)
class SupportSet:
    """Examples to learn from.

    legend: the classes, in the order of the values 1 … C, and what stands for each in the files. format: one of those
    that are registered below. notes: what was decided, skipped or taken as ignore, a sentence each. masks: files and
    folders that hold masks and no photographs.
    """

    legend: Legend
    examples: tuple[Example, ...]
    format: str
    notes: tuple[str, ...] = ()
    masks: tuple[Path, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """C names."""
        return self.legend.names


def read_support(
    path: str | Path,
    *,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    photos: str | Path | None = None,
    crowds: str | None = None,
    max_pixels: int = images.MAX_PIXELS,
    partial: bool = False,
) -> SupportSet:
    """Read a support set; its format is recognised.

    classes: which classes to take, in this order; what else is drawn becomes background. All, where None.
    names: for mask folders that name no classes: names for the values (or colours) in order. Elsewhere they are not
    used, and a note says so.
    crowds: what COCO's crowds are, "ignore" or "objects"; None takes them for objects where a file has nothing else.
    photos: the folder that photographs' names are relative to, where it is not the annotations' own.
    max_pixels: larger photographs and masks are refused before they are decoded.
    partial: leave out annotated photographs that are not there, and say so in the notes; and so with classes that no
    mask of the others shows. By default these are problems.

    Everything wrong with the set is said in one Error. Every class must be shown by a mask; photographs that show
    none are negative examples.
    """
    request = Request(
        Path(checks.path_of("support set", path)),
        None if photos is None else Path(checks.path_of("photographs' folder", photos)),
        None if names is None else checks.names("names", names, MOST_NAMES),
        None if crowds is None else checks.choice("crowds", crowds, coco.CROWDS),
        checks.whole("max_pixels", max_pixels, 1),
        checks.flag("partial", partial),
    )
    wanted = None if classes is None else checks.names("classes", classes, MOST_NAMES)
    path = request.path
    if not os.path.lexists(path):
        raise Error(f"There is no support set at {path}; expected one of: {_KNOWN}.")
    format_, found = _recognised(request)
    if request.names is not None and format_ != "folder":  # which says so by itself where its classes are named
        request.notes.add("the names that were given are not used, those of the file are", path)
    if found.names and (legend := _legend_beside(path)) is not None:
        found = found.known_by(legend)
    chosen = found.names if wanted is None else wanted
    _check_names(path, chosen, found.names)
    number = {name: position for position, name in enumerate(chosen, 1)}
    lookup = np.array([0, *(number.get(name, 0) for name in found.names), 0], np.uint8)
    lookup[IGNORED] = images.IGNORE

    examples: dict[Path, Example] = {}
    problems = list(found.problems)
    shown = np.zeros(256, bool)
    for draw in found.drawings:
        if len(problems) >= _MOST_PROBLEMS:
            break  # a file may hold any number of them, and each takes its time
        try:
            photo, labels = draw()
        except NoPhotograph as error:
            if partial:
                request.notes.add(ABSENT, str(error))
            else:
                problems.append(str(error))
            continue
        except Error as error:
            problems.append(str(error))
            continue
        if photo in examples:
            problems.append(f"{photo} is annotated twice; keep one of its annotations.")
            break
        mask = lookup[labels]
        for first in range(0, len(mask), rows := max(1, _COUNTED // max(1, mask.shape[1]))):
            shown |= np.bincount(mask[first : first + rows].ravel(), minlength=256) > 0
        examples[photo] = Example.of(photo, mask)
    notes = request.notes.lines()
    there = [name for value, name in enumerate(chosen, 1) if shown[value]]
    if partial and not problems and 0 < len(there) < len(chosen):
        return read_support(
            path, classes=there, names=names, photos=photos, crowds=crowds, max_pixels=max_pixels, partial=True
        )
    if not problems:
        problems = _missing(path, chosen, shown, len(examples), notes)
    _refuse(path, problems)
    return SupportSet(found.legend(chosen), tuple(examples.values()), format_, notes, found.masks)


def _legend_beside(path: Path) -> Legend | None:
    """The numbers and colours that `export` wrote beside the annotations; None where it did not."""
    folders = (path, path.parent) if path.is_dir() else (path.parent,)
    for folder_ in folders:
        if (file := folder_ / LEGEND_FILE).is_file():
            within(folder_, LEGEND_FILE, file)
            data = json_of(read_bytes(file, _LARGEST_LEGEND), file)
            return Legend.from_json(data if isinstance(data, dict) else {})
    return None


def _recognised(request: Request) -> tuple[str, Found]:
    for format_, reader in BY_PATH.items():
        if reader.recognises(request.path):
            return format_, reader.read(request)
    if request.path.is_dir():
        return _in_folder(request)
    if request.path.suffix.lower() != ".json":
        raise Error(f"{request.path} is no support set; expected one of: {_KNOWN}.")
    data = read_json(request.path)
    format_found = _format(data)
    if format_found is None:
        raise Error(f"{request.path} is JSON, but none of: {_JSON}; export it as one of these.")
    return format_found, BY_CONTENT[format_found].read(request, {request.path: data})


def _format(data: Any) -> str | None:
    return next((format_ for format_, reader in BY_CONTENT.items() if reader.recognises(data)), None)


def _in_folder(request: Request) -> tuple[str, Found]:
    """The annotation files below a folder; they have to be of one format. Files that are no annotations are left."""
    found: dict[str, dict[Path, Any]] = {}
    problems = []
    for path in files_in(request.path, [".json", ".xml"]):
        try:
            within(request.path, path.relative_to(request.path), path)
            if path.suffix.lower() == ".json":
                data = read_json(path)
                if (format_ := _format(data)) is not None:
                    found.setdefault(format_, {})[path] = data
            elif (format_ := next((f for f, reader in BY_PATH.items() if reader.recognises(path)), None)) is not None:
                found.setdefault(format_, {})[path] = None
        except Error as error:
            problems.append(str(error))
    if not found:
        _refuse(request.path, problems)
        raise Error(f"{request.path} is no support set; expected one of: {_KNOWN}.")
    if len(found) > 1:
        paths = [path for documents in found.values() for path in documents]
        listed = ", ".join(str(path) for path in paths[:5])
        raise Error(f"{request.path} holds {len(paths)} annotation files; give the path of one of them: {listed}.")
    ((format_, documents),) = found.items()
    if format_ in BY_PATH:
        path, _ = only(request, documents)
        return format_, BY_PATH[format_].read(replace(request, path=path))
    read = BY_CONTENT[format_].read(request, documents)
    return format_, replace(read, problems=[*problems, *read.problems])


def _check_names(path: Path, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Error(f"{path} has no class {', '.join(map(str, unknown))}; it has {', '.join(known) or 'none'}.")
    if len(names) > MOST_CLASSES:
        raise Error(f"{path} has {len(names)} classes, at most {MOST_CLASSES} are possible; choose some with classes.")


def _missing(
    path: Path, names: tuple[str, ...], shown: NDArray[np.bool_], examples: int, notes: Sequence[str]
) -> list[str]:
    """What a set without any other fault may still lack."""
    if not examples:
        return [f"{path} holds no annotated photograph; annotate at least one. {' '.join(notes)}".rstrip()]
    there = [name for value, name in enumerate(names, 1) if shown[value]]
    if not there:
        fix = f"paint a class in at least one of {examples}."
        return [f"{path}: no mask shows anything but background; {fix} {' '.join(notes)}".rstrip()]
    absent = [name for name in names if name not in there]
    if absent:
        return [
            f"{path}: no mask shows {', '.join(absent)}; paint it in at least one photograph, "
            f"or choose the other classes: {', '.join(there)}."
        ]
    return []


def _refuse(path: Path, problems: Sequence[str]) -> None:
    if problems:
        count = f"{len(problems)} or more" if len(problems) >= _MOST_PROBLEMS else len(problems)
        raise refusal(f"{path} has {count} problems", problems)

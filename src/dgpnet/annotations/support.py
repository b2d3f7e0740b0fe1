"""Support sets: whatever format the masks are in, one value comes out."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dgpnet import images
from dgpnet.annotations import coco, folder, labelme, labelstudio, yolo
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import IGNORED, Found, Request, files_in, read_json, within
from dgpnet.errors import Error, refusal

_MOST_CLASSES: Final = 254
_KNOWN: Final = (
    "a folder with images/ and masks/, a COCO, labelme or Label Studio JSON file, a folder of labelme files, "
    "or a YOLO folder with data.yaml or classes.txt, labels/ and images/"
)


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

    legend: the classes, in the order of the values 1 … C, and what stands for each in the files. format: folder, coco,
    labelme, yolo or labelstudio. notes: what was decided, skipped or taken as ignore, a sentence each.
    """

    legend: Legend
    examples: tuple[Example, ...]
    format: str
    notes: tuple[str, ...] = ()

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
) -> SupportSet:
    """Read a support set; its format is recognised.

    classes: which classes to take, in this order; what else is drawn becomes background. All, where None.
    names: for mask folders that name no classes: names for the values (or colours) in order.
    crowds: what COCO's crowds are, "ignore" or "objects"; None takes them for objects where a file has nothing else.
    photos: the folder that photographs' names are relative to, where it is not the annotations' own.
    max_pixels: larger photographs and masks are refused before they are decoded.

    Everything wrong with the set is said in one Error. Every class must be shown by a mask; photographs that show
    none are negative examples.
    """
    path = Path(path)
    if classes is not None and (not classes or len(set(classes)) < len(classes)):
        raise Error(f"classes={list(classes)!r}: expected at least one name, each once")
    if not path.exists():
        raise Error(f"there is no support set at {path}; expected {_KNOWN}")
    request = Request(path, None if photos is None else Path(photos), names, crowds, max_pixels)
    format_, found = _recognised(request)
    chosen = found.names if classes is None else tuple(classes)
    _check_names(path, chosen, found.names)
    number = {name: position for position, name in enumerate(chosen, 1)}
    lookup = np.array([0, *(number.get(name, 0) for name in found.names), 0], np.uint8)
    lookup[IGNORED] = images.IGNORE

    examples = []
    problems = list(found.problems)
    shown = np.zeros(256, bool)
    for draw in found.drawings:
        try:
            photo, labels = draw()
        except Error as error:
            problems.append(str(error))
            continue
        mask = lookup[labels]
        shown |= np.bincount(mask.ravel(), minlength=256) > 0
        examples.append(Example.of(photo, mask))
    if not problems:
        problems = _missing(path, chosen, shown, len(examples))
    _refuse(path, problems)
    return SupportSet(found.legend(chosen), tuple(examples), format_, request.notes.lines())


def _recognised(request: Request) -> tuple[str, Found]:
    path, photos, max_pixels = request.path, request.photos, request.max_pixels
    if path.is_dir():
        if folder.recognises(path):
            return "folder", folder.read(request)
        if (listing := yolo.class_list(path)) is not None:
            return "yolo", yolo.read(listing, path, photos, max_pixels)
        documents = [within(path, file.relative_to(path), str(file)) for file in files_in(path, [".json"])]
        return _json(documents, path, photos, max_pixels)
    if path.suffix.lower() in (".yaml", ".yml") or path.name == "classes.txt":
        return "yolo", yolo.read(path, path.parent, photos, max_pixels)
    if path.suffix.lower() == ".json":
        return _json([path], path.parent, photos, max_pixels)
    raise Error(f"{path} is no support set; expected {_KNOWN}")


def _json(paths: list[Path], root: Path, photos: Path | None, max_pixels: int) -> tuple[str, Found]:
    """One COCO or Label Studio file, or any number of labelme files."""
    documents: dict[Path, Any] = {}
    others: list[tuple[str, Path, Any]] = []
    problems: list[str] = []
    for path in paths:
        try:
            data = read_json(path)
        except Error as error:
            problems.append(str(error))
            continue
        if labelme.recognises(data):
            data.pop("imageData", None)  # the photograph once more, in base64
            documents[path] = data
        elif coco.recognises(data):
            others.append(("coco", path, data))
        elif labelstudio.recognises(data):
            others.append(("labelstudio", path, data))
        elif len(paths) == 1:
            problems.append(
                f"{path} is neither COCO (images, annotations, categories) nor labelme (shapes) nor a Label Studio "
                "JSON export (a list of tasks with data and annotations); export it in one of these formats"
            )
    if documents and not others:
        found = labelme.read(documents, root, photos, max_pixels)
        return "labelme", Found(found.names, found.drawings, [*problems, *found.problems])
    _refuse(root, problems)
    if len(others) + bool(documents) > 1:
        raise Error(f"{root} holds {len(others) + len(documents)} annotation files; give the path of one of them")
    if not others:
        raise Error(f"{root} is no support set; expected {_KNOWN}")
    format_, path, data = others[0]
    read = coco.read if format_ == "coco" else labelstudio.read
    return format_, read(path, data, photos, max_pixels)


def _check_names(path: Path, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Error(f"{path} has no class {', '.join(unknown)}; it has {', '.join(known) or 'none'}")
    if len(names) > _MOST_CLASSES:
        raise Error(f"{path} has {len(names)} classes, at most {_MOST_CLASSES} are possible; choose some with classes")


def _missing(path: Path, names: tuple[str, ...], shown: NDArray[np.bool_], examples: int) -> list[str]:
    """What a set without any other fault may still lack."""
    if not examples:
        return [f"{path} holds no annotated photograph; annotate at least one"]
    there = [name for value, name in enumerate(names, 1) if shown[value]]
    if not there:
        return [f"{path}: no mask shows anything but background; paint a class in at least one of {examples}"]
    absent = [name for name in names if name not in there]
    if absent:
        return [
            f"{path}: no mask shows {', '.join(absent)}; paint it in at least one photograph, "
            f"or choose the other classes: {', '.join(there)}"
        ]
    return []


def _refuse(path: Path, problems: Sequence[str]) -> None:
    if problems:
        raise refusal(f"{path} has {len(problems)} problems", problems)

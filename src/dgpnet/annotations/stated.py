"""classes.json: what the values or colours of masks are called. One reading for every command."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dgpnet.annotations.labelmap import read_labelmap
from dgpnet.annotations.painted import DEEP_WHITE
from dgpnet.annotations.reading import BACKGROUND_LABELS, IGNORE_LABEL, Notes, brief, read_text, within
from dgpnet.colours import from_hex, packed
from dgpnet.errors import Error

#: A list of names has no more bytes.
_LARGEST: Final = 1 << 20
#: Values or colours that can be named.
_MOST: Final = 4096
_EXAMPLE: Final = '{"1": "mug"} or {"mug": 1}, and for colours {"mug": [255, 0, 0]} or {"mug": "#ff0000"}'
#: Labels that are no classes, and may stand for several values.
NO_CLASS: Final = BACKGROUND_LABELS | {IGNORE_LABEL}


@dataclass(frozen=True)
class Stated:
    """What a file states of masks. coded_by: "value" or "colour". labels: value or 0xRRGGBB -> label, in order."""

    file: str
    coded_by: str
    labels: dict[int, str]


def read_stated(root: Path, notes: Notes) -> Stated | None:
    """classes.json, or else labelmap.txt, in a folder; None where there is neither. Links out of it are refused."""
    classes, colours = _guarded(root, "classes.json"), _guarded(root, "labelmap.txt")
    if classes is not None:
        if colours is not None:
            notes.add("labelmap.txt is not used, classes.json is", str(root))
        return _of_classes(classes)
    if colours is None:
        return None
    return Stated(str(colours), "colour", _once(colours, list(read_labelmap(colours, read_text(colours)).items())))


def _guarded(root: Path, name: str) -> Path | None:
    """The file, if there is one that may be read."""
    path = root / name
    if not path.exists() and not path.is_symlink():
        return None
    within(root, name, str(path))
    if not path.is_file():
        raise Error(f"{path} is no file; take it away, or write {_EXAMPLE} into a file of this name.")
    if path.stat().st_size > _LARGEST:
        raise Error(f"{path} has more than {_LARGEST:,} bytes, which is no list of classes; write {_EXAMPLE}.")
    return path


def _of_classes(path: Path) -> Stated:
    """A list of names, or names to values or colours, either way round."""
    entries = _entries(path)
    codes = [(_code(value), label) for value, label in entries]
    if len({code[0] for code, _ in codes if code}) > 1:
        raise Error(f"{path} mixes values and colours; give every class a value, or every class a colour.")
    pairs = [(code[1], label) for code, label in codes if code]
    coded_by = next(code[0] for code, _ in codes if code)
    if coded_by == "value":
        pairs = sorted((code, label) for code, label in pairs if code or label not in BACKGROUND_LABELS)
    labels = _once(path, pairs)
    if coded_by == "value" and 0 in labels:
        raise Error(f"{path} gives {brief(labels[0])} the value 0, which is background; give it a number from 1.")
    return Stated(str(path), coded_by, labels)


def _entries(path: Path) -> list[tuple[Any, str]]:
    """(value or colour, label) as written."""
    try:
        data = json.loads(read_text(path), object_pairs_hook=lambda pairs: pairs)
    except RecursionError:
        raise Error(f"{path} is nested too deeply to be a list of classes; write {_EXAMPLE}.") from None
    except Error:
        raise
    except ValueError as error:
        raise Error(f"{path} is not JSON ({error}); write {_EXAMPLE}.") from None
    listed = isinstance(data, list) and bool(data)
    if listed and all(isinstance(entry, str) for entry in data):
        return list(enumerate(data, 0 if data[0] in BACKGROUND_LABELS else 1))
    if not listed or not all(isinstance(entry, tuple) and len(entry) == 2 for entry in data):
        raise Error(f'{path} names no classes; write {_EXAMPLE}, or a list ["mug", "spoon"].')
    return [_sides(path, *entry) for entry in data]


def _sides(path: Path, key: str, value: Any) -> tuple[Any, str]:
    """Which side of an entry is the label, and which the value or colour."""
    number = int(key) if key.isascii() and key.isdecimal() and len(key) < 9 else key
    if isinstance(value, str) and _code(number):
        return number, value
    if _code(value):
        return value, key
    raise Error(f"{path}: {brief(key)} has no value 0 to {DEEP_WHITE} and no colour; write {_EXAMPLE}.")


def _code(value: Any) -> tuple[str, int] | None:
    """("value", n) or ("colour", 0xRRGGBB)."""
    if type(value) is int and 0 <= value <= DEEP_WHITE:
        return "value", value
    if isinstance(value, str) and (colour := from_hex(value)) is not None:
        return "colour", packed(colour)
    if isinstance(value, list) and len(value) == 3 and all(type(v) is int and 0 <= v <= 255 for v in value):
        return "colour", packed((value[0], value[1], value[2]))
    return None


def _once(path: Path, pairs: list[tuple[int, str]]) -> dict[int, str]:
    """Each value once, and each class."""
    codes = Counter(code for code, _ in pairs)
    names = Counter(label for _, label in pairs if label not in NO_CLASS)
    for code, label in pairs:
        if not label.strip():
            raise Error(f"{path} has a class without a name; name it.")
        if codes[code] > 1:
            raise Error(f"{path} gives {brief(label)} a value or colour that another has; give each its own.")
        if names[label] > 1:
            raise Error(f"{path} names {brief(label)} {names[label]} times; give each class one value or colour.")
    if len(pairs) > _MOST:
        raise Error(f"{path} has {len(pairs)} entries, more than the {_MOST} that are possible; leave some out.")
    if not names:
        raise Error(f"{path} names no classes but background; write {_EXAMPLE}.")
    return dict(pairs)

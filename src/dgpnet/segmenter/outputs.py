"""What a job writes besides masks: connected parts, annotations in other formats, and what is put aside, not lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations import Item, export, outlines
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.shapes import Patch
from dgpnet.files import atomic, file_digest
from dgpnet.images import IGNORE, RUNS, encoded, read_mask
from dgpnet.places import Place
from dgpnet.segmenter.options import Options
from dgpnet.segmenter.photographs import RECORD


def parts(mask: NDArray[np.uint8], min_area: int = 0) -> list[tuple[int, Patch]]:
    """(class, part) of every connected part of a mask (H, W) with at least `min_area` pixels, the largest first."""
    shown = [value for value in np.flatnonzero(np.bincount(mask.ravel(), minlength=256)) if value not in (0, IGNORE)]
    found = [(int(value), part) for value in shown for part in outlines.parts(mask == value)]
    sized = [(part.area, value, part) for value, part in found]
    sized.sort(key=lambda one: -one[0])
    return [(value, part) for area, value, part in sized if area >= min_area]


def numbered(several: Iterable[tuple[int, Patch]], size: tuple[int, int]) -> NDArray[np.uint16]:
    """Parts numbered from 1 in a picture (H, W), 0 elsewhere; those beyond 65,535 stay 0."""
    numbers = np.zeros(size, dtype=np.uint16)
    for number, (_, part) in zip(range(1, 1 << 16), several, strict=False):
        place = numbers[part.top :, part.left :][: part.pixels.shape[0], : part.pixels.shape[1]]
        place[part.pixels] = number
    return numbers


def counts(several: Sequence[tuple[int, Patch]], classes: int) -> tuple[int, ...]:
    """How many parts each class has."""
    return tuple(np.bincount([value for value, _ in several], minlength=classes + 1)[1:].tolist())


def grey(values: NDArray[np.uint8] | NDArray[np.uint16]) -> bytes:
    """The bytes of a grey PNG of values (H, W)."""
    return encoded(Image.fromarray(values), "PNG", **RUNS)


def write_grey(path: Path, values: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Values (H, W) as a grey PNG."""
    with atomic(path) as temporary:
        temporary.write_bytes(grey(values))


def write_annotations(
    out: Place, stage: Path, legend: Legend, items: Iterator[Item], format: str, options: Options
) -> tuple[str, list[str]]:
    """The masks in another format, below annotations/; returns what was written, and what was put aside, in sentences.

    Written to `stage` first, so that a file that somebody edited since is known: where there is something new to write
    in its place it is put aside, otherwise it stays.
    """
    path = export(
        format,
        stage,
        legend,
        items,
        instances=options.instances,
        polygons=options.polygons,
        simplify=options.simplify,
        prefix=options.prefix,
    )
    files = {one.relative_to(stage).as_posix(): one for one in sorted(stage.rglob("*")) if one.is_file()}
    now = {name: file_digest(file) for name, file in files.items()}
    ours = _recorded(out, now)
    notes = []
    for name, file in files.items():
        target, known = f"annotations/{name}", ours.get(name, [])
        with out.reading(target) as there:
            edited = there is not None and file_digest(there) not in (*known, now[name])
            intact = there is not None and edited and _is_whole(there)
        if edited:
            if intact and known[-1:] == [now[name]]:
                notes.append(f"{target} was edited by hand and is left as it is.")
                continue
            what = "was edited by hand" if intact else "is damaged"
            notes.append(f"{target} {what}; it is kept as {out.aside(target)}.")
        out.take(file, target)
    return f"annotations/{path.relative_to(stage).as_posix()}", notes


def _recorded(out: Place, now: Mapping[str, str]) -> dict[str, list[str]]:
    """File -> digests of what was written there before, in order; what is about to be is recorded first."""
    journal = out.journal(f"{RECORD}/annotations.jsonl")
    ours: dict[str, list[str]] = {}
    for line in journal.records():
        ours.setdefault(str(line.get("file")), []).append(str(line.get("digest")))
    new = [{"file": name, "digest": digest} for name, digest in now.items() if ours.get(name, [])[-1:] != [digest]]
    if new:
        with journal:
            journal.add(*new)
    return ours


def without_small(mask: NDArray[np.uint8], min_area: int) -> NDArray[np.uint8]:
    """A mask (H, W) without the parts that have fewer than `min_area` pixels."""
    kept = np.where(mask == IGNORE, mask, 0).astype(np.uint8)
    for value, part in parts(mask, min_area):
        place = kept[part.top :, part.left :][: part.pixels.shape[0], : part.pixels.shape[1]]
        place[part.pixels] = value
    return kept


def _is_whole(path: Path) -> bool:
    """Whether a file may be a person's edit: not one that is empty, or no longer the JSON or picture that it was."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".png":
            read_mask(path)
        return path.stat().st_size > 0
    except (ValueError, RecursionError):  # an Error is one
        return False

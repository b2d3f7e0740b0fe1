"""Anybody's photographs: a folder of photographs and masks, or a COCO file; or a folder of many such sets.

What masks mean is read as `dgpnet segment` reads it, `annotations.folder`; here they get a label each, 1 … 254.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations import folder as pictures
from dgpnet.annotations.codes import Meaning
from dgpnet.annotations.folder import Masks
from dgpnet.annotations.painted import Shown
from dgpnet.annotations.reading import Photos, Request
from dgpnet.data.coco import read_coco
from dgpnet.data.dataset import IDS_OF_A_SET, LABELS, Dataset, Files, Pair, check_fold, files_fingerprint, in_fold
from dgpnet.data.parallel import parallel_map
from dgpnet.data.scan import count_pixels, pairs_of
from dgpnet.errors import Error, refusal
from dgpnet.files import atomic, cache_folder
from dgpnet.images import IGNORE, MAX_PIXELS

#: Foreground pixels of a pair: own sets have smaller photographs and objects than the benchmarks.
MIN_PIXELS = 16 * 16
#: Masks that are looked at sooner than further processes are started.
FEW = 256


@dataclass(frozen=True)
class Reading:
    """How one mask becomes labels. labels: of the numbers that its meaning draws, 0 … N, and last of IGNORED."""

    meaning: Meaning
    labels: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Whether the file has the labels as its values already."""
        drawn = {code: self.labels[number] for code, number in self.meaning.labels.items()}
        return self.meaning.plain and all(code == label for code, label in drawn.items())


class Pictures(Files):
    """Photographs and masks of any kind that are files under one folder; readings: one for each."""

    def __init__(
        self,
        name: str,
        root: Path,
        files: Sequence[tuple[str, str]],
        classes: dict[int, str],
        readings: Sequence[Reading],
        notes: Sequence[str],
    ) -> None:
        super().__init__(name, root, files, classes, [], notes=notes)
        self.readings = list(readings)

    def mask(self, i: int) -> NDArray[np.uint8]:
        photo, mask = (self.root / name for name in self.files[i])
        reading = self.readings[i]
        drawn = pictures.draw(mask, photo, reading.meaning, Photos(self.root, (), MAX_PIXELS))
        labels: NDArray[np.uint8] = np.array(reading.labels, np.uint8)[drawn]
        return labels

    def fingerprint(self) -> str:
        if all(reading.plain for reading in self.readings):
            return super().fingerprint()
        told = repr([(r.meaning.by_colour, sorted(r.meaning.labels.items()), r.meaning.anchors) for r in self.readings])
        return hashlib.sha256(f"{super().fingerprint()}{told}".encode()).hexdigest()


def folder(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "train",
    folds: int = 4,
    min_pixels: int = MIN_PIXELS,
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Dataset:
    """The sets below root as one dataset; classes stay local to their set and are named `set/class`.

    Fold i tests classes i, i + folds, ... (in the order of sets and numbers) and trains the others; no fold is all.
    """
    root = Path(root)
    check_fold("folder", fold, split, folds)
    if found := _coco_file(root):
        return _from_coco(*found, fold, split, folds, min_pixels, cache, workers)
    sets = _sets(root)
    files: list[tuple[str, str]] = []
    readings: list[Reading] = []
    owner: list[int] = []
    classes: dict[int, str] = {}
    notes: list[str] = []
    problems: dict[str, list[str]] = {}
    for number, (name, base) in enumerate(sets.items()):
        prefix = f"{name}/" if name else ""
        request = Request(base)
        try:
            masks = pictures.read_masks(request, partial(_look, base, cache, workers), links=True)
            labels = _labels(base, masks)
        except Error as error:
            problems[name or root.name] = [str(error)]
            continue
        if masks.problems:
            problems[name or root.name] = masks.problems
        decided = masks.decision
        named = dict(zip(labels, decided.names, strict=True))
        if labels == decided.values:  # what no mask shows has its place among the folds all the same
            named |= {c: text for c, text in decided.unused if c <= LABELS}
        classes |= {IDS_OF_A_SET * number + c: prefix + text for c, text in named.items()}
        told = [f"{masks.bare} photographs without a mask are left out"] if masks.bare else []
        notes += [f"{prefix or root.resolve().name}: {note}" for note in (*told, *request.notes.lines())]
        for mask in sorted(decided.meanings, key=lambda mask: mask.relative_to(base).with_suffix("").as_posix()):
            files.append((masks.photos[mask].relative_to(root).as_posix(), mask.relative_to(root).as_posix()))
            readings.append(Reading(decided.meanings[mask], (0, *labels, IGNORE)))
            owner.append(number)
    _refuse(root, problems)

    dataset = Pictures(root.resolve().name, root, files, classes, readings, notes)
    counts = count_pixels(dataset, cache, workers)
    sets_of = np.array(owner, np.int64)
    chosen = {c: text for n, (c, text) in enumerate(sorted(classes.items())) if in_fold(n, fold, split, folds)}
    pairs = [
        pair
        for number in range(len(sets))
        for pair in pairs_of(
            counts, [c for c in chosen if c // IDS_OF_A_SET == number], min_pixels, np.flatnonzero(sets_of == number)
        )
    ]
    return _with_shown(dataset, chosen, pairs, min_pixels)


def _sets(root: Path) -> dict[str, Path]:
    """The set that root is, or those in it, by name."""
    inside = [path for path in sorted(root.glob("*")) if path.is_dir() and pictures.recognises(path)]
    if pictures.recognises(root) and not any((path / "classes.json").exists() for path in inside):
        return {"": root}
    if not inside:
        raise Error(
            f"{root} has no images/ and masks/, nor has a folder in it; give the folder of a set or of many sets."
        )
    return {path.name: path for path in inside}


def _refuse(root: Path, problems: dict[str, list[str]]) -> None:
    """All that is wrong in all sets in one Error: where, and the first; the others are its notes."""
    if not problems:
        return
    found = [problem for told in problems.values() for problem in told]
    where = ", ".join(list(problems)[:20]) + ("" if len(problems) <= 20 else f" and {len(problems) - 20} more")
    raise refusal(f"{root} has {len(found)} problems in {where}", found)


def _labels(base: Path, masks: Masks) -> tuple[int, ...]:
    """A label for each class: its value as painted, or where one is none of 1 … 254 its place."""
    names, values = masks.decision.names, masks.decision.values
    if len(names) > LABELS:
        raise Error(f"{base} has {len(names)} classes, at most {LABELS} are possible; leave some out.")
    if values is not None and max(values, default=0) <= LABELS:
        return values
    return tuple(range(1, len(names) + 1))


def _look(base: Path, cache: str | Path | None, workers: int | None, masks: list[Path]) -> list[Shown | str]:
    """What masks show, by several processes, and kept for the next time."""
    home = Path(cache) if cache is not None else cache_folder()
    names = [mask.relative_to(base).as_posix() for mask in masks]
    place = home / f"{base.resolve().name}-{files_fingerprint(base, names, 'shown')[:16]}-shown.json"
    try:
        return [Shown(**fields) for fields in json.loads(place.read_bytes())]
    except (OSError, ValueError, TypeError):
        pass  # Only a shortcut, as below.
    found = dict(parallel_map(pictures.look_at, masks, 1 if len(masks) < FEW else workers))
    shown = [found[number] for number in range(len(masks))]
    if not any(isinstance(one, str) for one in shown):
        try:
            home.mkdir(parents=True, exist_ok=True)
            with atomic(place) as temporary:
                temporary.write_text(json.dumps([asdict(one) for one in shown if isinstance(one, Shown)]))
        except (OSError, Error):
            pass
    return shown


def _coco_file(root: Path) -> tuple[Path, Path] | None:
    """The COCO file that root is or holds, and its folder of photographs."""
    inside = (
        [root]
        if root.suffix.lower() == ".json"
        else [root / "annotations.json", root / "annotations" / "instances.json"]
    )
    file = next((path for path in inside if path.is_file()), None)
    if file is None:
        return None
    homes = [home / "images" for home in (file.parent, file.parent.parent)]
    return file, next((home for home in homes if home.is_dir()), file.parent)


def _from_coco(
    file: Path,
    images: Path,
    fold: int | None,
    split: str,
    folds: int,
    min_pixels: int,
    cache: str | Path | None,
    workers: int | None,
) -> Dataset:
    dataset = read_coco(file.stem, file, images, cache=cache, workers=workers)
    chosen = {c: text for n, (c, text) in enumerate(sorted(dataset.classes.items())) if in_fold(n, fold, split, folds)}
    return _with_shown(dataset, chosen, pairs_of(count_pixels(dataset, cache, workers), chosen, min_pixels), min_pixels)


def _with_shown(dataset: Dataset, chosen: dict[int, str], pairs: list[Pair], min_pixels: int) -> Dataset:
    """The dataset with those of the chosen classes that have pairs, and a note for each that has none."""
    shown = {c for _, c in pairs}
    notes = [
        f"{dataset.name}: {text} drops out, no mask has {min_pixels} pixels of it"
        for c, text in chosen.items()
        if c not in shown
    ]
    return dataset.with_pairs({c: text for c, text in chosen.items() if c in shown}, pairs, notes)

"""Anybody's photographs: images/ + index masks/ + classes.json, or a COCO file; or a folder of many such sets.

classes.json is {"1": "mug", "2": "spoon"}; masks have 0 for background, those numbers, and 255 for ignore.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.data.cache import raise_broken
from dgpnet.data.coco import read_coco
from dgpnet.data.dataset import FRAME, LABELS, Dataset, Files, Pair, check_fold, in_fold
from dgpnet.data.scan import count_pixels, pairs_of, unknown_labels
from dgpnet.errors import Error

MIN_PIXELS = 16 * 16  # own sets have smaller photographs and objects than the benchmarks
PHOTOS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".heic", ".avif")
MASKS = (".png", ".tif", ".tiff", ".bmp", ".gif", ".webp")


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
    if (root / "images").is_dir() and (root / "masks").is_dir():
        sets = {"": root}
    else:
        sets = {p.name: p for p in sorted(root.glob("*")) if (p / "images").is_dir() and (p / "masks").is_dir()}
    if not sets:
        raise Error(
            f"{root} has no images/ and masks/, nor has a folder in it; give the folder of a set or of many sets."
        )

    files: list[tuple[str, str]] = []
    owner: list[int] = []
    classes: dict[int, str] = {}
    notes: list[str] = []
    alone: list[tuple[int, str]] = []
    for number, (name, base) in enumerate(sets.items()):
        prefix = f"{name}/" if name else ""
        classes.update(
            {FRAME * number + label: prefix + text for label, text in read_classes(base / "classes.json").items()}
        )
        photos, masks = _by_stem(base / "images", PHOTOS), _by_stem(base / "masks", MASKS)
        alone += [
            (len(alone), f"{base / 'masks' / masks[stem]} has no photograph")
            for stem in sorted(masks.keys() - photos.keys())
        ]
        bare = len(photos.keys() - masks.keys())
        notes += [f"{prefix or root.name}: {bare} photographs without a mask are left out"] if bare else []
        both = sorted(photos.keys() & masks.keys())
        files += [(f"{prefix}images/{photos[stem]}", f"{prefix}masks/{masks[stem]}") for stem in both]
        owner += [number] * len(both)
    raise_broken(str(root), alone)

    dataset = Files(root.resolve().name, root, files, classes, [], notes=notes)
    counts = count_pixels(dataset, cache, workers)
    sets_of = np.array(owner, np.int64)
    raise_broken(str(root), unknown_labels(dataset, counts, _known(sets_of, classes)))
    chosen = {c: text for n, (c, text) in enumerate(sorted(classes.items())) if in_fold(n, fold, split, folds)}
    pairs = [
        pair
        for number in range(len(sets))
        for pair in pairs_of(
            counts, [c for c in chosen if c // FRAME == number], min_pixels, np.flatnonzero(sets_of == number)
        )
    ]
    return _with_shown(dataset, chosen, pairs, min_pixels)


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


def read_classes(path: Path) -> dict[int, str]:
    """Label -> name out of a classes.json: an object of numbers, or a list of names for 1, 2, ..."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = enumerate(data, 1) if isinstance(data, list) else data.items()
        classes = {int(label): str(name) for label, name in entries if int(label) != 0}
    except (OSError, ValueError, AttributeError, TypeError) as problem:
        raise Error(f'{path} cannot be read ({problem}); write {{"1": "mug", "2": "spoon"}}.') from problem
    if not classes or not all(1 <= label <= LABELS for label in classes):
        raise Error(f"{path} has the numbers {sorted(classes)}; expected at least one, each 1 to {LABELS}.")
    return classes


def _by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, str]:
    """Name without suffix -> file name, of the files with these suffixes."""
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in suffixes and not path.name.startswith("."):
            if path.stem in found:
                raise Error(
                    f"{folder} has both {found[path.stem]} and {path.name}; names must differ without their suffix."
                )
            found[path.stem] = path.name
    return found


def _known(sets_of: NDArray[np.int64], classes: dict[int, str]) -> NDArray[np.bool_]:
    """(N, 256): which values the masks of each photograph may have."""
    table = np.zeros((int(sets_of.max(initial=0)) + 1, FRAME), bool)
    for class_id in classes:
        table[class_id // FRAME, class_id % FRAME] = True
    return table[sets_of]

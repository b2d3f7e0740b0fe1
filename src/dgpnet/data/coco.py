"""MS-COCO: instances to class masks, the four folds of COCO-20i, and the field's pickled lists.

Layouts: annotations/instances_{train,val}2014.json with train2014/ and val2014/; or annotations/instances.json (or
annotations.json) with images/, whose photographs serve both splits.
"""

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations import coco as annotations
from dgpnet.annotations import reading, shapes
from dgpnet.annotations.runs import Runs
from dgpnet.data.cache import raise_broken
from dgpnet.data.dataset import LABELS, Dataset, Pair, check_fold, class_id_of, files_fingerprint, in_fold
from dgpnet.data.masks import MaskStore, pack
from dgpnet.data.parallel import parallel_map
from dgpnet.data.scan import MIN_PIXELS, count_pixels, pairs_of
from dgpnet.errors import Error
from dgpnet.files import cache_folder, inside, make_folder
from dgpnet.images import IGNORE, MAX_PIXELS, photo_size, read_photo

FOLDS = 4
CHUNK = 64
#: Of the ids 1..90, COCO's 80 categories leave these out.
IDS = tuple(i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83))
VARIANTS = ("full", "first-polygon")


class Coco(Dataset):
    """Photographs under `root` and their class masks in a store; rows: the store's number of each photograph."""

    def __init__(
        self,
        name: str,
        root: Path,
        files: Sequence[str],
        rows: Sequence[int],
        store: MaskStore,
        classes: dict[int, str],
    ) -> None:
        super().__init__(name, classes, [])
        self.root, self.files, self.rows, self.store = root, list(files), list(rows), store

    def __len__(self) -> int:
        return len(self.files)

    def photo(self, i: int) -> NDArray[np.uint8]:
        return read_photo(inside(self.root, self.files[i]))

    def mask(self, i: int) -> NDArray[np.uint8]:
        photo = inside(self.root, self.files[i])
        mask = self.store[self.rows[i]]
        if (size := photo_size(photo)) != mask.shape:
            given, said = f"{size[1]} × {size[0]}", f"{mask.shape[1]} × {mask.shape[0]}"
            raise Error(
                f"{photo} is {given} pixels (width × height) and its annotation says {said}; give the photograph."
            )
        return mask

    def path(self, i: int) -> str:
        return self.files[i]

    def size(self, i: int) -> tuple[int, int]:
        height, width = self.store.sizes[self.rows[i]].tolist()
        return height, width

    def fingerprint(self) -> str:
        if "fingerprint" not in self._memo:
            self._memo["fingerprint"] = files_fingerprint(self.root, self.files, self.store.path.name)
        return str(self._memo["fingerprint"])

    def only(self, photos: Sequence[int]) -> "Coco":
        """The dataset with only these photographs, without pairs."""
        files, rows = [self.files[i] for i in photos], [self.rows[i] for i in photos]
        return Coco(self.name, self.root, files, rows, self.store, self.classes)


def coco(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "train",
    variant: str = "full",
    lists: str | Path | None = None,
    min_pixels: int = MIN_PIXELS,
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Dataset:
    """COCO-20i: fold i tests classes i, i+4, ..., i+76 in COCO's order and trains the others; no fold is all classes.

    Class ids are COCO's category ids. variant: "full" masks, or "first-polygon", only the first polygon of each object.
    lists: folder with the field's {train,val}/fold*.pkl; without, pairs have at least `min_pixels` pixels.
    """
    check_fold("coco", fold, split, FOLDS)
    file, images = _layout(Path(root), split)
    everything = read_coco("coco", file, images, variant=variant, cache=cache, workers=workers)
    order = {c: IDS.index(c) for c in everything.classes} if set(everything.classes) <= set(IDS) else None
    places = order or {c: n for n, c in enumerate(sorted(everything.classes))}
    if lists is not None:
        pairs = _listed_pairs(everything, places, Path(lists), fold, split)
    else:
        pairs = pairs_of(count_pixels(everything, cache, workers), everything.classes, min_pixels)
    # Only photographs of any class's pairs are kept, whatever the fold, so that the folds share one cache.
    kept = sorted({photo for photo, _ in pairs})
    number = {photo: n for n, photo in enumerate(kept)}
    classes = {c: name for c, name in everything.classes.items() if in_fold(places[c], fold, split, FOLDS)}
    return everything.only(kept).with_pairs(classes, [(number[p], c) for p, c in pairs if c in classes])


def read_coco(
    name: str,
    file: Path,
    images: Path,
    *,
    variant: str = "full",
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Coco:
    """A COCO file as a dataset without pairs. The class masks are made once and kept below `cache`; with them
    there, the objects of the file are not needed again."""
    if variant not in VARIANTS:
        raise Error(f"The masks of COCO are {' or '.join(VARIANTS)}, not {variant!r}.")
    text, parsed = _parsed(file)
    names = parsed.categories
    if len(names) > LABELS:
        raise Error(f"{file} has {len(names)} categories; at most {LABELS} fit into one set of masks; split it.")
    # COCO's own ids fit into a byte and stay as they are; others are numbered on.
    small = all(isinstance(c, int) and 1 <= c <= LABELS for c in names)
    in_order = sorted(names, key=lambda c: (isinstance(c, str), c))
    ids = {c: int(c) if small else class_id_of(n) for n, c in enumerate(in_order)}
    home = Path(cache) if cache is not None else cache_folder()
    prefix = home / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}-{variant}"
    photos = {key: _photograph(file, key, record) for key, record in parsed.images.items()}
    if not MaskStore.exists(prefix):
        jobs = [(*size, parsed.annotations[key]) for key, (_, size) in photos.items()]
        _fill(prefix, jobs, _Rasterise(ids, variant), [file_name for file_name, _ in photos.values()], workers)
    classes = {ids[c]: names[c] for c in in_order}
    return Coco(
        name, images, [file_name for file_name, _ in photos.values()], range(len(photos)), MaskStore(prefix), classes
    )


def _parsed(file: Path) -> tuple[bytes, annotations.Parsed]:
    """The bytes of a file and what they hold, read as `dgpnet segment` reads them."""
    text = reading.read_bytes(file)
    try:
        parsed = annotations.parse(file, reading.json_of(text, file), reading.Notes())
        if parsed.problems:
            raise Error(parsed.problems[0])
    except Error as problem:
        raise Error(f"{file} is no COCO file with images, annotations and categories ({problem}).") from problem
    return text, parsed


def _photograph(file: Path, key: annotations.Key, record: dict[str, Any]) -> tuple[str, tuple[int, int]]:
    """Its name and (H, W)."""
    where = f"{file}, image {reading.brief(key)}"
    size = reading.size_field(record, "height", "width", where)
    if size is None:
        raise Error(f"{where}: 'height' and 'width' are missing; export it again.")
    if size[0] * size[1] > MAX_PIXELS:
        raise Error(f"{where}: {size[1]} × {size[0]} pixels are more than the {MAX_PIXELS:,} allowed; shrink it.")
    return reading.field(record, "file_name", str, where), size


def class_mask(
    height: int, width: int, objects: Sequence[dict[str, Any]], ids: Mapping[annotations.Key, int], variant: str
) -> NDArray[np.uint8]:
    """Labels (height, width) of COCO objects: crowds as ignore, then objects from large to small, later ones on top.

    ids: category id -> label. variant: "first-polygon" leaves out all but the first polygon of an object.
    """
    size, first_only = (height, width), variant == "first-polygon"
    work, notes = shapes.Work(), reading.Notes()
    crowds: list[tuple[int, Runs]] = []
    layers: list[tuple[float, int, Runs]] = []
    for entry in objects:
        covered = annotations.covers(entry, size, "it", work, notes, first_only=first_only)
        if covered is None:
            continue
        if annotations.is_crowd(entry):
            crowds.append((IGNORE, covered))
        else:
            layers.append((float(entry.get("area", covered.area)), ids[entry["category_id"]], covered))
    layers.sort(key=lambda layer: -layer[0])
    pieces = [*crowds, *((label, covered) for _, label, covered in layers)]
    return np.ascontiguousarray(shapes.paint((width, height), pieces, work).T.astype(np.uint8))


def plain_pickle(path: Path) -> Any:
    """What a pickle holds, if that is numbers, strings and plain containers only; anything else is refused unread."""

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    try:
        with open(path, "rb") as file:
            return Plain(file).load()
    except Exception as problem:
        raise Error(f"{path} is no pickle of plain lists and is not read ({problem}); give another list.") from problem


@dataclass(frozen=True)
class _Rasterise:
    """Class masks of some photographs, packed, or what is wrong with them."""

    ids: Mapping[annotations.Key, int]
    variant: str

    def __call__(self, jobs: Sequence[tuple[int, int, list[dict[str, Any]]]]) -> list[bytes | str]:
        return [self._one(*job) for job in jobs]

    def _one(self, height: int, width: int, objects: list[dict[str, Any]]) -> bytes | str:
        try:
            return pack(class_mask(height, width, objects, self.ids, self.variant))
        except Exception as problem:
            return f"has an object that cannot be rasterised ({problem})"


def _fill(
    prefix: Path,
    jobs: list[tuple[int, int, list[dict[str, Any]]]],
    rasterise: Callable[[Any], list[bytes | str]],
    names: list[str],
    workers: int | None,
) -> None:
    chunks = [jobs[first : first + CHUNK] for first in range(0, len(jobs), CHUNK)]
    masks: list[bytes] = [b""] * len(jobs)
    broken: list[tuple[int, str]] = []
    for n, found in parallel_map(rasterise, chunks, workers):
        for i, mask in enumerate(found, n * CHUNK):
            if isinstance(mask, str):
                broken.append((i, f"{names[i]} {mask}"))
            else:
                masks[i] = mask
    raise_broken(prefix.name, broken)
    make_folder(prefix.parent)
    sizes = np.array([job[:2] for job in jobs], np.int32).reshape(-1, 2)
    MaskStore.write(prefix, sizes, np.array([len(m) for m in masks], np.int64), masks)


def _layout(root: Path, split: str) -> tuple[Path, Path]:
    """The annotation file and the folder of photographs."""
    part = "train2014" if split == "train" else "val2014"
    for base in (root, root / "coco"):
        choices = [
            (base / "annotations" / f"instances_{part}.json", base / part),
            (base / "annotations" / f"instances_{part}.json", base / "images" / part),
            (base / "annotations" / "instances.json", base / "images"),
            (base / "annotations.json", base / "images"),
        ]
        for file, images in choices:
            if file.is_file() and images.is_dir():
                return file, images
    raise Error(
        f"{root} has no annotations/instances_{part}.json with {part}/, nor annotations/instances.json with images/."
    )


def _listed_pairs(dataset: Coco, places: dict[int, int], lists: Path, fold: int | None, split: str) -> list[Pair]:
    """Pairs out of the field's pickles: {class 0..79: [photographs]} or [(photograph, class)]."""
    parts = ("train", "trn") if split == "train" else ("val", "test")
    folders = [lists / part for part in parts if (lists / part).is_dir()]
    paths = [f / f"fold{i}.pkl" for f in folders[:1] for i in (range(FOLDS) if fold is None else [fold])]
    if not paths or not all(path.is_file() for path in paths):
        raise Error(
            f"{lists} has no {parts[0]}/fold0.pkl to fold{FOLDS - 1}.pkl; give the folder of the pickled lists."
        )
    class_at = {place: c for c, place in places.items()}
    number = {Path(name).stem: i for i, name in enumerate(dataset.files)}
    pairs: dict[Pair, None] = {}
    unknown: set[str] = set()
    for path in paths:
        data = plain_pickle(path)
        try:
            entries = (
                [(n, c) for c, ns in data.items() for n in ns] if isinstance(data, dict) else [(n, c) for n, c in data]
            )
            listed = [(str(n[0] if isinstance(n, (list, tuple)) else n), int(c)) for n, c in entries]
        except (TypeError, ValueError) as problem:
            raise Error(f"{path} is no list of photographs by class ({problem}).") from problem
        for name, place in listed:
            stem = Path(name).stem
            if stem not in number or place not in class_at:
                unknown.add(f"{name} with class {place}")
            else:
                pairs[number[stem], class_at[place]] = None
    if unknown:
        raise Error(f"{lists} lists what is not in the annotations: {', '.join(sorted(unknown)[:20])}.")
    return list(pairs)

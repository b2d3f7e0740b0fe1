"""Photographs decoded and resized once, as memory-mapped arrays; the second epoch reads no JPEG.

A cache is a folder that explains itself and needs neither the photographs it came from nor what read them:
    photos.npy    (N, 3, s, s) uint8      masks.npy   (N, s, s) uint8 labels
    objects.npz   which classes each photograph shows and some of their pixels
    originals.*   the label masks at their own size (a MaskStore)
    cache.json    name, classes, pairs, names of the photographs; written last
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet.data.dataset import ANCHORS, IDS_OF_A_SET, Dataset, Mixture, Pair
from dgpnet.data.masks import MaskStore, pack
from dgpnet.data.parallel import Progress, parallel_map
from dgpnet.errors import Error, refusal
from dgpnet.files import atomic, cache_folder, read_record, remove_leftovers, require_space, write_record
from dgpnet.images import IGNORE, resize_mask, resize_photo

#: Of cache.json; a cache of another one is built again.
FORMAT = 2
#: Photographs that one task of a worker handles, and that a killed build may lose.
CHUNK = 32


class Cache(Dataset):
    """A dataset at one size: photo(i) is the resized photograph, masks[i] its labels; mask(i) those of the
    original size, to measure on. side: s."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        classes = {int(c): name for c, name in about["classes"].items()}
        pairs = [(int(p), int(c)) for p, c in about["pairs"]]
        super().__init__(about["name"], classes, pairs, class_first=about["class_first"], notes=about["notes"])
        self.folder = folder
        self.side: int = about["side"]
        self.names: list[str] = about["photographs"]
        self._fingerprint: str = about["fingerprint"]
        # Copy on write: nothing goes back to the file, and torch takes the array without a warning.
        self.photos = np.load(folder / "photos.npy", mmap_mode="c")
        self.masks = np.load(folder / "masks.npy", mmap_mode="c")
        self.originals = MaskStore(folder / "originals")
        with np.load(folder / "objects.npz") as tables:
            self.objects, self.points = tables["objects"], tables["points"]
        shapes = [(len(self), 3, self.side, self.side), (len(self), self.side, self.side), (len(self), 2)]
        arrays = (self.photos, self.masks, self.originals.sizes)
        if [array.shape for array in arrays] != shapes or {self.photos.dtype, self.masks.dtype} != {np.dtype(np.uint8)}:
            raise ValueError("its arrays do not fit together")

    @classmethod
    def open(cls, folder: str | Path) -> "Cache":
        """The cache in a folder, with the pairs it was first built with."""
        folder = Path(folder)
        about = read_record(folder / "cache.json")
        if about is None or about["format"] != FORMAT:
            raise Error(f"{folder} is no finished cache, or its cache.json is damaged; remove it and build it again.")
        try:
            return cls(folder, about)
        except Exception as problem:  # whatever a damaged file makes its reader raise
            raise Error(f"{folder} is a damaged cache ({problem}); remove it and build it again.") from problem

    def __len__(self) -> int:
        return len(self.names)

    def photo(self, i: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.photos[i].transpose(1, 2, 0))

    def mask(self, i: int) -> NDArray[np.uint8]:
        return self.originals[i]

    def path(self, i: int) -> str:
        return self.names[i]

    def size(self, i: int) -> tuple[int, int]:
        height, width = self.originals.sizes[i].tolist()
        return height, width

    def fingerprint(self) -> str:
        return self._fingerprint

    def anchors(self) -> NDArray[np.float32]:
        rows = self._objects_of(self.pairs)
        return np.asarray((2 * self.points[rows].astype(np.float32) + 1) / self.side - 1)

    def tensors(self, device: str | torch.device = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.photos).to(device), torch.from_numpy(self.masks).to(device)

    def present(self, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Which of these pairs have a pixel in the resized masks, (P,)."""
        keys = _keys(pairs)
        return self.objects[self._nearest(keys)] == keys if len(self.objects) else np.zeros(len(keys), bool)

    def _objects_of(self, pairs: Sequence[Pair]) -> NDArray[np.int64]:
        return self._nearest(_keys(pairs))

    def _nearest(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self.objects, keys), max(len(self.objects) - 1, 0))


def cached(
    dataset: Dataset,
    size: int,
    folder: str | Path | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """The dataset at size × size out of a cache below `folder`, built now if it is not there. Members of a mixture each
    have their own. All broken files are named in one Error. progress: called with (done, of) photographs."""
    if isinstance(dataset, Cache):
        if dataset.side != size:
            raise Error(f"The cache {dataset.folder} has size {dataset.side}, not {size}; build one of that size.")
        return dataset
    if isinstance(dataset, Mixture):
        members = [cached(member, size, folder, workers=workers, progress=progress) for member in dataset.members]
        mixture = Mixture(list(zip(members, dataset.weights.tolist(), strict=True)), dataset.name)
        there = set(mixture.pairs)
        return mixture.with_pairs(dataset.classes, [p for p in dataset.pairs if p in there])
    if not len(dataset):
        raise Error(f"{dataset.name} has no photographs; check its folder and lists.")
    home = Path(folder) if folder is not None else cache_folder()
    place = home / f"{dataset.name}-{dataset.fingerprint()[:16]}-{size}"
    cache = _whole(place)
    if cache is None:
        with _locked(home, place.name):
            cache = _whole(place)  # another process may have built it while this one waited
            if cache is None:
                shutil.rmtree(place, ignore_errors=True)
                _build(dataset, size, place, workers, progress)
                cache = Cache.open(place)
    return _with_pairs_of(cache, dataset)


def _whole(place: Path) -> Cache | None:
    """The cache in a folder; None where there is none, or one that is damaged: then it is built again."""
    try:
        return Cache.open(place)
    except Error:
        return None


def verify(dataset: Dataset, *, workers: int | None = None, progress: Progress | None = None) -> None:
    """Decode every photograph and mask, and name all that are broken in one Error."""
    chunks = _chunks(len(dataset))
    broken: list[tuple[int, str]] = []
    for done, (_, found) in enumerate(parallel_map(_Verify(dataset), chunks, workers), 1):
        broken += found
        if progress:
            progress(min(done * CHUNK, len(dataset)), len(dataset))
    raise_broken(dataset.name, broken)


def raise_broken(name: str, broken: Sequence[tuple[int, str]]) -> None:
    """Raise one Error for all (number, message) of broken files, if there are any."""
    if broken:
        raise refusal(f"{name}: {len(broken)} photographs cannot be used", [message for _, message in sorted(broken)])


def keep_labels(mask: NDArray[np.uint8], small: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`small`, resized from `mask`, with at least one pixel of every label that `mask` has.

    Nearest sampling loses thin and tiny objects; each lost one gets the pixel it lies on, unless that is another
    label's last one. 0 and 255 are no labels.
    """
    before = np.bincount(mask.ravel(), minlength=256)
    after = np.bincount(small.ravel(), minlength=256)
    lost = [label for label in range(1, IGNORE) if before[label] and not after[label]]
    small = small.copy() if lost else small
    for label in lost:
        y, x = np.nonzero(mask == label)
        nearest = np.argsort((y - y.mean()) ** 2 + (x - x.mean()) ** 2, kind="stable")
        for k in nearest:
            at = int(y[k]) * small.shape[0] // mask.shape[0], int(x[k]) * small.shape[1] // mask.shape[1]
            holder = int(small[at])
            if holder in (0, IGNORE) or after[holder] > 1:
                after[holder] -= 1
                after[label] += 1
                small[at] = label
                break
    return small


@dataclass(frozen=True)
class _Verify:
    dataset: Dataset

    def __call__(self, chunk: range) -> list[tuple[int, str]]:
        return [(i, problem) for i in chunk if isinstance(problem := _read(self.dataset, i), str)]


@dataclass(frozen=True)
class _Fill:
    """Writes a chunk of photographs into the arrays of a cache, and returns what goes into its tables."""

    dataset: Dataset
    folder: Path
    side: int

    def __call__(self, chunk: range) -> tuple[list[tuple[int, str]], dict[str, Any]]:
        photos = np.load(self.folder / "photos.npy", mmap_mode="r+")
        masks = np.load(self.folder / "masks.npy", mmap_mode="r+")
        broken: list[tuple[int, str]] = []
        sizes, streams, objects, points = [], [], [], []
        for i in chunk:
            read = _read(self.dataset, i)
            if isinstance(read, str):
                broken.append((i, read))
                continue
            photo, mask = read
            small = keep_labels(mask, resize_mask(mask, (self.side, self.side)))
            photos[i] = resize_photo(photo, (self.side, self.side)).transpose(2, 0, 1)
            masks[i] = small
            sizes.append(mask.shape)
            streams.append(pack(mask))
            for label in (np.flatnonzero(np.bincount(small.ravel(), minlength=256)[1:IGNORE]) + 1).tolist():
                objects.append(i * IDS_OF_A_SET + label)
                points.append(_points(small == label))
        for array in (photos, masks):
            array.flush()  # on the disk before the chunk counts as done
        return broken, {
            "sizes": np.array(sizes, np.int32).reshape(-1, 2),
            "lengths": np.array([len(s) for s in streams], np.int64),
            "streams": np.frombuffer(b"".join(streams), np.uint8),
            "objects": np.array(objects, np.int64),
            "points": np.array(points, np.uint16).reshape(-1, ANCHORS, 2),
        }


def _points(found: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(ANCHORS, 2): x, y of pixels spread over those that are True."""
    pixels = np.flatnonzero(found)
    y, x = np.divmod(pixels[np.linspace(0, len(pixels) - 1, ANCHORS).round().astype(np.int64)], found.shape[1])
    return np.stack([x, y], axis=1)


def _read(dataset: Dataset, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | str:
    """Photograph and mask, or what is wrong with them."""
    try:
        photo, mask = dataset.photo(i), dataset.mask(i)
    except Error as problem:
        return str(problem)
    if photo.shape[:2] != mask.shape:
        return f"{dataset.path(i)} is {photo.shape[:2]} (height, width) and its mask {mask.shape}"
    return photo, mask


def _build(dataset: Dataset, side: int, place: Path, workers: int | None, progress: Progress | None) -> None:
    """Build the cache in `place`. A build that was cut off goes on from its last finished chunk."""
    count = len(dataset)
    partial = place.with_name(place.name + ".partial")
    if not (partial / "photos.npy").exists():
        require_space(partial, count * (4 * side * side + 8192))
    try:
        (partial / "parts").mkdir(parents=True, exist_ok=True)
        remove_leftovers(partial)
        for name, shape in (("photos.npy", (count, 3, side, side)), ("masks.npy", (count, side, side))):
            if not (partial / name).exists():
                with atomic(partial / name) as temporary:
                    np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape).flush()
    except OSError as problem:
        raise Error(
            f"The cache {partial} cannot be written ({problem.strerror}); choose another cache folder."
        ) from problem

    chunks = _chunks(count)
    waiting = [n for n in range(len(chunks)) if not _readable(_part(partial, n))]
    broken: list[tuple[int, str]] = []
    done = count - sum(len(chunks[n]) for n in waiting)
    for n, (bad, tables) in parallel_map(_Fill(dataset, partial, side), [chunks[n] for n in waiting], workers):
        broken += bad
        if not bad:
            with atomic(_part(partial, waiting[n])) as temporary:
                np.savez(temporary, **tables)
        done += len(chunks[waiting[n]])
        if progress:
            progress(done, count)
    if broken:
        shutil.rmtree(partial)
        raise_broken(dataset.name, broken)
    _finish(dataset, side, partial, len(chunks))
    os.replace(partial, place)


def _finish(dataset: Dataset, side: int, partial: Path, parts: int) -> None:
    """Join the chunks' tables and write what the cache is."""
    tables: dict[str, list[NDArray[Any]]] = {name: [] for name in ("sizes", "lengths", "objects", "points")}
    for n in range(parts):
        with np.load(_part(partial, n)) as part:
            for name, arrays in tables.items():
                arrays.append(part[name])
    joined = {name: np.concatenate(arrays) for name, arrays in tables.items()}
    streams = (np.load(_part(partial, n))["streams"].tobytes() for n in range(parts))
    MaskStore.write(partial / "originals", joined["sizes"], joined["lengths"], streams)
    with atomic(partial / "objects.npz") as temporary:
        np.savez(temporary, objects=joined["objects"], points=joined["points"])
    about = {
        "format": FORMAT,
        "name": dataset.name,
        "side": side,
        "fingerprint": dataset.fingerprint(),
        "class_first": dataset.class_first,
        "classes": {str(c): name for c, name in dataset.classes.items()},
        "pairs": dataset.pairs,
        "notes": dataset.notes,
        "photographs": [dataset.path(i) for i in range(len(dataset))],
    }
    write_record(partial / "cache.json", about)
    shutil.rmtree(partial / "parts")


def _with_pairs_of(cache: Cache, dataset: Dataset) -> Dataset:
    """The cache with the classes and pairs of the dataset; a pair whose mask does not show the class is left out."""
    there = cache.present(dataset.pairs)
    notes = [
        f"{dataset.name}: {dataset.path(p)} is listed with {dataset.classes[c]}, which its mask does not show; left out"
        for (p, c), shown in zip(dataset.pairs, there.tolist(), strict=True)
        if not shown
    ]
    result = cache.with_pairs(
        dataset.classes, [pair for pair, shown in zip(dataset.pairs, there, strict=True) if shown]
    )
    result.name, result.class_first, result.notes = dataset.name, dataset.class_first, [*dataset.notes, *notes]
    return result


def _chunks(count: int) -> list[range]:
    return [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


def _part(partial: Path, n: int) -> Path:
    return partial / "parts" / f"{n:06d}.npz"


def _readable(part: Path) -> bool:
    """Whether the tables of a chunk are there and as they were written."""
    try:
        with np.load(part) as tables:
            return all(tables[name] is not None for name in tables.files)
    except Exception:  # whatever a damaged file makes its reader raise
        return False


def _keys(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0] * IDS_OF_A_SET + array[:, 1] % IDS_OF_A_SET


@contextmanager
def _locked(home: Path, name: str) -> Iterator[None]:
    """Only one process at a time builds a cache; the others wait and find it built."""
    path = home / f".{name}.lock"
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = _lock(path)
    except OSError as problem:
        raise Error(f"The cache folder {home} cannot be written ({problem.strerror}); choose another one.") from problem
    with file:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _lock(path: Path) -> IO[str]:
    """The open file, locked; where the system has no such locks, only open."""
    while True:
        file: IO[str] = open(path, "w")  # noqa: SIM115 - whoever asked for the lock closes it
        if sys.platform == "win32":
            return file
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        # Whoever held it before has removed the file: a lock on what has no name any more keeps nobody out.
        if _is(file, path):
            return file
        file.close()


def _is(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False

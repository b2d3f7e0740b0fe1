"""Which labels each mask has, and how many pixels: what pairs are made of where no list is given."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.data.cache import CHUNK, raise_broken, verify
from dgpnet.data.dataset import IDS_OF_A_SET, Dataset, Pair
from dgpnet.data.parallel import parallel_map
from dgpnet.errors import Error
from dgpnet.files import atomic, cache_folder

#: PROTOCOL: a pair has at least as many foreground pixels.
MIN_PIXELS = 2 * 32 * 32


def count_pixels(dataset: Dataset, folder: str | Path | None = None, workers: int | None = None) -> NDArray[np.int64]:
    """Pixels of each label in each mask at its own size, (N, 256). Kept below `folder` for the next time.

    Masks that cannot be read are all named in one Error.
    """
    home = Path(folder) if folder is not None else cache_folder()
    place = home / f"{dataset.name}-{dataset.fingerprint()[:16]}-pixels.npy"
    if place.exists():
        return np.asarray(np.load(place))
    counts = np.zeros((len(dataset), 256), np.int64)
    broken: list[tuple[int, str]] = []
    chunks = [range(first, min(first + CHUNK, len(dataset))) for first in range(0, len(dataset), CHUNK)]
    for n, (found, bad) in parallel_map(_Count(dataset), chunks, workers):
        counts[chunks[n].start : chunks[n].stop] = found
        broken += bad
    if broken:
        verify(dataset, workers=workers)  # look at the photographs, too, and name all that is broken at once
        raise_broken(dataset.name, broken)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with atomic(place) as temporary:
            np.save(temporary, counts)
    except (OSError, Error):
        pass  # Only a shortcut: counting again is all that is lost.
    return counts


def pairs_of(
    counts: NDArray[np.int64], class_ids: Iterable[int], min_pixels: int, photos: Iterable[int] | None = None
) -> list[Pair]:
    """Pairs (photograph, class id) with at least `min_pixels` pixels, by class and then photograph.

    counts: (N, 256). photos: only these, default all.
    """
    chosen = np.arange(len(counts)) if photos is None else np.fromiter(photos, np.int64)
    result: list[Pair] = []
    for class_id in class_ids:
        enough = chosen[counts[chosen, class_id % IDS_OF_A_SET] >= max(min_pixels, 1)]
        result += [(photo, class_id) for photo in enough.tolist()]
    return result


@dataclass(frozen=True)
class _Count:
    dataset: Dataset

    def __call__(self, chunk: range) -> tuple[NDArray[np.int64], list[tuple[int, str]]]:
        counts = np.zeros((len(chunk), 256), np.int64)
        broken: list[tuple[int, str]] = []
        for row, i in enumerate(chunk):
            try:
                counts[row] = np.bincount(self.dataset.mask(i).ravel(), minlength=256)
            except Error as problem:
                broken.append((i, str(problem)))
        return counts, broken

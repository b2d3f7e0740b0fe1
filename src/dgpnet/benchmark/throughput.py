"""Photographs a second from JPEG files to PNG masks, through the job that `dgpnet segment` runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dgpnet import data
from dgpnet.benchmark.timing import mark, milliseconds, synchronise
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.photographs import find_photographs
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import Prepared

WIDTH, HEIGHT = 640, 480
#: Photographs that are rendered; the rest are copies of them under other names.
DIFFERENT = 16
EXAMPLES = 3


@dataclass(frozen=True, eq=False)
class Watched(Concept):
    """A concept that remembers when its network was busy, from mark to mark."""

    spans: list[tuple[Any, Any]] = field(default_factory=list)

    def maps(self, photos: Sequence[Prepared], *, batch: int = 1) -> list[Maps]:
        begin = mark(self.segmenter.device)
        found = super().maps(photos, batch=batch)
        self.spans.append((begin, mark(self.segmenter.device)))
        return found

    def busy(self) -> float:
        """Seconds that the network was busy."""
        synchronise(self.segmenter.device)
        return sum(milliseconds(begin, end) for begin, end in self.spans) / 1e3


def end_to_end(
    segmenter: Segmenter, folder: Path, *, photographs: int, size: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Write JPEG files of `size` (width, height) to `folder`, segment them all, and count the seconds of the whole job,
    report included, and those that processors were busy for it."""
    width, height = size or (WIDTH, HEIGHT)
    source = folder / "photographs"
    masks = write_photographs(source, photographs, (width, height))
    files = find_photographs([source])
    concept = segmenter.learn([file.path for file in files[:EXAMPLES]], masks[:EXAMPLES], classes=["shape"])
    watched = Watched(concept.segmenter, concept.views, concept.legend, concept.origins)
    segment_folder(watched, files[: 2 * segmenter.engine.batch(1)], folder / "warm-up")
    watched.spans.clear()
    begin, busy = time.perf_counter(), time.process_time()
    outcome = segment_folder(watched, files, folder / "masks")
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    return {
        "photographs": outcome.done,
        "failures": len(outcome.failures),
        "width": width,
        "height": height,
        "network_size": segmenter.network.config.size,
        "encoder": segmenter.network.config.encoder,
        "seconds": seconds,
        "photographs_per_second": outcome.done / seconds,
        "processor_ms": 1e3 * busy / outcome.done,
        "network_busy": watched.busy() / seconds,
    }


def write_photographs(
    folder: Path, count: int, size: tuple[int, int] | None = None
) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """`count` JPEG files of `size` (width, height), rendered at WIDTH × HEIGHT; returns the masks of the first few,
    which are different."""
    size = size or (WIDTH, HEIGHT)
    folder.mkdir(parents=True, exist_ok=True)
    dataset = data.build("synthetic", photographs=min(DIFFERENT, count), side=WIDTH)
    coded, masks = [], []
    for i in range(len(dataset)):
        path = folder / f"{i:05d}.jpg"
        Image.fromarray(dataset.photo(i)[:HEIGHT]).resize(size, Image.Resampling.BICUBIC).save(path, quality=90)
        coded.append(path.read_bytes())
        mask = Image.fromarray((dataset.mask(i)[:HEIGHT] > 0).astype(np.uint8))
        masks.append(np.array(mask.resize(size, Image.Resampling.NEAREST)))
    for i in range(len(dataset), count):
        (folder / f"{i:05d}.jpg").write_bytes(coded[i % len(coded)])
    return masks

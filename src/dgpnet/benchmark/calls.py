"""The calls that users make, by the wall clock: arrays in, arrays out, everything between included."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet import data
from dgpnet.benchmark.throughput import HEIGHT, WIDTH
from dgpnet.benchmark.timing import Effort
from dgpnet.segmenter import Segmenter

#: Photographs that are rendered, and taken in turn.
DIFFERENT = 16
#: Photographs that `segment_all` is given.
MANY = 64
#: Calls that are not counted, in which libraries make up their minds and graphs are captured.
WARM_UP = 3

Photo = NDArray[np.uint8]


def measured(segmenter: Segmenter, *, shots: int, effort: Effort) -> dict[str, Any]:
    """Milliseconds of `learn`, of the first `segment` of a concept and of further ones, of `extend` by one example, and
    of `segment_all` a photograph; medians. Every concept is learned from other photographs."""
    pictures, masks = rendered_photographs()
    turn = itertools.cycle(range(DIFFERENT))
    found: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = work()
        found.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))
        return result

    begin = time.perf_counter()
    for done in range(WARM_UP + effort.calls):
        if done == WARM_UP:
            found.clear()
            begin = time.perf_counter()
        elif done > WARM_UP and time.perf_counter() - begin > 4 * effort.seconds:
            break
        shown = [next(turn) for _ in range(shots)]
        learn = partial(segmenter.learn, [pictures[i] for i in shown], [masks[i] for i in shown])
        concept = timed("learn", learn)
        timed("first", partial(concept.segment, pictures[next(turn)]))
        for _ in range(3):
            timed("again", partial(concept.segment, pictures[next(turn)]))
        more = next(turn)
        timed("extend", partial(concept.extend, [pictures[more]], [masks[more]]))
    many = min(MANY, 4 * effort.calls)
    for _ in range(2):  # the first captures
        each = timed("all", lambda: sum(1 for _ in concept.segment_all(_some(pictures, many))))
    return {
        "shots": shots,
        "width": WIDTH,
        "height": HEIGHT,
        "encoder": segmenter.network.config.encoder,
        "network_size": segmenter.network.config.size,
        "learn_ms": statistics.median(found["learn"]),
        "first_ms": statistics.median(found["first"]),
        "again_ms": statistics.median(found["again"]),
        "extend_ms": statistics.median(found["extend"]),
        "all_ms": found["all"][-1] / each,
    }


def rendered_photographs() -> tuple[list[Photo], list[Photo]]:
    """DIFFERENT photographs (HEIGHT, WIDTH, 3) and their masks."""
    dataset = data.build("synthetic", photographs=DIFFERENT, side=WIDTH)
    pairs = [(dataset.photo(i), dataset.mask(i)) for i in range(DIFFERENT)]  # together: each is rendered once
    return [photo[:HEIGHT] for photo, _ in pairs], [(mask[:HEIGHT] > 0).astype(np.uint8) for _, mask in pairs]


def _some(pictures: list[Photo], count: int) -> Iterator[Photo]:
    return itertools.islice(itertools.cycle(pictures), count)

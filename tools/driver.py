"""What the driver of a folder job needs for each photograph: memory and seconds, with made-up entries.

    python tools/driver.py 20000 200000

Each number is a job in a process of its own: a list of so many files, a crew that looks at none and writes a mask of
one pixel each, record, summary, report and COCO; and the same command again, which finds all of it done. Printed is the
largest memory that the process ever had, and how much that grows from the first number to the last.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import dgpnet
from dgpnet.segmenter import masks
from dgpnet.segmenter.entries import Entry, stamp
from dgpnet.segmenter.figures import Figures
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.ledger import mask_of
from dgpnet.segmenter.stages import Done, Plan, Task

#: What is told of each photograph, but for its score.
FIGURES = {
    "width": 1, "height": 1, "painted": False, "edited": False, "likeness": 0.4, "presence": 0.9, "uncertainty": 0.1,
    "novelty": 0.2, "areas": (1,), "shares": (1.0,), "counts": (), "scores": (0.5,), "likenesses": (0.4,),
    "presences": (0.9,), "seconds": 0.01,
}  # fmt: skip
#: Files in a folder.
EACH = 1000


class Nobody:
    """A crew that looks at no photograph. seconds: that all but its own writing took."""

    seconds = 0.0

    def run(
        self,
        plan: Plan,
        tasks: Iterable[Task],
        total: int,
        *,
        done: Callable[[Done], None],
        advance: Callable[[int], object],
        **others: Any,
    ) -> None:
        content, digest = masks.drawn(np.ones((1, 1), np.uint8), plan.concept.legend)
        start, writing = time.perf_counter(), 0.0
        for number, task in enumerate(tasks, 1):
            photo, now = task.photo, time.perf_counter()
            plan.out.put({mask_of(photo.key): content})
            writing += time.perf_counter() - now
            figures = Figures(score=number % 997 / 997, **FIGURES)  # type: ignore[arg-type]
            size, made_with, check = stamp(photo.path), plan.made_with, zlib.crc32(content)
            done(Done(Entry(photo.name, photo.key, photo.real, size, made_with, check, digest, {}, figures), ()))
            advance(number)
        self.seconds += time.perf_counter() - start - writing


def main(*counts: int) -> None:
    most = {}
    for count in counts:
        told = subprocess.run([sys.executable, __file__, "one", str(count)], capture_output=True, text=True, check=True)
        most[count] = float(told.stdout.split()[-2])
        print(told.stdout.strip(), flush=True)
    first, last = counts[0], counts[-1]
    if last > first:
        print(f"{most[last] - most[first]:.0f} MB more for {last - first:,} photographs more")


def largest_memory() -> int:
    """Bytes that this process had at the most. What `resource` says begins with what had started it."""
    told = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in told.splitlines() if line.startswith("VmHWM")).split()[1])


def one(count: int) -> None:
    segmenter = dgpnet.load("small", device="cpu")
    photo = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    concept = segmenter.learn([photo], [np.ones((48, 64), np.uint8)])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with (root / "list.txt").open("w") as listed:
            for number in range(count):
                path = root / f"photos/{number // EACH:05}/{number % EACH:03}.jpg"
                if number % EACH == 0:
                    path.parent.mkdir(parents=True)
                path.touch()
                listed.write(f"{path}\n")
        seconds, crew = [], Nobody()
        for before in (0, count):
            start = time.perf_counter()
            names = f"@{root / 'list.txt'}"
            outcome = segment_folder(concept, names, root / "found", crew=crew, formats=["coco"])
            assert (outcome.done, outcome.before, outcome.stopped) == (count, before, None), outcome
            seconds.append(time.perf_counter() - start)
        most = largest_memory() / 1e6
    rate = f"{count / crew.seconds:,.0f} handed out and recorded a second"
    print(f"{count:,} photographs: {rate}, {seconds[0]:.0f} s in all, again {seconds[1]:.0f} s, at most {most:.0f} MB")


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one(int(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))

"""The studio, as its page uses it: from a stroke that is sent to the new mask of the photograph on show, by HTTP."""

from __future__ import annotations

import io
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.benchmark.calls import rendered_photographs
from dgpnet.segmenter import Segmenter
from dgpnet.serving import Access, Guard, serving
from dgpnet.studio.api import application, limits
from dgpnet.studio.studio import open_studio

#: Examples that are painted, and photographs in which nothing is.
PAINTED, OTHERS = 5, 3
#: Seconds between two strokes, in which the rest of the folder is begun.
PAUSE = 1.5
#: Seconds after which an answer does not come any more.
PATIENCE = 120.0


def measured(segmenter: Segmenter, size: tuple[int, int], strokes: int) -> dict[str, Any]:
    """Seconds from a stroke on one of five painted photographs of `size` (width, height) to its new mask: median, and
    the longest."""
    with tempfile.TemporaryDirectory(prefix="dgpnet-benchmark-") as place:
        masks = _write(Path(place), size)
        with open_studio(segmenter, Path(place)) as studio:
            guard = Guard(application(studio), Access.of("127.0.0.1"), limits())
            with serving(guard, stop=[studio.hub.close]) as address:
                seconds = _Page(f"{address}/api/v1/").work(masks, strokes)
    return {
        "width": size[0],
        "height": size[1],
        "examples": PAINTED,
        "encoder": segmenter.network.config.encoder,
        "strokes": strokes,
        "median_s": statistics.median(seconds),
        "longest_s": max(seconds),
    }


def _write(folder: Path, size: tuple[int, int]) -> dict[str, NDArray[np.uint8]]:
    """Photographs, and the masks of those that are painted."""
    masks = {}
    for i, (photo, mask) in enumerate(zip(*rendered_photographs(), strict=True)):
        if i == PAINTED + OTHERS:
            break
        Image.fromarray(photo).resize(size).save(folder / f"{i}.jpg", quality=90)
        if i < PAINTED:
            masks[f"{i}.jpg"] = np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))
    return masks


class _Page:
    """What the page asks of the server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def work(self, masks: dict[str, NDArray[np.uint8]], strokes: int) -> list[float]:
        """Paint, learn, correct: the seconds that each correction took."""
        ids = {one["name"]: one["id"] for one in self.ask("GET", "photographs")["items"]}
        self.ask("POST", "classes", {"name": "thing"})
        for name, mask in masks.items():
            stream = io.BytesIO()
            Image.fromarray(mask).save(stream, "PNG")
            self.ask("PUT", f"photographs/{ids[name]}/mask", stream.getvalue(), {"If-None-Match": "*"})
        self.ask("POST", "concept", {})
        shown, side = ids[next(iter(masks))], next(iter(masks.values())).shape[1] // 20
        self.ask("POST", "visible", {"ids": [shown], "client": "benchmark"})
        seconds = []
        for number in range(strokes + 1):  # the first is not counted: the network is made ready in it
            time.sleep(PAUSE)
            with closing(self.events()) as events:
                next(events)
                begin = time.perf_counter()
                self.ask("PATCH", f"photographs/{shown}/mask", _stroke(number, side))
                for event in events:
                    if event["type"] == "mask" and event["source"] == "found" and event["id"] == shown:
                        break
            seconds.append(time.perf_counter() - begin)
        return seconds[1:]

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """The JSON that is answered. body: bytes of a PNG, or JSON."""
        kind = "image/png" if isinstance(body, bytes) else "application/json"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        told = {"content-type": kind, **(headers or {})}
        request = urllib.request.Request(self.address + path, content, told, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def events(self) -> Generator[dict[str, Any]]:
        """What the server tells, from now on."""
        with urllib.request.urlopen(self.address + "events", timeout=PATIENCE) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[len(b"data: ") :])


def _stroke(number: int, side: int) -> dict[str, Any]:
    """A square, each time elsewhere, and so large that the network sees it."""
    place = {"x": side * (2 * number % 18), "y": side // 2, "width": side, "height": side}
    return {**place, "runs": [0, side * side, 1], "base": "painted"}

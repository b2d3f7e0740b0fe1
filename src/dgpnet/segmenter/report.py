"""A job's results for people: tables sorted for review, and a report that opens from disk without a server."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.files import atomic
from dgpnet.images import COMPRESSION, PALETTE
from dgpnet.pictures import heat_map
from dgpnet.segmenter.ledger import Entry
from dgpnet.segmenter.page import PAGE

#: Longest side of the report's pictures, in pixels.
THUMBNAIL = 640
#: Uncertainty that is drawn brightest: two labels that are equally likely.
BRIGHTEST = 0.5
#: How bright each of 256 levels of uncertainty is.
RAMP = np.linspace(0, 1 / BRIGHTEST, 256).clip(max=1)
#: Colours and opacities of mask and uncertainty, of 256 values each.
MASK = PALETTE.tobytes(), bytes([0] + [255] * 255)
HEAT = heat_map(RAMP[None]).tobytes(), (255 * RAMP**0.5).astype(np.uint8).tobytes()


def thumbnail(photo: Image.Image) -> Image.Image:
    """A photograph as the report shows it; itself where it is small."""
    if max(photo.size) <= THUMBNAIL:
        return photo
    width, height = (max(1, round(side * THUMBNAIL / max(photo.size))) for side in photo.size)
    return photo.resize((width, height), Image.Resampling.BILINEAR)


def write_thumbnails(
    report: Path,
    key: str,
    photo: Image.Image,
    mask: NDArray[np.uint8],
    uncertainty: NDArray[np.uint8],
) -> None:
    """The three pictures of one photograph, all of the size of `photo`; mask (H, W) and uncertainty (h, w) of any.

    Mask and uncertainty are transparent where there is nothing to see, and are laid over the photograph by the page.
    """
    _save(photo, _place(report / "photo", key, ".jpg"), quality=82)
    for kind, values, how, (colours, opacity) in (
        ("mask", mask, Image.Resampling.NEAREST, MASK),
        ("uncertainty", uncertainty, Image.Resampling.BILINEAR, HEAT),
    ):
        layer = Image.fromarray(values).resize(photo.size, how)
        layer.putpalette(colours)
        _save(layer, _place(report / kind, key, ".png"), transparency=opacity, compress_level=COMPRESSION)


def _place(folder: Path, key: str, suffix: str) -> Path:
    path = folder / f"{key}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _save(picture: Image.Image, path: Path, **options: Any) -> None:
    with atomic(path) as temporary:
        picture.save(temporary, **options)


def for_review(entries: Iterable[Entry]) -> list[Entry]:
    """The least certain first."""
    return sorted(entries, key=lambda entry: (entry.score, entry.name))


def write_report(
    report: Path, title: str, classes: Sequence[str], entries: Sequence[Entry], failures: Mapping[str, str]
) -> None:
    """`index.html` and its `data.js`; the pictures are there already. failures: name -> what went wrong."""
    colours = [f"#{bytes(PALETTE[i]).hex()}" for i in range(1, len(classes) + 1)]
    data = {
        "title": title,
        "classes": [{"name": name, "colour": colour} for name, colour in zip(classes, colours, strict=True)],
        "rows": [
            [e.key, e.width, e.height, round(e.score, 5), round(e.likeness, 5), round(e.uncertainty, 5),
             round(e.novelty, 5), e.areas, round(e.seconds, 4)]
            for e in entries
        ],
        "failures": list(failures.items()),
    }  # fmt: skip
    report.mkdir(parents=True, exist_ok=True)
    with atomic(report / "data.js") as temporary:
        temporary.write_text(f"window.dgpnetReport = {json.dumps(data)};\n", encoding="utf-8")
    with atomic(report / "index.html") as temporary:
        temporary.write_text(PAGE, encoding="utf-8")


def write_summary(
    out: Path, about: Mapping[str, Any], classes: Sequence[str], entries: Sequence[Entry], failures: Mapping[str, str]
) -> None:
    """`summary.csv` and `summary.json`: one line a photograph in the order given, failures at the end."""
    photographs = [_row(entry, classes) for entry in entries]
    listed = [{"photo": name, "error": why} for name, why in failures.items()]
    with atomic(out / "summary.json") as temporary:
        whole = {**about, "classes": list(classes), "photographs": photographs, "failures": listed}
        temporary.write_text(json.dumps(whole, indent=1, ensure_ascii=False), encoding="utf-8")
    columns = ["photo", "mask", "score", "likeness", "uncertainty", "novelty", "width", "height"]
    columns += [f"area {name}" for name in classes] + ["seconds", "error"]
    with atomic(out / "summary.csv") as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        for row in photographs:
            areas = {f"area {name}": area for name, area in row["areas"].items()}
            table.writerow({**{name: row[name] for name in columns if name in row}, **areas})
        table.writerows(listed)


def _row(entry: Entry, classes: Sequence[str]) -> dict[str, Any]:
    return {
        "photo": entry.name,
        "mask": f"masks/{entry.key}.png",
        "score": round(entry.score, 5),
        "likeness": round(entry.likeness, 5),
        "uncertainty": round(entry.uncertainty, 5),
        "novelty": round(entry.novelty, 5),
        "width": entry.width,
        "height": entry.height,
        "areas": dict(zip(classes, entry.areas, strict=True)),
        "seconds": round(entry.seconds, 4),
    }

"""A job's results for people: tables sorted for review, and a report that opens from disk without a server."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations.legend import Legend
from dgpnet.colours import PALETTE, Colour, to_hex
from dgpnet.images import IGNORE, RUNS, encoded
from dgpnet.pictures import heat_map
from dgpnet.places import Place
from dgpnet.segmenter.entries import Entry
from dgpnet.segmenter.estimate import Estimate
from dgpnet.segmenter.figures import EACH, FIELDS, totals
from dgpnet.segmenter.ledger import mask_of
from dgpnet.segmenter.page import PAGE
from dgpnet.segmenter.rounds import Round

#: Longest side of the report's pictures, in pixels.
THUMBNAIL = 640
#: How pictures of uncertainty are saved: three quarters of the usual time for a twentieth more bytes.
QUICKLY = {"compress_level": 2}
#: Classes that the report's title names.
NAMED = 3
#: Uncertainty that is drawn brightest: two labels that are equally likely.
BRIGHTEST = 0.5
#: Where the photographs stand in a summary, until they are written.
PLACE = "\0photographs\0"
#: How bright each of 256 levels of uncertainty is.
RAMP = np.linspace(0, 1 / BRIGHTEST, 256).clip(max=1)
#: How opaque each of a mask's 256 values is.
OPAQUE = bytes([0] + [255] * 255)
#: Colours and opacities of 256 levels of uncertainty.
HEAT = heat_map(RAMP[None]).tobytes(), (255 * RAMP**0.5).astype(np.uint8).tobytes()


def thumbnail(photo: Image.Image) -> Image.Image:
    """A photograph as the report shows it; itself where it is small."""
    if max(photo.size) <= THUMBNAIL:
        return photo
    width, height = (max(1, round(side * THUMBNAIL / max(photo.size))) for side in photo.size)
    return photo.resize((width, height), Image.Resampling.BILINEAR)


def thumbnails(
    key: str,
    photo: Image.Image,
    mask: NDArray[np.uint8],
    uncertainty: NDArray[np.uint8],
    colours: Sequence[Colour],
) -> dict[str, bytes]:
    """The files of the three pictures of one photograph, all of the size of `photo`; mask (H, W) and uncertainty (h, w)
    of any.

    Mask and uncertainty are transparent where there is nothing to see, and are laid over the photograph by the page.
    colours: of the classes.
    """
    palette = PALETTE.copy()
    palette[1 : len(colours) + 1] = colours
    palette[IGNORE] = PALETTE[IGNORE]
    files = {f"report/photo/{key}.jpg": encoded(photo, "JPEG", quality=82)}
    for kind, values, how, (shades, opacity), options in (
        ("mask", mask, Image.Resampling.NEAREST, (palette.tobytes(), OPAQUE), RUNS),
        ("uncertainty", uncertainty, Image.Resampling.BILINEAR, HEAT, QUICKLY),
    ):
        layer = Image.fromarray(values).resize(photo.size, how)
        layer.putpalette(shades)
        files[f"report/{kind}/{key}.png"] = encoded(layer, "PNG", transparency=opacity, **options)
    return files


def write_report(
    out: Place,
    legend: Legend,
    entries: Collection[Entry],
    failures: Mapping[str, str],
    estimate: Estimate | None = None,
) -> None:
    """report/index.html and its data.js; the pictures are there already. failures: name -> what went wrong."""
    of_all = totals((entry.figures for entry in entries), legend.names)
    what = ", ".join(legend.names) if len(legend.names) <= NAMED else f"{len(legend.names)} classes"
    data = {
        "title": f"{what} in {len(entries)} photograph{'' if len(entries) == 1 else 's'}",
        "classes": [
            {"name": name, "colour": to_hex(colour), "value": value, "total": of_all[name]}
            for name, colour, value in zip(legend.names, legend.colours, legend.values, strict=True)
        ],
        "figures": [
            {
                "name": one.name,
                "title": EACH.get(one.name, one.name),
                "means": one.metadata["means"],
                "whole": "int" in one.type,
            }
            for one in FIELDS
        ],
        # Beside its name, what it is called in an address: browsers know no names but in UTF-8.
        "rows": [PLACE] if entries else [],
        "failures": [[printable(name), printable(why)] for name, why in failures.items()],
        "estimate": None
        if estimate is None
        else {
            "text": printable(f"From the examples alone: {estimate}."),
            "doubtful": list(map(printable, estimate.doubtful)),
        },
    }
    before, _, after = f"window.dgpnetReport = {json.dumps(data)};\n".partition(json.dumps(PLACE))
    with out.writing("report/data.js") as path, path.open("w", encoding="utf-8", newline="") as file:
        file.write(before)
        for i, entry in enumerate(entries):
            row = [printable(entry.name), quote(os.fsencode(entry.key)), entry.figures.values()]
            file.write((", " if i else "") + json.dumps(row))
        file.write(after)
    out.put({"report/index.html": PAGE.encode()})


def write_summary(
    out: Place,
    about: Round,
    classes: Sequence[str],
    entries: Collection[Entry],
    failures: Mapping[str, str],
    estimate: Estimate | None = None,
) -> None:
    """`summary.csv` and `summary.json`: one line a photograph in the order given, failures at the end.

    A byte of a file's name that is not UTF-8 stands as \\udc80 … \\udcff in both, and a backslash in a name is
    doubled in the CSV, so that names can be told back.
    """
    listed = [{"photo": name, "error": why} for name, why in failures.items()]
    whole = {
        **asdict(about),
        "classes": list(classes),
        "totals": totals((entry.figures for entry in entries), classes),
        "estimate": None if estimate is None else asdict(estimate),
        "photographs": [PLACE] if entries else [],
        "failures": listed,
    }
    before, _, after = _json(whole).partition(_json(PLACE))
    with (
        out.writing("summary.json") as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.write(before)
        for i, entry in enumerate(entries):  # one by one: all of them would take more memory than the job did
            row = {"photo": entry.name, "mask": mask_of(entry.key), **entry.figures.nested(classes)}
            file.write((",\n  " if i else "") + _json(row).replace("\n", "\n  "))
        file.write(after)

    def rows() -> Iterator[dict[str, Any]]:
        for entry in entries:
            told = {"photo": _told_back(entry.name), "mask": _told_back(mask_of(entry.key))}
            yield told | entry.figures.flat(classes)
        for one in listed:
            yield {"photo": _told_back(one["photo"]), "error": one["error"]}

    columns = list(dict.fromkeys(name for row in rows() for name in row if name != "error"))
    with (
        out.writing("summary.csv") as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        table = csv.DictWriter(file, [*columns, "error"])
        table.writeheader()
        table.writerows(rows())


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def printable(text: str) -> str:
    """The text with bytes that were no UTF-8 as \\udc80 … \\udcff."""
    return text.encode("utf-8", "backslashreplace").decode()


def _told_back(name: str) -> str:
    return name.replace("\\", "\\\\")

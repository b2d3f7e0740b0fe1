"""`dgpnet segment`: masks for many photographs from a few painted ones."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgpnet.cli.common import (
    AsJson,
    Classes,
    Crowds,
    Device,
    Fit,
    FitSeconds,
    Images,
    Model,
    Names,
    Photos,
    Support,
    crew_of,
    describe,
    doubts,
    learned,
    read_painted,
    tell,
    time_to_fit,
)
from dgpnet.cli.progress import progress
from dgpnet.errors import printable
from dgpnet.images import MAX_PIXELS

if TYPE_CHECKING:
    from dgpnet.places import Place
    from dgpnet.segmenter.folder import Outcome

#: What to open, in the output folder.
REPORT = "report/index.html"


def segment(
    support: Support,
    photos: Photos,
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", help="Where masks, summary and report go; s3://… works, too."),
    ],
    format: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Write coco, labelme, yolo, labelstudio, … as well (docs/formats.md). Repeatable.",
            show_default=False,
        ),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Photographs with their masks drawn in.")] = False,
    uncertainty: Annotated[bool, typer.Option("--uncertainty", help="Maps of where a label may be wrong.")] = False,
    instances: Annotated[bool, typer.Option("--instances", help="Tell connected parts of a class apart.")] = False,
    min_area: Annotated[
        int, typer.Option("--min-area", metavar="PIXELS", help="Count and write no smaller parts.")
    ] = 0,
    polygons: Annotated[bool, typer.Option("--polygons", help="Outlines in place of pixels in --format.")] = False,
    simplify: Annotated[
        float, typer.Option("--simplify", metavar="PIXELS", help="How far outlines may be off, for fewer points.")
    ] = 0.0,
    prefix: Annotated[
        str, typer.Option("--prefix", help="What links to photographs begin with in --format labelstudio.")
    ] = "",
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", help="Probability a class needs; by default the likeliest label wins.", show_default=False
        ),
    ] = None,
    tile: Annotated[bool, typer.Option("--tile", help="See large photographs in overlapping tiles.")] = False,
    max_pixels: Annotated[int, typer.Option("--max-pixels", help="Refuse photographs with more.")] = MAX_PIXELS,
    min_likeness: Annotated[
        float,
        typer.Option("--min-likeness", help="Leave out what was found and is less like what was painted (try 0.25)."),
    ] = 0.0,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Leave nothing out for being probably not there (presence under 0.5).")
    ] = False,
    fit: Fit = False,
    fit_seconds: FitSeconds = None,
    again: Annotated[
        bool, typer.Option("--again", help="Segment anew into a DIR that holds an earlier round.")
    ] = False,
    classes: Classes = None,
    names: Names = None,
    images: Images = None,
    crowds: Crowds = None,
    model: Model = "default",
    device: Device = None,
    devices: Annotated[
        str | None,
        typer.Option("--devices", metavar="0,1,…", help="A process for each of several devices.", show_default=False),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="[ADDRESS]",
            help="Share the work among the machines of a Ray cluster (docs/scale.md).",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Masks for photographs and folders of them, from a few painted ones.

    Writes masks to DIR/masks in the folders of the input, a summary, and DIR/report/index.html to page through, the
    least certain first. What you painted is kept as painted. Run it again to go on where it was cut off; after painting
    more, run it with --again, or with another --out.

    \b
    Example: dgpnet segment painted/ photos/ --out found/ --overlay
    """
    from dgpnet.places import place_of
    from dgpnet.segmenter import load
    from dgpnet.segmenter.folder import segment_folder
    from dgpnet.segmenter.kept import fitted_before
    from dgpnet.segmenter.options import Options
    from dgpnet.segmenter.photographs import list_photographs

    options: dict[str, Any] = {
        "formats": tuple(format or ()),
        "overlay": overlay,
        "uncertainty": uncertainty,
        "instances": instances,
        "min_area": min_area,
        "polygons": polygons,
        "simplify": simplify,
        "prefix": prefix,
        "threshold": threshold,
        "tile": tile,
        "max_pixels": max_pixels,
        "min_likeness": min_likeness,
        "keep_all": keep_all,
    }
    Options.of(options)  # refused before anything is read
    place, crew = place_of(out), crew_of(devices, ray)
    seconds = time_to_fit(support, fit=fit, seconds=fit_seconds)
    painted = read_painted(support, classes=classes, names=names, images=images, crowds=crowds)
    # Masks are no photographs, wherever they lie.
    masks = () if painted is None else painted.masks
    found = list_photographs(photos, out=out, skip=[support, support / "masks", *masks])
    notes = () if painted is None else painted.notes
    tell(notes)
    segmenter = load(model, device=device or (devices and devices.split(",")[0]))
    before = (
        None if seconds is None else fitted_before(place, lambda: learned(support, painted, segmenter), again=again)
    )
    concept = before or learned(support, painted, segmenter, seconds=seconds)
    typer.echo(describe(concept, before=before is not None), err=True)
    tell(doubts(concept))
    with progress("Segmenting") as advance:
        outcome = segment_folder(
            concept, found, place, painted=painted, again=again, advance=advance, crew=crew, **options
        )
    tell(outcome.notes)
    for reason in outcome.failures.values():
        typer.echo(f"failed: {printable(reason)}", err=True)
    if outcome.stopped:
        typer.echo(f"stopped: {printable(outcome.stopped)}", err=True)
    if as_json:
        typer.echo(_as_json(outcome, place, (*notes, *doubts(concept))))
    else:
        typer.echo("\n".join(map(printable, _lines(outcome, place, min_likeness))))
    if outcome.failures or outcome.stopped:
        raise typer.Exit(1)


def _as_json(outcome: "Outcome", out: "Place", notes: tuple[str, ...]) -> str:
    answer = {
        "out": str(out),
        "masks": str(out.at("masks")),
        "report": str(out.at(REPORT)),
        **asdict(outcome),
        "annotations": {format: str(path) for format, path in outcome.annotations.items()},
        "notes": [*notes, *outcome.notes],
    }
    answer["done_before"] = answer.pop("before")
    return json.dumps(answer, indent=1)


def _lines(outcome: "Outcome", out: "Place", min_likeness: float) -> Iterator[str]:
    from dgpnet.segmenter.folder import UNLIKE

    photographs = f"{outcome.done} photograph{'' if outcome.done == 1 else 's'}"
    before = f" ({outcome.before} of them before)" if outcome.before else ""
    yield f"{photographs} done{before}, {len(outcome.failures)} failed."
    if outcome.painted or outcome.edited:
        white = f" ({outcome.white} white on black: taken for {', '.join(outcome.totals)})" if outcome.white else ""
        yield f"Kept by hand: {outcome.painted} as painted, {outcome.edited} as edited in {out.at('masks')}{white}."
    for name, total in outcome.totals.items():
        count = f", {total['count']} parts" if "count" in total else ""
        yield f"{name}: in {total['photographs']}{count}, {total['share']:.1%} of all pixels."
    if outcome.left_out:
        yield (
            f"In {outcome.left_out} of {photographs} something was found and left out, since it is probably not there "
            "(presence under one half); --keep-all keeps it."
        )
    if outcome.less_like:
        yield (
            f"In {outcome.less_like} of {photographs} something was found and left out, since it is less like what was "
            f"painted (likeness under {min_likeness:g}); a lower --min-likeness keeps it."
        )
    yield f"Masks: {out.at('masks')}"
    for path in outcome.annotations.values():
        yield f"Annotations: {path}"
    if out.read(REPORT) is not None:
        yield f"Report: {out.at(REPORT)}"
    if outcome.unlike:
        yield (
            f"In {outcome.unlike} of {photographs} something was found that is little like what was painted "
            f"(likeness under {UNLIKE}). If not every photograph shows it, "
            f"try --min-likeness {UNLIKE} with --again or another --out."
        )

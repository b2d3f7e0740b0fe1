"""`dgpnet segment`: masks for many photographs from a few painted ones."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import AsJson, Classes, Device, Images, Model, Photos, Support, describe, read_concept
from dgpnet.cli.progress import progress
from dgpnet.images import MAX_PIXELS


def segment(
    support: Support,
    photos: Photos,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where masks, summary and report go.")],
    format: Annotated[
        str | None,
        typer.Option("--format", help="Write coco, labelme, yolo or labelstudio as well.", show_default=False),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Photographs with their masks drawn in.")] = False,
    uncertainty: Annotated[bool, typer.Option("--uncertainty", help="Maps of where a label may be wrong.")] = False,
    instances: Annotated[bool, typer.Option("--instances", help="Tell connected parts of a class apart.")] = False,
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
        typer.Option("--min-likeness", help="Leave out what was found and is less like what was painted (try 0.2)."),
    ] = 0.0,
    classes: Classes = None,
    images: Images = None,
    model: Model = "default",
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Masks for photographs and folders of them, from a few painted ones.

    Writes index PNGs to DIR/masks in the folders of the input, a summary, and DIR/report/index.html to page through,
    the least certain first. Run it again to go on where it was cut off.

    \b
    Example: dgpnet segment painted/ photos/ --out found/ --overlay
    """
    from dgpnet.segmenter import load
    from dgpnet.segmenter.folder import UNLIKE, Job, Options
    from dgpnet.segmenter.ledger import OUTPUTS
    from dgpnet.segmenter.photographs import find_photographs

    options = Options(format, overlay, uncertainty, instances, threshold, tile, max_pixels, min_likeness)
    # Neither results nor masks are photographs, wherever they lie.
    found = find_photographs(photos, skip=[out, *(out / name for name in OUTPUTS), support, support / "masks"])
    segmenter = load(model, device=device)
    fingerprint, learn = read_concept(support, segmenter, classes=classes, images=images)
    job = Job(out, support=fingerprint, model=segmenter.fingerprint, options=options)
    concept = learn()
    typer.echo(describe(concept), err=True)
    with progress("Segmenting") as advance:
        outcome = job.run(concept, found, advance=advance)

    for reason in outcome.failures.values():
        typer.echo(f"failed: {reason}", err=True)
    if outcome.stopped:
        typer.echo(f"stopped: {outcome.stopped}", err=True)
    report = out / "report" / "index.html"
    if as_json:
        answer = {
            "out": str(out),
            "report": str(report),
            "done": outcome.done,
            "done_before": outcome.before,
            "failures": outcome.failures,
            "unlike": outcome.unlike,
            "stopped": outcome.stopped,
        }
        typer.echo(json.dumps(answer, indent=1))
    else:
        before = f" ({outcome.before} of them before)" if outcome.before else ""
        photographs = f"{outcome.done} photograph{'' if outcome.done == 1 else 's'}"
        typer.echo(f"{photographs} done{before}, {len(outcome.failures)} failed.")
        typer.echo(f"Masks: {out / 'masks'}")
        if not outcome.stopped:
            typer.echo(f"Report: {report}")
        if outcome.unlike:
            typer.echo(
                f"In {outcome.unlike} of {photographs} something was found that is little like what was painted"
                f" (likeness under {UNLIKE}). If not every photograph shows it,"
                f" try --min-likeness {UNLIKE} with another --out."
            )
    if outcome.failures or outcome.stopped:
        raise typer.Exit(1)

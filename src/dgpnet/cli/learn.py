"""`dgpnet learn`: a few masks into a .concept file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
    Support,
    describe,
    doubts,
    learned,
    read_painted,
    tell,
    time_to_fit,
)


def learn(
    support: Support,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The concept file to write.")],
    fit: Fit = False,
    fit_seconds: FitSeconds = None,
    classes: Classes = None,
    names: Names = None,
    images: Images = None,
    crowds: Crowds = None,
    model: Model = "default",
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Learn from a few masks and keep the result in one file, which `dgpnet segment` takes in place of SUPPORT.

    \b
    Example: dgpnet learn painted/ --out mug.concept --fit
    """
    from dgpnet.errors import Error
    from dgpnet.segmenter import load

    if out.suffix != ".concept":
        better = out / "it.concept" if out.is_dir() else out.with_suffix(".concept")
        raise Error(f"A concept file ends in .concept, given {out}; try {better}.")
    if support.resolve() == out.resolve():
        raise Error(f"{out} is both what is learned from and what is written; choose another --out.")
    seconds = time_to_fit(support, fit=fit, seconds=fit_seconds)
    painted = read_painted(support, classes=classes, names=names, images=images, crowds=crowds)
    notes = () if painted is None else painted.notes
    tell(notes)
    concept = learned(support, painted, load(model, device=device), seconds=seconds)
    tell(doubts(concept))
    concept.save(out)
    if as_json:
        answer = {
            "out": str(out),
            "classes": concept.classes,
            "examples": concept.examples,
            "budgeted": concept.budgeted,
            "estimate": None if concept.estimate is None else asdict(concept.estimate),
            "fitted": None if concept.fitted is None else asdict(concept.fitted),
            "model": concept.segmenter.fingerprint,
            "notes": (*notes, *doubts(concept)),
        }
        typer.echo(json.dumps(answer, indent=1))
    else:
        typer.echo(f"{describe(concept)} Wrote {out}.")

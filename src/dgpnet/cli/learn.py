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
    Images,
    Model,
    Names,
    Support,
    describe,
    doubts,
    learned,
    read_painted,
    tell,
)


def learn(
    support: Support,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The concept file to write.")],
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
    Example: dgpnet learn painted/ --out mug.concept
    """
    from dgpnet.errors import Error
    from dgpnet.segmenter import load

    if out.suffix != ".concept":
        better = out / "it.concept" if out.is_dir() else out.with_suffix(".concept")
        raise Error(f"A concept file ends in .concept, given {out}; try {better}.")
    if support.resolve() == out.resolve():
        raise Error(f"{out} is both what is learned from and what is written; choose another --out.")
    painted = read_painted(support, classes=classes, names=names, images=images, crowds=crowds)
    notes = () if painted is None else painted.notes
    tell(notes)
    concept = learned(support, painted, load(model, device=device))
    tell(doubts(concept))
    concept.save(out)
    if as_json:
        answer = {
            "out": str(out),
            "classes": concept.classes,
            "examples": concept.examples,
            "budgeted": concept.budgeted,
            "estimate": None if concept.estimate is None else asdict(concept.estimate),
            "model": concept.segmenter.fingerprint,
            "notes": (*notes, *doubts(concept)),
        }
        typer.echo(json.dumps(answer, indent=1))
    else:
        typer.echo(f"{describe(concept)} Wrote {out}.")

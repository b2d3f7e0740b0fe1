"""`dgpnet suggest`: which photographs to annotate first."""

import json
import os
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
    Photos,
    learned,
    read_painted,
    tell,
)
from dgpnet.errors import printable


def suggest(
    photos: Photos,
    budget: Annotated[int, typer.Option("--budget", help="How many photographs to suggest.")] = 5,
    support: Annotated[
        Path | None,
        typer.Option("--support", metavar="SUPPORT", help="What is annotated already.", show_default=False),
    ] = None,
    classes: Classes = None,
    names: Names = None,
    images: Images = None,
    crowds: Crowds = None,
    model: Model = "default",
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Which photographs to annotate first: those that would tell the most about all the others.

    Prints one path a line, the most telling first. Works before any mask exists; with --support it goes on from there,
    prefers what probably shows the thing, and suggests nothing that is annotated already.

    \b
    Example: dgpnet suggest photos/ --budget 5
    """
    from dgpnet.checks import whole
    from dgpnet.errors import Error
    from dgpnet.segmenter import load
    from dgpnet.segmenter.photographs import find_photographs
    from dgpnet.segmenter.stages import Painted
    from dgpnet.segmenter.suggest import encode, order

    whole("--budget", budget, 1)

    painted = None
    skip: list[Path] = []
    if support is not None:
        painted = read_painted(support, classes=classes, names=names, images=images, crowds=crowds)
        tell(() if painted is None else painted.notes)
        skip = [support, support / "masks"]
        skip += () if painted is None else painted.masks
    found = find_photographs(photos, skip=skip)
    if remote := next((photo for photo in found if photo.stored is not None), None):
        raise Error(f"Suggestions are made among files, and {remote.where} is none; copy some photographs here first.")
    known = Painted(() if painted is None else painted.examples)
    if not (found := [photo for photo in found if not known.has(photo.path)]):
        raise Error("All these photographs are annotated already; give others, or go on with `dgpnet segment`.")
    segmenter = load(model, device=device)
    concept = None if support is None else learned(support, painted, segmenter)
    pool = encode(segmenter, [photo.path for photo in found], concept)
    for error in pool.failures.values():
        typer.echo(f"failed: {printable(error)}", err=True)
    memory = None if concept is None else concept.memory
    paths = [str(found[i].path) for i in order(segmenter, pool, budget, memory)]
    if as_json:
        failures = {str(found[i].path): str(error) for i, error in pool.failures.items()}
        typer.echo(json.dumps({"suggested": paths, "failures": failures}, indent=1))
    else:
        for path in paths:
            typer.echo(os.fsencode(path))  # for a program that reads it: the very bytes
    if pool.failures:
        raise typer.Exit(1)

"""`dgpnet suggest`: which photographs to annotate first."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import AsJson, Classes, Device, Images, Model, Photos, read_concept


def suggest(
    photos: Photos,
    budget: Annotated[int, typer.Option("--budget", help="How many photographs to suggest.")] = 5,
    support: Annotated[
        Path | None,
        typer.Option("--support", metavar="SUPPORT", help="What is annotated already.", show_default=False),
    ] = None,
    classes: Classes = None,
    images: Images = None,
    model: Model = "default",
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Which photographs to annotate first: those that would tell the most about all the others.

    Prints one path a line, the most telling first. Works before any mask exists; with --support it goes on from there.

    \b
    Example: dgpnet suggest photos/ --budget 5
    """
    from dgpnet.checks import whole
    from dgpnet.segmenter import load
    from dgpnet.segmenter.photographs import find_photographs
    from dgpnet.segmenter.suggest import encode, order

    whole("--budget", budget, 1)

    found = find_photographs(photos, skip=[] if support is None else [support, support / "masks"])
    segmenter = load(model, device=device)
    memory = None
    if support is not None:
        memory = read_concept(support, segmenter, classes=classes, images=images)[1]().memory
    pool = encode(segmenter, [photo.path for photo in found])
    for error in pool.failures.values():
        typer.echo(f"failed: {error}", err=True)
    paths = [str(found[i].path) for i in order(segmenter, pool, budget, memory)]
    if as_json:
        failures = {str(found[i].path): str(error) for i, error in pool.failures.items()}
        typer.echo(json.dumps({"suggested": paths, "failures": failures}, indent=1))
    else:
        for path in paths:
            typer.echo(path)
    if pool.failures:
        raise typer.Exit(1)

"""`dgpnet reproduce`: the paper's tables, ours beside theirs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.parsing import Cache, Device, numbers


def reproduce(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Which; all of them when none is named.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Folder of the data, for all datasets or as dataset=DIR; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Runs, tests and tables; what is there is used.")] = Path(
        "reproduction"
    ),
    scale: Annotated[str, typer.Option(help="full (the paper's), mini (minutes on a GPU) or synthetic.")] = "full",
    encoder_weights: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="ImageNet weights of an image encoder; repeatable, one for each encoder."),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Training steps of every run, in place of the scale's.")
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="Test episodes, in place of the scale's.")] = None,
    folds: Annotated[str | None, typer.Option(help="Folds such as 0,1, in place of the scale's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Draws of test episodes, in place of the scale's.")] = None,
    trainings: Annotated[
        int | None, typer.Option(help="Trainings of each network, each from its own seed; cells are their means.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Change every training run, e.g. precision=bf16; repeatable."
        ),
    ] = None,
    device: Device = "auto",
    cache: Cache = None,
    allow_pickle: Annotated[bool, typer.Option(help="Read encoder weights that are pickles.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the plan and its cost, and do nothing.")] = False,
    list_tables: Annotated[bool, typer.Option("--list", help="Print the names of the tables.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Train and test what the paper's tables need, and print ours beside theirs.

    Networks that several tables need are trained once; what the folder holds already is not done again. The same
    command given several times at once, on other GPUs or machines, divides the work.

    Example: dgpnet reproduce kernels levels --scale mini --root data --encoder-weights resnet50.safetensors --dry-run
    """
    from dgpnet.devices import find_device
    from dgpnet.reproduce import work
    from dgpnet.reproduce.plan import Planner, places
    from dgpnet.reproduce.reproduction import Reproduction
    from dgpnet.reproduce.scales import named
    from dgpnet.reproduce.tables import EXHIBITS, select
    from dgpnet.training import Running

    if list_tables:
        for exhibit in EXHIBITS.values():
            typer.echo(f"{exhibit.name:12} {exhibit.title}")
        return
    find_device(device)  # before any work
    wanted = None if folds is None else numbers("--folds", folds, least=0)
    chosen = named(scale).changed(
        iterations=iterations, episodes=episodes, folds=wanted, seeds=seeds, trainings=trainings
    )
    where = places(root or (), encoder_weights or (), allow_pickle=allow_pickle)
    exhibits = select(tables or ())
    running = Running(device=device, cache=cache, allow_pickle=allow_pickle)
    command = shlex.join(["dgpnet", *sys.argv[1:]])
    job = Reproduction(Planner(chosen, where, tuple(settings or ())), out, command, running, _say)
    plan = job.plan(exhibits)
    for line in work.describe(plan, job.archive):
        _say(line)
    if dry_run:
        return
    failures = job.work(exhibits)
    written = sorted(str(path) for path in (out / "tables").glob("*.md"))
    if as_json:
        typer.echo(json.dumps({"written": written, "failures": failures}))
    else:
        for path in written:
            typer.echo(path)
    if failures:
        raise typer.Exit(1)


def _say(text: str) -> None:
    typer.echo(text, err=True)

"""`dgpnet benchmark`: speed and memory, beside the paper's listing done naively."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.parsing import Device


def benchmark(
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything, at 384²: for CPUs.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where benchmark.md, .json and plots go.")] = Path(
        "benchmark"
    ),
    checkpoint: Annotated[
        str, typer.Option(metavar="PATH", help="A trained network to measure with; random weights otherwise.")
    ] = "",
    root: Annotated[
        str, typer.Option(metavar="DIR", help="PASCAL's folder: also measure whether mIoU moves (with --checkpoint).")
    ] = "",
    episodes_file: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="Episodes of COCO, which --root then holds.", show_default=False),
    ] = None,
    section: Annotated[
        list[str] | None, typer.Option(help="Only this section (machine, runtimes, cached, …); repeatable.")
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Also the training step compiled: half a minute more for each shot count.")
    ] = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON in place of Markdown.")] = False,
) -> None:
    """Measure both paths in one process on the same inputs: run times, memory, agreement, growth, end to end.

    Each section is written as soon as it is measured; one that fails is reported and the others go on.

    Example: dgpnet benchmark --quick --out speed
    """
    from dgpnet.benchmark import bench, report
    from dgpnet.devices import find_device

    listed = str(episodes_file or "")
    workload = bench.workload_for(
        find_device(device), quick=quick, checkpoint=checkpoint, root=root, listed=listed, compile_step=compiled
    )
    command = shlex.join(["dgpnet", *sys.argv[1:]])
    found = bench.run(workload, out, sections=section or bench.SECTIONS, command=command, say=_say)
    typer.echo(json.dumps(found, indent=1) if as_json else report.markdown(found, command))
    if bench.failed(found):
        raise typer.Exit(1)


def _say(text: str) -> None:
    typer.echo(text, err=True)

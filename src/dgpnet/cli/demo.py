"""`dgpnet demo`: see it work on bundled photographs."""

from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import Device, Model


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where everything goes.")] = Path("demo"),
    photographs: Annotated[
        Path | None,
        typer.Option("--photographs", metavar="DIR", help="Only write the photographs there.", show_default=False),
    ] = None,
    model: Model = "default",
    device: Device = None,
) -> None:
    """Coins, a motorcycle, a rocket and rendered shapes: some painted, the rest found, with pictures and reports.

    \b
    Example: dgpnet demo --out demo
    """
    from dgpnet.demo import run, write_photographs

    if photographs is not None:
        typer.echo(f"Photographs: {write_photographs(photographs)}")
        return
    picture = run(out, model=model, device=device, say=typer.echo)
    typer.echo(f"\nPictures: {picture.resolve()}")
    for report in sorted(out.resolve().glob("*/found/report/index.html")):
        typer.echo(f"Report:   {report.as_uri()}")

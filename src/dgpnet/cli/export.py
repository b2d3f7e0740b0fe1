"""`dgpnet export`: a model for programs without Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import AsJson, Model

export = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write; it must not be there yet.")]
Baked = Annotated[
    Path | None,
    typer.Option("--concept", metavar="FILE", help="A .concept to have inside the graph.", show_default=False),
]


@export.command("onnx")
def onnx_command(
    out: Out,
    model: Model = "default",
    concept: Baked = None,
    timed: Annotated[bool, typer.Option("--time", help="Also measure the milliseconds a photograph takes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write query.onnx and support.onnx for onnxruntime in any language, compared with PyTorch before they are kept.

    \b
    Example: dgpnet export onnx --model small --out small-onnx
    """
    from dgpnet.export.folder import describe
    from dgpnet.export.to_onnx import export_onnx
    from dgpnet.segmenter import Concept, load

    segmenter = load(model, device="cpu")
    learned = None if concept is None else Concept.load(concept, segmenter)
    about = export_onnx(segmenter, out, concept=learned, timed=timed, say=lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(json.dumps({"out": str(out), **about.to_json()}, indent=1))
        return
    for parity in about.parity:
        typer.echo(describe(parity))
    for name, milliseconds in (about.times or {}).items():
        typer.echo(f"{name}: {milliseconds:.0f} ms a photograph")
    typer.echo(f"Wrote {', '.join(about.files)} to {out}.")


@export.command("concept")
def concept_command(
    concept: Annotated[Path, typer.Argument(metavar="CONCEPT", help="A .concept file.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .npz file to write.")],
    model: Model = "default",
    as_json: AsJson = False,
) -> None:
    """Write what was learned as the arrays that a query.onnx without a concept takes, for numpy and others.

    \b
    Example: dgpnet export concept mug.concept --model small --out mug.npz
    """
    from dgpnet.errors import Error
    from dgpnet.export.to_onnx import export_state
    from dgpnet.segmenter import Concept, load

    if out.suffix != ".npz":
        raise Error(f"The arrays go to a file that ends in .npz, given {out}; try {out.with_suffix('.npz')}.")
    learned = Concept.load(concept, load(model, device="cpu"))
    export_state(learned, out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "classes": learned.classes, "model": learned.segmenter.fingerprint}))
    else:
        typer.echo(f"Wrote {out}: {', '.join(learned.classes)}.")

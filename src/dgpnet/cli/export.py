"""`dgpnet export`: a model for programs without Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgpnet.cli.common import AsJson, Model

if TYPE_CHECKING:
    from dgpnet.export.folder import About
    from dgpnet.segmenter import Concept, Segmenter

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
    from dgpnet.export.to_onnx import export_onnx

    segmenter, learned = _loaded(model, concept)
    _report(export_onnx(segmenter, out, concept=learned, timed=timed, say=_say), out, as_json)


@export.command("torch")
def torch_command(out: Out, model: Model = "default", concept: Baked = None, as_json: AsJson = False) -> None:
    """Write query.pt2 and support.pt2, programs that PyTorch runs without dgpnet, compared before they are kept.

    \b
    Example: dgpnet export torch --model small --out small-pt2
    """
    from dgpnet.export.to_torch import export_torch

    segmenter, learned = _loaded(model, concept)
    _report(export_torch(segmenter, out, concept=learned, say=_say), out, as_json)


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
    from dgpnet.export.halves import write_state

    if out.suffix != ".npz":
        raise Error(f"The arrays go to a file that ends in .npz, given {out}; try {out.with_suffix('.npz')}.")
    _, learned = _loaded(model, concept)
    assert learned is not None
    write_state(learned, out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "classes": learned.classes, "model": learned.segmenter.fingerprint}))
    else:
        typer.echo(f"Wrote {out}: {', '.join(learned.classes)}.")


def _loaded(model: str, concept: Path | None) -> tuple[Segmenter, Concept | None]:
    from dgpnet.segmenter import Concept, load

    segmenter = load(model, device="cpu")
    return segmenter, None if concept is None else Concept.load(concept, segmenter)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _report(about: About, out: Path, as_json: bool) -> None:
    from dgpnet.export.folder import describe

    if as_json:
        typer.echo(json.dumps({"out": str(out), **about.to_json()}, indent=1))
        return
    for parity in about.parity:
        typer.echo(describe(parity))
    for name, milliseconds in (about.times or {}).items():
        typer.echo(f"{name}: {milliseconds:.0f} ms a photograph")
    typer.echo(f"Wrote {', '.join(about.files)} to {out}.")

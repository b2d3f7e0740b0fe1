"""`dgpnet studio`: paint a few masks in the browser, watch the rest fill in."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import Device, Model, tell


def studio(
    photos: Annotated[Path, typer.Argument(metavar="PHOTOS", help="A folder of photographs.", show_default=False)],
    support: Annotated[
        Path | None,
        typer.Option("--support", metavar="SUPPORT", help="Masks to begin with (docs/formats.md).", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Where to listen; 0 for any port that is free.")] = 8765,
    host: Annotated[str, typer.Option("--host", help="Another address than this machine's own needs --token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option("--token", help="What others have to know; `random` makes one up.", show_default=False),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option("--project", metavar="DIR", help="Where masks go; PHOTOS/.dgpnet by default.", show_default=False),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    model: Model = "default",
    device: Device = None,
) -> None:
    """Paint a few masks in the browser, watch the rest fill in, correct, export.

    Everything is kept in PHOTOS/.dgpnet as plain files after each stroke. Ctrl-C ends it; the same command goes on.

    \b
    Example: dgpnet studio photos/
    """
    from dgpnet.segmenter import load
    from dgpnet.serving import Access, Guard, address, listen, serve
    from dgpnet.studio.api import application, limits
    from dgpnet.studio.imports import read
    from dgpnet.studio.studio import open_studio

    access = Access.of(host, token)
    place = listen(host, port)
    try:
        given = None if support is None else read(support, photos)
        with open_studio(load(model, device=device), photos, project) as opened:
            if given is not None:
                taken = opened.take_support(given)
                tell(taken.notes)
                tell([f"{name} is not in {photos}." for name in taken.unmatched[:5]])
            tell(opened.project.notes)
            here = address(place, access.token)

            def ready() -> None:
                typer.echo(f"The studio is at {here} · Ctrl-C ends it.", err=True)
                if not no_browser:
                    threading.Thread(target=webbrowser.open, args=(here,), daemon=True).start()

            serve(Guard(application(opened), access, limits()), place, ready=ready, stop=[opened.close])
    finally:
        place.close()
    typer.echo("The studio has ended; everything that was painted is saved.", err=True)

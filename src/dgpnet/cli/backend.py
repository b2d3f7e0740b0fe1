"""`dgpnet backend`: Label Studio and CVAT with a model behind them."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dgpnet.cli.common import Device, Model

backend = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@backend.command("label-studio")
def label_studio(
    label_studio: Annotated[
        str,
        typer.Option(
            "--label-studio",
            metavar="URL",
            envvar="LABEL_STUDIO_URL",
            help="Where Label Studio is. Photographs are fetched from there and from nowhere else.",
        ),
    ] = "http://localhost:8080",
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            envvar="LABEL_STUDIO_API_KEY",
            help="Label Studio's access token, to fetch photographs and what was painted before.",
            show_default=False,
        ),
    ] = None,
    photos: Annotated[
        Path | None,
        typer.Option(
            "--photos",
            metavar="DIR",
            help="A folder from which photographs may be read: Label Studio's LOCAL_FILES_DOCUMENT_ROOT.",
            show_default=False,
        ),
    ] = None,
    project: Annotated[
        Path, typer.Option("--project", metavar="DIR", help="Where annotations and what was learned are kept.")
    ] = Path("dgpnet-label-studio"),
    port: Annotated[int, typer.Option("--port", help="Where to listen; 0 for any port that is free.")] = 9090,
    host: Annotated[str, typer.Option("--host", help="Another address than this machine's own needs --token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option("--token", help="What Label Studio has to know; `random` makes one up.", show_default=False),
    ] = None,
    fit_seconds: Annotated[float, typer.Option("--fit-seconds", help="How long Start Training may take.")] = 60.0,
    model: Model = "default",
    device: Device = None,
) -> None:
    """Learn from what is painted in Label Studio, and paint the other photographs there.

    Connect a project to the address that is printed, under Settings, Model. Ctrl-C ends it; the same command goes on.

    \b
    Example: dgpnet backend label-studio --api-key KEY --model small
    """
    from dgpnet import checks
    from dgpnet.backends.label_studio import application, limits
    from dgpnet.backends.learning import Mind
    from dgpnet.backends.server import Server
    from dgpnet.errors import printable
    from dgpnet.files import lock, make_folder
    from dgpnet.segmenter import load
    from dgpnet.segmenter.fitting import LONGEST
    from dgpnet.serving import Access, Guard, address, listen, serve

    def tell(line: str) -> None:
        typer.echo(printable(line), err=True)

    seconds = checks.number("--fit-seconds", fit_seconds, 0, LONGEST)
    server, access = Server(label_studio, api_key, photos), Access.of(host, token)
    place = listen(host, port)
    try:
        make_folder(project)
        with lock(project / "lock", str(project)):
            mind = Mind(load(model, device=device), project, server, fit_seconds=seconds, tell=tell)
            here = address(place).rstrip("/")
            if access.token is not None:
                here = here.replace("://", f"://dgpnet:{access.token}@")

            def ready() -> None:
                tell(f"The back end is at {here} · connect it in Label Studio under Settings, Model · Ctrl-C ends it.")

            serve(Guard(application(mind), access, limits()), place, ready=ready, stop=[mind.close])
    finally:
        place.close()
    tell("The back end has ended; everything that it was told is saved.")


@backend.command("cvat")
def cvat(
    concept: Annotated[
        Path | None, typer.Argument(metavar="[CONCEPT]", help="A .concept file to try.", show_default=False)
    ] = None,
    model: Model = "default",
    device: Device = None,
) -> None:
    """Try a concept as a function of CVAT, and print the commands of CVAT that use it.

    CVAT's own command line (`pip install 'dgpnet[cvat]'`) fetches the photographs and sends the shapes.

    \b
    Example: dgpnet backend cvat mug.concept --model small
    """
    from dgpnet.backends.cvat import create

    function = create(None if concept is None else str(concept), model=model, device=device)
    spec = function.spec
    options = ["-p", f"model=str:{model}"] if concept is None else ["-p", f"concept=str:{concept.absolute()}"]
    if concept is not None and model != "default":
        options += ["-p", f"model=str:{model}"]
    with_function = shlex.join(["--function-module", "dgpnet.backends.cvat", *options])
    server = "cvat-cli --server-host https://app.cvat.ai"
    if concept is not None:
        typer.echo(f"Finds {', '.join(label.name for label in spec.labels)}. All photographs of task 12:")
        typer.echo(f"  {server} task auto-annotate 12 {with_function} --allow-unmatched-labels")
        typer.echo("In the editor, for as long as the second of these runs (1 is what the first prints):")
    else:
        typer.echo("Proposes regions for clicks in the editor, for as long as the second of these runs (1 is what the")
        typer.echo("first prints):")
    name = "dgpnet" if concept is None else concept.stem
    typer.echo(f"  {server} function create-native {shlex.quote(name)} {with_function}")
    typer.echo(f"  {server} function run-agent 1 {with_function}")

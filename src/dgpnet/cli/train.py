"""`dgpnet train`: a network from episodes; the same command continues what was cut off."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgpnet.cli.parsing import Cache, ClassNames, DatasetOptions, Device, Root, names, numbers, pairs

if TYPE_CHECKING:
    from dgpnet.network import Config
    from dgpnet.training import Source


def train(
    dataset: Annotated[str, typer.Option(help="pascal, coco, fss1000, folder, synthetic, composites …")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder of the run; continued if it exists.")],
    root: Root = None,
    fold: Annotated[
        int | None, typer.Option(help="Fold whose classes are held out; by default none are.", show_default=False)
    ] = None,
    shots: Annotated[
        str | None, typer.Option(metavar="K", help="Supports an episode: 1, 1,5 or 1-5.", show_default="the recipe's")
    ] = None,
    classes: ClassNames = None,
    options: DatasetOptions = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:DIR:WEIGHT", help="A further dataset; the first has weight 1. Repeatable."),
    ] = None,
    recipe: Annotated[str, typer.Option(help="paper, reference or strong.")] = "paper",
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|JSON", help="Network: paper, reference, small, or a JSON file.", show_default="the recipe's"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Any setting: rate=1e-4, network.kernel=linear. Repeatable."),
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="Steps.", show_default="the recipe's")] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is random.")] = 0,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start from default, small or a checkpoint, with its network.",
            show_default=False,
        ),
    ] = None,
    encoder_weights: Annotated[
        Path | None, typer.Option(metavar="PATH", help="ImageNet weights of the image encoder.", show_default=False)
    ] = None,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="The encoder weights may be a pickle.")] = False,
    device: Device = "auto",
    eager: Annotated[
        bool, typer.Option("--eager", help="Launch every step on the GPU instead of replaying it.")
    ] = False,
    cache: Cache = None,
    log_every: Annotated[int, typer.Option(min=1, help="Steps between records.")] = 20,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 500,
    pictures_every: Annotated[int, typer.Option(min=0, help="Steps between pictures; 0: none.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Train a network on episodes; the same command again continues a run that was cut off.

    \b
    Example: dgpnet train --dataset pascal --root VOC2012 --fold 1 --shots 1 --out runs/fold1
    Several GPUs: torchrun --nproc-per-node 4 -m dgpnet train … with the same options
    """
    from dgpnet.errors import Error
    from dgpnet.network import PRESETS, Config
    from dgpnet.training import NonFinite, Running, Source, Unsaved, with_settings
    from dgpnet.training import recipe as named_recipe
    from dgpnet.training import train as run
    from dgpnet.weights import SHIPPED, checkpoint_path, read_encoder, read_metadata

    config = named_recipe(recipe, dataset)
    network = _network(preset, config.network) if preset else config.network
    if start is not None:
        if preset is not None or encoder_weights is not None:
            raise Error("--from brings a whole network; leave out --preset and --encoder-weights.")
        network = Config.from_json(json.dumps(read_metadata(start)["config"]))
    if encoder_weights is not None and preset in (None, *PRESETS):
        network = network.but(stride_on=read_encoder(encoder_weights, allow_pickle=allow_pickle).stride_on)
    first = Source(
        dataset,
        _absolute(root),
        fold=fold,
        classes=names("--classes", classes) or (),
        options=pairs("--option", options),
    )
    config = dataclasses.replace(
        config,
        sources=(first, *(_mixed(text) for text in mix or [])),
        network=network,
        encoder_weights=_absolute(encoder_weights),
        start_from="" if start is None else start if start in SHIPPED else _absolute(checkpoint_path(start)),
        shots=config.shots if shots is None else numbers("--shots", shots),
        iterations=iterations if iterations is not None else config.iterations,
        seed=seed,
    )
    config = with_settings(config, settings or [])
    running = Running(
        device=device,
        log_every=log_every,
        checkpoint_every=checkpoint_every,
        pictures_every=pictures_every,
        graph=not eager,
        cache=cache,
        allow_pickle=allow_pickle,
        quiet=as_json,
        progress=None if as_json else _decoding(),
    )
    try:
        model = run(config, out, running)
    except (NonFinite, Unsaved) as problem:
        typer.echo(f"dgpnet: {problem}", err=True)
        raise typer.Exit(1) from problem
    typer.echo(json.dumps({"model": str(model)}) if as_json else f"The model is {model}.")


def _decoding() -> Callable[[int, int], None]:
    """Progress of decoding photographs: a bar that is gone when the bar of the training comes."""
    from dgpnet.cli.progress import progress

    stack = ExitStack()
    shown: list[Callable[[int, int], None]] = []

    def advance(done: int, total: int) -> None:
        if not shown:
            shown.append(stack.enter_context(progress("Decoding photographs")))
        shown[0](done, total)
        if done == total:
            stack.close()
            shown.clear()

    return advance


def _absolute(path: Path | None) -> str:
    """The same place whatever the working directory of the command that continues the run."""
    return str(path.absolute()) if path is not None else ""


def _mixed(text: str) -> Source:
    """NAME:DIR:WEIGHT, where DIR may be empty and may hold colons."""
    from dgpnet.errors import Error
    from dgpnet.training import Source

    name, _, rest = text.partition(":")
    root, colon, weight = rest.rpartition(":")
    try:
        if colon:
            return Source(name, _absolute(Path(root)) if root else "", weight=float(weight))
    except ValueError:
        pass
    raise Error(f"The option --mix takes name:folder:weight, such as folder:mugs:0.5; got {text!r}.")


def _network(preset: str, recipes: Config) -> Config:
    """The network of a preset, at the size that the recipe trains at, or of a JSON file as it is."""
    from dgpnet.errors import Error
    from dgpnet.network import PRESETS, Config

    if preset in PRESETS:
        return PRESETS[preset].but(size=recipes.size)
    if not Path(preset).is_file():
        raise Error(f"The option --preset {preset} is neither one of {', '.join(PRESETS)} nor a JSON file.")
    return Config.from_json(Path(preset).read_text(encoding="utf-8"))

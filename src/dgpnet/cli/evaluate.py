"""`dgpnet evaluate`: a checkpoint measured by the field's protocol."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgpnet.cli.parsing import Cache, ClassNames, DatasetOptions, Device, Root, names, numbers, pairs
from dgpnet.cli.progress import progress
from dgpnet.errors import Error

if TYPE_CHECKING:
    from dgpnet.data import Dataset, Episode
    from dgpnet.evaluation import Case
    from dgpnet.evaluation.run import Evaluation


def evaluate(
    dataset: Annotated[str, typer.Option(help="pascal, coco, coco2pascal, fss1000, folder, synthetic …")],
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="A .safetensors file, or default or small.", show_default=False),
    ] = None,
    root: Root = None,
    fold: Annotated[
        int | None, typer.Option(help="Fold whose classes are tested; by default all are.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="test, or train for what training would draw from.")] = "test",
    classes: ClassNames = None,
    settings: DatasetOptions = None,
    shots: Annotated[str, typer.Option(metavar="K", help="Supports an episode: 1, 1,5 or 1-10.")] = "1",
    episodes: Annotated[
        int | None,
        typer.Option(
            help="Episodes of each seed, each measured with all of --shots.",
            show_default="the protocol's: 1,000, 5,000 or 20,000",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many draws of the test episodes.")] = 5,
    protocol: Annotated[str, typer.Option(help="paper, or reference: as the authors' program tests.")] = "paper",
    size: Annotated[
        int | None,
        typer.Option(help="Side of the square that the network sees.", show_default="the protocol's or the network's"),
    ] = None,
    episodes_file: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Episodes listed in a file instead.", show_default=False)
    ] = None,
    list_episodes: Annotated[bool, typer.Option("--list-episodes", help="Print the episodes and stop.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="Results, with the reliability plot beside them.", show_default=False),
    ] = None,
    pictures: Annotated[int, typer.Option(min=0, help="Episodes to draw into a picture beside the results.")] = 0,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Fit the calibration to the first seed's episodes, write it with the weights, and stop.",
            show_default=False,
        ),
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Write those weights in float16: half the size.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share the work.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Photographs, supports included, in one pass of the network.")] = 32,
    precision: Annotated[str, typer.Option(help="float32 or bf16.")] = "float32",
    device: Device = "auto",
    cache: Cache = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Measure a checkpoint by the field's protocol; the same command again goes on from where it was cut off.

    Measured are --episodes × --seeds episodes, each with every number of --shots. Classes with too few photographs for
    that many supports drop out, as in training, and are named.

    \b
    Example: dgpnet evaluate model.safetensors --dataset pascal --root VOC2012 --fold 1 --shots 1,5 --out results.json
    """
    from dgpnet.evaluation import Case, EvaluationOptions, WorkerDied, evaluate_case
    from dgpnet.evaluation.protocol import setting

    options = EvaluationOptions(
        shots=numbers("--shots", shots),
        episodes=setting(protocol, dataset).episodes if episodes is None else episodes,
        seeds=tuple(range(seeds)),
        protocol=protocol,
        precision=precision,
        batch=batch,
    )
    case = Case(
        checkpoint=checkpoint or "",
        dataset=dataset,
        options=options,
        root=root,
        fold=fold,
        split=split,
        classes=names("--classes", classes),
        settings=pairs("--option", settings),
        size=size,
        episodes_file=episodes_file,
        cache=cache,
        device=device,
    )
    if list_episodes:
        _list(case, as_json)
        return
    if checkpoint is None:
        raise Error("No checkpoint is given; name a .safetensors file, or default or small.")
    for path in (out, calibrate):
        if path is not None and not path.parent.is_dir():
            raise Error(f"{path} cannot be written: the folder {path.parent} does not exist; create it first.")
    with progress("Decoding photographs", quiet=as_json) as advance:
        job = case.job(progress=advance)
    for note in job.dataset.notes if not as_json else []:
        typer.echo(note, err=True)
    if calibrate is not None:
        _calibrate(job, checkpoint, calibrate, half, as_json)
        return
    if not as_json:
        typer.echo(_amount(job), err=True)
    try:
        with progress("Episodes", quiet=as_json) as advance:
            results = evaluate_case(case, out, processes=processes, job=job, progress=advance)
    except WorkerDied as problem:
        typer.echo(f"dgpnet: {problem}", err=True)
        raise typer.Exit(1) from problem
    if pictures and out is not None:
        _draw(job, pictures, out.with_name(f"{out.stem}-episodes.png"))
    typer.echo(json.dumps(results.to_json()) if as_json else results.table())


def _amount(job: Evaluation) -> str:
    """What will be measured, in one line."""
    seeds, shots = job.total // max(job.count, 1), job.options.shots
    drawn = f"{job.count} episodes × {seeds} seed{'s' if seeds > 1 else ''}"
    listed = ", ".join(map(str, shots)) if len(shots) < 8 else f"{shots[0]} to {shots[-1]}"
    return f"Measuring {drawn} × {len(shots)} of shots ({listed}): {job.total * len(shots)} segmentations."


def _list(case: Case, as_json: bool) -> None:
    """One line an episode: seed, number, class, query, supports in order."""
    from dgpnet import data
    from dgpnet.network.config import Config

    dataset = case.open(Config().size)
    if case.episodes_file is not None:
        numbered = [(0, n, e) for n, e in enumerate(data.episodes_from_file(case.episodes_file, dataset))]
    else:
        numbered = [(seed, n, e) for seed in case.options.seeds for n, e in enumerate(_drawn(case, dataset, seed))]
    for seed, number, episode in numbered:
        query, supports = dataset.path(episode.query), [dataset.path(s) for s in episode.supports]
        if as_json:
            line = {
                "seed": seed,
                "index": number,
                "class_id": episode.class_id,
                "class": dataset.classes[episode.class_id],
            }
            typer.echo(json.dumps({**line, "query": query, "supports": supports}))
        else:
            typer.echo("\t".join([str(seed), str(number), dataset.classes[episode.class_id], query, *supports]))


def _drawn(case: Case, dataset: Dataset, seed: int) -> list[Episode]:
    from dgpnet import data

    count, most = case.options.episodes, max(case.options.shots)
    return data.episodes(dataset, seed=seed, indices=range(count), max_shots=most, protocol=case.options.protocol)  # type: ignore[arg-type]


def _calibrate(job: Evaluation, checkpoint: str, out: Path, half: bool, as_json: bool) -> None:
    """Fit on the episodes of the first seed, and write the weights with what was fitted."""
    from dgpnet import weights
    from dgpnet.evaluation import fit

    job.check()
    first = [key for key in job.units() if key[0] == job.units()[0][0]]
    episodes = [episode for key in first for episode in job.episodes(key)]
    fitted = fit(
        job.network,
        job.dataset,
        episodes,
        shots=job.options.shots,
        precision=job.options.precision,
        batch=job.options.batch,
    )
    metadata = weights.read_metadata(checkpoint)
    fitted_on = {key: value for key, value in job.about().items() if key not in ("network", "config", "calibration")}
    provenance = {**metadata["provenance"], "calibrated": fitted_on}
    weights.save(out, job.network, provenance=provenance, calibration=fitted.to_json(), half=half)
    answer = {"checkpoint": str(out), "temperature": fitted.temperature, "episodes": len(episodes)}
    typer.echo(
        json.dumps(answer)
        if as_json
        else f"{out}: calibrated on {len(episodes)} episodes, temperature {fitted.temperature:.2f}."
    )


def _draw(job: Evaluation, count: int, path: Path) -> None:
    from dgpnet.evaluation import Contender, episode_grid
    from dgpnet.pictures import save

    most = max(job.options.shots)
    enough = (e for key in job.units() for e in job.episodes(key) if len(e.supports) >= most)
    episodes = list(islice(enough, count))
    contenders = [Contender(f"{k} shot{'s' if k > 1 else ''}", job.network, k) for k in job.options.shots]
    save(episode_grid(contenders, job.dataset, episodes, calibration=job.calibration), path)

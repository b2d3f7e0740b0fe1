"""The models that ship: what was tried at equal budget on classes held out, and the two that came of it.

    python -m research.default_model try --data DATA --encoders DIR --out RUNS          # the variants
    python -m research.default_model ship --model default --data DATA --encoders DIR --out RUNS
    python -m research.default_model recalibrate --model default --data DATA --out RUNS
    python -m research.default_model absence --model default --data DATA          # without the object

DATA holds VOC2012/, many/ (its first two shards), more/ (the other three, without the sets in APART), apart/ (those
sets), clothing/, cutouts/ and, to measure on, coco/ and coco-mini-episodes.json; DIR holds the encoders that the
variants name (resnet50.safetensors, …) as `dgpnet weights fetch` writes them. Variants are chosen by classes of PASCAL,
`many` and `clothing` and by whole sets, `apart`, that were not trained on; COCO-mini is only ever measured.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from dgpnet import __version__, data, weights
from dgpnet.augment import Augmentation
from dgpnet.data.dataset import Dataset
from dgpnet.devices import find_device
from dgpnet.evaluation import EvaluationOptions, calibrate, evaluate, fit
from dgpnet.files import atomic
from dgpnet.network import DGPNet
from dgpnet.segmenter.calibration import Calibration
from dgpnet.training import Running, Source, TrainConfig, recipe, train
from dgpnet.training.config import plain, with_settings
from research.absence import QUIET, absent

#: The fold of each source whose classes are held out while variants are compared.
HELD_OUT = {"pascal": 1, "many": 0, "clothing": 0}
#: Sets of thin and small things, of kinds that no other set shows: held out whole.
APART = (
    *("rice_root", "track_line", "aerial_road_japan", "coffee_leaf_spots", "ballscrew_pitting", "em_particles"),
    *("pipe_ends", "surgical_tools", "hieratic_signs", "power_line", "neurite", "cell_junction", "suture"),
    *("running_track", "rocket", "fabric_defect"),
)
#: A further side, as fitting may choose one, at which these are measured too.
LARGE, FINE = 640, ("many", "apart")
#: Test classes of PASCAL's folds with enough photographs in PASCAL-5i-mini; fold 0 has none.
PASCAL_CLASSES = {1: ("cat", "chair", "cow"), 2: ("dog", "horse", "person"), 3: ("sheep", "sofa")}
COMPOSITES = 3000
SHOTS = (1, 5)
#: What each model that ships is: a variant, trained for so many iterations.
SHIPPED = {"default": ("sized", 8_500), "small": ("sized-small", 8_500)}
Figures = dict[str, dict[str, dict[str, float | None]]]

#: Views between the paper's and the strong recipe's.
MODERATE = Augmentation(
    frame=0.7,
    scale=(0.6, 1.1),
    aspect=1.2,
    rotate=8.0,
    colour=0.7,
    brightness=0.25,
    contrast=0.25,
    saturation=0.25,
    hue=8.0,
)

#: What makes a network small: another encoder, and narrower after it.
SMALL = (
    "network.encoder=efficientnet_lite0",
    "network.features=256",
    "network.encodings=32",
    "network.decoder_width=96",
)

#: A decoder that lets the file fit into the package.
LIGHT = "network.decoder_width=128"

#: What each variant changes in the paper's recipe, or in the variant that it names with a plus: settings as `dgpnet
#: train --set` takes them. "strong" stands for the recipe of that name in place of the paper's: it is what ships, and
#: the variants before it are the steps that led there. "mixture" takes all sources, not PASCAL alone, "more" further
#: sets besides; "augment" crops, turns and colours; "objects" adds composites of PASCAL's objects to those of fruit.
VARIANTS: dict[str, tuple[str, ...]] = {
    "paper": ("projection=random",),
    "principal": ("projection=principal",),
    "base": (
        "mixture",
        "balance=0.5",
        "rate=1.5e-4",
        "schedule=cosine",
        "decay_factor=0.01",
        "warmup=0.03",
        "network.similarity=true",
        "projection=principal",
        "projection_rate=1e-5",
    ),
    "augmented": ("+base", "augment"),
    "shots": ("+base", "shots=[1,1,1,3,5]"),
    "frozen": ("+shots", "network.freeze_encoder=true"),
    "weight": ("+shots", "foreground=2"),
    "encoder": ("+weight", "encoder_rate=5e-6"),
    "light": ("+encoder", LIGHT),
    "livelier": ("+light", "encoder_rate=1e-5"),
    "liveliest": ("+light", "encoder_rate=2e-5"),
    "rectified": ("+light", "network.mask_relu=true"),
    "absent": ("+light", "absent=0.2"),
    "seldom": ("+light", "absent=0.1"),
    "views": ("+light", "self_episodes=0.2"),
    "objects": ("+light", "objects"),
    "overlap": ("+light", "overlap=0.5"),
    "uniform": ("+light", "balance=1"),
    "dense": ("+light", "network.support_stride=16"),
    "prototype": ("+light", "network.learner=prototype"),
    "prior": ("+light", "network.learner=prior"),
    "small": ("+light", *SMALL),
    "combined": ("strong", "mixture", LIGHT, "sizes=[]"),
    "combined-small": ("+combined", *SMALL),
    "wide": ("+combined", "more"),
    "sized": ("strong", "mixture", "more", LIGHT),
    "wide-small": ("+wide", *SMALL),
    "sized-small": ("+sized", *SMALL),
    "sized-lite2": ("+sized", "network.encoder=efficientnet_lite2"),
    "sized-small-livelier": ("+sized-small", "encoder_rate=2e-5"),
    "vision": ("+sized", "network.encoder=vision_lite0"),
}


def configuration(
    name: str, root: Path, encoders: Path, *, hold_out: bool, iterations: int, seed: int, fold: int = HELD_OUT["pascal"]
) -> TrainConfig:
    """The training of a variant, with or without the classes that variants are compared on; `fold`: PASCAL's."""
    settings, marks = _expand(name)
    folds = {**HELD_OUT, "pascal": fold} if hold_out else dict.fromkeys(HELD_OUT)
    pascal, cutouts = str(root / "VOC2012"), str(root / "cutouts")
    sources = [Source("pascal", pascal, weight=1.0, fold=folds["pascal"])]
    if "mixture" in marks:
        sources += [
            Source("folder", str(root / "many"), weight=1.0, fold=folds["many"]),
            Source("folder", str(root / "clothing"), weight=0.5, fold=folds["clothing"]),
            Source("composites", cutouts, weight=0.5, options={"photographs": COMPOSITES}),
        ]
    if "more" in marks:
        sources[0] = dataclasses.replace(sources[0], weight=1.5)  # its share stays a third
        sources.append(Source("folder", str(root / "more"), weight=1.0))
        sources += [] if hold_out else [Source("folder", str(root / "apart"), weight=0.25)]
    if "objects" in marks:
        objects = {"name": "pascal", "root": pascal, "fold": folds["pascal"]}
        sources.append(
            Source("composites", cutouts, weight=0.5, options={"photographs": COMPOSITES, "objects": objects})
        )
    base = dataclasses.replace(
        recipe("strong" if "strong" in marks else "paper"),
        sources=tuple(sources),
        iterations=iterations,
        precision="bf16",
        seed=seed,
        decay_at=2 / 3,
    )
    config = with_settings(base, settings)
    if "augment" in marks:
        config = dataclasses.replace(config, augmentation=MODERATE, cache_size=config.network.size)
    network = config.network.but(stride_on="1x1") if config.network.encoder == "resnet50" else config.network
    return dataclasses.replace(
        config, network=network, encoder_weights=str(encoders / f"{config.network.encoder}.safetensors")
    )


def _expand(name: str) -> tuple[list[str], set[str]]:
    """A variant's settings with those it builds on before its own, and its marks, such as "mixture"."""
    settings: list[str] = []
    marks: set[str] = set()
    for setting in VARIANTS[name]:
        if setting.startswith("+"):
            inherited, marked = _expand(setting[1:])
            settings, marks = inherited + settings, marks | marked
        elif "=" in setting:
            settings.append(setting)
        else:
            marks.add(setting)
    return settings, marks


def test_sets(
    root: Path, size: int | None, cache: Path | None, *, shots: int = 5, fold: int = HELD_OUT["pascal"]
) -> dict[str, Dataset]:
    """The held-out classes that have enough photographs, by name of their source, as `data.build` gives them at that
    size; `fold`: PASCAL's."""
    classes = PASCAL_CLASSES[fold]
    built = {
        "pascal": data.build(
            "pascal", root / "VOC2012", fold=fold, split="test", classes=classes, size=size, cache=cache
        ),
        "many": data.build("folder", root / "many", fold=0, split="test", size=size, cache=cache),
        "clothing": data.build("folder", root / "clothing", fold=0, split="test", size=size, cache=cache),
        "apart": data.build("folder", root / "apart", split="test", size=size, cache=cache),
    }
    return {name: data.trainable(dataset, shots)[0] for name, dataset in built.items()}


def measure(network: DGPNet, sets: dict[str, Dataset], episodes: int) -> Figures:
    """In percent, on each set at 1 and 5 shots: mIoU, and how many photographs without the object stay empty."""
    found: Figures = {"miou": mious(network, sets, episodes), "quiet": {}}
    for name, dataset in sets.items():
        drawn = data.episodes(dataset, seed=0, indices=range(episodes // 2), max_shots=max(SHOTS))
        lacking = data.absent_episodes(dataset, drawn, seed=0)
        counted = {str(k): calibrate.count(network, dataset, lacking, k, _precision(network), 32) for k in SHOTS}
        found["quiet"][name] = {k: _quiet(counts) for k, counts in counted.items()}
    return found


def mious(
    network: DGPNet, sets: dict[str, Dataset], episodes: int, *, batch: int = 32
) -> dict[str, dict[str, float | None]]:
    """In percent, on each set at 1 and 5 shots."""
    options = EvaluationOptions(shots=SHOTS, episodes=episodes, precision=_precision(network), batch=batch)
    found = {name: evaluate(network, dataset, options).shots for name, dataset in sets.items()}
    return {name: {str(k): round(100 * r.miou.mean, 2) for k, r in shots.items()} for name, shots in found.items()}


def _precision(network: DGPNet) -> str:
    return "bf16" if next(network.parameters()).is_cuda else "float32"


def _quiet(counts: calibrate.Counts) -> float | None:
    if not len(counts):
        return None
    return round(100 * float((calibrate.found_share(counts) < QUIET).mean()), 1)


def coco_mini(root: Path, size: int, cache: Path | None) -> tuple[Dataset, list[data.Episode]]:
    """COCO-mini and its 300 episodes."""
    dataset = data.build("coco", root / "coco", split="test", size=size, cache=cache, min_pixels=1)
    return dataset, data.episodes_from_file(root / "coco-mini-episodes.json", dataset)


app = typer.Typer(add_completion=False, help=__doc__)
Data = Annotated[Path, typer.Option("--data", help="Folder of the unpacked shards.")]
Encoders = Annotated[Path, typer.Option(help="Folder of ImageNet weights.")]
Out = Annotated[Path, typer.Option(help="Folder of the runs.")]


@app.command("try")
def compare(
    root: Data,
    encoders: Encoders,
    out: Out,
    only: Annotated[str, typer.Option(help="Variants, separated by commas.")] = ",".join(VARIANTS),
    iterations: int = 3000,
    episodes: int = 400,
    seed: int = 0,
    fold: Annotated[int, typer.Option(min=1, max=3, help="PASCAL's fold that is held out.")] = HELD_OUT["pascal"],
    cache: Path | None = None,
) -> None:
    """Train variants without the held-out classes, and measure them on those."""
    sets: dict[str, Dataset] = {}
    large: dict[str, Dataset] = {}
    for name in only.split(","):
        config = configuration(name, root, encoders, hold_out=True, iterations=iterations, seed=seed, fold=fold)
        start = time.perf_counter()
        running = Running(cache=cache, quiet=True, log_every=100, checkpoint_every=10**9, pictures_every=10**9)
        model = train(config, out / f"{name}-{iterations}-{seed}-fold{fold}", running)
        trained = time.perf_counter() - start
        network = weights.load(model, device=find_device())
        sets = sets or test_sets(root, network.config.size, cache, fold=fold)
        found = measure(network, sets, episodes)
        large = large or {name: one for name, one in test_sets(root, LARGE, cache, fold=fold).items() if name in FINE}
        found["large"] = mious(network, large, episodes, batch=16)
        seconds = {"training": round(trained), "measuring": round(time.perf_counter() - start - trained)}
        budget = {"iterations": iterations, "seed": seed, "fold": fold, "episodes": episodes}
        _append(out / "variants.jsonl", {"variant": name, **budget, "seconds": seconds, **found})


@app.command()
def ship(
    root: Data,
    encoders: Encoders,
    out: Out,
    model: Annotated[Literal["default", "small"], typer.Option()] = "default",
    variant: Annotated[str, typer.Option(help="By default what ships under that name.")] = "",
    iterations: Annotated[int, typer.Option(help="By default those of what ships under that name.")] = 0,
    seed: int = 0,
    cache: Path | None = None,
) -> None:
    """Train a model on all classes, calibrate it, and write it as it ships; then measure it on COCO-mini."""
    usual_variant, usual_iterations = SHIPPED[model]
    variant, iterations = variant or usual_variant, iterations or usual_iterations
    config = configuration(variant, root, encoders, hold_out=False, iterations=iterations, seed=seed)
    start = time.perf_counter()
    run = out / f"{model}-{iterations}-{seed}"
    trained = train(config, run, Running(cache=cache, log_every=100, checkpoint_every=3000, pictures_every=10**9))
    seconds = round(time.perf_counter() - start)
    _ship(trained, provenance_of(config, model, variant, seconds), out / f"{model}.safetensors", root, cache)


@app.command()
def recalibrate(
    root: Data,
    out: Out,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "default",
    cache: Path | None = None,
) -> None:
    """Calibrate a model that ships already anew, as `ship` does after training, and measure it; its weights stay."""
    out.mkdir(parents=True, exist_ok=True)
    path = weights.checkpoint_path(model)
    _ship(path, weights.read_metadata(path)["provenance"], out / path.name, root, cache)


def _ship(path: Path, provenance: dict[str, Any], shipped: Path, root: Path, cache: Path | None) -> None:
    network = weights.load(path, device=find_device())
    calibration = calibrated(network, root, cache)
    weights.save(shipped, network.cpu(), provenance=provenance, calibration=calibration.to_json(), half=True)
    about = {"model": shipped.stem, **{key: provenance.get(key) for key in ("command", "machine")}}
    _append(shipped.parent / "shipped.jsonl", {**about, **measure_shipped(shipped, root, cache)})


def provenance_of(config: TrainConfig, model: str, variant: str, seconds: int) -> dict[str, Any]:
    """How a shipped file came to be, without the folders of the machine that made it."""
    sources = tuple(_anywhere(source) for source in config.sources)
    config = dataclasses.replace(config, sources=sources, encoder_weights=Path(config.encoder_weights).name)
    options = f"--model {model} --variant {variant} --iterations {config.iterations} --seed {config.seed}"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return {
        "dgpnet": __version__,
        "training": plain(config),
        "command": f"python -m research.default_model ship {options}",
        "machine": f"one {device}, torch {torch.__version__.split('+')[0]}, {seconds} s",
    }


def _anywhere(source: Source) -> Source:
    """The source with the names of its folders, not where they are."""
    options = dict(source.options)
    if "objects" in options:
        options["objects"] = {**options["objects"], "root": Path(options["objects"]["root"]).name}
    return dataclasses.replace(source, root=Path(source.root).name, options=options)


def calibrated(network: DGPNet, root: Path, cache: Path | None, episodes: int = 300) -> Calibration:
    """Fitted on PASCAL's validation photographs, which no training here sees."""
    dataset, drawn = _validation(root, network.config.size, cache, episodes)
    return fit(network, dataset, drawn, shots=SHOTS, precision=_precision(network), batch=96)


def _validation(root: Path, size: int, cache: Path | None, episodes: int) -> tuple[Dataset, list[data.Episode]]:
    """Episodes of PASCAL's validation photographs, all classes that have enough."""
    dataset, _ = data.trainable(
        data.build("pascal", root / "VOC2012", split="test", size=size, cache=cache), max(SHOTS)
    )
    return dataset, data.episodes(dataset, seed=0, indices=range(episodes), max_shots=max(SHOTS))


def measure_shipped(path: Path, root: Path, cache: Path | None) -> dict[str, Any]:
    """A shipped file on COCO-mini: mIoU at 1, 2, 3, 5 and 10 shots, how good its uncertainty is, at 1 to 10 shots also
    on the episodes alone that have ten supports, and what it does with photographs that lack the object."""
    network = weights.load(path, device=find_device())
    calibration = Calibration.from_json(weights.read_metadata(path)["calibration"])
    dataset, listed = coco_mini(root, network.config.size, cache)
    options = EvaluationOptions(shots=(1, 2, 3, 5, 10), batch=96)
    full = [e for e in listed if len(e.supports) >= 10]
    found = {
        name: evaluate(network, dataset, options, listed=chosen, calibration=calibration).to_json()
        for name, chosen in (("coco-mini", listed), ("coco-mini, ten supports", full))
    }
    return {**found, "coco-mini, absent": absent(network, dataset, listed, calibration, SHOTS)}


@app.command("absence")
def measure_absence(
    root: Data,
    model: Annotated[str, typer.Option(help="default, small, or the path of a checkpoint.")] = "default",
    episodes: int = 300,
    cache: Path | None = None,
) -> None:
    """What a model does with photographs that lack the object, and which of its figures tell them from others."""
    path = weights.checkpoint_path(model)
    network = weights.load(path, device=find_device())
    calibration = Calibration.from_json(weights.read_metadata(path)["calibration"])
    sets = {
        "pascal": _validation(root, network.config.size, cache, episodes),
        "coco-mini": coco_mini(root, network.config.size, cache),
    }
    for name, (dataset, listed) in sets.items():
        found = absent(network, dataset, listed[:episodes], calibration, SHOTS)
        print(json.dumps({"model": model, name: found}), flush=True)


def _append(path: Path, record: dict[str, Any]) -> None:
    """One more line of JSON; the file is whole at any time."""
    lines = path.read_text() if path.exists() else ""
    with atomic(path) as temporary:
        temporary.write_text(lines + json.dumps(record) + "\n")
    shown = {k: v for k, v in record.items() if not k.startswith("coco-mini") or k.endswith("absent")}
    print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    app()

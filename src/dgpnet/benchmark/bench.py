"""`dgpnet benchmark`: one section after the other, each kept as soon as it is measured.

A section that fails is written down with its reason and the rest goes on.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dgpnet import data, pictures, weights
from dgpnet.benchmark import accuracy, calls, growth, inducing, naive, peers, report, speed, timing, together
from dgpnet.benchmark.throughput import end_to_end
from dgpnet.benchmark.timing import Effort
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.network import PRESETS, Config, DGPNet
from dgpnet.network.fast import Predictor
from dgpnet.segmenter import Segmenter, load

Say = Callable[[str], None]


@dataclass(frozen=True)
class Workload:
    """What is measured.

    network, small        configurations of the two networks
    checkpoint            file with the first one's weights; empty: random ones
    size                  side of the photographs; the training step and end to end have their own
    compile_step          measure the training step compiled too
    growth_side           side for the curve over shots; growth_examples: shots for the curve over sides
    inducing              points, and how many of them are chosen
    large                 width and height of photographs as cameras take them
    together              models of which two jobs are run at once
    studio                model that the studio is asked with; studio_sizes: photographs there, width and height
    root                  PASCAL's folder, for the sections `peers` and `accuracy`; empty: left out
    listed                a file of episodes of COCO, which is in `root` then; empty: episodes of PASCAL's fold 1
    """

    device: torch.device
    network: Config = PRESETS["paper"]
    small: Config = PRESETS["small"]
    checkpoint: str = ""
    size: int = 512
    batches: tuple[int, ...] = (1, 20)
    shots: tuple[int, ...] = (1, 5)
    train_size: int = 384
    train_episodes: int = 8
    compile_step: bool = False
    growth_shots: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200)
    growth_sides: tuple[int, ...] = (256, 512, 1024, 2048)
    growth_side: int = 512
    growth_examples: int = 5
    inducing: tuple[int, int] = (12_800, 1024)
    photographs: int = 600
    large: tuple[int, int] = (4000, 3000)
    copy_megabytes: int = 1024
    matrix_side: int = 8192
    together: tuple[str, ...] = ("small", "default")
    studio: str = "small"
    studio_sizes: tuple[tuple[int, int], ...] = ((640, 480), (6000, 4000))
    root: str = ""
    listed: str = ""
    episodes: int = 1000
    effort: Effort = field(default_factory=Effort)


def workload_for(
    device: torch.device,
    *,
    quick: bool = False,
    checkpoint: str = "",
    root: str = "",
    listed: str = "",
    compile_step: bool = False,
) -> Workload:
    """The whole of it, or (`quick`, for CPUs) what a laptop measures in minutes, at 384²."""
    whole = Workload(device, checkpoint=checkpoint, root=root, listed=listed, compile_step=compile_step)
    if not quick:
        return whole
    return replace(
        whole,
        size=384,
        batches=(1,),
        train_episodes=1,
        growth_shots=(1, 2, 5, 10),
        growth_sides=(256, 512, 1024),
        growth_examples=2,
        inducing=(6400, 1024),
        photographs=64,
        copy_megabytes=128,
        matrix_side=512,
        episodes=20,
        effort=Effort(5, 2.0),
    )


class Bench:
    """The sections; networks are built when first needed."""

    def __init__(self, workload: Workload, out: Path) -> None:
        self.workload = workload
        self.out = out

    @cached_property
    def network(self) -> DGPNet:
        """The network under test, in evaluation mode."""
        if self.workload.checkpoint:
            network = weights.load(self.workload.checkpoint, device=self.workload.device)
            return network.eval().requires_grad_(False)
        return self._random(self.workload.network)

    @cached_property
    def plain(self) -> DGPNet:
        """The same weights for the naive path."""
        return naive.unfolded(self.network)

    @cached_property
    def predictor(self) -> Predictor:
        """Ours."""
        return Predictor(self.network)

    @cached_property
    def ceilings(self) -> timing.Ceilings:
        """What the machine can do."""
        workload = self.workload
        return timing.ceilings(
            workload.device,
            megabytes=workload.copy_megabytes,
            side=workload.matrix_side,
            seconds=workload.effort.seconds,
        )

    def machine(self) -> dict[str, Any]:
        """What everything else is measured on."""
        workload = self.workload
        return {
            **timing.machine(workload.device),
            "ceilings": asdict(self.ceilings),
            "network": json.loads(self.network.config.to_json()),
            "precision": str(self.predictor.dtype).removeprefix("torch."),
            "weights": Path(workload.checkpoint).name if workload.checkpoint else "random",
        }

    def runtimes(self) -> list[dict[str, Any]]:
        """The paper's run-time table."""
        workload = self.workload
        return [
            speed.runtimes(
                self.plain,
                self.predictor,
                self.ceilings,
                batch=batch,
                shots=shots,
                size=workload.size,
                effort=workload.effort,
            )
            for batch in workload.batches
            for shots in workload.shots
        ]

    def masks(self) -> list[dict[str, Any]]:
        """The ways to begin the mask encoder."""
        workload = self.workload
        return [
            one
            for batch in workload.batches
            for shots in workload.shots
            for one in speed.mask_stems(
                self.plain, self.predictor, batch=batch, shots=shots, size=workload.size, effort=workload.effort
            )
        ]

    def cached(self) -> list[dict[str, Any]]:
        """A concept that is learned once and asked many times."""
        return self._cached(self.plain, self.predictor, self.workload.size)

    def small(self) -> list[dict[str, Any]]:
        """The same with the network for laptops, at its own size."""
        network = self._random(self.workload.small)
        return self._cached(naive.unfolded(network), Predictor(network), self.workload.small.size)

    def training(self) -> list[dict[str, Any]]:
        """A training step."""
        workload = self.workload
        network = self._random(self.network.config)
        return [
            speed.training(
                network,
                episodes=workload.train_episodes,
                shots=shots,
                size=workload.train_size,
                effort=workload.effort,
                fuse=workload.compile_step,
            )
            for shots in workload.shots
        ]

    def growth(self) -> list[dict[str, Any]]:
        """The Gaussian process alone, against shots and against the side of the photographs."""
        workload = self.workload
        wanted = [("shots", shots, workload.growth_side) for shots in workload.growth_shots]
        wanted += [("side", workload.growth_examples, side) for side in workload.growth_sides]
        points = []
        for against, shots, side in wanted:
            for kind in (growth.EXACT, growth.INDUCING):
                try:
                    point = growth.measured(
                        shots=shots, side=side, kind=kind, device=workload.device, effort=workload.effort
                    )
                except RuntimeError as problem:  # too large for the memory, or for the library
                    reason = "out of memory" if isinstance(problem, torch.OutOfMemoryError) else str(problem)
                    point = {"kind": kind, "shots": shots, "side": side, "error": reason.splitlines()[0]}
                points.append({"against": against, **point})
        for name, picture in growth.plots(points).items():
            pictures.save(picture, self.out / f"{name}.png")
        return points

    def inducing(self) -> dict[str, Any]:
        """The choice of inducing points."""
        points, budget = self.workload.inducing
        return inducing.measured(points=points, budget=budget, device=self.workload.device, effort=self.workload.effort)

    def end_to_end(self) -> dict[str, Any]:
        """From JPEG files to PNG masks, with the default model unless another network was asked for."""
        with tempfile.TemporaryDirectory(prefix="dgpnet-benchmark-") as folder:
            return end_to_end(self._segmenter(), Path(folder), photographs=self.workload.photographs)

    def large(self) -> dict[str, Any]:
        """The same with photographs as cameras take them, an eighth as many."""
        with tempfile.TemporaryDirectory(prefix="dgpnet-benchmark-") as folder:
            count = max(1, self.workload.photographs // 8)
            return end_to_end(self._segmenter(), Path(folder), photographs=count, size=self.workload.large)

    def calls(self) -> list[dict[str, Any]]:
        """What users call, by the wall clock, with the default model unless another network was asked for."""
        segmenter = self._segmenter()
        return [calls.measured(segmenter, shots=shots, effort=self.workload.effort) for shots in self.workload.shots]

    def together(self) -> list[dict[str, Any]]:
        """Two jobs at once on the processors, with the models that ship; nothing of a GPU."""
        return [together.measured(model, 4 * self.workload.effort.calls) for model in self.workload.together]

    def studio(self) -> list[dict[str, Any]]:
        """From a stroke in the studio to the new mask."""
        from dgpnet.benchmark import studio  # needs the extra of that name

        segmenter = load(self.workload.studio, device=self.workload.device)
        calls = self.workload.effort.calls
        return [studio.measured(segmenter, size, min(8, calls)) for size in self.workload.studio_sizes]

    def peers(self) -> list[dict[str, Any]]:
        """Other ways to the same end: photographs a second and mIoU."""
        workload, (dataset, drawn) = self.workload, self._episodes
        points = [
            {"of": self._of, **point}
            for shots in workload.shots
            for point in peers.measured(
                self.plain if naive.lists(self.network) else None,
                self.predictor,
                dataset,
                drawn,
                batch=workload.batches[-1],
                shots=shots,
                effort=workload.effort,
            )
        ]
        pictures.save(peers.plot(points), self.out / "peers.png")
        return points

    def accuracy(self) -> list[dict[str, Any]]:
        """Whether mIoU moves."""
        return [
            {"of": self._of, **accuracy.compared(self.plain, self.predictor, *self._episodes, shots=shots)}
            for shots in self.workload.shots
        ]

    @property
    def _of(self) -> str:
        """Whose episodes are measured."""
        return Path(self.workload.listed).stem if self.workload.listed else "PASCAL fold 1: cat, chair, cow"

    @cached_property
    def _episodes(self) -> tuple[data.Dataset, list[data.Episode]]:
        """Those of the file that have enough supports, or the first ones of PASCAL's fold 1."""
        workload, size, most = self.workload, self.network.config.size, max(self.workload.shots)
        if workload.listed:
            dataset = data.build("coco", workload.root, split="test", size=size, min_pixels=1)
            listed = data.episodes_from_file(Path(workload.listed), dataset)
            return dataset, [episode for episode in listed if len(episode.supports) >= most]
        classes = ["cat", "chair", "cow"]
        dataset = data.build("pascal", workload.root, fold=1, split="test", classes=classes, size=size)
        return dataset, data.episodes(dataset, seed=0, indices=range(workload.episodes), max_shots=most)

    def _cached(self, network: DGPNet, predictor: Predictor, size: int) -> list[dict[str, Any]]:
        workload = self.workload
        return [
            speed.cached(network, predictor, batch=batch, shots=shots, size=size, effort=workload.effort)
            for batch in workload.batches
            for shots in workload.shots
        ]

    def _random(self, config: Config) -> DGPNet:
        torch.manual_seed(0)
        network = DGPNet(config).to(self.workload.device).eval().requires_grad_(False)
        return speed.settle(network, self.workload.size)

    def _segmenter(self) -> Segmenter:
        if self.workload.checkpoint or self.workload.network != PRESETS["paper"]:
            return Segmenter(self.network)
        return load("default", device=self.workload.device)


SECTIONS: tuple[str, ...] = (
    "machine",
    "runtimes",
    "masks",
    "cached",
    "small",
    "calls",
    "training",
    "growth",
    "inducing",
    "end_to_end",
    "large",
    "together",
    "studio",
    "peers",
    "accuracy",
)
#: Those that need a dataset's photographs.
NEED_ROOT = ("peers", "accuracy")


def run(
    workload: Workload, out: Path, *, sections: Sequence[str] = SECTIONS, command: str = "", say: Say = print
) -> dict[str, Any]:
    """Measure `sections`, keeping `out/benchmark.json` and `.md` up to date; a section that failed has an `error`."""
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        raise Error(f"The benchmark has no section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}.")
    out.mkdir(parents=True, exist_ok=True)
    bench = Bench(workload, out)
    found: dict[str, Any] = {}
    for name in SECTIONS:
        if name not in sections or (name in NEED_ROOT and not workload.root):
            continue
        begin = time.perf_counter()
        try:
            found[name] = getattr(bench, name)()
        except Exception as problem:  # whatever it is, the other sections are worth having
            found[name] = {"error": f"{type(problem).__name__}: {problem}"}
            say(f"{name}: failed: {problem}")
        if workload.device.type == "cuda":
            torch.cuda.empty_cache()
        say(f"{name}: {time.perf_counter() - begin:.1f} s")
        save(found, out, report.markdown(found, command))
    return found


def save(found: Mapping[str, Any], out: Path, text: str) -> None:
    """`benchmark.json` and `benchmark.md`, each whole or not at all."""
    with atomic(out / "benchmark.json") as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    with atomic(out / "benchmark.md") as temporary:
        temporary.write_text(text, encoding="utf-8")


def failed(found: Mapping[str, Any]) -> list[str]:
    """The sections that could not be measured."""
    return [name for name, content in found.items() if isinstance(content, dict) and "error" in content]

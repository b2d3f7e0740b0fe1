"""One run: its network, optimiser and average, and how they go to disk and come back."""

from __future__ import annotations

import copy
import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dgpnet import __version__, weights
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.files import atomic, differences, lock, make_folder, remove_leftovers
from dgpnet.network import DGPNet
from dgpnet.training import checkpoints
from dgpnet.training.average import Average
from dgpnet.training.config import TrainConfig, plain
from dgpnet.training.graph import GraphStepper
from dgpnet.training.log import Meter
from dgpnet.training.optimiser import Optimiser, parameter_groups
from dgpnet.training.processes import gather
from dgpnet.training.schedule import average_weight, rate_factor
from dgpnet.training.source import Store, batch_at, size_at
from dgpnet.training.step import EagerStepper, Inputs, Stepper, forward_backward

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: What a run's folder holds: the finished model, what is trained, checkpoints, the episodes that broke it, the lock.
MODEL, CONFIG, STATES, CULPRIT, LOCK = "model.safetensors", "config.json", "checkpoints", "nonfinite.json", ".lock"


class NonFinite(RuntimeError):
    """The loss or its gradient was not a finite number; says which episodes did it and where they are written down."""


def require_same_run(config: TrainConfig, out: Path) -> None:
    """Refuses a folder that holds another run, or something else."""
    if out.exists() and not out.is_dir():
        raise Error(f"{out} is a file; give a folder for the run.")
    path = out / CONFIG
    if path.exists():
        if differing := differences(plain(_config_in(path)), plain(config)):
            raise Error(
                f"{out} holds a run of another configuration ({'; '.join(differing)});"
                " give the same settings to continue it, or another folder."
            )
    elif out.exists() and any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise Error(f"{out} is not empty and holds no run; give a new folder.")


def _config_in(path: Path) -> TrainConfig:
    try:
        return TrainConfig.from_json(path.read_bytes().decode())
    except ValueError as problem:  # an Error, or bytes that are no text
        raise Error(
            f"{path} is damaged; write it again as it was, or remove the folder and train from the start ({problem})."
        ) from problem


def finished(out: Path) -> Path | None:
    """The model of a run that has ended, else None."""
    return out / MODEL if (out / MODEL).exists() else None


def build_network(config: TrainConfig, device: torch.device, *, allow_pickle: bool = False) -> DGPNet:
    """The network as training starts it, on the device, from the seed and whatever weights the configuration names."""
    torch.manual_seed(config.seed)
    network = DGPNet(config.network)
    if config.encoder_weights:
        weights.load_encoder(network, config.encoder_weights, allow_pickle=allow_pickle)
    if config.start_from:
        given = weights.load(config.start_from)
        weights.load_state(network, given.state_dict(), what=config.start_from)
    there: DGPNet = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return there.train()


class Run:
    """What a run changes as it goes, and where it stands. `network` is on fabric's device already."""

    def __init__(self, fabric: Fabric, network: DGPNet, config: TrainConfig) -> None:
        self.fabric, self.network, self.config = fabric, network, config
        groups = parameter_groups(
            network, encoder=config.encoder_rate, projection=config.projection_rate, rest=config.rate
        )
        self.optimiser = Optimiser(network, groups, weight_decay=config.weight_decay)
        self.average = Average(network) if config.average else None
        own = config.episodes // fabric.world_size
        self.share = slice(fabric.global_rank * own, (fabric.global_rank + 1) * own)
        """Which of a step's episodes this process computes."""

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that a step changes, by name: the live ones."""
        parts = {"network": self.network.state_dict(), "optimiser": self.optimiser.tensors()}
        if self.average is not None:
            parts["average"] = self.average.tensors()
        return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}

    def stepper(self, *, resident: bool = False, graph: bool = True, fuse: bool = False) -> Stepper:
        """Captured steps on a single GPU, with `fuse` compiled before; steps as written elsewhere."""
        wrapped = self.fabric.setup_module(self.network, move_to_device=False)
        eager = EagerStepper(self.fabric, wrapped, self.optimiser, self.average, self.config)
        if graph and self.fabric.device.type == "cuda" and self.fabric.world_size == 1:
            return GraphStepper(eager, self.tensors(), resident=resident, fuse=self.network if fuse else None)
        return eager

    def set_rates(self, step: int) -> float:
        """Prepares learning rates and average for `step`; returns the schedule's factor."""
        factor = rate_factor(step, self.config)
        self.optimiser.set_rates(factor)
        if self.average is not None:
            self.average.set_weight(average_weight(step, self.config.average))
        return factor

    def alone(self, out: Path) -> AbstractContextManager[None]:
        """Makes the folder and keeps other runs out of it; an Error where one is at work there."""
        if not self.fabric.is_global_zero:
            return nullcontext()
        make_folder(out)
        return lock(out / LOCK, str(out))

    def resume(self, out: Path, meter: Meter) -> int:
        """Starts, or continues from the folder's newest checkpoint; returns the step that comes next."""
        states = out / STATES
        if self.fabric.is_global_zero:
            states.mkdir(exist_ok=True)
            remove_leftovers(out)
            if not (out / CONFIG).exists():
                with atomic(out / CONFIG, sync=True) as temporary:
                    temporary.write_text(self.config.to_json(), encoding="utf-8")
        self.fabric.barrier()
        found = checkpoints.load(states)
        if found is None:
            return 0
        tensors, position = found
        random = {name: tensors.pop(name) for name in list(tensors) if name.startswith("random.")}
        self.optimiser.require(position["groups"])
        checkpoints.restore(self.tensors(), tensors)
        meter.restore(position["meter"])
        self._set_random(random)
        return int(position["step"])

    def save(self, out: Path, step: int, meter: Meter) -> None:
        """Writes a checkpoint after `step` steps."""
        random = self._random()
        if self.fabric.is_global_zero:
            position = {
                "step": step,
                "groups": self.optimiser.describe(),
                "schedule": {"factor": rate_factor(step, self.config)},
                "meter": meter.position(),
            }
            try:
                checkpoints.save(out / STATES, step, {**self.tensors(), **random}, position)
            except Error as problem:
                raise checkpoints.Unsaved(f"{problem} The same command goes on from the last checkpoint.") from problem
        self.fabric.barrier()

    def finish(self, out: Path) -> Path:
        """Writes the model: the average of the weights where there is one, else the last weights."""
        if self.fabric.is_global_zero:
            model = copy.deepcopy(self.network).cpu().eval()
            if self.average is not None:
                model.load_state_dict(self.average.tensors(), strict=False)
            provenance = {"dgpnet": __version__, "training": plain(self.config)}
            weights.save(out / MODEL, model, provenance=provenance)
        self.fabric.barrier()
        return out / MODEL

    def non_finite(self, step: int, reason: str, dataset: Dataset, store: Store, out: Path) -> NonFinite:
        """Writes down the episodes of the step that went wrong, those first that go wrong alone too."""
        batch = batch_at(dataset, self.config, step)
        listed = []
        for i, episode in enumerate(batch.episodes()):
            listed.append(
                {
                    "alone": "not finite"
                    if self._fails(store.inputs(batch[i : i + 1], size_at(self.config, step)))
                    else "finite",
                    "class": dataset.classes[episode.class_id],
                    "query": dataset.path(episode.query),
                    "supports": [dataset.path(support) for support in episode.supports],
                    "views": batch.parameters[i].tolist(),
                }
            )
        listed.sort(key=lambda entry: entry["alone"] == "finite")
        path = out / CULPRIT
        with atomic(path) as temporary:
            temporary.write_text(json.dumps({"step": step, "reason": reason, "episodes": listed}, indent=1))
        first = listed[0]
        return NonFinite(
            f"Step {step}: {reason.rstrip('.')}; first suspect: {first['class']} in {first['query']} after"
            f" {', '.join(first['supports'])}; all episodes of the step are in {path};"
            " no weight was changed by it: lower the rates or set clip, in a new folder."
        )

    def _fails(self, inputs: Inputs) -> bool:
        """Whether one episode by itself has a loss or a gradient that is not finite (updates were withheld)."""
        self.optimiser.forget_gradients()
        try:
            metrics = forward_backward(self.network, inputs, self.config)
        except Error:
            return True
        gradients = [p.grad for p in self.optimiser.parameters.values() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        return not bool(torch.isfinite(metrics).all() & torch.isfinite(norm))

    def _random(self) -> dict[str, Tensor]:
        """Random state of every process, one row each; a collective."""
        states = {"random.cpu": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            states["random.cuda"] = torch.cuda.get_rng_state()
        return {name: gather(self.fabric, state) for name, state in states.items()}

    def _set_random(self, states: dict[str, Tensor]) -> None:
        rank = self.fabric.global_rank
        if rank < len(states["random.cpu"]):
            torch.set_rng_state(states["random.cpu"][rank])
            if self.fabric.device.type == "cuda" and "random.cuda" in states:
                torch.cuda.set_rng_state(states["random.cuda"][rank])

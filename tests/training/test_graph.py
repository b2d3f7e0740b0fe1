"""Captured steps are the steps as written."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dgpnet.training import TrainConfig
from dgpnet.training.graph import GraphStepper
from dgpnet.training.processes import launch
from dgpnet.training.run import Run, build_network
from dgpnet.training.source import Store, batch_at, open_source, size_at
from dgpnet.training.step import EagerStepper
from tests.tolerances import assert_equal

Make = Callable[..., TrainConfig]


def test_a_cpu_takes_steps_as_written(config: Make) -> None:
    run = Run(launch(config(), "cpu"), build_network(config(), torch.device("cpu")), config())
    assert isinstance(run.stepper(graph=True), EagerStepper)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_captured_and_eager_steps_agree(
    config: Make, cache: Path, monkeypatch: pytest.MonkeyPatch, resident: bool, precision: str
) -> None:
    """The first step of each number of shots: its metrics, and its gradients as AdamW took them in."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    for shots in (1, 2):
        settings = config(
            shots=(shots,), average=0.9, clip=1.0, precision=precision, augmentation=config().self_augmentation
        )
        dataset = open_source(settings, cache=cache)
        found = []
        for graph in (False, True):
            fabric = launch(settings, "cuda")
            run = Run(fabric, build_network(settings, fabric.device), settings)
            store = Store(dataset, fabric.device)
            if not resident:
                store._all = None
            stepper = run.stepper(resident=store.resident, graph=graph)
            run.set_rates(0)
            metrics = stepper.run(store.inputs(batch_at(dataset, settings, 0), size_at(settings, 0)))
            if isinstance(stepper, GraphStepper):
                assert stepper._works, "fell back to eager steps"
            tensors = {name: tensor.clone() for name, tensor in run.tensors().items()}
            assert {float(t) for name, t in tensors.items() if name.endswith(".step")} == {1.0}
            moments = torch.cat([t.flatten() for name, t in tensors.items() if name.endswith("exp_avg")])
            found.append((metrics, moments))
        (metrics, moments), (captured_metrics, captured_moments) = found
        for column in range(metrics.shape[1]):
            scale = metrics[:, column].abs().max()
            assert_equal(captured_metrics[:, column] / scale, metrics[:, column] / scale, dtype=dtype)
        assert_equal(captured_moments / moments.abs().max(), moments / moments.abs().max(), dtype=dtype)

"""Captured steps are the steps as written."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dgpnet.training import TrainConfig
from dgpnet.training.graph import GraphStepper
from dgpnet.training.processes import launch
from dgpnet.training.run import Run, build_network
from dgpnet.training.source import Store, batch_at, open_source
from dgpnet.training.step import EagerStepper

Make = Callable[..., TrainConfig]


def test_a_cpu_takes_steps_as_written(config: Make) -> None:
    run = Run(launch(config(), "cpu"), build_network(config(), torch.device("cpu")), config())
    assert isinstance(run.stepper(graph=True), EagerStepper)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_captured_and_eager_steps_agree(config: Make, cache: Path, resident: bool, precision: str) -> None:
    settings = config(shots=(1, 2), average=0.9, clip=1.0, precision=precision, augmentation=config().self_augmentation)
    dataset = open_source(settings, cache=cache)
    found = []
    for graph in (False, True):
        fabric = launch(settings, "cuda")
        run = Run(fabric, build_network(settings, fabric.device), settings)
        store = Store(dataset, fabric.device)
        if not resident:
            store._all = None
        stepper = run.stepper(resident=store.resident, graph=graph)
        assert isinstance(stepper, GraphStepper) == graph
        rows = []
        for step in range(6):
            run.set_rates(step)
            rows.append(stepper.run(store.inputs(batch_at(dataset, settings, step))))
        if graph:
            assert stepper._works  # type: ignore[union-attr]
        found.append((torch.stack(rows), {name: t.clone() for name, t in run.tensors().items()}))
    (metrics, tensors), (captured_metrics, captured_tensors) = found
    tolerance = 1e-3 if precision == "float32" else 5e-2
    torch.testing.assert_close(captured_metrics[0], metrics[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(captured_metrics[:, :, 0], metrics[:, :, 0], rtol=10 * tolerance, atol=tolerance)
    for name in tensors:
        if name.endswith(".step"):
            assert torch.equal(captured_tensors[name], tensors[name]), name

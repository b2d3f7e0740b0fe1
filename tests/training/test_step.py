"""One step: how parts and processes join, what a broken step leaves alone."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dgpnet.augment import NONE, STRONG
from dgpnet.data.dataset import Dataset
from dgpnet.training import Running, TrainConfig, train
from dgpnet.training.processes import launch
from dgpnet.training.run import Run, build_network
from dgpnet.training.source import Store, batch_at, open_source, size_at
from dgpnet.training.step import METRICS, Inputs, forward_backward, views
from tests.capability import needs_half
from tests.children import environment
from tests.tolerances import assert_equal

Make = Callable[..., TrainConfig]
CPU = torch.device("cpu")


@pytest.fixture
def dataset(config: Make, cache: Path) -> Dataset:
    return open_source(config(), cache=cache)


def _inputs(config: TrainConfig, dataset: Dataset, step: int = 0) -> Inputs:
    return Store(dataset, CPU).inputs(batch_at(dataset, config, step), size_at(config, step))


def _gradients(run: Run) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in run.optimiser.parameters.items() if p.grad is not None}


def _run(config: TrainConfig) -> Run:
    return Run(launch(config, "cpu"), build_network(config, CPU), config)


def test_views_of_one_photograph_differ_though_others_are_plain(config: Make, dataset: Dataset) -> None:
    settings = config(self_episodes=1.0, augmentation=NONE, self_augmentation=dataclasses.replace(STRONG, flip=0.0))
    assert settings.augmentation.plain
    assert not settings.plain_views
    photos, masks = views(_inputs(settings, dataset), settings)
    assert not torch.equal(photos[:, 0], photos[:, -1])
    assert not torch.equal(masks[:, 0], masks[:, -1])
    assert config().plain_views


def test_views_have_the_size_that_the_step_draws(config: Make, dataset: Dataset) -> None:
    settings = config(sizes=(32, 64))
    drawn = [size_at(settings, step) for step in range(200)]
    assert 60 < drawn.count(32) < 140 and set(drawn) == {32, 64}
    assert size_at(config(), 0) == 32
    plain, large = drawn.index(32), drawn.index(64)
    for step, size in ((plain, 32), (large, 64)):
        photos, masks = views(_inputs(settings, dataset, step), settings)
        assert photos.shape[-2:] == masks.shape[-2:] == (size, size)
    # What is seen is the same, larger.
    batch = batch_at(dataset, config(), 0)
    (_, small), (_, big) = (views(Store(dataset, CPU).inputs(batch, size), config()) for size in (32, 64))
    assert small.any() and torch.equal(big[..., ::2, ::2], small)


def test_metrics_are_what_a_plain_forward_pass_gives(config: Make, dataset: Dataset) -> None:
    settings = config()
    network = build_network(settings, CPU)
    metrics = forward_backward(network, _inputs(settings, dataset), settings)
    assert metrics.shape == (settings.episodes, len(METRICS) - 1)
    assert metrics[:, 2].le(metrics[:, 3]).all()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())


def test_accumulated_parts_make_the_gradient_of_the_joint_mean(config: Make, dataset: Dataset) -> None:
    settings = config(accumulate=2)
    run = _run(settings)
    inputs = _inputs(settings, dataset)
    run.stepper().run(inputs)
    found = _gradients(run)

    network = build_network(settings, CPU)  # the same start
    rows = [
        forward_backward(network, inputs.of(lambda tensor, half=half: tensor[half]), settings)
        for half in (slice(0, 2), slice(2, 4))
    ]
    weight = torch.cat(rows)[:, 1].sum()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(found[name], parameter.grad / weight)


def test_a_clipped_gradient_has_the_norm_asked_for(config: Make, dataset: Dataset) -> None:
    free, cut = _run(config()), _run(config(clip=0.01))
    inputs = _inputs(config(), dataset)
    norm = free.stepper().run(inputs)[0, 4]
    cut.stepper().run(inputs)
    assert norm > 0.01
    total = torch.nn.utils.get_total_norm(_gradients(cut).values())
    torch.testing.assert_close(total, torch.tensor(0.01))
    torch.testing.assert_close(torch.nn.utils.get_total_norm(_gradients(free).values()), norm)


@needs_half
def test_bfloat16_is_near_float32_and_leaves_weights_float32(config: Make, dataset: Dataset) -> None:
    inputs = _inputs(config(), dataset)
    exact, near = (
        forward_backward(build_network(config(), CPU), inputs, config(precision=precision))
        for precision in ("float32", "bf16")
    )
    assert not torch.equal(exact[:, 0], near[:, 0])
    assert_equal(near[:, 0], exact[:, 0], dtype=torch.bfloat16)
    run = _run(config(precision="bf16"))
    run.stepper().run(inputs)
    assert {tensor.dtype for tensor in run.optimiser.parameters.values()} == {torch.float32}


def test_a_step_that_is_not_finite_changes_no_weight(config: Make, dataset: Dataset) -> None:
    run = _run(config(network=config().network.but(learner="prototype")))
    stepper = run.stepper()
    inputs = _inputs(config(), dataset)
    stepper.run(inputs)
    before = {name: p.detach().clone() for name, p in run.network.named_parameters()}
    handle = run.network.decoder.register_forward_hook(lambda module, args, output: output * float("nan"))
    metrics = stepper.run(inputs)
    handle.remove()
    assert not torch.isfinite(metrics).all()
    for name, parameter in run.network.named_parameters():
        assert torch.equal(parameter, before[name]), name
    assert torch.isfinite(stepper.run(inputs)).all()


def test_the_store_gives_what_the_photographs_are(config: Make, dataset: Dataset) -> None:
    batch = batch_at(dataset, config(), 3)
    inputs = Store(dataset, CPU).inputs(batch, 32)
    photos, masks = dataset.tensors()
    assert torch.equal(inputs.photos[inputs.indices], photos[batch.index])
    assert torch.equal(inputs.masks[inputs.indices], masks[batch.index])


def test_two_processes_give_the_gradient_of_one_that_accumulates(
    config: Make, cache: Path, running: Running, tmp_path: Path
) -> None:
    """2 processes × 4 episodes = 1 process accumulating 2 × 4; exp_avg after one step is a tenth of the gradient."""
    script = tmp_path / "two.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from dgpnet.network.encoders import ENCODERS\n"
        "from dgpnet.training import Running, TrainConfig, train\n"
        "from tests.training.tiny import TinyEncoder\n"
        "ENCODERS['tiny'] = lambda stride_on: TinyEncoder()\n"
        "text, out, cache = sys.argv[1:]\n"
        "running = Running(device='cpu', cache=Path(cache), quiet=True, log_every=1, pictures_every=0)\n"
        "train(TrainConfig.from_json(Path(text).read_text()), out, running)\n"
    )
    settings = config(iterations=1, episodes=8)
    text, out = tmp_path / "config.json", tmp_path / "two"
    text.write_text(settings.to_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    subprocess.run(
        [*command, str(text), str(out), str(cache)], check=True, capture_output=True, timeout=300, env=environment()
    )
    train(config(iterations=1, episodes=8, accumulate=2), tmp_path / "one", running)
    one, two = (load_file(tmp_path / name / "checkpoints" / "000000001.safetensors") for name in ("one", "two"))
    names = [name for name in one if name.endswith("exp_avg")]
    assert len(names) > 10
    for name in names:
        assert one[name].abs().max() > 0, name
        scale = one[name].abs().max()  # gradients are far below 1: compare them relative to their own size
        assert_equal(two[name] / scale, one[name] / scale)

"""Whole runs: what they leave, how they go on after a kill, and what they refuse."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given

from dgpnet import Error, weights
from dgpnet.files import Journal, lock
from dgpnet.network import DGPNet
from dgpnet.training import NonFinite, Running, Source, TrainConfig, recipe, train, with_settings
from dgpnet.training.run import require_same_run
from tests.children import environment
from tests.damage import Damage, damage

Make = Callable[..., TrainConfig]

DRIVER = """
import sys
from pathlib import Path
from dgpnet.network.encoders import ENCODERS
from dgpnet.training import Running, TrainConfig, train
from tests.training.tiny import TinyEncoder
ENCODERS["tiny"] = lambda stride_on: TinyEncoder()
text, out, cache = sys.argv[1:]
running = Running(device="cpu", cache=Path(cache), quiet=True, log_every=2, checkpoint_every=3, pictures_every=5)
train(TrainConfig.from_json(Path(text).read_text()), out, running)
"""


def _everything(config: Make, **changes: object) -> TrainConfig:
    """A run with every kind of state in it."""
    settings = {"shots": (1, 2), "sizes": (32, 64), "average": 0.9, "schedule": "cosine", "warmup": 0.1}
    return config(**settings, augmentation=config().self_augmentation, **changes)


def _records(run: Path) -> list[dict[str, float]]:
    records = Journal(run / "log.jsonl").read()
    return [{k: v for k, v in record.items() if k != "episodes_per_second"} for record in records]


def _same_model(one: Path, other: Path) -> bool:
    return weights.fingerprint(weights.load(one)) == weights.fingerprint(weights.load(other))


def test_a_run_leaves_model_log_pictures_and_checkpoints(config: Make, running: Running, tmp_path: Path) -> None:
    model = train(config(), tmp_path / "run", dataclasses.replace(running, pictures_every=4))
    run = tmp_path / "run"
    assert model == run / "model.safetensors"
    assert [record["step"] for record in _records(run)] == [2, 4, 6]
    assert sorted(path.name for path in run.iterdir()) == sorted(
        [".lock", "checkpoints", "config.json", "log.jsonl", "model.safetensors", "pictures", "tensorboard"]
    )
    assert sorted(path.name for path in (run / "pictures").iterdir()) == ["000000004.png", "000000006.png"]
    assert weights.read_metadata(model)["provenance"]["training"]["iterations"] == 6
    assert TrainConfig.from_json((run / "config.json").read_text()) == config()


def test_equal_configurations_give_equal_models_and_seeds_do_not(
    config: Make, running: Running, tmp_path: Path
) -> None:
    paths = [train(config(seed=seed), tmp_path / str(i), running) for i, seed in enumerate((0, 0, 1))]
    assert _same_model(paths[0], paths[1])
    assert not _same_model(paths[0], paths[2])


def test_how_a_run_is_carried_out_changes_nothing(config: Make, running: Running, tmp_path: Path) -> None:
    other = dataclasses.replace(running, log_every=5, checkpoint_every=4, pictures_every=3)
    one, two = train(config(), tmp_path / "one", running), train(config(), tmp_path / "two", other)
    assert _same_model(one, two)


def test_the_average_is_what_is_kept(config: Make, running: Running, tmp_path: Path) -> None:
    plain = train(config(), tmp_path / "plain", running)
    averaged = train(config(average=0.9), tmp_path / "averaged", running)
    assert not _same_model(plain, averaged)
    from safetensors.torch import load_file

    state = load_file(tmp_path / "averaged" / "checkpoints" / "000000006.safetensors")
    for name, tensor in weights.load(averaged).state_dict().items():
        if tensor.is_floating_point():
            assert torch.equal(tensor, state[f"average.{name}"]), name


def test_a_stopped_run_goes_on_bit_for_bit(
    config: Make, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _everything(config, iterations=7)
    whole = train(settings, tmp_path / "whole", running)

    from dgpnet.training import loop

    real = loop.batch_at
    for stop in (3, 5):  # between checkpoints and records, which are every 2 steps

        def interrupted(dataset: object, config: TrainConfig, step: int, stop: int = stop) -> object:
            if step == stop:
                raise KeyboardInterrupt
            return real(dataset, config, step)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "batch_at", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path / "parts", running)
    monkeypatch.setattr(loop, "batch_at", real)
    torch.manual_seed(99)  # a new process would not share this one's random state either
    parts = train(settings, tmp_path / "parts", running)
    assert _same_model(whole, parts)
    assert _records(tmp_path / "whole") == _records(tmp_path / "parts")


def _killed_until_done(text: Path, out: Path, cache: Path, waits: list[Callable[[Path], bool]], tmp_path: Path) -> int:
    """Starts the run again and again, kills it where each of `waits` says, then lets it end; returns the kills."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(text), str(out), str(cache)]
    kills = 0
    for wait in waits:
        with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
            while process.poll() is None and not wait(out):
                time.sleep(0.005)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.communicate()
    subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=300)
    return kills


def _after_records(count: int) -> Callable[[Path], bool]:
    def wait(out: Path) -> bool:
        path = out / "log.jsonl"
        return path.exists() and path.read_text().count("\n") >= count

    return wait


def test_a_killed_process_goes_on_bit_for_bit(config: Make, cache: Path, running: Running, tmp_path: Path) -> None:
    settings = _everything(config, iterations=24)
    whole = train(settings, tmp_path / "whole", dataclasses.replace(running, checkpoint_every=3, pictures_every=5))
    text = tmp_path / "config.json"
    text.write_text(settings.to_json())
    kills = _killed_until_done(text, tmp_path / "parts", cache, [_after_records(4)], tmp_path)
    assert kills == 1
    assert _same_model(whole, tmp_path / "parts" / "model.safetensors")
    assert _records(tmp_path / "whole") == _records(tmp_path / "parts")
    assert not list(tmp_path.glob("parts/**/.*.part*"))


@pytest.mark.slow
def test_a_process_killed_anywhere_goes_on_bit_for_bit(
    config: Make, cache: Path, running: Running, tmp_path: Path
) -> None:
    settings = _everything(config, iterations=60)
    whole = train(settings, tmp_path / "whole", dataclasses.replace(running, checkpoint_every=3, pictures_every=5))
    text = tmp_path / "config.json"
    text.write_text(settings.to_json())

    def after_something_new(patience: float) -> Callable[[Path], bool]:
        """True a random moment after the run's folder first changes, wherever it then is."""
        state: dict[str, float] = {}

        def wait(out: Path) -> bool:
            newest = max((p.stat().st_mtime_ns for p in out.glob("**/*") if p.exists()), default=0)
            if "seen" not in state:
                state["seen"] = newest
            if newest != state["seen"] and "due" not in state:
                state["due"] = time.monotonic() + patience
            return "due" in state and time.monotonic() >= state["due"]

        return wait

    generator = random.Random(0)
    waits = [after_something_new(generator.uniform(0, 0.6)) for _ in range(8)]
    kills = _killed_until_done(text, tmp_path / "parts", cache, waits, tmp_path)
    assert kills >= 3
    assert _same_model(whole, tmp_path / "parts" / "model.safetensors")
    assert _records(tmp_path / "whole") == _records(tmp_path / "parts")


def test_a_finished_run_is_left_as_it_is(config: Make, running: Running, tmp_path: Path) -> None:
    model = train(config(), tmp_path / "run", running)
    before = model.stat().st_mtime_ns
    assert train(config(), tmp_path / "run", running) == model
    assert model.stat().st_mtime_ns == before


def test_a_folder_in_which_a_run_is_at_work_is_refused(config: Make, running: Running, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with lock(out / ".lock", "it"), pytest.raises(Error, match=f"run is in use by process {os.getpid()} on "):
        train(config(), out, running)
    assert [path.name for path in out.iterdir()] == [".lock"]
    train(config(), out, running)


@given(damage())
def test_a_damaged_configuration_is_refused_or_read_as_it_was(change: Damage) -> None:
    config = recipe("strong")
    with TemporaryDirectory() as place:
        path = Path(place) / "config.json"
        path.write_bytes(change(config.to_json().encode()))
        try:
            require_same_run(config, Path(place))
        except Error as problem:
            assert str(problem).endswith(".")


def test_a_run_of_another_configuration_is_refused_by_field(config: Make, running: Running, tmp_path: Path) -> None:
    train(config(), tmp_path / "run", running)
    with pytest.raises(Error, match=r"rate 0\.001, not 0\.5; seed 0, not 3") as caught:
        train(config(rate=0.5, seed=3), tmp_path / "run", running)
    assert "iterations" not in str(caught.value)


def test_a_folder_of_something_else_is_refused(config: Make, running: Running, tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(Error, match="holds no run"):
        train(config(), tmp_path, running)
    with pytest.raises(Error, match="is a file"):
        train(config(), tmp_path / "letters.txt", running)


def test_a_checkpoint_of_another_architecture_is_refused(config: Make, running: Running, tmp_path: Path) -> None:
    other = config(network=config().network.but(features=16), iterations=2)
    start = train(other, tmp_path / "other", running)
    with pytest.raises(Error, match=r"encoder.project.16.weight") as caught:
        train(config(start_from=str(start)), tmp_path / "run", running)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_starting_from_a_checkpoint_starts_there(config: Make, running: Running, tmp_path: Path) -> None:
    start = train(config(), tmp_path / "first", running)
    still = {"rate": 1e-30, "encoder_rate": 0.0, "projection_rate": 0.0, "iterations": 1, "weight_decay": 0.0}
    second = train(config(start_from=str(start), **still), tmp_path / "second", running)
    one, two = weights.load(start), weights.load(second)
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_projections_of_a_trained_encoder_start_as_its_components(
    config: Make, running: Running, tmp_path: Path
) -> None:
    network = config().network.but(encoder="resnet18")
    body = DGPNet(network.but(levels=(16, 32))).encoder.body
    given = weights.EncoderWeights("resnet18", "3x3", body.state_dict(), {})
    weights.save_encoder(tmp_path / "resnet18.safetensors", given)
    still = {"rate": 1e-30, "encoder_rate": 0.0, "projection_rate": 0.0, "iterations": 1, "weight_decay": 0.0}
    found = {}
    for projection in ("auto", "principal", "random"):
        start = {"encoder_weights": str(tmp_path / "resnet18.safetensors"), "projection": projection}
        model = train(config(network=network, **start, **still), tmp_path / projection, running)
        found[projection] = weights.load(model).encoder.project["16"].weight
    assert torch.equal(found["auto"], found["principal"])
    assert not torch.equal(found["auto"], found["random"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": ()}, "nothing to train on"),
        ({"sources": (Source("pascall"),)}, "no dataset 'pascall'"),
        ({"sources": (Source("pascal", "no/such/folder", fold=1),)}, "no/such/folder"),
        ({"sources": (Source("synthetic", fold=9),)}, "fold"),
        ({"sources": (Source("synthetic", classes=("shape-77",)),)}, "no class shape-77"),
        ({"shots": (1, 40)}, "40 shots"),
        ({"encoder_weights": "no/such/file.safetensors"}, "no/such/file"),
        ({"start_from": "no/such/model.safetensors"}, "no/such/model"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    config: Make, running: Running, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(Error, match=message) as caught:
        train(config(**changes), tmp_path / "run", running)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_broken_files_are_all_named_before_anything_is_written(config: Make, running: Running, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    data, cache = tmp_path / "data", tmp_path / "cache"
    for folder in ("images", "masks"):
        (data / folder).mkdir(parents=True)
    for i in range(4):
        Image.fromarray(np.full((40, 40, 3), 60 * i, np.uint8)).save(data / "images" / f"{i}.jpg")
        mask = np.zeros((40, 40) if i != 2 else (30, 40), np.uint8)
        mask[5:25, 5:25] = 1
        Image.fromarray(mask).save(data / "masks" / f"{i}.png")
    (data / "classes.json").write_text('{"1": "mug"}')
    truncated = data / "images" / "1.jpg"
    truncated.write_bytes(truncated.read_bytes()[:300])
    options = {"min_pixels": 1}
    with pytest.raises(Error) as caught:
        train(
            config(sources=(Source("folder", str(data), options=options),)),
            tmp_path / "run",
            dataclasses.replace(running, cache=cache),
        )
    assert "1.jpg" in str(caught.value)
    assert "2." in "".join(caught.value.__notes__)
    assert not (tmp_path / "run").exists()


def test_several_datasets_are_mixed_by_weight(config: Make, running: Running, tmp_path: Path) -> None:
    options = {"photographs": 40, "objects": 2}
    sources = (Source("synthetic", weight=3.0, options=options), Source("synthetic", options={**options, "seed": 5}))
    assert train(config(sources=sources), tmp_path / "run", running).exists()


def test_a_loss_that_is_not_finite_stops_with_its_episodes_written_down(
    config: Make, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(network=config().network.but(learner="prototype"))
    marked: list[torch.Tensor] = []
    real = DGPNet.forward

    def poisoned(self: DGPNet, supports: torch.Tensor, masks: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """From the fourth step on, one episode breaks the whole batch, as it does through BatchNorm."""
        logits = real(self, supports, masks, query)
        if self.training and not marked and next(counter) == 3:
            marked.append(query[2])
        if marked and any(torch.equal(photo, marked[0]) for photo in query):
            logits = logits * float("nan")
        return logits

    counter = iter(range(100))
    monkeypatch.setattr(DGPNet, "forward", poisoned)
    with pytest.raises(NonFinite, match="Step 3") as caught:
        train(settings, tmp_path / "run", running)
    written = json.loads((tmp_path / "run" / "nonfinite.json").read_text())
    assert written["step"] == 3
    assert len(written["episodes"]) == settings.episodes
    suspects = [episode for episode in written["episodes"] if episode["alone"] == "not finite"]
    assert written["episodes"][: len(suspects)] == suspects
    assert 1 <= len(suspects) < settings.episodes
    assert suspects[0]["query"] in str(caught.value)
    assert {"class", "query", "supports", "views"} <= set(suspects[0])
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert max(path.stem for path in (tmp_path / "run" / "checkpoints").iterdir()) == "000000002"


def test_a_diverged_network_stops_too(config: Make, running: Running, tmp_path: Path) -> None:
    with pytest.raises(NonFinite, match="step"):
        train(with_settings(config(iterations=30), ["rate=1e30"]), tmp_path / "run", running)
    assert (tmp_path / "run" / "nonfinite.json").exists()


def test_episodes_that_do_not_split_are_refused(
    config: Make, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(Error, match="multiple of 3"):
        train(config(), "unused", running)


def test_no_gpu_is_said(config: Make, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Error, match="no device 'cuda'"):
        train(config(), tmp_path / "run", dataclasses.replace(running, device="cuda"))

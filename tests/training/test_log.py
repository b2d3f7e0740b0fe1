"""Records that a kill does not double or lose, and plain lines for people."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dgpnet.files import Journal
from dgpnet.training import TrainConfig
from dgpnet.training.log import Log, Meter, forget_after
from dgpnet.training.processes import launch

Make = Callable[..., TrainConfig]


def test_records_beyond_the_checkpoint_and_damaged_lines_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log.jsonl")
    with journal:
        journal.add(*({"step": step} for step in (2, 4, 6)))
    with journal.path.open("a") as file:
        file.write('{"step": 3}\n{"step": 3, "lo')
    forget_after(journal, 4)
    assert journal.read() == [{"step": 2}, {"step": 4}]
    assert journal.damaged == 0
    forget_after(Journal(tmp_path / "absent.jsonl"), 4)
    assert not (tmp_path / "absent.jsonl").exists()


def test_damaged_lines_are_said_to_be_left_out(config: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 1\xff}\n')
    with Log(tmp_path, config(iterations=10), start=0):
        pass
    assert "log.jsonl: 1 damaged lines are left out." in capfd.readouterr().err


def test_a_meter_joins_steps_by_their_weights_and_goes_on_after_a_stop(config: Make) -> None:
    fabric = launch(config(), "cpu")
    rows = torch.rand(4, 3, 5) + 1
    rows[:, :, 4] = rows[:, :1, 4]
    whole, first, second = Meter(fabric), Meter(fabric), Meter(fabric)
    for row in rows:
        whole.add(row)
    assert whole.read(4) == []
    for row in rows[:2]:
        first.add(row)
    first.read(2)
    second.restore(json.loads(json.dumps(first.position())))
    for row in rows[2:]:
        second.add(row)
    second.read(4)
    record = second.record()
    assert record == pytest.approx(whole.record())
    assert record["loss"] == pytest.approx((rows[..., 0].sum() / rows[..., 1].sum()).item(), rel=1e-6)
    assert record["iou"] == pytest.approx((rows[..., 2].sum() / rows[..., 3].sum()).item(), rel=1e-6)


def test_a_meter_names_the_steps_that_were_not_finite(config: Make) -> None:
    meter = Meter(launch(config(), "cpu"))
    rows = torch.ones(5, 2, 5)
    rows[1, 1, 0], rows[3, 0, 4] = torch.inf, torch.nan
    for row in rows:
        meter.add(row)
    assert meter.read(10) == [6, 8]


def test_lines_say_loss_iou_speed_and_time_left(
    config: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Log(tmp_path, config(iterations=10), start=0) as log:
        log.say("a class drops out")
        log.write(10, {"loss": 0.5, "iou": 0.25, "gradient": 1.0, "rate": 1e-3})
    text = capfd.readouterr().err
    assert "a class drops out" in text
    for part in ("step 10 of 10", "loss 0.5000", "IoU 0.250", "episodes/s", "left"):
        assert part in text
    (record,) = Journal(tmp_path / "log.jsonl").read()
    assert {"step", "loss", "iou", "gradient", "rate", "episodes_per_second"} == set(record)
    assert list((tmp_path / "tensorboard").iterdir())


def test_a_process_that_does_not_write_writes_nothing(
    config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Log(None, config(), start=0) as log:
        log.say("nothing")
        log.write(1, {"loss": 0.5, "iou": 0.25})
    assert list(tmp_path.iterdir()) == []

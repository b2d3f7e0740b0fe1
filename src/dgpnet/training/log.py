"""What a run says of itself: a bar or plain lines, a JSONL file, TensorBoard, and now and then a picture."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from dgpnet import pictures
from dgpnet.files import Journal
from dgpnet.training.config import TrainConfig
from dgpnet.training.processes import gather
from dgpnet.training.step import METRICS

if TYPE_CHECKING:
    from lightning_fabric import Fabric

#: The journal of a run's folder.
LOG = "log.jsonl"
#: Between plain lines, where there is no terminal.
SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Gathers what steps return without waiting for the device; `read` waits, and says what was not finite.

    What has been read since the last record is part of the run's position: a resumed run writes the same record.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._pending: list[Tensor] = []
        self._sums = np.zeros(len(METRICS))
        self._steps = 0

    def add(self, metrics: Tensor) -> None:
        """One step's (E, 5) `METRICS`."""
        self._pending.append(metrics)

    def read(self, done: int) -> list[int]:
        """Takes in all pending steps, the last of which made it `done`; returns those that were not finite."""
        if not self._pending:
            return []
        own = torch.stack(self._pending)  # (n, E, 5)
        rows = gather(self._fabric, own).transpose(0, 1).flatten(1, 2).cpu().double().numpy()
        self._pending.clear()
        self._sums += [*rows[:, :, :4].sum((0, 1)), rows[:, 0, 4].sum()]
        self._steps += len(rows)
        return [done - len(rows) + int(i) for i in np.flatnonzero(~np.isfinite(rows).all(axis=(1, 2)))]

    def record(self) -> dict[str, float]:
        """Means over the steps read since the last record: loss, IoU of the foreground, norm of the gradient."""
        loss, weight, intersection, union, gradient = self._sums.tolist()
        found = {
            "loss": loss / max(weight, 1.0),
            "iou": intersection / max(union, 1.0),
            "gradient": gradient / self._steps,
        }
        self._sums, self._steps = np.zeros(len(METRICS)), 0
        return found

    def position(self) -> list[float]:
        """What a checkpoint keeps."""
        return [*self._sums.tolist(), self._steps]

    def restore(self, position: list[float]) -> None:
        """Continues from `position`."""
        *sums, steps = position
        self._sums, self._steps = np.array(sums), int(steps)


@dataclass
class Rate:
    """Episodes a second and time left, of what this process itself has done."""

    total: int
    episodes: int
    first: int
    began: float = field(default_factory=time.monotonic)

    def at(self, step: int) -> tuple[float, timedelta]:
        """After `step` steps of the run."""
        seconds = max(time.monotonic() - self.began, 1e-9) / max(step - self.first, 1)
        return self.episodes / seconds, timedelta(seconds=round(seconds * (self.total - step)))


class Log:
    """The files and the lines of one run, written by one process; `quiet` leaves the lines out."""

    def __init__(self, folder: Path | None, config: TrainConfig, *, start: int, quiet: bool = False) -> None:
        """folder: None for a process that does not write. start: steps already done."""
        self._folder, self._rate = folder, Rate(config.iterations, config.episodes, start)
        self._screen: _Nothing = _Nothing()
        if folder is None:
            return
        from torch.utils.tensorboard import SummaryWriter

        self._journal = Journal(folder / LOG)
        forget_after(self._journal, start)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)
        if not quiet:
            self._screen = (_Bar if sys.stderr.isatty() else _Lines)(config.iterations, start)

    def __enter__(self) -> Self:
        if self._folder is not None:
            if self._journal.damaged:
                self.say(f"{self._journal.path}: {self._journal.damaged} damaged lines are left out.")
            self._journal.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._screen.close()
        if self._folder is not None:
            self._board.close()
            self._journal.__exit__(kind, error, where)

    def write(self, step: int, record: Mapping[str, float]) -> None:
        """One record after `step` steps: a line of JSON, a point of each curve, and the progress shown."""
        if self._folder is None:
            return
        rate, left = self._rate.at(step)
        self._journal.add({"step": step, **record, "episodes_per_second": round(rate, 2)})
        for name, value in record.items():
            self._board.add_scalar(name, value, step)
        text = f"loss {record['loss']:.4f} · IoU {record['iou']:.3f} · {rate:.1f} episodes/s · {left} left"
        self._screen.show(step, text)

    def picture(self, step: int, picture: Image) -> None:
        """A picture after `step` steps, as a file and on the board."""
        if self._folder is None:
            return
        folder = self._folder / "pictures"
        folder.mkdir(exist_ok=True)
        pictures.save(picture, folder / f"{step:09d}.png")
        self._board.add_image("episodes", np.asarray(picture.convert("RGB")), step, dataformats="HWC")

    def say(self, *lines: str) -> None:
        """Lines between the progress."""
        for line in lines:
            self._screen.say(line)


def forget_after(journal: Journal, step: int) -> None:
    """Drops records beyond `step`, which come again, and lines that cannot be read."""
    records = journal.read()
    kept = [record for record in records if record["step"] <= step]
    if len(kept) < len(records) or journal.damaged:
        journal.rewrite(kept)


class _Nothing:
    """For all processes but the first, and for callers that want silence."""

    def show(self, step: int, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class _Lines(_Nothing):
    """Plain lines on stderr, not more often than a person or a log file can bear."""

    def __init__(self, total: int, step: int) -> None:
        self._total, self._last = total, -math.inf

    def show(self, step: int, text: str) -> None:
        now = time.monotonic()
        if step == self._total or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self.say(f"step {step} of {self._total} · {text}")

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class _Bar(_Nothing):
    """A bar on the terminal."""

    def __init__(self, total: int, step: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns: tuple[Any, ...] = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=total, completed=step)
        self._progress.start()

    def show(self, step: int, text: str) -> None:
        self._progress.update(self._task, completed=step, description=text)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._progress.stop()

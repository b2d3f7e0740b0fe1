"""An evaluation described by plain values, so that any process can build it, and many can share it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch

from dgpnet import data, weights
from dgpnet.data.dataset import Dataset
from dgpnet.data.episodes import ProtocolName
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.evaluation.protocol import setting
from dgpnet.evaluation.records import Records
from dgpnet.evaluation.results import Results, gather
from dgpnet.evaluation.run import Evaluation, EvaluationOptions, Progress
from dgpnet.files import differences, lock
from dgpnet.segmenter.calibration import Calibration


class WorkerDied(RuntimeError):
    """A process of an evaluation ended before its work was done; what is finished is kept."""


@dataclass(frozen=True)
class Case:
    """What is evaluated on what.

    checkpoint        a file, or "default" or "small"
    dataset … split   as for `data.build`
    settings          the dataset's own options
    size              side of the square that the network sees; None: the protocol's, or else the network's
    episodes_file     episodes listed in a file, in place of drawn ones
    cache             folder of decoded photographs
    device            "auto", "cpu", "cuda" …
    """

    checkpoint: str
    dataset: str
    options: EvaluationOptions
    root: Path | None = None
    fold: int | None = None
    split: str = "test"
    classes: tuple[str, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None
    episodes_file: Path | None = None
    cache: Path | None = None
    device: str = "auto"

    def job(self, *, process: int = 0, progress: Progress | None = None) -> Evaluation:
        """The evaluation, ready to work, on the device of the `process`-th process. progress: of decoding."""
        network = weights.load(self.checkpoint, device=self._device(process))
        dataset = self.open(network.config.size, progress)
        fitted = weights.read_metadata(self.checkpoint)["calibration"]
        listed = data.episodes_from_file(self.episodes_file, dataset) if self.episodes_file else None
        more = {"checkpoint": Path(self.checkpoint).name, "fold": self.fold, "split": self.split}
        return Evaluation(network, dataset, self.options, listed, Calibration.from_json(fitted), more)

    def open(self, network_size: int, progress: Progress | None = None) -> Dataset:
        """The dataset, cached at the size that it is tested at, without classes too small for episodes to be drawn."""
        dataset = data.build(
            self.dataset,
            self.root,
            fold=self.fold,
            split=self.split,
            classes=self.classes,
            size=self.size or setting(self.options.protocol, self.dataset).size or network_size,
            cache=self.cache,
            progress=progress,
            **self.settings,
        )
        if self.episodes_file is not None:
            return dataset
        most, protocol = max(self.options.shots), cast(ProtocolName, self.options.protocol)
        kept, dropped = data.trainable(dataset, most, protocol)
        return dataset.with_pairs(kept.classes, kept.pairs, dropped) if dropped else dataset

    def _device(self, process: int) -> torch.device:
        device = find_device(self.device)
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", process % torch.cuda.device_count())
        return device


def evaluate_case(
    case: Case,
    out: Path | None = None,
    *,
    processes: int = 1,
    job: Evaluation | None = None,
    progress: Progress | None = None,
) -> Results:
    """Evaluates, in so many processes, and writes `out`; a run that was cut off goes on, a finished one is read.

    job: `case.job()`, where the caller has it already. progress: called with (done, of) episodes of all processes.
    """
    if processes > 1 and out is None:
        raise Error("Several processes meet in the folder of the results; name the file with --out.")
    job = job or case.job()
    about = job.about()
    parts = out.with_name(f"{out.name}.parts") if out is not None else None
    if out is not None and parts is not None and out.exists():
        done = Results.read(out)
        if differing := differences(done.about, about):
            raise Error(f"{out} holds another evaluation ({'; '.join(differing)}); remove it or choose another --out.")
        shutil.rmtree(parts, ignore_errors=True)  # where it was killed between the two
        return done
    job.check()
    records = Records.open(parts, job.parts())
    with lock(parts / ".lock", str(out)) if parts is not None else nullcontext():
        if processes > 1 and parts is not None:
            _share(case, job, records, parts, processes, progress)
        else:
            job.work(records, progress=progress)
        results = gather(records.found, about, job.dataset.classes)
        if out is not None and parts is not None:
            _write(results, out, parts / "written")
            shutil.rmtree(parts, ignore_errors=True)
    return results


def _write(results: Results, out: Path, folder: Path) -> None:
    """By way of a folder that goes: a kill leaves nothing half-written beside the user's files. `out` comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    results.write(folder / out.name)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == out.name):
        os.replace(path, out.with_name(path.name))


def _share(
    case: Case, job: Evaluation, records: Records, parts: Path, processes: int, progress: Progress | None
) -> None:
    """Starts the processes, waits for them, and reads what they found."""
    # A started interpreter and not a fork: neither CUDA nor a pool of threads survives one.
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // processes)
    workers = [
        context.Process(target=_work, args=(case, parts, number, processes, threads), daemon=True)
        for number in range(processes)
    ]
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            if progress:
                progress(min(records.count_lines() * job.unit, job.total), job.total)
            if any(worker.exitcode for worker in workers):
                break
    finally:
        failed = [number for number, worker in enumerate(workers) if worker.exitcode]
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
            worker.join()
    records.refresh()
    missing = [key for key in job.units() if key not in records.found]
    if failed or missing:
        raise WorkerDied(
            f"Process {', '.join(map(str, failed)) or '?'} of {processes} ended before its work was done; what is"
            " finished is kept, and the same command goes on from there."
        )


def _work(case: Case, parts: Path, number: int, processes: int, threads: int) -> None:
    """What one of several processes does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends the others
    torch.set_num_threads(threads)
    try:
        job = case.job(process=number)
        records = Records.open(parts, job.parts(), name=f"part-{number}-of-{processes}")
        job.work(records, part=(number, processes), progress=lambda done, total: _end_with_parent())
    except Error as problem:
        print(f"dgpnet: {problem}", file=sys.stderr, flush=True)
        os._exit(1)


def _end_with_parent() -> None:
    """Nobody waits for what a process finds whose parent was killed, and the next parent starts its own."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)

"""The training loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dgpnet.errors import Error
from dgpnet.training.config import TrainConfig
from dgpnet.training.log import Log, Meter
from dgpnet.training.processes import launch
from dgpnet.training.projection import blindness, start_principal
from dgpnet.training.run import Run, build_network, finished, require_same_run
from dgpnet.training.samples import sample_picture
from dgpnet.training.source import Store, batch_at, open_source, size_at

#: Steps of each shape from which compiling them pays.
FUSE_FROM = 5000


@dataclass(frozen=True)
class Running:
    """How a run is carried out; nothing here changes what it comes to.

    device         "auto", "cpu", "cuda", "cuda:1" …
    log_every, checkpoint_every, pictures_every   steps between records, checkpoints, pictures (0: no pictures)
    graph          whether a GPU replays captured steps
    fuse           whether they are compiled before they are captured: half a minute for each shape of a step, and
                   quicker steps; None: in runs of FUSE_FROM steps or more
    cache          folder for decoded photographs; None: the usual one
    allow_pickle   whether encoder weights may be a pickle
    quiet          no lines on stderr
    progress       called with (done, of) while photographs are decoded
    """

    device: str = "auto"
    log_every: int = 20
    checkpoint_every: int = 500
    pictures_every: int = 1000
    graph: bool = True
    fuse: bool | None = None
    cache: Path | None = None
    allow_pickle: bool = False
    quiet: bool = False
    progress: Callable[[int, int], None] | None = None


def train(config: TrainConfig, out: str | Path, running: Running | None = None) -> Path:
    """Trains, or continues, the run in the folder `out`; returns the path of its model.

    Whatever can be refused is refused before anything is written there.
    """
    out, running = Path(out), running or Running()
    require_same_run(config, out)
    if (model := finished(out)) is not None:
        return model
    fabric = launch(config, running.device)
    with fabric.rank_zero_first():  # the first process decodes the photographs, the others find them decoded
        dataset = open_source(config, cache=running.cache, progress=running.progress if fabric.is_global_zero else None)
    network = build_network(config, fabric.device, allow_pickle=running.allow_pickle)
    store = Store(dataset, fabric.device)
    if config.principal:
        start_principal(network, dataset, seed=config.seed)
    run, meter = Run(fabric, network, config), Meter(fabric)
    fuse = running.fuse if running.fuse is not None else config.iterations >= FUSE_FROM * config.shapes
    stepper = run.stepper(resident=store.resident, graph=running.graph, fuse=fuse)

    with ExitStack() as held:
        held.enter_context(run.alone(out))
        start = run.resume(out, meter)
        folder = out if fabric.is_global_zero else None
        log = held.enter_context(Log(folder, config, start=start, quiet=running.quiet))
        log.say(*dataset.notes, *(blindness(network, dataset, seed=config.seed) if start == 0 else []))
        for step in range(start, config.iterations):
            factor = run.set_rates(step)
            batch = batch_at(dataset, config, step)[run.share]
            try:
                meter.add(stepper.run(store.inputs(batch, size_at(config, step))))
            except Error as problem:  # the Gaussian process refuses what is not finite
                raise run.non_finite(step, str(problem), dataset, store, out) from problem

            done = step + 1
            last = done == config.iterations
            recorded = last or done % running.log_every == 0
            saved = last or done % running.checkpoint_every == 0
            pictured = running.pictures_every > 0 and (last or done % running.pictures_every == 0)
            # Reading waits for the device; a GPU is left alone between records.
            if recorded or saved or fabric.device.type == "cpu":
                for broken in meter.read(done):
                    raise run.non_finite(broken, "the loss or its gradient is not finite", dataset, store, out)
            if recorded:
                log.write(done, {**meter.record(), "rate": config.rate * factor})
            if pictured and fabric.is_global_zero:
                log.picture(done, sample_picture(network, dataset, store, config))
            if saved:
                run.save(out, done, meter)
        return run.finish(out)

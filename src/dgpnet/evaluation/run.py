"""The protocol on a network: draw episodes, measure them unit by unit, keep what is finished, gather the figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from dgpnet import data, weights
from dgpnet.data.dataset import Dataset
from dgpnet.data.episodes import Episode, ProtocolName, check_protocol
from dgpnet.errors import Error
from dgpnet.evaluation.measure import PRECISIONS, Loaded, load, measure
from dgpnet.evaluation.records import Key, Record, Records, Unit
from dgpnet.evaluation.results import Results, gather
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration

#: Units of work that an evaluation is cut into, about: a run that is cut off loses one. Fewer where a unit would have
#: under the first of SIZES episodes, more where it would have over the last, so that the device is seldom waited for.
UNITS = 64
SIZES = (8, 256)
#: Threads that read photographs.
READERS = 4

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class EvaluationOptions:
    """How a network is evaluated.

    shots       numbers of supports; each episode is measured with all of them
    episodes    how many a seed; ignored where a list of episodes is given
    seeds       of the test episodes
    protocol    "paper", or "reference" as the authors' program draws episodes
    precision   "float32", or "bf16": autocast around a Gaussian process that stays float32
    batch       photographs, supports included, in one pass of the network
    """

    shots: tuple[int, ...] = (1,)
    episodes: int = 1000
    seeds: tuple[int, ...] = (0,)
    protocol: str = "paper"
    precision: str = "float32"
    batch: int = 32

    def __post_init__(self) -> None:
        check_protocol(self.protocol)
        object.__setattr__(self, "shots", tuple(sorted(set(self.shots))))
        if not self.shots or self.shots[0] < 1:
            raise Error(f"shots are one or more numbers from 1 on; got {', '.join(map(str, self.shots)) or 'none'}.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise Error(f"seeds are one or more different numbers; got {', '.join(map(str, self.seeds)) or 'none'}.")
        if self.episodes < 1 or self.batch < 1:
            raise Error(f"episodes and batch are at least 1; got {self.episodes} and {self.batch}.")
        if self.precision not in PRECISIONS:
            raise Error(f"The precision is one of {', '.join(PRECISIONS)}; got {self.precision!r}.")


def evaluate(
    network: DGPNet,
    dataset: Dataset,
    options: EvaluationOptions,
    *,
    listed: Sequence[Episode] | None = None,
    calibration: Calibration | None = None,
    records: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Results:
    """Evaluates a network, where it is, on a cached dataset, by the field's protocol.

    listed: these episodes, in place of drawn ones; with K shots those that have K supports count.
    records: a folder that keeps what is finished; the same call goes on from there.
    about: more that the results should say of themselves. progress: called with (done, of) episodes.
    """
    job = Evaluation(network, dataset, options, listed, calibration or Calibration(), about or {})
    job.check()
    described = job.about()
    kept = Records.open(records, job.parts())
    job.work(kept, progress=progress)
    return gather(kept.found, described, dataset.classes)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation, cut into units of work that any process may take on; fields as in `evaluate`."""

    network: DGPNet
    dataset: Dataset
    options: EvaluationOptions
    listed: Sequence[Episode] | None
    calibration: Calibration
    more: Mapping[str, Any]

    def about(self) -> dict[str, Any]:
        """Everything that the figures depend on, as plain JSON values."""
        chosen = asdict(self.options)
        if self.listed is not None:
            chosen.update(episodes=len(self.listed), seeds=[0], listed=digest(self.listed))
        return {
            **self.more,
            "network": weights.fingerprint(self.network),
            "config": json.loads(self.network.config.to_json()),
            "calibration": self.calibration.to_json(),
            "dataset": self.dataset.name,
            "photographs": self.dataset.fingerprint(),
            "pairs": digest(self.dataset.pairs),
            "size": self.dataset.tensors()[0].shape[-1],
            **chosen,
        }

    def parts(self) -> dict[str, Any]:
        """What finished units depend on: the figures' `about`, and how many episodes a unit has."""
        return {**self.about(), "unit": self.unit}

    @property
    def unit(self) -> int:
        """Episodes of one unit of work, a power of two."""
        least, most = SIZES
        return min(max(least, 1 << max(0, (self.total // UNITS).bit_length() - 1)), most)

    def units(self) -> list[Key]:
        """The units of work, in order."""
        seeds = self.options.seeds if self.listed is None else (0,)
        return [(seed, first) for seed in seeds for first in range(0, self.count, self.unit)]

    @property
    def count(self) -> int:
        """Episodes of one seed."""
        return self.options.episodes if self.listed is None else len(self.listed)

    @property
    def total(self) -> int:
        """Episodes of all seeds."""
        return self.count * (1 if self.listed is not None else len(self.options.seeds))

    def check(self) -> None:
        """Refuses what cannot be done, before any work."""
        if self.listed is None:
            data.check(self.dataset, max(self.options.shots), cast(ProtocolName, self.options.protocol))
            return
        most = max((len(e.supports) for e in self.listed), default=0)
        if most < max(self.options.shots):
            raise Error(f"The listed episodes have at most {most} supports; ask for as many shots or fewer.")

    def episodes(self, key: Key) -> list[Episode]:
        """The episodes of one unit."""
        seed, first = key
        stop = min(first + self.unit, self.count)
        if self.listed is not None:
            return list(self.listed[first:stop])
        protocol = cast(ProtocolName, self.options.protocol)
        most = max(self.options.shots)
        return data.episodes(self.dataset, seed=seed, indices=range(first, stop), max_shots=most, protocol=protocol)

    def work(self, records: Records, *, part: tuple[int, int] = (0, 1), progress: Progress | None = None) -> None:
        """Measures what is not recorded yet of part p of n (units p, p + n, …), and records it."""
        waiting = [key for key in self.units()[part[0] :: part[1]] if key not in records.found]
        done = self.total - sum(min(self.unit, self.count - first) for _, first in waiting)
        self.network.eval()
        for key, episodes, loaded in self._loaded(waiting):
            once = _Steps(done, len(self.options.shots), self.total, progress)
            records.add(key, self._measure(episodes, loaded, once.advance))
            done += len(episodes)
            once.at(done)

    def _measure(self, episodes: Sequence[Episode], loaded: Loaded, advance: Callable[[int], None]) -> Unit:
        """All shots of one unit; the device is waited for once, at its end."""
        measured = {}
        for shots in self.options.shots:
            some = [e for e in episodes if len(e.supports) >= shots]
            if some:
                found = measure(
                    self.network,
                    loaded,
                    some,
                    shots,
                    calibration=self.calibration,
                    precision=self.options.precision,
                    batch=self.options.batch,
                    advance=advance,
                )
                measured[shots] = [e.class_id for e in some], found
        return {shots: Record.of(classes, found) for shots, (classes, found) in measured.items()}

    def _loaded(self, keys: Sequence[Key]) -> Iterator[tuple[Key, list[Episode], Loaded]]:
        """Each unit with its photographs on the network's device; the next one is read while this one is measured."""
        device = next(self.network.parameters()).device
        most = max(self.options.shots)

        def read(key: Key) -> tuple[list[Episode], Loaded]:
            episodes = self.episodes(key)
            return episodes, load(self.dataset, episodes, most, pin=device.type == "cuda", executor=readers)

        with ThreadPoolExecutor(1) as ahead, ThreadPoolExecutor(READERS) as readers:
            coming = ahead.submit(read, keys[0]) if keys else None
            for number, key in enumerate(keys):
                assert coming is not None
                episodes, loaded = coming.result()
                coming = ahead.submit(read, keys[number + 1]) if number + 1 < len(keys) else None
                yield key, episodes, loaded.to(device)


@dataclass
class _Steps:
    """Tells how far an evaluation is while one of its units is measured, once with each number of shots.

    before: episodes done in earlier units. times: how often each episode is measured. total: episodes of all units.
    """

    before: int
    times: int
    total: int
    progress: Progress | None
    measured: int = 0

    def advance(self, episodes: int) -> None:
        """So many more were measured once."""
        self.measured += episodes
        self.at(self.before + self.measured // self.times)

    def at(self, done: int) -> None:
        """So many are done in all."""
        if self.progress:
            self.progress(min(done, self.total), self.total)


def digest(value: object) -> str:
    """A short name for a list of plain values."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]

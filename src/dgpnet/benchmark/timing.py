"""How long a piece of work takes, how much memory it needs, and what the machine could do at best.

On CUDA times come from events on the stream, after warm-up, as medians; on a CPU from the wall clock.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dgpnet import processor

Work = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How hard to measure: at most so many calls of a piece of work, and seconds; before that, calls to warm up."""

    calls: int = 20
    seconds: float = 1.0
    warmup: int = 3


def measure(work: Work, device: torch.device, effort: Effort) -> float:
    """Milliseconds that `work` takes: the median of some calls, at least one.

    Warming up takes fewer calls than it should where they last longer than the seconds of `effort`.
    """
    begin = time.perf_counter()
    for _ in range(effort.warmup):
        if time.perf_counter() - begin > effort.seconds:
            break
        work()
        synchronise(device)
    times: list[float] = []
    begin = time.perf_counter()
    while not times or (len(times) < effort.calls and time.perf_counter() - begin < effort.seconds):
        clock = Stopwatch(device)
        work()
        clock.lap("all")
        times.append(clock.milliseconds()["all"])
    return statistics.median(times)


def mark(device: torch.device) -> Any:
    """The moment when the device has done what it was asked so far: an event on CUDA's stream, elsewhere seconds."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def milliseconds(begin: Any, end: Any) -> float:
    """From one mark to another, once the device has come there."""
    return 1000 * (end - begin) if isinstance(begin, float) else float(begin.elapsed_time(end))


class Stopwatch:
    """Splits one pass into named laps without stopping the device in between."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._names: list[str] = []
        synchronise(device)
        self._marks = [mark(device)]

    def lap(self, name: str) -> None:
        """What happened since the last lap is called `name`."""
        self._marks.append(mark(self.device))
        self._names.append(name)

    def milliseconds(self) -> dict[str, float]:
        """The laps so far, by name; laps of one name add up."""
        synchronise(self.device)
        found: dict[str, float] = {}
        for name, start, end in zip(self._names, self._marks, self._marks[1:], strict=False):
            found[name] = found.get(name, 0.0) + milliseconds(start, end)
        return found


def measure_laps(work: Callable[[Stopwatch], object], device: torch.device, effort: Effort) -> dict[str, float]:
    """Like `measure`, for work that calls `lap` on the stopwatch it is given; "total" is the sum of its laps."""
    laps: list[dict[str, float]] = []
    begin = time.perf_counter()
    for done in range(effort.warmup + effort.calls):
        if laps and time.perf_counter() - begin > effort.seconds:
            break
        clock = Stopwatch(device)
        work(clock)
        found = clock.milliseconds()
        if done >= effort.warmup or time.perf_counter() - begin > effort.seconds:
            laps.append({**found, "total": sum(found.values())})
    return {name: statistics.median(lap[name] for lap in laps) for name in laps[0]}


def peak_memory(work: Work, device: torch.device) -> int | None:
    """Bytes of GPU memory that `work` needs beyond what is held already; None on a CPU, where torch does not count."""
    if device.type != "cuda":
        work()
        return None
    synchronise(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    synchronise(device)
    return torch.cuda.max_memory_allocated(device) - before


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class Ceilings:
    """What the machine was seen to do at best: bytes and operations (multiply and add: two) a second; 0 for what it
    cannot do."""

    copy: float
    float32: float
    bfloat16: float


def ceilings(device: torch.device, *, megabytes: int = 1024, side: int = 8192, seconds: float = 1.0) -> Ceilings:
    """Measure a big copy and big matrix products. A copy reads and writes: both count as bytes moved."""
    source = torch.empty(megabytes << 18, dtype=torch.float32, device=device).normal_()
    target = torch.empty_like(source)
    effort = Effort(seconds=seconds)
    copied = measure(lambda: target.copy_(source), device, effort)
    return Ceilings(
        2 * source.numel() * source.element_size() / copied * 1e3,
        _matmul(torch.float32, side, device, effort),
        _matmul(torch.bfloat16, side, device, effort) if device.type != "cpu" or processor.half_works() else 0.0,
    )


def _matmul(dtype: torch.dtype, side: int, device: torch.device, effort: Effort) -> float:
    a = torch.randn(side, side, device=device).to(dtype)
    b = torch.randn(side, side, device=device).to(dtype)
    return 2 * side**3 / measure(lambda: a @ b, device, effort) * 1e3


def machine(device: torch.device) -> dict[str, str | int]:
    """What the figures were measured on."""
    found: dict[str, str | int] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found["cuda"] = str(torch.version.cuda)
        found["memory_bytes"] = torch.cuda.get_device_properties(device).total_memory
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()

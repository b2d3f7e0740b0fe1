"""Clocks that can be trusted."""

import time

import pytest
import torch

from dgpnet import processor
from dgpnet.benchmark.timing import Effort, Stopwatch, ceilings, machine, measure, measure_laps, peak_memory

CPU = torch.device("cpu")


def test_measure_counts_milliseconds_and_stops_in_time() -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        time.sleep(0.02)

    assert 20 <= measure(work, CPU, Effort(calls=1000, seconds=0.1, warmup=1)) < 200
    assert 2 <= len(calls) <= 1 + 6


def test_one_slow_call_does_not_move_the_median() -> None:
    waits = iter([0.0, 0.2, 0.0, 0.0, 0.0])
    assert measure(lambda: time.sleep(next(waits)), CPU, Effort(calls=5, seconds=5, warmup=0)) < 100


def test_measure_works_at_least_once_however_long_it_takes() -> None:
    calls: list[int] = []
    assert measure(lambda: calls.append(1), CPU, Effort(calls=5, seconds=0.0, warmup=0)) >= 0
    assert calls == [1]


def test_laps_of_one_name_add_up_and_the_total_is_their_sum() -> None:
    def work(clock: Stopwatch) -> None:
        for name in ("a", "b", "a"):
            time.sleep(0.01)
            clock.lap(name)

    found = measure_laps(work, CPU, Effort(calls=3, warmup=0))
    assert set(found) == {"a", "b", "total"}
    assert found["a"] >= 19
    assert found["total"] == pytest.approx(found["a"] + found["b"], rel=0.3)


def test_ceilings_are_positive_and_the_machine_has_a_name() -> None:
    found = ceilings(CPU, megabytes=1, side=64, seconds=0.05)
    assert min(found.copy, found.float32) > 0
    assert (found.bfloat16 > 0) == processor.half_works()
    assert machine(CPU)["device"]


def test_memory_is_not_counted_on_a_cpu_but_the_work_is_done() -> None:
    done: list[int] = []
    assert peak_memory(lambda: done.append(1), CPU) is None
    assert done == [1]

"""Clocks that can be trusted."""

import time

import pytest
import torch

from dgpnet import processor
from dgpnet.benchmark.timing import Stopwatch, ceilings, machine, measure, measure_laps, peak_memory, summary

CPU = torch.device("cpu")


def test_a_summary_has_the_median_and_the_quartiles() -> None:
    found = summary([5.0, 1.0, 3.0, 100.0, 2.0])
    assert (found.median, found.low, found.high, found.calls) == (3.0, 2.0, 5.0, 5)


def test_measure_counts_milliseconds_and_stops_in_time() -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        time.sleep(0.02)

    found = measure(work, CPU, warmup=1, calls=1000, seconds=0.1)
    assert 20 <= found.median < 200
    assert len(calls) <= 1 + 6
    assert found.calls == len(calls) - 1


def test_measure_works_at_least_once_however_long_it_takes() -> None:
    assert measure(lambda: time.sleep(0.03), CPU, warmup=0, calls=5, seconds=0.0).calls == 1


def test_laps_of_one_name_add_up_and_the_total_is_their_sum() -> None:
    def work(clock: Stopwatch) -> None:
        for name in ("a", "b", "a"):
            time.sleep(0.01)
            clock.lap(name)

    found = measure_laps(work, CPU, warmup=0, calls=3)
    assert set(found) == {"a", "b", "total"}
    assert found["a"].median >= 19
    assert found["total"].median == pytest.approx(found["a"].median + found["b"].median, rel=0.3)


def test_ceilings_are_positive_and_the_machine_has_a_name() -> None:
    found = ceilings(CPU, megabytes=1, side=64, seconds=0.05)
    assert min(found.copy, found.float32) > 0
    assert (found.bfloat16 > 0) == processor.half_works()
    assert machine(CPU)["device"]


def test_memory_is_not_counted_on_a_cpu_but_the_work_is_done() -> None:
    done: list[int] = []
    assert peak_memory(lambda: done.append(1), CPU) is None
    assert done == [1]

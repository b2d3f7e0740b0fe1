"""Records come back from disk as they went, whole lines only."""

from pathlib import Path

import numpy as np

from dgpnet.evaluation.records import Record, Records, differences
from dgpnet.metrics import HISTOGRAM_BINS


def record(seed: int) -> Record:
    rng = np.random.default_rng(seed)
    histogram = np.zeros((2, HISTOGRAM_BINS), np.int64)
    histogram[:, rng.integers(0, HISTOGRAM_BINS, 20)] = rng.integers(0, 10**10, (2, 20))
    return Record(rng.integers(0, 600, 5), rng.integers(0, 10**9, (5, 4)), rng.random(5), histogram)


def same(one: Record, other: Record) -> bool:
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in ("classes", "counts", "scores", "histogram"))


def test_a_record_survives_json_exactly():
    assert same(Record.from_json(record(0).to_json()), record(0))


def test_units_of_all_processes_are_found(folder: Path):
    for name, seed in (("a", 1), ("b", 2)):
        Records.open(folder, {"x": 1}, name=name).add((seed, 0), {1: record(seed), 5: record(seed + 10)})
    found = Records.open(folder, {"x": 1}).found
    assert sorted(found) == [(1, 0), (2, 0)]
    assert same(found[1, 0][5], record(11))


def test_only_the_own_torn_line_is_cut_off(folder: Path):
    records = Records.open(folder, {}, name="a")
    records.add((0, 0), {1: record(0)})
    other = Records.open(folder, {}, name="b")
    for name in ("a", "b"):
        with open(folder / f"{name}.jsonl", "a") as file:
            file.write('{"torn')
    Records.open(folder, {}, name="a").add((0, 1), {1: record(1)})
    assert len((folder / "a.jsonl").read_text().splitlines()) == 2
    assert (folder / "b.jsonl").read_text() == '{"torn'  # a process may be writing it just now
    other.refresh()
    assert sorted(other.found) == [(0, 0), (0, 1)]


def test_differences_are_named_and_tuples_are_lists():
    assert differences({"a": [1, 2], "b": 1}, {"a": (1, 2), "b": 1}) == ""
    assert differences({"a": 1, "b": 1}, {"a": 2, "c": 3}) == "a 1, not 2, b 1, not null, c null, not 3"

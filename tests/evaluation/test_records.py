"""Records come back from disk as they went, whole lines only."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.errors import Error
from dgpnet.evaluation.records import Record, Records
from dgpnet.metrics import HISTOGRAM_BINS
from tests.damage import Damage, damage


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


def test_a_torn_line_of_any_process_is_passed_over(folder: Path):
    records = Records.open(folder, {}, name="a")
    records.add((0, 0), {1: record(0)})
    other = Records.open(folder, {}, name="b")
    for name in ("a", "b"):
        with open(folder / f"{name}.jsonl", "a") as file:
            file.write('{"torn')
    Records.open(folder, {}, name="a").add((0, 1), {1: record(1)})
    assert (folder / "b.jsonl").read_text() == '{"torn'  # a process may be writing it just now
    other.refresh()
    assert sorted(other.found) == [(0, 0), (0, 1)]


def test_lines_of_another_evaluation_are_refused_whatever_the_folder_says_it_is(folder: Path):
    Records.open(folder, {"x": 1}).add((0, 0), {1: record(0)})
    with pytest.raises(Error, match=r"another evaluation \(x 1, not 2\)"):
        Records.open(folder, {"x": 2})
    (folder / "about.json").write_bytes(b"\0")
    with pytest.raises(Error, match=r"part\.jsonl holds parts of another evaluation"):
        Records.open(folder, {"x": 2})


@given(damage(), st.sampled_from(["about.json", "part.jsonl"]))
def test_damaged_records_are_those_that_were_written_or_none(change: Damage, name: str):
    with TemporaryDirectory() as place:
        folder = Path(place)
        whole = {(0, first): record(first) for first in (0, 3, 6)}
        for key, one in whole.items():
            Records.open(folder, {"x": [1, 2]}).add(key, {1: one})
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        try:
            records = Records.open(folder, {"x": [1, 2]})
        except Error as problem:
            assert str(problem).endswith(".")
            return
        assert all(same(unit[1], whole[key]) for key, unit in records.found.items())
        assert len(records.found) == 3 or name == "part.jsonl"
        for key in whole.keys() - records.found.keys():
            records.add(key, {1: whole[key]})
        assert len(Records.open(folder, {"x": [1, 2]}).found) == 3

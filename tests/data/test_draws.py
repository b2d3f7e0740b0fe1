"""Random numbers by address."""

from collections import Counter
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.data import draws


def test_a_number_depends_only_on_its_address() -> None:
    whole = draws.uniform(3, draws.TRAINING, np.arange(100), 7)
    assert np.array_equal(draws.uniform(3, draws.TRAINING, [41], 7)[0], whole[41])
    assert np.array_equal(draws.uniform(3, draws.TRAINING, np.arange(100), 2), whole[:, :2])
    assert np.array_equal(draws.uniform(3, draws.TRAINING, np.arange(100).reshape(10, 10), 7).reshape(100, 7), whole)


def test_seeds_and_streams_differ() -> None:
    rows = [draws.uniform(seed, stream, np.arange(1000), 1)[:, 0] for seed in (0, 1, -1, 2**60) for stream in range(3)]
    assert np.abs(np.corrcoef(rows) - np.eye(len(rows))).max() < 0.15


def test_numbers_are_the_same_for_ever() -> None:
    # Episodes in papers and logs depend on them. By SplitMix64 in Python's integers:
    def mix(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    step = 0x9E3779B97F4A7C15
    row = mix((mix((mix(7) + 2 * step) % 2**64) + 5 * step) % 2**64)
    expected = (mix((row + 3 * step) % 2**64) >> 11) / 2**53
    assert draws.uniform(7, 1, [5], 3)[0, 2] == expected


def test_numbers_are_uniform() -> None:
    u = draws.uniform(0, draws.EVALUATION, np.arange(50_000), 4)
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram2d(u[:, 0], u[:, 3], bins=10, range=[[0, 1], [0, 1]])[0]
    chi_square = ((counts - 500) ** 2 / 500).sum()
    assert chi_square < 150  # 99 degrees of freedom: 150 is exceeded once in a thousand
    lagged = np.corrcoef(u[:-1, 1], u[1:, 1])[0, 1]
    assert abs(lagged) < 0.02


@given(st.integers(2, 9), st.integers(0, 100), st.data())
def test_distinct_equals_taking_from_a_list(count: int, index: int, data: st.DataObject) -> None:
    without = data.draw(st.integers(0, count - 1))
    shots = data.draw(st.integers(1, count - 1))
    u = draws.uniform(0, 0, [index], shots)
    free = [n for n in range(count) if n != without]
    expected = [free.pop(int(v * len(free))) for v in u[0]]
    found = draws.distinct(u, np.array([count]), np.array([without]))[0].tolist()
    assert found == expected


def test_distinct_gives_every_order_equally_often() -> None:
    u = draws.uniform(1, 0, np.arange(24_000), 3)
    found = draws.distinct(u, np.full(24_000, 5), np.full(24_000, 2))
    counts = Counter(map(tuple, found.tolist()))
    assert set(counts) == set(permutations([0, 1, 3, 4], 3))
    assert all(850 < n < 1150 for n in counts.values())

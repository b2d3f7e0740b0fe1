"""Masks as runs, and back."""

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgpnet.annotations import shapes
from dgpnet.annotations.runs import counted, counts_of, runs

masks = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


@given(masks)
def test_runs_cover_the_mask(mask: np.ndarray) -> None:
    drawn = np.zeros(mask.shape, int)
    for line, first, last in zip(*runs(mask), strict=True):
        assert first < last
        drawn[line, first:last] += 1
    np.testing.assert_array_equal(drawn, mask)


@given(masks)
def test_counts_are_lengths_of_equal_values(mask: np.ndarray) -> None:
    counts = counts_of(shapes.crop(mask), mask.shape)
    written = [len(list(run)) for _, run in groupby([False, *mask.ravel().tolist()])]  # one pixel outside goes first
    np.testing.assert_array_equal(counts, [written[0] - 1, *written[1:]])
    np.testing.assert_array_equal(shapes.paint(mask.shape, [(1, counted(counts))]), mask)


def test_counts_of_nothing_between_runs_are_understood() -> None:
    patch = counted(np.array([1, 2, 0, 3, 6]))
    np.testing.assert_array_equal(shapes.paint((3, 4), [(1, patch)]), [[0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])

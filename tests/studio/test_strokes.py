"""Masks as runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.errors import Error
from dgpnet.studio.strokes import Rectangle, Stroke, check_values, decoded, encoded


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 6))
def test_what_is_encoded_is_decoded(values, width):
    pixels = np.array((values * width)[: len(values) // width * width or width], np.uint8)
    pixels = np.resize(pixels, (max(1, len(pixels) // width), width))
    runs = encoded(pixels)
    flat, touched = decoded(runs, pixels.size)
    assert (flat.reshape(pixels.shape) == pixels).all()
    assert (touched.reshape(pixels.shape) == (pixels > 0)).all()


def test_a_stroke_leaves_gaps_alone_and_counts_what_it_changes():
    pixels = np.full((4, 5), 2, np.uint8)
    change = Stroke.of(Rectangle(1, 1, 3, 2), [1, 2, 1, 0, 1, 0], {1, 2}).apply(pixels)
    assert pixels.tolist() == [[2, 2, 2, 2, 2], [2, 2, 1, 1, 2], [2, 0, 2, 2, 2], [2, 2, 2, 2, 2]]
    assert {int(v): int(change[v]) for v in np.flatnonzero(change)} == {0: 1, 1: 2, 2: -3}


@pytest.mark.parametrize(
    "runs", [[1, 2], [0, 7, 1], [-1, 2, 1], [0, 1, 256], [0, 1, -1], [2**70, 1, 1], [0, 2**62, 1, 2**62, 2**62, 1]]
)
def test_runs_that_do_not_fit_are_refused(runs):
    with pytest.raises(Error):
        decoded(runs, 6)


def test_a_rectangle_is_inside_the_photograph():
    assert Rectangle(1, 2, 3, 4).check((6, 4)).area == 12
    for wrong in (Rectangle(0, 0, 0, 1), Rectangle(-1, 0, 1, 1), Rectangle(2, 0, 3, 1), Rectangle(0, 6, 1, 1)):
        with pytest.raises(Error):
            wrong.check((6, 4))


def test_values_are_classes_or_ignore():
    counts = np.bincount([0, 1, 255], minlength=256)
    check_values(counts, {1})
    with pytest.raises(Error, match="no class 1"):
        check_values(counts, {2})

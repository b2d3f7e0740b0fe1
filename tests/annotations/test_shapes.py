"""Shapes fill the pixels whose centres they hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgpnet.annotations import shapes
from dgpnet.annotations.shapes import Patch
from dgpnet.errors import Error


def whole(patch: Patch, size: tuple[int, int]) -> np.ndarray:
    return shapes.paint(size, [(1, patch)]).astype(bool)


def holds(xy: np.ndarray, x: float, y: float) -> bool:
    """Even-odd rule for one point, written out."""
    inside = False
    for (x0, y0), (x1, y1) in zip(xy, np.roll(xy, -1, axis=0), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            inside = not inside
    return inside


@given(arrays(np.float64, st.tuples(st.integers(3, 9), st.just(2)), elements=st.floats(-3, 12, width=16)))
def test_a_polygon_holds_the_pixels_whose_centres_it_holds(xy: np.ndarray) -> None:
    xy = xy + 0.013  # no centre lies on an edge, where either answer is right
    expected = [[holds(xy, j + 0.5, i + 0.5) for j in range(10)] for i in range(8)]
    np.testing.assert_array_equal(whole(shapes.fill_polygon(xy, (8, 10)), (8, 10)), expected)


@pytest.mark.parametrize("turns", range(4))
def test_a_polygon_on_pixel_sides_is_exact_in_every_direction(turns: int) -> None:
    square = np.roll(np.array([(2, 1), (6, 1), (6, 4), (2, 4)], float), turns, axis=0)
    for xy in (square, square[::-1]):
        patch = shapes.fill_polygon(xy, (8, 10))
        assert (patch.top, patch.left) == (1, 2)
        assert patch.pixels.shape == (3, 4)
        assert patch.pixels.all()


def test_what_lies_over_the_border_is_cut_off() -> None:
    everything = np.array([(-50, -50), (50, -50), (50, 50), (-50, 50)], float)
    assert whole(shapes.fill_polygon(everything, (4, 6)), (4, 6)).all()
    assert not shapes.fill_polygon(everything + 100, (4, 6)).pixels.any()


def test_rectangles_and_circles() -> None:
    rectangle = whole(shapes.fill_rectangle(np.array([5.0, 3.0]), np.array([1.0, 2.0]), (6, 8)), (6, 8))
    assert rectangle.sum() == 4
    assert rectangle[2, 1:5].all()
    circle = whole(shapes.fill_ellipse(np.array([50.0, 50.0]), (40, 40), 0, (100, 100)), (100, 100))
    assert circle.sum() == pytest.approx(np.pi * 40**2, rel=0.01)
    half = whole(shapes.fill_ellipse(np.array([0.0, 50.0]), (40, 40), 0, (100, 100)), (100, 100))
    assert half.sum() == pytest.approx(np.pi * 40**2 / 2, rel=0.01)


def test_an_ellipse_turns_clockwise() -> None:
    turned = whole(shapes.fill_ellipse(np.array([50.0, 50.0]), (40, 10), 45, (100, 100)), (100, 100))
    assert turned.sum() == pytest.approx(np.pi * 400, rel=0.02)
    assert turned[70, 70]
    assert not turned[30, 70]


def test_later_and_smaller_pieces_lie_on_top() -> None:
    large, small = Patch(0, 0, np.ones((4, 4), bool)), Patch(1, 1, np.ones((2, 2), bool))
    assert shapes.paint((4, 4), [(1, small), (2, large)])[1, 1] == 2
    assert shapes.paint((4, 4), shapes.large_first([(1, small), (2, large)]))[1, 1] == 1


def test_crop_keeps_all_pixels() -> None:
    mask = np.zeros((6, 7), bool)
    assert shapes.crop(mask).pixels.size == 0
    mask[2, 3] = mask[4, 5] = True
    patch = shapes.crop(mask)
    assert (patch.top, patch.left, patch.pixels.shape) == (2, 3, (3, 3))
    np.testing.assert_array_equal(whole(patch, (6, 7)), mask)


@pytest.mark.parametrize(
    "points",
    [None, "polygon", [1, 2, 3], [[1, 2], [3, 4]], [[1, 2, 3]] * 3, [[1, "a"]] * 3, [[1, 2], [3, 4], [5]], [{}] * 3],
)
def test_points_that_are_none_are_refused(points: object) -> None:
    with pytest.raises(Error, match=r"file\.json: "):
        shapes.vertices(points, (10, 10), "file.json")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -30, 1e300, 10**400])
def test_points_outside_the_photograph_are_refused(bad: float) -> None:
    with pytest.raises(Error, match=r"file\.json: "):
        shapes.vertices([[1, 1], [5, 5], [bad, 2]], (100, 100), "file.json")


def test_units_are_fractions_of_the_photograph() -> None:
    xy = shapes.vertices([[0, 0], [50, 100], [100, 100]], (10, 20), "", unit=100)
    np.testing.assert_array_equal(xy, [[0, 0], [10, 10], [20, 10]])

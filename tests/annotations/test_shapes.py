"""Shapes fill the pixels whose centres they hold."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pycocotools import mask as pycoco

from dgpnet.annotations import shapes
from dgpnet.annotations.runs import Runs, runs_of, together
from dgpnet.annotations.shapes import Patch, Work
from dgpnet.errors import Error


def whole(shape: Patch | Runs, size: tuple[int, int]) -> np.ndarray:
    return shapes.paint(size, [(1, shape)]).astype(bool)


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
        covered = shapes.fill_polygon(xy, (8, 10))
        assert covered.first.tolist() == [12, 22, 32]
        assert covered.last.tolist() == [16, 26, 36]


def test_what_lies_over_the_border_is_cut_off() -> None:
    everything = np.array([(-50, -50), (50, -50), (50, 50), (-50, 50)], float)
    assert whole(shapes.fill_polygon(everything, (4, 6)), (4, 6)).all()
    assert not shapes.fill_polygon(everything + 100, (4, 6)).area


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
    large, small = runs_of(Patch(0, 0, np.ones((4, 4), bool)), 4), runs_of(Patch(1, 1, np.ones((2, 2), bool)), 4)
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


@given(st.lists(arrays(bool, (5, 6)), max_size=4))
def test_parts_together_are_all_that_any_of_them_covers(masks: list[np.ndarray]) -> None:
    both = together([runs_of(shapes.crop(mask), 6) for mask in masks])
    expected = np.any(masks, axis=0) if masks else np.zeros((5, 6), bool)
    np.testing.assert_array_equal(whole(both, (5, 6)), expected)
    if len(masks) != 1:
        assert both.area == expected.sum()
        assert (both.first[1:] > both.last[:-1]).all()


points = st.floats(-0.375, 20.375, width=16) | st.integers(0, 20).map(float) | st.integers(0, 200).map(lambda n: n / 10)


@given(arrays(np.float64, st.tuples(st.integers(3, 12), st.just(2)), elements=points))
@settings(max_examples=300)
def test_cocos_polygons_are_those_of_cocos_own_tools(xy: np.ndarray) -> None:
    size = (19, 20)
    theirs = pycoco.decode(pycoco.frPyObjects([xy.ravel().tolist()], *size))[:, :, 0].astype(bool)
    ours = shapes.paint(size[::-1], [(1, shapes.fill_as_coco(xy, size))]).T.astype(bool)
    np.testing.assert_array_equal(ours, theirs)


def test_an_outline_from_pixel_to_pixel_holds_its_border() -> None:
    """The borders that OpenCV's findContours gives these masks, and the pixels that its fillPoly makes of them."""
    ring = np.array([(2, 1), (2, 4), (6, 4), (6, 1)], float)
    expected = np.zeros((8, 10), bool)
    expected[1:5, 2:7] = True
    np.testing.assert_array_equal(whole(shapes.fill_outline(ring, (8, 10)), (8, 10)), expected)
    diamond = np.array([(4, 1), (1, 4), (4, 7), (7, 4)], float)
    inside = np.abs(np.arange(9)[:, None] - 4) + np.abs(np.arange(9) - 4) <= 3
    np.testing.assert_array_equal(whole(shapes.fill_outline(diamond, (9, 9)), (9, 9)), inside)
    for line in (np.array([(3, 3)] * 3, float), np.array([(1, 2), (5, 2), (3, 2)], float)):
        assert shapes.fill_outline(line, (9, 9)).area == np.ptp(line[:, 0]) + 1


def test_whole_numbers_may_have_been_fractions() -> None:
    assert shapes.whole(np.array([(3, 4.0005), (0, 7)]), (100, 100))
    assert not shapes.whole(np.array([(3, 4), (3.5, 4)]), (100, 100))
    assert not shapes.whole(np.array([(3, 4.002), (0, 7)]), (100, 100))
    assert shapes.whole(np.array([(3, 4.03), (0, 7)]), (4000, 4000))  # of five decimals


@pytest.mark.parametrize("fill", [shapes.fill_polygon, shapes.fill_outline, shapes.fill_as_coco])
def test_a_zigzag_of_100_000_corners_is_refused_before_it_is_drawn(fill: Callable[..., Runs]) -> None:
    zigzag = np.stack([np.arange(100_000) % 4000, np.arange(100_000) % 2 * 3999], 1).astype(float)
    start = time.process_time()
    with pytest.raises(Error, match=r"a\.json: its shapes have too many corners"):
        fill(zigzag, (4000, 4000), Work("a.json"))
    assert time.process_time() - start < 1


def test_drawing_the_same_large_shape_over_and_over_is_refused() -> None:
    everything = shapes.fill_rectangle(np.array([0.0, 0.0]), np.array([4000.0, 4000.0]), (4000, 4000))
    with pytest.raises(Error, match="too many"):
        shapes.paint((4000, 4000), [(1, everything)] * 600, Work("a.json"))

"""Parts and outlines of masks give the masks back."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image, ImageDraw
from skimage.measure import label

from dgpnet.annotations import outlines, reading, shapes
from dgpnet.annotations.reading import Notes
from dgpnet.annotations.runs import Runs
from dgpnet.annotations.shapes import Work


def fill(xy: np.ndarray, size: tuple[int, int]) -> Runs:
    return reading.filled(xy, size, "", Work(), Notes())


masks = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))
CONVENTIONS = pytest.mark.parametrize("centres", [False, True])


def filled(polygons: list[np.ndarray], size: tuple[int, int]) -> np.ndarray:
    return shapes.paint(size, [(1, fill(xy, size)) for xy in polygons]).astype(bool)


def drawn_by_pillow(polygons: list[np.ndarray], size: tuple[int, int]) -> np.ndarray:
    """As labelme draws polygons."""
    found = np.zeros(size, bool)
    for xy in polygons:
        picture = Image.new("L", size[::-1])
        ImageDraw.Draw(picture).polygon([tuple(point) for point in xy.tolist()], outline=1, fill=1)
        found |= np.asarray(picture) > 0
    return found


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / max((a | b).sum(), 1))


def blob(radius: float) -> np.ndarray:
    """A wavy disc."""
    y, x = np.mgrid[-1.3 * radius : 1.3 * radius + 1, -1.3 * radius : 1.3 * radius + 1]
    return np.asarray(np.hypot(x, y) < radius * (1 + 0.15 * np.sin(5 * np.arctan2(y, x))))


@given(masks)
def test_parts_are_the_connected_components(mask: np.ndarray) -> None:
    found = shapes.paint(mask.shape, enumerate(outlines.parts(mask), 1))
    np.testing.assert_array_equal(found, label(mask, connectivity=2))


@CONVENTIONS
@given(mask=masks)
def test_polygons_fill_back_to_the_mask_holes_included(mask: np.ndarray, centres: bool) -> None:
    polygons = outlines.polygons(mask, centres=centres)
    assert len(polygons) == label(mask, connectivity=2).max()
    assert all(len(xy) >= 3 for xy in polygons)
    np.testing.assert_array_equal(filled(polygons, mask.shape), mask)


@given(masks)
def test_cocos_own_tools_fill_them_to_the_same_mask(mask: np.ndarray) -> None:
    from pycocotools import mask as pycoco

    polygons = [xy.ravel().tolist() for xy in outlines.polygons(mask)]
    if polygons:
        merged = pycoco.merge(pycoco.frPyObjects(polygons, *mask.shape))
        np.testing.assert_array_equal(pycoco.decode(merged).astype(bool), mask)


@given(masks)
def test_programs_that_draw_the_outline_too_give_the_same_mask(mask: np.ndarray) -> None:
    np.testing.assert_array_equal(drawn_by_pillow(outlines.polygons(mask, centres=True), mask.shape), mask)


def test_whole_corners_are_centres_of_pixels_and_others_lie_between_them() -> None:
    square = np.array([(1, 1), (3, 1), (3, 3), (1, 3)], np.float64)
    assert fill(square, (9, 9)).area == 9
    assert fill(square + 4e-5, (9, 9)).area == 9
    assert fill(square + 0.01, (9, 9)).area == 4
    assert fill(square + np.array([7, -2]), (9, 9)).area == 2  # cut off at the border


def test_a_bridge_stays_inside_the_mask() -> None:
    """So that programs which draw outlines thick do not join what is apart."""
    mask = np.ones((9, 20), bool)
    mask[3:6, 4:7] = mask[3:8, 10:15] = False
    (xy,) = outlines.polygons(mask)
    bridges = xy[xy[:, 1] % 1 == 0.5]
    np.testing.assert_allclose(sorted(set(bridges[:, 0])), [0.1, 3.9, 7.1, 9.9])
    np.testing.assert_array_equal(filled([xy], mask.shape), mask)


@CONVENTIONS
def test_holes_within_holes_and_thousands_of_them(centres: bool) -> None:
    rings = (np.maximum(*np.abs(np.mgrid[-20:21, -20:21])) // 2) % 2 == 0
    np.testing.assert_array_equal(filled(outlines.polygons(rings, centres=centres), rings.shape), rings)
    sieve = np.ones((101, 3001), bool)
    sieve[50, 1::2] = False
    np.testing.assert_array_equal(filled(outlines.polygons(sieve, centres=centres), sieve.shape), sieve)


@CONVENTIONS
@given(mask=masks, tolerance=st.sampled_from([0.5, 1.0, 2.0, 4.0, 100.0]))
def test_simplifying_loses_no_part(mask: np.ndarray, centres: bool, tolerance: float) -> None:
    polygons = outlines.polygons(mask, centres=centres, simplify=tolerance)
    assert len(polygons) == label(mask, connectivity=2).max()
    for xy in polygons:
        assert len(xy) >= 3
        assert fill(xy, mask.shape).area


@CONVENTIONS
@pytest.mark.parametrize("radius", [6, 20, 60])
def test_simplifying_moves_an_outline_by_no_more_than_asked(radius: int, centres: bool) -> None:
    mask = blob(radius)
    (exact,) = np.rint(outlines.polygons(mask, centres=centres))  # the pixels' own corners
    for tolerance in (0.6, 1, 2):
        (fewer,) = outlines.polygons(mask, centres=centres, simplify=tolerance)
        starts, ends = fewer, np.roll(fewer, -1, axis=0)
        away = np.min([outlines._distance(exact, a, b) for a, b in zip(starts, ends, strict=True)], axis=0)
        assert away.max() <= tolerance + 1e-9
        assert len(fewer) < len(exact)


@pytest.mark.parametrize(
    ("tolerance", "least"),
    [
        (0.0, (1.0, 1.0, 1.0, 1.0)),
        (0.5, (1.0, 1.0, 1.0, 1.0)),
        (1.0, (0.98, 0.98, 0.99, 0.99)),
        (2.0, (0.84, 0.96, 0.98, 0.99)),
        (4.0, (0.84, 0.89, 0.97, 0.98)),
    ],
)
def test_what_simplifying_costs(tolerance: float, least: tuple[float, ...]) -> None:
    """The table in docs/formats.md."""
    for radius, expected in zip((6, 20, 60, 200), least, strict=True):
        mask = blob(radius)
        (xy,) = outlines.polygons(mask, simplify=tolerance)
        assert iou(filled([xy], mask.shape), mask) >= expected
        if tolerance:
            assert len(xy) < 0.7 * len(outlines.polygons(mask)[0])


def test_the_bridge_to_a_hole_stays_when_simplified() -> None:
    mask = blob(40)
    mask[40:73, 40:73] &= ~blob(12)
    (xy,) = outlines.polygons(mask, simplify=1.0)
    places, times = np.unique(xy, axis=0, return_counts=True)
    there, here = places[times == 2]
    assert there[1] == here[1] and here[0] - there[0] > 30
    assert iou(filled([xy], mask.shape), mask) > 0.95


def test_a_hundred_parts_of_twelve_megapixels_take_well_under_a_second() -> None:
    mask = np.zeros((3000, 4000), bool)
    part = blob(100)
    for row in range(10):
        for column in range(10):
            corner = 300 * row, 400 * column
            mask[corner[0] : corner[0] + part.shape[0], corner[1] : corner[1] + part.shape[1]] = part
    start = time.process_time()
    assert len(outlines.polygons(mask, simplify=1.0)) == 100
    assert time.process_time() - start < 2  # 0.2 s on an idle machine


@pytest.mark.slow
def test_a_mask_of_4096_by_4096_takes_seconds(rng: np.random.Generator) -> None:
    field = np.kron(rng.normal(size=(128, 128)), np.ones((32, 32)))
    y, x = np.mgrid[0:4096, 0:4096]
    mask = field + np.sin(x / 7) + np.cos(y / 9) > 0.5
    start = time.process_time()
    polygons, parts = outlines.polygons(mask), sum(1 for _ in outlines.parts(mask))
    assert time.process_time() - start < 30
    assert len(polygons) == parts
    np.testing.assert_array_equal(filled(polygons, mask.shape), mask)

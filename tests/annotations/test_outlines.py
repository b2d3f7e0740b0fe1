"""Parts and outlines of masks give the masks back."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage.measure import label

from dgpnet.annotations import outlines, shapes

masks = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def filled(polygons: list[np.ndarray], size: tuple[int, int]) -> np.ndarray:
    return shapes.paint(size, [(1, shapes.fill_polygon(xy, size)) for xy in polygons]).astype(bool)


@given(masks)
def test_parts_are_the_connected_components(mask: np.ndarray) -> None:
    found = shapes.paint(mask.shape, enumerate(outlines.parts(mask), 1))
    np.testing.assert_array_equal(found, label(mask, connectivity=2))


@given(masks)
def test_polygons_fill_back_to_the_mask_holes_included(mask: np.ndarray) -> None:
    polygons = outlines.polygons(mask)
    assert len(polygons) == label(mask, connectivity=2).max()
    np.testing.assert_array_equal(filled(polygons, mask.shape), mask)


@given(masks)
def test_one_polygon_holds_all_parts(mask: np.ndarray) -> None:
    xy = outlines.single_polygon(mask)
    np.testing.assert_array_equal(filled([xy] if len(xy) else [], mask.shape), mask)


@given(masks)
def test_cocos_own_tools_fill_them_to_the_same_mask(mask: np.ndarray) -> None:
    from pycocotools import mask as pycoco

    polygons = [xy.ravel().tolist() for xy in outlines.polygons(mask)]
    if polygons:
        merged = pycoco.merge(pycoco.frPyObjects(polygons, *mask.shape))
        np.testing.assert_array_equal(pycoco.decode(merged).astype(bool), mask)


def test_a_bridge_stays_inside_the_mask() -> None:
    """So that programs which draw outlines thick do not join what is apart."""
    mask = np.ones((9, 20), bool)
    mask[3:6, 4:7] = mask[3:8, 10:15] = False
    (xy,) = outlines.polygons(mask)
    bridges = xy[xy[:, 1] % 1 == 0.5]
    assert sorted(set(bridges[:, 0])) == [0, 4, 7, 10]
    np.testing.assert_array_equal(filled([xy], mask.shape), mask)


def test_holes_within_holes_and_thousands_of_them() -> None:
    rings = (np.maximum(*np.abs(np.mgrid[-20:21, -20:21])) // 2) % 2 == 0
    np.testing.assert_array_equal(filled(outlines.polygons(rings), rings.shape), rings)
    sieve = np.ones((101, 3001), bool)
    sieve[50, 1::2] = False
    np.testing.assert_array_equal(filled(outlines.polygons(sieve), sieve.shape), sieve)


@pytest.mark.slow
def test_a_mask_of_4096_by_4096_takes_seconds(rng: np.random.Generator) -> None:
    field = np.kron(rng.normal(size=(128, 128)), np.ones((32, 32)))
    y, x = np.mgrid[0:4096, 0:4096]
    mask = field + np.sin(x / 7) + np.cos(y / 9) > 0.5
    start = time.perf_counter()
    polygons, parts = outlines.polygons(mask), sum(1 for _ in outlines.parts(mask))
    assert time.perf_counter() - start < 30
    assert len(polygons) == parts
    np.testing.assert_array_equal(filled(polygons, mask.shape), mask)

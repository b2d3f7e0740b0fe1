from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.segmenter.tiles import OVERLAP, blend_weights, tile_corners, tile_side


@given(st.integers(1, 700), st.integers(1, 700), st.integers(32, 300))
def test_tiles_cover_everything_and_stay_inside(height, width, side):
    covered = torch.zeros(height, width, dtype=torch.bool)
    for y, x in tile_corners((height, width), side):
        assert 0 <= y <= max(0, height - side)
        assert 0 <= x <= max(0, width - side)
        covered[y : y + side, x : x + side] = True
    assert covered.all()


def test_neighbours_overlap():
    xs = sorted({x for _, x in tile_corners((100, 1000), 100)})
    assert all(b - a <= 100 * (1 - OVERLAP) for a, b in pairwise(xs))


def test_a_small_photograph_is_one_tile():
    assert tile_corners((100, 80), 128) == [(0, 0)]


def test_tiles_have_the_scale_of_the_examples_or_twice_the_detail():
    assert tile_side((3000, 4000), 384, (3464.0,)) == 1500  # examples as large as the photograph
    assert tile_side((3000, 4000), 384, (700.0, 720.0, 900.0)) == 720  # examples cut out of such photographs
    assert tile_side((300, 400), 384, (150.0,)) == 150  # even if the network could see all of it at once
    assert tile_side((500, 600), 384, (500.0,)) == 384  # no detail to gain
    assert tile_side((300, 400), 384, (3.0,)) == 32


def test_weights_are_positive_symmetric_and_1_in_the_middle():
    weights = blend_weights(40, 60, torch.device("cpu"))
    assert weights.min() > 0
    assert weights[20, 30] == 1
    torch.testing.assert_close(weights, weights.flip(0).flip(1))

"""Plots put larger values higher, and survive values that are missing."""

import math

import numpy as np
import pytest
from PIL import Image

from dgpnet import pictures
from dgpnet.errors import Error
from dgpnet.pictures import Series
from dgpnet.pictures.plots import COLOURS


def has(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    """Rows and columns where the picture has exactly this colour."""
    return np.argwhere((np.asarray(picture) == colour).all(axis=-1))


def test_line_plot_puts_larger_values_higher():
    plot = pictures.line_plot([Series("high", [5.0, 6.0], [1, 2]), Series("low", [1.0, 2.0], [1, 2])], title="t")
    assert plot.size == (1280, 840)
    below_legend = 150
    high, low = (has(plot, COLOURS[i]) for i in (0, 1))
    assert high[high[:, 0] > below_legend, 0].mean() < low[low[:, 0] > below_legend, 0].mean()


def test_line_plot_draws_error_bars_as_long_as_the_error():
    def reach(error: float) -> int:
        plot = pictures.line_plot([Series("", [5.0, 5.0], [1, 2], [error, error])], y_range=(0, 10))
        rows = has(plot, COLOURS[0])[:, 0]
        return int(rows[rows > 150].max() - rows[rows > 150].min())

    assert reach(4.0) == pytest.approx(2 * reach(2.0), abs=14)


def test_plots_skip_values_that_are_not_numbers():
    assert pictures.line_plot([Series("a", [1.0, math.nan, 3.0], [1, 2, 3], [0.1, 0.1, math.nan])])
    assert pictures.bar_plot(["x", "y"], [Series("a", [1.0, math.nan], error=[math.nan, 0.2])])


def test_a_plot_of_one_point_or_of_equal_values_has_room():
    for values in ([0.0], [7.0], [3.0, 3.0]):
        assert pictures.line_plot([Series("a", values, list(range(len(values))))])
    assert pictures.bar_plot(["x"], [Series("a", [0.0])])


def test_a_log_axis_refuses_what_it_cannot_show():
    with pytest.raises(Error, match="logarithmic"):
        pictures.line_plot([Series("a", [0.0, 1.0], [1, 2])], log_y=True)


def test_bars_are_as_high_as_their_values():
    plot = pictures.bar_plot(["x", "y"], [Series("a", [10.0, 5.0])], y_range=(0, 10))
    filled = has(plot, COLOURS[0])
    left = filled[filled[:, 1] < plot.width / 2]
    right = filled[filled[:, 1] >= plot.width / 2]
    assert np.ptp(left[:, 0]) == pytest.approx(2 * np.ptp(right[:, 0]), rel=0.02)


def test_bars_need_a_value_for_each_group():
    with pytest.raises(Error, match="2 groups"):
        pictures.bar_plot(["x", "y"], [Series("a", [1.0])])
    with pytest.raises(Error, match="finite point"):
        pictures.line_plot([])


def test_reliability_plot_draws_dots_above_the_diagonal_where_errors_are_more_than_predicted():
    over = has(pictures.reliability_plot([0.5], [0.9], [1.0]), COLOURS[0])[:, 0].mean()
    under = has(pictures.reliability_plot([0.5], [0.1], [1.0]), COLOURS[0])[:, 0].mean()
    assert over < under

"""Axes place values and choose ticks; text uses letters that the font has."""

import pytest

from dgpnet.pictures.canvas import Axis, spell


def test_log_axes_space_powers_of_ten_evenly():
    axis = Axis(1.0, 1000.0, 0.0, 300.0, log=True)
    assert [axis(v) for v in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert set(axis.ticks()) >= {1.0, 10.0, 100.0, 1000.0}


@pytest.mark.parametrize(("low", "high"), [(0, 1), (57.3, 76.9), (-3, 1200), (0.001, 0.0024)])
def test_ticks_are_round_few_and_inside(low: float, high: float):
    ticks = Axis(low, high, 0, 1).ticks()
    assert 3 <= len(ticks) <= 9
    assert all(low - 1e-9 <= t <= high + 1e-9 for t in ticks)
    first_digit = f"{ticks[1] - ticks[0]:e}"[0]
    assert first_digit in "125"


def test_text_is_spelled_in_letters_that_the_font_has():
    assert spell("1–10 shots × σ → café 5²") == "1-10 shots x sigma -> cafe 52"

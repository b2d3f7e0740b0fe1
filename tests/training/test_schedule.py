"""Learning rates by position."""

import pytest

from dgpnet.training import recipe, with_settings
from dgpnet.training.schedule import average_weight, rate_factor


def test_the_papers_rate_falls_when_10000_steps_remain() -> None:
    pascal, coco = recipe("paper", "pascal"), recipe("paper", "coco")
    assert [rate_factor(step, pascal) for step in (0, 9_999, 10_000, 19_999)] == [1, 1, 0.1, 0.1]
    assert [rate_factor(step, coco) for step in (0, 29_999, 30_000, 39_999)] == [1, 1, 0.1, 0.1]


def test_a_shorter_run_keeps_the_fraction() -> None:
    short = with_settings(recipe("paper"), ["iterations=3500"])
    assert [rate_factor(step, short) for step in (1_749, 1_750)] == [1, 0.1]


def test_cosine_rises_over_the_warm_up_and_falls_to_its_floor() -> None:
    config = with_settings(recipe("strong"), ["iterations=1000", "warmup=0.1", "decay_factor=0.01"])
    factors = [rate_factor(step, config) for step in range(1000)]
    assert factors[0] == pytest.approx(1 / 101)
    assert factors[:101] == sorted(factors[:101])
    assert factors[100:] == sorted(factors[100:], reverse=True)
    assert max(factors) == 1
    assert factors[-1] == pytest.approx(0.01, abs=1e-4)


def test_a_young_average_forgets_its_start() -> None:
    assert average_weight(0, 0.999) == pytest.approx(0.9)
    assert average_weight(10**6, 0.999) == pytest.approx(0.001)

"""Whether the thing is there: what is fitted to samples, and what is told of it."""

import numpy as np

from research.presence import CHOICES, LOST, Sample, chosen, fitted, left_out, predicted, regressed, report


def samples(count: int = 400, seed: int = 0) -> list[Sample]:
    """Of two sources and ten classes; likeness tells presence, confidence the IoU."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        there = bool(rng.random() < 0.5)
        evidence = (rng.normal(0.3 if there else -0.3, 0.15), *rng.random(2), rng.normal(-1, 0.5))
        iou = float(1 / (1 + np.exp(-6 * (evidence[1] - 0.5)))) if there else 0.0
        found.append(Sample(f"source {i % 2}", f"class {i % 10}", (1, 5)[i % 4 // 2], there, evidence, iou, 0.0))
    return found


def test_a_regression_finds_what_tells():
    some = samples()
    bias, likeness, *others = regressed(some, [float(s.there) for s in some], odds=1.0)
    assert likeness > 5 * max(map(abs, others))
    assert abs(bias) < likeness


def test_with_more_photographs_that_show_it_presence_is_higher():
    some = samples()
    few, many = (regressed(some, [float(s.there) for s in some], odds=odds)[0] for odds in (1.0, 20.0))
    assert many > few + 1


def test_what_is_told_of_classes_that_were_left_out():
    some = samples()
    beliefs = fitted(some)
    told = report(some, left_out(some))
    assert set(told) == {f"source {i}, {k} shots" for i in (0, 1) for k in (1, 5)}
    for row in told.values():
        assert row["AUROC of presence"] > 0.95 and row["score, rank"] > 0.8
        assert row["empty"] > 0.7 and row["lost"] < 0.05
    shifted = [Sample(**{**vars(s), "shift": 9.0}) for s in some]
    assert (predicted(shifted, beliefs)["presence"] > predicted(some, beliefs)["presence"]).all()
    np.testing.assert_array_equal(predicted(shifted, beliefs)["quality"], predicted(some, beliefs)["quality"])


def test_as_many_are_left_out_as_cost_few_that_show_it():
    some = samples()
    odds = chosen(some)
    told = report(some, left_out(some, odds=odds))
    for shots, least in zip((1, 5), odds, strict=True):
        assert np.mean([told[f"source {i}, {shots} shots"]["lost"] for i in (0, 1)]) <= LOST
        if lower := [one for one in CHOICES if one < least]:
            other = report(some, left_out(some, odds=(max(lower),) * 2))
            assert np.mean([other[f"source {i}, {shots} shots"]["lost"] for i in (0, 1)]) > LOST

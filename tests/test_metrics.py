"""Each metric against a slow, obvious computation of the same thing."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import jaccard_score, roc_auc_score

from dgpnet import metrics
from dgpnet.errors import Error


def random_masks(rng: np.random.Generator, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """A predicted mask (bool) and a target (0, 1, 255) of the given shape."""
    return rng.random(shape) < 0.4, rng.choice(np.array([0, 1, 255], np.uint8), p=[0.6, 0.3, 0.1], size=shape)


def test_confusion_counts_pixels_and_leaves_ignored_ones_out():
    predicted = torch.tensor([[True, True, False], [False, True, False]])
    target = torch.tensor([[1, 0, 1], [0, 255, 255]], dtype=torch.uint8)
    assert metrics.confusion(predicted, target).tolist() == [1, 1, 1, 1]


def test_confusion_refuses_masks_of_different_sizes():
    with pytest.raises(Error, match="resize"):
        metrics.confusion(torch.zeros(3, 4, dtype=torch.bool), torch.zeros(3, 5, dtype=torch.uint8))


def test_iou_of_each_image_equals_scikit_learn():
    predicted, target = random_masks(np.random.default_rng(0), 6, 9, 7)
    ious = metrics.foreground_iou(metrics.confusion(torch.from_numpy(predicted), torch.from_numpy(target)))
    for found, truth, iou in zip(predicted, target, ious, strict=True):
        kept = truth != 255
        assert iou == pytest.approx(jaccard_score(truth[kept] == 1, found[kept]))


def test_iou_of_two_empty_masks_is_one():
    assert metrics.foreground_iou([0, 0, 0, 50]) == 1.0


def scored(rng: np.random.Generator, episodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    predicted, target = random_masks(rng, episodes, 8, 8)
    classes = rng.integers(3, 6, size=episodes)
    counts = metrics.confusion(torch.from_numpy(predicted), torch.from_numpy(target)).numpy()
    return classes, predicted, target, counts


def test_class_iou_sums_intersections_and_unions_before_it_divides():
    classes, predicted, target, counts = scored(np.random.default_rng(1), 40)
    iou = metrics.IoU()
    for start in range(0, 40, 7):  # in uneven parts
        iou.update(classes[start : start + 7], counts[start : start + 7])
    scores = iou.compute()
    for c in (3, 4, 5):
        intersection = union = 0
        for e in np.flatnonzero(classes == c):
            for found, truth in zip(predicted[e].flat, target[e].flat, strict=True):
                if truth != 255:
                    intersection += found and truth == 1
                    union += found or truth == 1
        assert scores.per_class[c] == intersection / union
    assert scores.miou == pytest.approx(sum(scores.per_class.values()) / 3)
    assert scores.episodes == 40


def test_fb_iou_ignores_the_class():
    classes, predicted, target, counts = scored(np.random.default_rng(2), 25)
    iou = metrics.IoU()
    iou.update(classes, counts)
    kept = target != 255
    both = [jaccard_score(target[kept] == 1, predicted[kept]), jaccard_score(target[kept] == 0, ~predicted[kept])]
    assert iou.compute().fb_iou == pytest.approx(np.mean(both))


def test_the_interval_holds_the_mean_shrinks_with_episodes_and_repeats():
    rng = np.random.default_rng(3)
    few, many = metrics.IoU(), metrics.IoU()
    classes, _, _, counts = scored(rng, 600)
    few.update(classes[:40], counts[:40])
    many.update(classes, counts)
    width = {}
    for name, iou in (("few", few), ("many", many)):
        scores = iou.compute(resamples=200)
        low, high = scores.interval
        assert low < scores.miou < high
        assert iou.compute(resamples=200) == scores
        width[name] = high - low
    assert width["many"] < width["few"] / 2


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(4)
    population = np.column_stack(
        [rng.integers(1, 80, 4000), rng.integers(1, 60, 4000), rng.integers(0, 9, 4000), np.ones(4000, int)]
    )
    truth = population[:, 0].sum() / population[:, :3].sum()
    covered = 0
    for _ in range(100):
        iou = metrics.IoU()
        iou.update(np.ones(80, int), population[rng.integers(4000, size=80)])
        low, high = iou.compute(resamples=200).interval
        covered += low <= truth <= high
    assert 86 <= covered <= 100


def test_reset_forgets_and_nothing_scored_is_an_error():
    iou = metrics.IoU()
    iou.update([1], [[3, 1, 0, 4]])
    iou.reset()
    with pytest.raises(Error, match="No episode"):
        iou.compute()
    with pytest.raises(Error, match="four"):
        iou.update([1, 2], [[3, 1, 0, 4]])
    with pytest.raises(Error, match="No pixel"):
        metrics.Reliability().compute()


def test_one_seed_has_no_deviation():
    assert metrics.mean_and_std([0.5, 0.7]) == (pytest.approx(0.6), pytest.approx(math.sqrt(0.02)))
    mean, std = metrics.mean_and_std([0.5])
    assert mean == 0.5
    assert math.isnan(std)


def uncertain_pixels(seed: int, n: int = 30_000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Uncertainties over many orders of magnitude, errors that follow them roughly, and a valid mask."""
    rng = np.random.default_rng(seed)
    uncertainty = 1 / (1 + np.exp(-rng.normal(-3, 3, n)))
    wrong = rng.random(n) < uncertainty**0.8
    return (torch.from_numpy(uncertainty).float(), torch.from_numpy(wrong), torch.from_numpy(rng.random(n) < 0.9))


def test_auroc_from_the_histogram_equals_scikit_learn():
    uncertainty, wrong, valid = uncertain_pixels(0)
    expected = roc_auc_score(wrong[valid], uncertainty[valid])
    assert metrics.auroc(metrics.error_histogram(uncertainty, wrong, valid)) == pytest.approx(expected, abs=1e-4)


def test_auroc_counts_ties_half_and_needs_both_kinds():
    assert metrics.auroc([[5, 5], [2, 2]]) == 0.5
    assert metrics.auroc([[5, 0], [0, 2]]) == 1.0
    assert math.isnan(metrics.auroc([[5, 1], [0, 0]]))


def test_calibration_error_equals_a_plain_loop_over_bins():
    uncertainty, wrong, valid = uncertain_pixels(1)
    calibration = metrics.Reliability()
    for part in torch.arange(len(wrong)).chunk(4):
        calibration.update(metrics.error_histogram(uncertainty[part], wrong[part], valid[part]))
    scores = calibration.compute(bins=10)
    u, w = uncertainty[valid].numpy(), wrong[valid].numpy()
    expected = 0.0
    for b in range(10):
        inside = (u * 10 >= b) & (u * 10 < b + 1)
        expected += inside.mean() * abs(u[inside].mean() - w[inside].mean())
    assert scores.ece == pytest.approx(expected, abs=2e-3)
    assert scores.error_rate == pytest.approx(w.mean())
    assert sum(b.pixels for b in scores.bins) == len(u)


def test_extreme_uncertainties_stay_inside_the_histogram():
    values = torch.tensor([0.0, 1e-12, 0.5, 1.0])
    histogram = metrics.error_histogram(values, torch.tensor([False, False, True, True]), torch.ones(4).bool())
    assert histogram.sum() == 4
    assert histogram[0, 0] == 2
    assert metrics.auroc(histogram) == 1.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
@settings(max_examples=60, deadline=None)
def test_rank_correlation_equals_scipy(pairs: list[tuple[int, int]]):
    from scipy.stats import rankdata, spearmanr

    a, b = (list(side) for side in zip(*pairs, strict=True))
    assert metrics.ranks(a).tolist() == rankdata(a).tolist()
    ours = metrics.rank_correlation(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(ours)
    else:
        assert ours == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 8), st.floats(-5, 5), st.floats(0.1, 3)), min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_isotonic_fit_equals_scikit_learn(points: list[tuple[int, float, float]]):
    x, y, weight = (np.array(side, float) for side in zip(*points, strict=True))
    expected = IsotonicRegression().fit(x, y, weight).predict(x)
    np.testing.assert_allclose(metrics.isotonic(x, y, weight), expected, atol=1e-6)


def test_isotonic_refuses_nothing_and_weights_that_are_not_positive():
    with pytest.raises(Error, match="at least one"):
        metrics.isotonic([], [])
    with pytest.raises(Error, match="positive"):
        metrics.isotonic([1, 2], [1, 2], [1, 0])


def test_fitted_map_calibrates():
    rng = np.random.default_rng(5)
    score = rng.random(4000)
    truth = score**2 + rng.normal(0, 0.1, 4000)
    x, y = metrics.fit_monotone(score, truth, knots=20)
    assert len(x) == len(y) <= 20
    assert list(y) == sorted(y)
    places = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(np.interp(places, x, y), places**2, atol=0.02)


def test_without_knots_every_place_is_one():
    assert metrics.fit_monotone([0.5, 0.1, 0.5], [1.0, 0.2, 0.0]) == (
        (pytest.approx(0.1), 0.5),
        (pytest.approx(0.2), 0.5),
    )

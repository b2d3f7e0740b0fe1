"""What is fitted recovers what made the data, and makes a network's own figures better."""

import numpy as np
import pytest
import torch

from dgpnet import data
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.evaluation import calibrate
from dgpnet.evaluation.calibrate import BINS, centres, fit, fit_counts, fit_temperature, log_odds_counts
from dgpnet.evaluation.run import EvaluationOptions, evaluate
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.segmentation import Maps, judge


def sampled(temperature: float, episodes: int = 60, shift: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-odds (E, 30, 30) of easy and hard photographs, and targets that follow them at this temperature."""
    rng = torch.Generator().manual_seed(0)
    hard = torch.rand(episodes, 1, 1, generator=rng) * 6 + 0.5
    log_odds = torch.randn(episodes, 30, 30, generator=rng) * hard * temperature - 1
    truth = torch.rand(log_odds.shape, generator=rng) < torch.sigmoid(log_odds / temperature + shift)
    return log_odds, truth.byte()


def score(log_odds: torch.Tensor, calibration: Calibration) -> float:
    """What a segmenter predicts for the mask of a photograph with these log-odds (h, w)."""
    (judged,) = judge([Maps(log_odds[None], torch.zeros_like(log_odds), torch.zeros_like(log_odds[None]))], calibration)
    return judged.score


def test_counts_equal_a_plain_histogram():
    log_odds, target = sampled(1.0, episodes=3)
    target[:, :3] = 255
    counts = log_odds_counts(log_odds, target).numpy()
    assert counts.shape == (3, 2, BINS)
    for e in range(3):
        for label in (0, 1):
            chosen = log_odds[e][target[e] == label].numpy()
            width = centres()[1] - centres()[0]
            edges = np.append(centres() - width / 2, centres()[-1] + width / 2)
            expected, _ = np.histogram(np.clip(chosen, edges[0], edges[-1]), edges)
            assert np.abs(counts[e, label] - expected).sum() <= 4  # rounding at the edges of bins


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_temperature_is_recovered(temperature: float):
    counts = log_odds_counts(*sampled(temperature)).sum(0).numpy()
    assert fit_temperature(counts) == pytest.approx(temperature, rel=0.05)


def test_temperature_has_the_highest_likelihood():
    counts = log_odds_counts(*sampled(1.5, shift=1.0)).sum(0).numpy()

    def likelihood(temperature: float) -> float:
        z = centres() / temperature
        return float(-(counts[1] * np.logaddexp(0, -z) + counts[0] * np.logaddexp(0, z)).sum())

    best = fit_temperature(counts)
    assert likelihood(best) >= max(likelihood(best * 0.97), likelihood(best * 1.03))


def test_curves_correct_a_network_that_leans_to_the_background():
    log_odds, target = sampled(1.0, shift=1.0)
    fitted = fit_counts(log_odds_counts(log_odds, target).numpy())
    probability = fitted.probability(log_odds[None])
    mask = probability.argmax(0)
    uncertainty = fitted.uncertainty(probability, mask)
    wrong = mask != target
    for label in (0, 1):
        for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.6)):
            chosen = (mask == label) & (uncertainty >= low) & (uncertainty < high)
            if chosen.sum() > 500:
                assert float(uncertainty[chosen].mean()) == pytest.approx(float(wrong[chosen].float().mean()), abs=0.03)


def test_scores_become_ious():
    log_odds, target = sampled(1.0, episodes=200)
    fitted = fit_counts(log_odds_counts(log_odds, target).numpy())
    scores, ious = [], []
    for one, truth in zip(log_odds, target, strict=True):
        scores.append(score(one, fitted))
        found = one > 0
        ious.append(float((found & (truth == 1)).sum() / (found | (truth == 1)).sum()))
    scores, ious = np.array(scores), np.array(ious)
    order = np.argsort(scores)
    for part in np.array_split(order, 4):
        assert scores[part].mean() == pytest.approx(ious[part].mean(), abs=0.03)


def test_fitting_makes_the_figures_of_a_network_better(network: DGPNet, discs: Dataset):
    options = EvaluationOptions(shots=(1, 2), episodes=14, seeds=(7,))
    episodes = data.episodes(discs, seed=7, indices=range(14), max_shots=2)
    fitted = fit(network, discs, episodes, shots=(1, 2))
    before, after = (evaluate(network, discs, options, calibration=c).shots[1].calibration for c in (None, fitted))
    assert after.ece < before.ece / 2
    assert after.error_rate == before.error_rate  # the masks are the same
    assert Calibration.from_json(fitted.to_json()) == fitted


def test_expected_iou_from_counts_equals_the_segmenters(network: DGPNet, discs: Dataset):
    log_odds, target = sampled(1.0, episodes=5)
    honest = Calibration(1.3)
    expected, _ = calibrate._overlap(log_odds_counts(log_odds, target).numpy(), honest)
    np.testing.assert_allclose(expected, [score(one, honest) for one in log_odds], atol=1e-3)


def test_the_share_that_is_found_is_that_of_the_masks():
    log_odds, target = sampled(1.0, episodes=8)
    target[:4] = 0  # the object is not there
    counts = log_odds_counts(log_odds, target).numpy()
    np.testing.assert_allclose(calibrate.found_share(counts), (log_odds > 0).flatten(1).double().mean(1), atol=2e-3)


def test_nothing_to_fit_on_is_an_error(network: DGPNet, discs: Dataset):
    with pytest.raises(Error, match="episodes"):
        fit(network, discs, [])
    with pytest.raises(Error, match="supports"):
        fit(network, discs, [data.Episode(0, (3,), 1)], shots=(5,))

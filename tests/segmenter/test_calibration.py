import numpy as np
import pytest
import torch

from dgpnet import weights
from dgpnet.errors import Error
from dgpnet.segmenter.calibration import NOTHING, Calibration, Curve, expected_iou, overlaps
from dgpnet.segmenter.segmentation import Maps, judge


def test_the_default_changes_nothing():
    log_odds = torch.randn(2, 5, 7)
    calibration = Calibration()
    probability = calibration.probability(log_odds)
    mask = probability.argmax(0)
    torch.testing.assert_close(probability, torch.cat([torch.zeros(1, 5, 7), log_odds]).softmax(0))
    torch.testing.assert_close(calibration.uncertainty(probability, mask), 1 - probability.amax(0))


def test_a_curve_is_linear_between_its_knots_and_constant_outside():
    curve = Curve((0.1, 0.4, 0.5), (0.05, 0.2, 0.9))
    values = torch.linspace(-0.5, 1.5, 101)
    expected = np.interp(values.numpy(), curve.x, curve.y)
    np.testing.assert_allclose(curve(values).numpy(), expected, atol=1e-6)
    assert curve(torch.zeros(2, 3)).shape == (2, 3)
    assert Curve((0.3,), (0.7,))(torch.rand(4)).tolist() == pytest.approx([0.7] * 4)


def test_below_its_lowest_knot_a_score_goes_straight_to_0():
    calibration = Calibration(score=Curve((0.4, 0.8), (0.6, 0.9)))
    assert calibration.rated(torch.tensor([0.0, 0.2, 0.4, 0.6, 1.0])).tolist() == pytest.approx(
        [0, 0.3, 0.6, 0.75, 0.9]
    )
    assert Calibration().rated(torch.tensor([0.0, 0.3])).tolist() == pytest.approx([0.0, 0.3])


@pytest.mark.parametrize("model", ["default", "small"])
def test_what_is_hopeless_keeps_its_order(model):
    """An empty mask, a speck and a good mask of one thing that is there."""
    calibration = Calibration.from_json(weights.read_metadata(model)["calibration"])
    log_odds = torch.full((1, 64, 64), -6.0)
    log_odds[:, 16:48, 16:48] = -0.1  # it is likely to be there, and was not found
    speck, good = log_odds.clone(), log_odds.clone()
    speck[:, 30:33, 30:33] = 0.5
    good[:, 16:48, 16:48] = 6.0
    scores = [one.score for one in judge([Maps(x, x[0] * 0, x * 0) for x in (log_odds, speck, good)], calibration)]
    assert 0 < scores[0] < scores[1] < scores[2] - 0.4
    assert scores[1] < calibration.score.y[0]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((), ()),
        ((0, 1), (0,)),
        ((0, 0), (0, 1)),
        ((1, 0), (0, 1)),
        ((0, 1), (1, 0)),
        ((0, 1), (0, 2)),
        ((0,), (float("nan"),)),
    ],
)
def test_a_curve_that_does_not_rise_within_0_and_1_is_refused(x, y):
    with pytest.raises(Error, match="curve"):
        Curve(x, y)


def test_background_and_foreground_have_their_own_curve():
    calibration = Calibration(background=Curve((0, 1), (0.5, 0.5)), foreground=Curve((0, 1), (0.25, 0.25)))
    probability = torch.tensor([[0.9, 0.2], [0.1, 0.8]])
    assert calibration.uncertainty(probability, torch.tensor([0, 1])).tolist() == [0.5, 0.25]


def test_the_temperature_softens_but_never_changes_the_label():
    log_odds = 3 * torch.randn(3, 50)
    soft, hard = Calibration(temperature=4.0).probability(log_odds), Calibration().probability(log_odds)
    assert torch.equal(soft.argmax(0), hard.argmax(0))
    assert (soft.amax(0) < hard.amax(0)).all()


def test_json_there_and_back():
    calibration = Calibration(1.5, Curve((0.0, 0.5), (0.1, 0.3)), Curve(), Curve((0.2, 0.9), (0.0, 1.0)))
    assert Calibration.from_json(calibration.to_json()) == calibration
    assert Calibration.from_json(None) == Calibration.from_json({}) == Calibration()


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"score": {"x": [0, 1]}}, {"score": 3}, {"temperature": None}])
def test_an_unusable_calibration_is_refused(fields):
    with pytest.raises(Error, match="calibration"):
        Calibration.from_json(fields)


def test_the_expected_iou_is_the_one_that_drawn_labels_have():
    torch.manual_seed(1)
    probability = torch.softmax(2 * torch.randn(3, 40, 40), 0)
    mask = probability.argmax(0)
    sums = overlaps(probability, 1 - probability.amax(0), mask)
    drawn = torch.distributions.Categorical(probability.movedim(0, -1)).sample((400,))
    for c in (1, 2):
        intersection = ((drawn == c) & (mask == c)).sum((1, 2)).double().mean()
        union = ((drawn == c) | (mask == c)).sum((1, 2)).double().mean()
        assert sums[c - 1, 0].item() == pytest.approx(intersection.item(), rel=0.02)
        assert sums[c - 1, 1].item() == pytest.approx(union.item(), rel=0.02)


def test_the_score_is_1_when_all_is_certain_and_falls_with_doubt():
    mask = torch.tensor([[0, 1], [1, 0]])
    scores = []
    for sure in (1.0, 0.9, 0.6):
        right = torch.where(mask == 1, sure, 1 - sure)
        probability = torch.stack([1 - right, right])
        scores.append(expected_iou(overlaps(probability, torch.full((2, 2), 1 - sure), mask).sum(0), 4).item())
    assert scores[0] == pytest.approx(1)
    assert scores[0] > scores[1] > scores[2]


def test_an_empty_mask_of_an_empty_photograph_scores_1_and_a_doubtful_one_does_not():
    pixels = 10_000
    assert expected_iou(torch.zeros(2), pixels).item() == 1
    assert expected_iou(torch.tensor([0.0, pixels * NOTHING]), pixels).item() == pytest.approx(0.5)

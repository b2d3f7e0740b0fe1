"""What is expected of a concept, by leaving examples out."""

from dataclasses import asdict

import numpy as np
import pytest

import dgpnet
from dgpnet.errors import Error
from dgpnet.segmenter.estimate import MOST, Estimate, LeftOut, estimate
from tests.tiny import CONFIG, scene, scenes, tiny_segmenter


@pytest.fixture(scope="module")
def segmenter():
    return tiny_segmenter(CONFIG.but(similarity=True))


def iou(found, truth):
    return (found & truth).sum() / (found | truth).sum()


def test_each_example_is_predicted_from_the_others(segmenter):
    photos, masks = scenes(3)
    photos, masks = [one[:48] for one in photos], [one[:48] for one in masks]
    told = segmenter.learn(photos, masks).estimate
    assert [one.name for one in told.examples] == ["example 1", "example 2", "example 3"]
    for i, one in enumerate(told.examples):
        others = [k for k in range(3) if k != i]
        alone = segmenter.learn([photos[k] for k in others], [masks[k] for k in others])
        odds = alone.maps([alone.prepare(photos[i])])[0].log_odds[0].numpy()
        truth = segmenter.learn([photos[i]], [masks[i]]).shots[0][0].masks[0]
        assert one.iou == pytest.approx(iou(odds > 0, truth), abs=1e-6)
    assert told.low <= told.mean <= told.high
    assert told.hardest == min(told.examples, key=lambda one: one.iou).name


def test_one_example_says_nothing_of_others(segmenter):
    photos, masks = scenes(1)
    assert segmenter.learn(photos, masks).estimate is None


def test_the_estimate_follows_what_is_added_and_taken_back(segmenter):
    photos, masks = scenes(3)
    grown = segmenter.learn(photos[:2], masks[:2]).extend(photos[2:], masks[2:])
    assert asdict(grown.estimate) == asdict(segmenter.learn(photos, masks).estimate)
    assert asdict(grown.without(2).estimate) == asdict(segmenter.learn(photos[:2], masks[:2]).estimate)


def test_it_is_kept_in_the_file(segmenter, tmp_path):
    concept = segmenter.learn(*scenes(2))
    concept.save(tmp_path / "it.concept")
    back = dgpnet.Concept.load(tmp_path / "it.concept", segmenter)
    assert back.estimate == concept.estimate
    assert back.extend(*scenes(1, first=7)).estimate is None  # the first examples themselves are not in the file


def test_a_class_that_one_example_shows_is_not_guessed(segmenter):
    photos, masks = scenes(3, classes=2)
    masks[0][masks[0] == 2] = 0
    masks[1][masks[1] == 2] = 0
    told = segmenter.learn(photos, masks, classes=["mug", "spoon"]).estimate
    assert told.classes[0] is not None and told.classes[1] is None


def test_what_is_to_be_ignored_counts_neither_way(segmenter):
    photos, masks = scenes(2)
    unsaid = [np.where(mask == 1, 1, 255).astype(np.uint8) for mask in masks]
    told = segmenter.learn(photos, unsaid, classes=["mug"]).estimate
    for one, mask in zip(told.examples, masks, strict=True):  # where all else is unsaid, nothing can be found in vain
        assert one.iou is None or 0 <= one.iou <= 1
        assert mask.any()


def test_of_many_examples_some_are_left_out(segmenter):
    told = segmenter.learn(*scenes(MOST + 3)).estimate
    assert len(told.examples) == MOST


def test_few_examples_are_drawn_towards_what_is_usual():
    few, many = (estimate([LeftOut(f"{i}", 0.1, (0.1,)) for i in range(n)], 1) for n in (2, 16))
    assert 0.1 < many.mean < few.mean < 0.4
    wide, narrow = (
        estimate([LeftOut(f"{i}", v, (v,)) for i, v in enumerate(vs)], 1) for vs in ([0.2, 0.9], [0.5, 0.6])
    )
    assert wide.high - wide.low > narrow.high - narrow.low
    assert estimate([LeftOut("a", None, (None,))], 1) is None


def test_a_mask_that_the_others_contradict_is_named():
    """With a network that knows coloured rectangles: one mask is painted elsewhere."""
    segmenter = dgpnet.load("small", device="cpu")
    pairs = [scene(seed, (120, 160)) for seed in range(5)]
    masks = [mask for _, mask in pairs]
    right = segmenter.learn([photo for photo, _ in pairs], masks, classes=["box"]).estimate
    assert right.doubtful == () and right.mean > 0.7
    wrong = np.zeros_like(masks[2])
    free = np.argwhere(masks[2] == 0)[0]
    wrong[free[0] : free[0] + 15, free[1] : free[1] + 15] = 1
    told = segmenter.learn([photo for photo, _ in pairs], [*masks[:2], wrong, *masks[3:]], classes=["box"]).estimate
    assert told.doubtful == ("example 3",) and told.hardest == "example 3"


@pytest.mark.parametrize("fields", [{}, {"mean": 1}, {"examples": 3}, [], "x"])
def test_what_is_no_estimate_is_an_error(fields):
    with pytest.raises(Error, match="learn the concept again"):
        Estimate.from_json(fields)

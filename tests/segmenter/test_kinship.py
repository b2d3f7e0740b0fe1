"""How like each other examples are, and what that says of presence."""

import math

import numpy as np
import pytest
import torch

from dgpnet.segmenter import Concept
from dgpnet.segmenter.calibration import Belief
from dgpnet.segmenter.kinship import DIFFERENT, kinship
from tests.tiny import CONFIG, scene, scenes, tiny_segmenter

BELIEF = Belief((0.0, 1.0, 0.0, 0.0, 0.0), (0.5, 4.0, 0.0, 0.0, 0.0), usual=1.5)


@pytest.fixture(autouse=True)
def copies_alone(monkeypatch):
    """To an untrained network on four points all photographs are almost the same."""
    monkeypatch.setattr("dgpnet.segmenter.kinship.SAME", 1 - 1e-5)


@pytest.fixture(scope="module")
def segmenter():
    return tiny_segmenter(CONFIG.but(similarity=True))


def points_of(concept):
    """For each example unit features (P, D), and the share of each class in each point (P, C), as NumPy arrays."""
    learned = concept.memory.learned["32_similarity"]
    return list(zip(*(part[0].double().split(learned.points) for part in (learned.x, learned.m)), strict=True))


def by_hand(concept, c):
    """Cosine of the mean of what is painted in an example to that of what is painted in all others, point by point."""
    each = [[(x, float(m[p, c])) for p, x in enumerate(xs)] for xs, m in points_of(concept)]
    found = []
    for i, own in enumerate(each):
        mean = sum(x * w for j, other in enumerate(each) if j != i for x, w in other)
        if sum(w for _, w in own) > 0:
            here = sum(x * w for x, w in own)
            found.append(float(here @ mean / (here.norm() * mean.norm())))
    return found


def test_it_is_how_like_the_others_each_example_is_in_the_mean(segmenter):
    photos, masks = scenes(4, classes=2)
    masks[1][masks[1] == 2] = 0  # not every example shows both
    concept = segmenter.learn(photos, masks, classes=["mug", "spoon"])
    kin = kinship(concept.memory, None)
    for c in range(2):
        assert kin.own[c].item() == pytest.approx(np.mean(by_hand(concept, c)), abs=1e-6)
    assert kin.known.tolist() == pytest.approx([(1 - 1 / 4) / 0.8, (1 - 1 / 3) / 0.8]) and kin.shift.tolist() == [
        0.0,
        0.0,
    ]


def test_one_example_has_no_kin(segmenter):
    kin = kinship(segmenter.learn(*scenes(1)).memory, BELIEF)
    assert (kin.own.tolist(), kin.known.tolist(), kin.shift.tolist()) == ([0.0], [0.0], [0.0])


def test_the_same_photograph_twice_says_no_more_of_kin_than_once(segmenter):
    photos, masks = scenes(3)
    once = kinship(segmenter.learn(photos, masks).memory, BELIEF)
    again = segmenter.learn([*photos, photos[0]], [*masks, masks[0]])
    twice = kinship(again.memory, BELIEF)
    # The copy counts in the mean of what was painted, as any example does, and nowhere else.
    torch.testing.assert_close(twice.known, once.known)
    torch.testing.assert_close(twice.own, once.own, atol=0.05, rtol=0)
    alone = kinship(segmenter.learn(photos[:1] * 2, masks[:1] * 2).memory, BELIEF)
    assert (alone.own.tolist(), alone.known.tolist(), alone.shift.tolist()) == ([0.0], [0.0], [0.0])


def test_the_same_place_without_the_thing_is_a_photograph_without_it(segmenter):
    photos, masks = scenes(3)
    nothing = [np.zeros_like(mask) for mask in masks]
    shift, less = (
        kinship(segmenter.learn(photos + more, masks + empty).memory, BELIEF).shift[0]
        for more, empty in (([], []), (photos[:2], nothing[:2]))
    )
    assert less < shift


def test_without_plain_similarity_there_is_none():
    assert kinship(tiny_segmenter().learn(*scenes(2)).memory, BELIEF) is None


def test_a_concept_that_grew_or_came_from_a_file_has_the_same(segmenter, tmp_path):
    photos, masks = scenes(3)
    whole = segmenter.learn(photos, masks)
    whole.save(tmp_path / "it.concept")
    others = (
        segmenter.learn(photos[:1], masks[:1]).extend(photos[1:], masks[1:]),
        Concept.load(tmp_path / "it.concept", segmenter),
    )
    for other in others:
        for one, same in zip(
            vars(kinship(whole.memory, BELIEF)).values(), vars(kinship(other.memory, BELIEF)).values(), strict=True
        ):
            torch.testing.assert_close(one, same, atol=1e-5, rtol=1e-5)


def test_the_shift_is_what_makes_examples_most_probable(segmenter):
    """Against a search over the objective itself."""
    photos, masks = scenes(3)
    negative = scene(9)[0]
    concept = segmenter.learn([*photos, negative], [*masks, np.zeros(negative.shape[:2], np.uint8)], classes=["mug"])
    kin = kinship(concept.memory, BELIEF)
    own = by_hand(concept, 0)
    points = points_of(concept)
    sums = sum((m[:, :1].T @ x)[0] for x, m in points)
    usual = np.mean([float(m[:, 0].mean()) for _, m in points[:3]])
    likest = torch.argsort(points[3][0] @ sums, descending=True)[: max(1, round(usual * len(points[3][0])))]
    mean = points[3][0][likest].mean(0)
    lacking = float(mean @ sums / (mean.norm() * sums.norm()))
    there = [BELIEF.usual + BELIEF.several[1] * (value - np.mean(own)) for value in own]
    absent = BELIEF.usual + BELIEF.several[1] * (lacking - np.mean(own))

    def objective(shift: float) -> float:
        sigmoid = [1 / (1 + math.exp(-z - shift)) for z in there]
        lost = math.log(1 - 1 / (1 + math.exp(-absent - shift)))
        return sum(map(math.log, sigmoid)) + lost - shift**2 / (2 * DIFFERENT**2)

    grid = np.linspace(-4, 4, 8001)
    assert kin.shift[0].item() == pytest.approx((1 - 1 / 3) / 0.8 * max(grid, key=objective), abs=2e-3)


def test_a_photograph_without_the_thing_makes_its_presence_less_probable(segmenter):
    photos, masks = scenes(3)
    negative = scene(9)[0]
    before = segmenter.learn(photos, masks)
    after = before.extend([negative], [np.zeros(negative.shape[:2], np.uint8)])
    assert kinship(after.memory, BELIEF).shift[0] < kinship(before.memory, BELIEF).shift[0]

import numpy as np
import pytest
import torch

from dgpnet.errors import Error
from dgpnet.gp import GaussianProcess, SquaredExponential
from dgpnet.segmenter import Segmenter, suggest
from dgpnet.segmenter.calibration import Belief, Calibration
from dgpnet.segmenter.suggest import encode, greedy_order, order
from tests.tiny import CONFIG, scenes, tiny_segmenter

NOISE = 0.1


def clusters(counts: list[int], points: int = 3) -> torch.Tensor:
    """Photographs (N, points, D) of a few kinds, far from each other and alike within a kind."""
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.randn(len(counts), 4, generator=generator, dtype=torch.float64)
    kinds = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    spread = 0.3 * torch.randn(len(kinds), points, 4, generator=generator, dtype=torch.float64)
    return centres[kinds][:, None] + spread


def by_the_formula(
    pool: torch.Tensor, budget: int, observed: torch.Tensor, weights: torch.Tensor | None = None
) -> list[int]:
    """Greedy choice by conditioning from scratch on each candidate in turn."""
    kernel, everything = SquaredExponential(1.0), pool.flatten(0, 1)
    order: list[int] = []

    def explained(photographs: list[int]) -> float:
        x = torch.cat([observed, *(pool[j] for j in photographs)])
        k = kernel(x) + NOISE * torch.eye(len(x), dtype=x.dtype)
        across = kernel(everything, x)
        return (across @ torch.linalg.solve(k, across.T)).diagonal().sum().item()

    for _ in range(budget):
        so_far = explained(order)
        gains = {i: explained([*order, i]) - so_far for i in set(range(len(pool))) - set(order)}
        if weights is not None:
            gains = {i: gain * float(weights[i]) for i, gain in gains.items()}
        order.append(max(gains, key=lambda i: (gains[i], -i)))
    return order


@pytest.mark.parametrize("weights", [None, torch.tensor([0.2, 0.9, 0.1, 0.5, 0.3, 0.7, 0.8, 0.6, 0.4, 0.9])])
@pytest.mark.parametrize("observed", [0, 4])
def test_the_order_is_the_one_of_the_formula(observed, weights):
    pool = clusters([5, 3, 2])
    known_x = pool[0, :1].repeat(observed, 1) + torch.randn(observed, 4, dtype=pool.dtype)
    gp = GaussianProcess(SquaredExponential(1.0), noise=NOISE)
    known = gp.condition(known_x[None], torch.zeros(1, observed, 1, dtype=pool.dtype)) if observed else None
    assert greedy_order(gp.kernel, NOISE, pool, 4, known, weights) == by_the_formula(pool, 4, known_x, weights)


def test_the_largest_kind_comes_first_and_every_kind_once_before_any_comes_again():
    counts = [3, 8, 5]
    kinds = np.repeat(np.arange(3), counts)
    order = greedy_order(SquaredExponential(1.0), NOISE, clusters(counts), 3)
    assert [int(kinds[i]) for i in order] == [1, 2, 0]


def test_what_is_known_is_not_asked_for_again():
    pool = clusters([8, 4])
    gp = GaussianProcess(SquaredExponential(1.0), noise=NOISE)
    known = gp.condition(pool[:4].flatten(0, 1)[None], torch.zeros(1, 12, 1, dtype=pool.dtype))
    assert greedy_order(gp.kernel, NOISE, pool, 1, None)[0] < 8
    assert greedy_order(gp.kernel, NOISE, pool, 1, known)[0] >= 8


def test_no_photograph_is_suggested_twice_and_a_large_budget_takes_all():
    assert sorted(greedy_order(SquaredExponential(1.0), NOISE, clusters([4, 3]), 99)) == list(range(7))


def test_chunks_change_nothing(monkeypatch):
    pool = clusters([6, 5, 4])
    whole = greedy_order(SquaredExponential(1.0), NOISE, pool, 5)
    monkeypatch.setattr(suggest, "CHUNK", 100)
    assert greedy_order(SquaredExponential(1.0), NOISE, pool, 5) == whole


def test_a_coarser_grid_has_the_means_of_its_cells():
    grid = torch.arange(float(suggest.GRID**2)).view(1, -1, 1)
    found = suggest.coarser(grid).view(suggest.GRID // 2, suggest.GRID // 2)
    assert found[0, 0] == (0 + 1 + suggest.GRID + suggest.GRID + 1) / 4
    assert found[-1, -1] == grid.max() - (suggest.GRID + 1) / 2


def test_many_photographs_have_a_coarser_grid(monkeypatch):
    photographs = clusters([7, 4], points=suggest.GRID**2)
    whole = greedy_order(SquaredExponential(1.0), NOISE, suggest.coarser(photographs), 3)
    monkeypatch.setattr(suggest, "FINE", 10)
    assert greedy_order(SquaredExponential(1.0), NOISE, photographs, 3) == whole


def test_large_pools_and_supports_are_reduced_but_answered_alike(monkeypatch):
    counts = [30, 20, 10]
    kinds = np.repeat(np.arange(3), counts)
    monkeypatch.setattr(suggest, "MEASURED", 60)
    monkeypatch.setattr(suggest, "KNOWN", 8)
    pool = clusters(counts)
    assert [int(kinds[i]) for i in greedy_order(SquaredExponential(1.0), NOISE, pool, 3)] == [0, 1, 2]
    gp = GaussianProcess(SquaredExponential(1.0), noise=NOISE)
    known = gp.condition(pool[:10].flatten(0, 1)[None], torch.zeros(1, 30, 1, dtype=pool.dtype))
    assert kinds[greedy_order(gp.kernel, NOISE, pool, 1, known)[0]] == 1


def test_a_segmenter_suggests_before_any_mask_and_a_concept_goes_on():
    segmenter = tiny_segmenter()
    photos, masks = scenes(6)
    best = segmenter.suggest(photos, budget=3)
    assert len(set(best)) == 3
    assert set(best) <= set(range(6))
    concept = segmenter.learn([photos[i] for i in best[:1]], [masks[i] for i in best[:1]])
    assert concept.suggest(photos, budget=1)[0] != best[0]


def test_a_learner_without_variance_says_that_it_cannot_suggest():
    with pytest.raises(Error, match="prototype"):
        tiny_segmenter(CONFIG.but(learner="prototype")).suggest(scenes(2)[0])


@pytest.mark.parametrize(
    ("photos", "budget", "message"), [([], 1, "no readable photograph"), (scenes(1)[0], 0, "at least 1")]
)
def test_wrong_use_is_explained(photos, budget, message):
    with pytest.raises(Error, match=message):
        tiny_segmenter().suggest(photos, budget=budget)


def test_an_unreadable_photograph_is_named(tmp_path):
    (tmp_path / "bad.jpg").write_text("not a photograph")
    with pytest.raises(Error, match=r"bad\.jpg"):
        tiny_segmenter().suggest([scenes(1)[0][0], tmp_path / "bad.jpg"])


def believing(segmenter: Segmenter) -> Segmenter:
    """One that tells presence, by likeness."""
    belief = Belief((0.0, 4.0, 0.0, 0.0, 0.0), (0.0, 4.0, 0.0, 0.0, 0.0))
    return Segmenter(segmenter.network, calibration=Calibration(presence=belief, quality=belief), dtype=torch.float32)


@pytest.mark.parametrize("classes", [1, 2])
def test_presence_is_what_segment_says(classes):
    photos, masks = scenes(7, classes=classes)
    concept = believing(tiny_segmenter(CONFIG.but(similarity=True))).learn(photos[:1], masks[:1])
    pool = encode(concept.segmenter, photos, concept)
    assert pool.presence is not None and len(pool.presence.unique()) > 1
    np.testing.assert_allclose(pool.presence, [concept.segment(photo).presence for photo in photos], atol=1e-5)


def test_presence_is_what_a_fitted_concept_says():
    photos, masks = scenes(4)
    concept = believing(tiny_segmenter(CONFIG.but(similarity=True))).learn(photos[:1], masks[:1], fit=True)
    assert concept.fitted is not None
    told = encode(concept.segmenter, photos, concept).presence
    np.testing.assert_allclose(told, [concept.segment(photo).presence for photo in photos], atol=1e-5)


def test_a_concept_suggests_by_what_would_be_told_times_presence():
    photos, masks = scenes(12)
    concept = believing(tiny_segmenter(CONFIG.but(similarity=True))).learn(photos[:1], masks[:1])
    presence = torch.tensor([concept.segment(photo).presence for photo in photos])
    features = encode(concept.segmenter, photos).features
    known = concept.memory.learned["32"].posterior
    expected = greedy_order(known.gp.kernel, known.gp.noise, features, 4, known, presence)
    assert concept.suggest(photos, budget=4) == concept.suggest(photos, budget=4) == expected


def test_what_is_surely_absent_comes_last_and_what_is_alike_goes_by_what_it_tells():
    pool, gp = clusters([5, 3, 2]), GaussianProcess(SquaredExponential(1.0), noise=NOISE)
    there = torch.tensor([0.0] * 5 + [1.0] * 5)
    assert set(greedy_order(gp.kernel, NOISE, pool, 5, weights=there)) == set(range(5, 10))
    level = greedy_order(gp.kernel, NOISE, pool, 10, weights=torch.full((10,), 0.3))
    assert level == greedy_order(gp.kernel, NOISE, pool, 10)


def test_nothing_is_told_of_presence_by_models_that_do_not_know_it():
    photos, masks = scenes(3)
    for segmenter in (tiny_segmenter(), tiny_segmenter(CONFIG.but(similarity=True)), believing(tiny_segmenter())):
        concept = segmenter.learn(photos[:1], masks[:1])
        assert not concept.tells_presence
        assert encode(segmenter, photos, concept).presence is None


def test_unreadable_photographs_have_no_presence_and_are_named(tmp_path):
    (tmp_path / "bad.jpg").write_text("not a photograph")
    photos, masks = scenes(3)
    concept = believing(tiny_segmenter(CONFIG.but(similarity=True))).learn(photos[:1], masks[:1])
    pool = encode(concept.segmenter, [photos[1], tmp_path / "bad.jpg", photos[2]], concept)
    assert pool.presence is not None and len(pool.presence) == 2 and pool.readable == [0, 2]
    assert "bad.jpg" in str(pool.failures[1])
    assert sorted(order(concept.segmenter, pool, 5, concept.memory)) == [0, 2]

import numpy as np
import pytest
import torch

from dgpnet.errors import Error
from dgpnet.gp import GaussianProcess, SquaredExponential
from dgpnet.segmenter import suggest
from dgpnet.segmenter.suggest import greedy_order
from tests.tiny import CONFIG, scenes, tiny_segmenter

NOISE = 0.1


def clusters(counts: list[int], points: int = 3) -> torch.Tensor:
    """Photographs (N, points, D) of a few kinds, far from each other and alike within a kind."""
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.randn(len(counts), 4, generator=generator, dtype=torch.float64)
    kinds = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    spread = 0.3 * torch.randn(len(kinds), points, 4, generator=generator, dtype=torch.float64)
    return centres[kinds][:, None] + spread


def by_the_formula(pool: torch.Tensor, budget: int, observed: torch.Tensor) -> list[int]:
    """Greedy choice by conditioning from scratch on each candidate in turn."""
    kernel, everything = SquaredExponential(1.0), pool.flatten(0, 1)
    order: list[int] = []
    for _ in range(budget):
        left = {}
        for i in set(range(len(pool))) - set(order):
            x = torch.cat([observed, *(pool[j] for j in [*order, i])])
            k = kernel(x) + NOISE * torch.eye(len(x), dtype=x.dtype)
            across = kernel(everything, x)
            left[i] = (kernel.diagonal(everything) - (across @ torch.linalg.solve(k, across.T)).diagonal()).sum().item()
        order.append(min(left, key=lambda i: (left[i], i)))
    return order


@pytest.mark.parametrize("observed", [0, 4])
def test_the_order_is_the_one_of_the_formula(observed):
    pool = clusters([5, 3, 2])
    known_x = pool[0, :1].repeat(observed, 1) + torch.randn(observed, 4, dtype=pool.dtype)
    gp = GaussianProcess(SquaredExponential(1.0), noise=NOISE)
    known = gp.condition(known_x[None], torch.zeros(1, observed, 1, dtype=pool.dtype)) if observed else None
    assert greedy_order(gp.kernel, NOISE, pool, 4, known) == by_the_formula(pool, 4, known_x)


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
    order = segmenter.suggest(photos, budget=3)
    assert len(set(order)) == 3
    assert set(order) <= set(range(6))
    concept = segmenter.learn([photos[i] for i in order[:1]], [masks[i] for i in order[:1]])
    assert concept.suggest(photos, budget=1)[0] != order[0]


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

"""What holds of every learner, and the formulas of the paper's baselines."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.gp import SquaredExponential
from dgpnet.learners import GaussianLearner, Learner, NoLearner, PriorMask, Prototype, Similarity
from tests.tolerances import assert_equal

B, K, P, D, C, E = 2, 3, 6, 5, 2, 4
LEARNERS = {
    "gp": lambda: GaussianLearner(SquaredExponential(3.0), noise=0.1, window=3),
    "gp without covariance": lambda: GaussianLearner(SquaredExponential(3.0), noise=0.1, window=0),
    "prototype": Prototype,
    "prior": PriorMask,
    "similarity": Similarity,
    "none": NoLearner,
}


def support(learner: Learner, classes: int = C, shots: int = K) -> tuple[Tensor, Tensor]:
    x = torch.randn(B, shots, P, D, dtype=torch.float64)
    encodings = E if learner.learns_from == "encoding" else 1
    y = torch.rand(B, shots, P, classes, encodings, dtype=torch.float64)
    return x, y


@pytest.mark.parametrize("name", LEARNERS)
class TestEveryLearner:
    def test_channels_are_what_it_says(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        maps = learner.learn(x, y).predict(torch.randn(B, 4, 5, D, dtype=torch.float64))
        assert maps.shape == (B, C, 4, 5, learner.channels(y.shape[-1]))

    def test_extend_is_learn(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        grown = learner.learn(x[:, :1], y[:, :1]).extend(x[:, 1:], y[:, 1:])
        assert grown.points == (P,) * K
        assert_equal(grown.predict(q), learner.learn(x, y).predict(q))

    def test_without_is_learning_the_others(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        for i in range(K):
            others = [k for k in range(K) if k != i]
            expected = learner.learn(x[:, others], y[:, others]).predict(q)
            assert_equal(learner.learn(x, y).without(i).predict(q), expected)

    def test_examples_may_have_different_numbers_of_points(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        more_x, more_y = torch.cat([x, x], 2)[:, :1], torch.cat([y, y], 2)[:, :1]
        learned = learner.learn(x, y).extend(more_x, more_y)
        assert learned.points == (P, P, P, 2 * P)
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        assert_equal(learned.without(3).predict(q), learner.learn(x, y).predict(q))

    def test_classes_at_once_are_classes_alone(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        maps = learner.learn(x, y).predict(q)
        for c in range(C):
            assert_equal(maps[:, c], learner.learn(x, y[:, :, :, c : c + 1]).predict(q)[:, 0])

    def test_one_support_set_serves_many_queries(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.randn(4, 3, 3, D, dtype=torch.float64)
        learned = learner.learn(x[:1], y[:1])
        maps = learned.predict(q)
        for g in range(4):
            assert_equal(maps[g : g + 1], learned.predict(q[g : g + 1]))

    def test_goes_to_tensors_and_back(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        learned = learner.learn(x, y)
        again = learner.restore(learned.tensors())
        assert again.points == learned.points
        assert torch.equal(again.predict(q), learned.predict(q))

    def test_levels_learned_together_are_levels_learned_alone(self, name: str) -> None:
        learners = [LEARNERS[name](), LEARNERS[name]()]
        points = [support(learner) for learner in learners]
        q = torch.randn(B, 4, 4, D, dtype=torch.float64)
        together = type(learners[0]).learn_all(learners, points)
        for learner, (x, y), learned in zip(learners, points, together, strict=True):
            assert_equal(learned.predict(q), learner.learn(x, y).predict(q))

    def test_novelty_lies_between_0_and_1(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner)
        q = torch.cat([x[:, 0].reshape(B, 2, 3, D), 100 + torch.randn(B, 2, 3, D, dtype=torch.float64)], 1)
        learned = learner.learn(x, y)
        novelty = learned.novelty(q, learned.predict(q))
        assert novelty.shape == (B, 4, 3) and (novelty >= 0).all() and (novelty <= 1).all()
        if name.startswith("gp"):
            assert (novelty[:, 2:] > 0.99).all() and (novelty[:, :2] < 0.5).all()
        else:
            assert (novelty == 0).all()

    def test_the_last_example_stays(self, name: str) -> None:
        learner = LEARNERS[name]()
        x, y = support(learner, shots=1)
        with pytest.raises(Error, match="only example"):
            learner.learn(x, y).without(0)
        with pytest.raises(Error, match="numbered"):
            learner.learn(*support(learner)).without(K)


def test_likeness_is_the_cosine_of_the_mean_direction_of_what_was_found_to_that_of_what_was_shown() -> None:
    learner = Similarity()
    x, y = support(learner)
    q = torch.randn(B, 4, 4, D, dtype=torch.float64)
    where = torch.rand(B, y.shape[3], 4, 4, dtype=torch.float64)
    likeness = learner.learn(x, y).likeness(q, where)
    directions = F.normalize(x, dim=-1).flatten(1, 2)
    for b in range(B):
        for c in range(y.shape[3]):
            share = y[b, ..., c, 0].flatten()
            mean = (share[:, None] * directions[b]).sum(0) / share.sum()
            weight = where[b, c] / where[b, c].sum()
            seen = (F.normalize(q[b], dim=-1) * weight[..., None]).sum((0, 1))
            assert_equal((likeness[b, c] * weight).sum(), F.cosine_similarity(seen, mean, dim=0))
            # And of two places, that one is liker which has the larger cosine.
            cosines = F.cosine_similarity(q[b], mean.expand_as(q[b]), dim=-1)
            assert_equal(likeness[b, c] / likeness[b, c, 0, 0], cosines / cosines[0, 0])


def test_prototype_is_the_masked_mean_of_features() -> None:
    learner = Prototype()
    x, y = support(learner)
    q = torch.randn(B, 4, 4, D, dtype=torch.float64)
    maps = learner.learn(x, y).predict(q)
    for b in range(B):
        for c in range(C):
            m = y[b, :, :, c]
            prototype = (m * x[b]).sum((0, 1)) / m.sum()
            assert_equal(maps[b, c, ..., 0], F.cosine_similarity(q[b], prototype.expand_as(q[b]), dim=-1))


def test_prior_mask_is_the_mean_of_each_photographs_nearest_foreground() -> None:
    learner = PriorMask()
    x, y = support(learner)
    y = y * (y > 0.5)  # shares of a cell: each counts as foreground
    y[:, :, 0] = 0.1  # some foreground in each photograph
    q = torch.randn(B, 4, 4, D, dtype=torch.float64)
    maps = learner.learn(x, y).predict(q)
    for b in range(B):
        for c in range(C):
            best = []
            for k in range(K):
                foreground = x[b, k][y[b, k, :, c, 0] > 0]
                cosine = F.normalize(q[b], dim=-1) @ F.normalize(foreground, dim=-1).T
                # A background point counts as similarity 0, which only matters where all foreground is dissimilar.
                best.append(cosine.amax(-1).clamp(min=0) if len(foreground) < P else cosine.amax(-1))
            prior = torch.stack(best).mean(0)
            assert_equal(maps[b, c, ..., 0], (prior - prior.min()) / (prior.max() - prior.min()))


def test_similarity_compares_with_a_bounded_number_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Similarity()
    x, y = support(learner, shots=4)
    q = torch.randn(B, 4, 4, D, dtype=torch.float64)
    monkeypatch.setattr(Similarity, "MOST", 2 * P)
    thinned = learner.learn(x, y).predict(q)
    monkeypatch.undo()
    every_second = (t.flatten(1, 2)[:, None, ::2] for t in (x, y))
    assert_equal(thinned, learner.learn(*every_second).predict(q))


def test_a_budget_makes_the_memory_independent_of_the_examples() -> None:
    learner = LEARNERS["gp"]()
    x, y = support(learner, shots=8)
    learned = learner.learn(x, y, budget=10)
    assert learned.tensors()["basis"].shape[-2] == 10
    together = type(learner).learn_all([learner, learner], [(x, y), (x, y)], budget=10)
    q = torch.randn(B, 4, 4, D, dtype=torch.float64)
    assert_equal(together[1].predict(q), learned.predict(q))

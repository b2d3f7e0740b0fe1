"""Other ways to the same end: matchers do what they say, and all see the same episodes."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dgpnet import data
from dgpnet.benchmark import naive, peers, report, speed
from dgpnet.benchmark.timing import Effort
from dgpnet.network.fast import Predictor
from tests.tiny import CONFIG, tiny_network
from tests.tolerances import assert_equal


def test_nearest_takes_the_label_of_the_most_similar_patch() -> None:
    query, support = (F.normalize(torch.randn(2, points, 7), dim=-1) for points in (9, 20))
    share = torch.rand(2, 20)
    found = peers.nearest(query, support, share) > 0
    for b in range(2):
        for q in range(9):
            best = int((support[b] @ query[b, q]).argmax())
            assert bool(found[b, q]) == bool(share[b, best] >= 0.5)


def test_an_object_that_fills_no_patch_is_where_it_fills_most() -> None:
    support = torch.eye(4)[None]
    found = peers.nearest(support, support, torch.tensor([[0.0, 0.2, 0.1, 0.0]]))
    assert (found > 0).tolist() == [[False, True, False, False]]


def test_prototypes_are_the_means_of_object_and_others() -> None:
    query, support = (F.normalize(torch.randn(1, points, 7), dim=-1) for points in (9, 20))
    share = (torch.rand(1, 20) > 0.5).float()
    inside, outside = (F.normalize(support[0][share[0] == value].mean(0), dim=0) for value in (1, 0))
    assert_equal(peers.prototypes(query, support, share)[0], query[0] @ (inside - outside))


def test_one_support_serves_all_queries_as_each_its_own() -> None:
    predictor = Predictor(speed.settle(tiny_network().requires_grad_(False), 64))
    one = speed.rendered_episodes(1, 2, 64, predictor.device)
    query = speed.rendered_episodes(3, 1, 64, predictor.device).query
    with torch.no_grad():
        for matcher in peers.MATCHERS.values():
            together = peers.answer(predictor, matcher, *peers.known(predictor, one.supports, one.masks), query)
            each = [peers.episode(predictor, matcher, one.supports, one.masks, q[None]) for q in query]
            assert_equal(together, torch.cat(each), dtype=torch.bfloat16)


def test_all_are_timed_and_judged_and_drawn(tmp_path: Path) -> None:
    dataset = data.build("synthetic", fold=1, split="test", size=64, cache=tmp_path, photographs=16, side=64, kinds=12)
    network = speed.settle(tiny_network().requires_grad_(False), 64)
    drawn = data.episodes(dataset, seed=0, indices=range(4), max_shots=2)
    points = [
        point
        for shots in (1, 2)
        for point in peers.measured(
            naive.unfolded(network),
            Predictor(network),
            dataset,
            drawn,
            batch=2,
            shots=shots,
            effort=Effort(1, 0.1, 1),
        )
    ]
    assert len(points) == 8 and all(point["photographs_per_second"] > 0 for point in points)
    good = {(point["name"], point["shots"]): point["miou"] for point in points}
    assert good[peers.OURS, 1] == pytest.approx(good[peers.LISTING, 1], abs=0.5)
    assert peers.plot(points).size > (100, 100)
    assert peers.NEAREST in "\n".join(report.peers([{"of": "toy", **point} for point in points]))


def test_a_network_that_the_listing_has_not_is_compared_without_it(tmp_path: Path) -> None:
    dataset = data.build("synthetic", fold=1, split="test", size=64, cache=tmp_path, photographs=16, side=64, kinds=12)
    network = tiny_network(CONFIG.but(similarity=True)).requires_grad_(False)
    assert not naive.lists(network) and naive.lists(tiny_network())
    drawn = data.episodes(dataset, seed=0, indices=range(2), max_shots=1)
    points = peers.measured(None, Predictor(network), dataset, drawn, batch=1, shots=1, effort=Effort(1, 0.1, 1))
    assert [point["name"] for point in points] == [peers.OURS, peers.NEAREST, peers.PROTOTYPES]
    assert "listing has no such network" in "\n".join(report.peers([{"of": "toy", **point} for point in points]))

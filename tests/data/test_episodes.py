"""Episodes and batches are pure functions of where they stand."""

import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from dgpnet.augment import STRONG, Augmentation
from dgpnet.data import Mixture, build, draws
from dgpnet.data.episodes import (
    Episode,
    absent_episodes,
    check,
    episode,
    episodes,
    episodes_from_file,
    mixed_shots,
    sample,
    sample_batch,
    trainable,
)
from dgpnet.errors import Error


def plain_episode(dataset, seed: int, index: int, shots: int) -> Episode:
    """The paper's evaluation episode in a dozen lines without arrays: class (or pair), then supports out of a hat."""
    u = draws.uniform(seed, draws.EVALUATION, [index], 2 + shots)[0].tolist()
    by_class: dict[int, list[int]] = {}
    for photo, c in dataset.pairs:
        by_class.setdefault(c, []).append(photo)
    ids = sorted(by_class)
    weights = [1 if dataset.class_first else len(by_class[c]) for c in ids]
    place, k = u[0] * sum(weights), 0
    while place >= weights[k]:
        place -= weights[k]
        k += 1
    hat = list(by_class[ids[k]])
    query = hat.pop(int(u[1] * len(hat)))
    return Episode(query, tuple(hat.pop(int(v * len(hat))) for v in u[2:]), ids[k])


@pytest.mark.parametrize("class_first", [False, True])
def test_an_episode_equals_drawing_from_a_hat(toy, class_first: bool) -> None:
    dataset = toy({1: 4, 2: 9, 7: 5}, class_first=class_first)
    for index in range(200):
        assert episode(dataset, seed=3, index=index, max_shots=3) == plain_episode(dataset, 3, index, 3)


@pytest.mark.parametrize("protocol", ["paper", "reference"])
def test_shots_do_not_change_an_episode(toy, protocol: str) -> None:
    dataset = toy({1: 12, 2: 11})
    for index in range(50):
        ten = episode(dataset, seed=0, index=index, max_shots=10, protocol=protocol)
        one = episode(dataset, seed=0, index=index, max_shots=1, protocol=protocol)
        assert (one.query, one.class_id, one.supports) == (ten.query, ten.class_id, ten.supports[:1])


def test_supports_are_distinct_of_the_class_and_not_the_query(toy) -> None:
    dataset = toy({1: 6, 2: 8})
    for e in episodes(dataset, seed=1, indices=range(300), max_shots=5):
        assert len({e.query, *e.supports}) == 6
        assert all((photo, e.class_id) in dataset.pairs for photo in (e.query, *e.supports))


def test_reference_supports_may_repeat_but_not_the_query(toy) -> None:
    dataset = toy({1: 3, 2: 4})
    found = episodes(dataset, seed=1, indices=range(300), max_shots=5, protocol="reference")
    assert all(e.query not in e.supports for e in found)
    assert any(len(set(e.supports)) < 5 for e in found)


def test_reference_runs_through_the_pascal_pairs(toy) -> None:
    dataset = toy({1: 3, 2: 4})
    dataset.pairs = [dataset.pairs[k] for k in (3, 0, 5, 1, 6, 2, 4)]  # the list's order, not the classes'
    for index in (0, 1, 6, 7, 999, 1000, 1001, 4999):
        e = episode(dataset, seed=9, index=index, max_shots=1, protocol="reference")
        assert (e.query, e.class_id) == dataset.pairs[index % 1000 % 7]


def test_reference_draws_coco_queries_by_class(toy) -> None:
    dataset = toy({1: 2, 2: 40}, class_first=True)
    found = episodes(dataset, seed=0, indices=range(1000), max_shots=1, protocol="reference")
    assert 400 < sum(e.class_id == 1 for e in found) < 600


def test_pascal_draws_pairs_and_coco_classes(toy) -> None:
    for class_first, share in ((False, 0.1), (True, 0.5)):
        dataset = toy({1: 2, 2: 18}, class_first=class_first)
        found = episodes(dataset, seed=0, indices=range(2000), max_shots=1)
        assert sum(e.class_id == 1 for e in found) / 2000 == pytest.approx(share, abs=0.04)


def some_episodes(dataset, part: range) -> list[Episode]:
    return episodes(dataset, seed=5, indices=part, max_shots=2)


def test_episodes_do_not_depend_on_processes() -> None:
    dataset = build("synthetic", photographs=40, kinds=8)
    alone = some_episodes(dataset, range(40))
    with ProcessPoolExecutor(2) as pool:
        parts = pool.map(partial(some_episodes, dataset), [range(k, 40, 4) for k in range(4)])
    joined: list[Episode | None] = [None] * 40
    for k, part in enumerate(parts):
        joined[k::4] = part
    assert joined == alone


def test_seeds_give_other_episodes(toy) -> None:
    dataset = toy({1: 20, 2: 20})
    first, second = (episodes(dataset, seed=s, indices=range(50), max_shots=2) for s in (0, 1))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 5


def test_a_class_that_is_too_small_is_named(toy) -> None:
    dataset = toy({1: 6, 2: 5, 3: 1})
    message = r"5 shots take 6 photographs.*class-2 \(2\) has 5, class-3 \(3\) has 1; test with --classes class-1 or"
    with pytest.raises(Error, match=message):
        check(dataset, 5)
    with pytest.raises(Error, match="class-2"):
        episode(dataset, seed=0, index=0, max_shots=5)
    with pytest.raises(Error, match=r"class-3 \(3\) has 1"):
        check(dataset, 5, "reference")


def test_an_unknown_protocol_is_refused(toy) -> None:
    with pytest.raises(Error, match="'paper' or 'reference'"):
        episode(toy({1: 3}), seed=0, index=0, max_shots=1, protocol="papier")


def test_small_classes_drop_out_of_training_and_are_named(toy) -> None:
    dataset, notes = trainable(toy({1: 6, 2: 1, 3: 2}), 2)
    assert dataset.classes == {1: "class-1"}
    assert notes == [
        "toy: class-2 drops out, 1 of the 3 photographs that 2 shots take",
        "toy: class-3 drops out, 2 of the 3 photographs that 2 shots take",
    ]
    with pytest.raises(Error, match="no class has the 7"):
        trainable(toy({1: 6}), 6)


def test_a_class_with_one_photograph_does_not_hang_the_sampler(toy) -> None:
    batch = sample_batch(toy({1: 1, 2: 3, 9: 1}), 0, 0, 64, 1)
    assert set(batch.class_id.tolist()) == {2}
    with pytest.raises(Error, match="no class has the 2 photographs"):
        sample_batch(toy({1: 1}), 0, 0, 8, 1)


@pytest.mark.parametrize("options", [{}, {"protocol": "reference"}, {"augmentation": STRONG, "self_episodes": 0.3}])
def test_a_training_episode_does_not_depend_on_the_batch(toy, options: dict) -> None:
    dataset = toy({1: 5, 2: 8})
    eight = sample_batch(dataset, 4, 2, 8, 3, **options)
    for row in range(8):
        alone = sample(dataset, 4, [16 + row], 3, **options)
        assert torch.equal(alone.index[0], eight.index[row])
        assert torch.equal(alone.class_id[0], eight.class_id[row])
        assert torch.equal(alone.parameters[0], eight.parameters[row])
    assert eight.episodes()[5] == sample(dataset, 4, [21], 3, **options).episodes()[0]


def test_a_batch_is_split_between_processes_by_slices(toy) -> None:
    batch = sample_batch(toy({1: 5, 2: 8}), 0, 0, 8, 1)
    assert len(batch[2:4]) == 2
    assert torch.equal(torch.cat([batch[:4].index, batch[4:].index]), batch.index)


def test_a_batch_has_the_shapes_that_render_takes(toy) -> None:
    batch = sample_batch(toy({1: 5, 2: 8}), 0, 0, 4, 3)
    assert (batch.index.shape, batch.class_id.shape, batch.parameters.shape) == ((4, 4), (4,), (4, 4, 18))
    assert (batch.index.dtype, batch.class_id.dtype, batch.parameters.dtype) == (torch.long, torch.long, torch.float32)
    index, class_id, parameters = batch.flat()
    assert (index.shape, class_id.shape, parameters.shape) == ((16,), (16,), (16, 18))
    assert class_id.view(4, 4).eq(batch.class_id[:, None]).all()


def test_training_draws_pairs_uniformly(toy) -> None:
    dataset = toy({1: 2, 2: 8})
    batch = sample_batch(dataset, 0, 0, 20_000, 1)
    counts = Counter(zip(batch.index[:, -1].tolist(), batch.class_id.tolist(), strict=True))
    assert set(counts) == set(dataset.pairs)
    assert all(1800 < n < 2200 for n in counts.values())
    supports = Counter(batch.index[:, 0].tolist())
    assert all(1800 < n < 2200 for n in supports.values())


@pytest.mark.parametrize(
    ("class_first", "options", "share"),
    [
        (False, {}, 0.1),
        (True, {}, 0.5),
        (True, {"protocol": "reference"}, 0.1),
        (False, {"power": 1.0}, 0.5),
        (True, {"power": 0.5}, 2 / 8),
    ],
)
def test_class_balance_of_training(toy, class_first: bool, options: dict, share: float) -> None:
    dataset = toy({1: 4, 2: 36}, class_first=class_first)
    batch = sample_batch(dataset, 0, 0, 10_000, 1, **options)
    assert (batch.class_id == 1).float().mean().item() == pytest.approx(share, abs=0.02)


def test_a_mixture_is_sampled_by_its_weights(toy) -> None:
    mixture = Mixture([(toy({1: 100, 2: 100}), 1), (toy({1: 3}), 3)])
    batch = sample_batch(mixture, 0, 0, 10_000, 2)
    assert (batch.class_id == 257).float().mean().item() == pytest.approx(0.75, abs=0.02)
    assert set(batch.index[batch.class_id == 257].flatten().tolist()) == {200, 201, 202}


def test_self_episodes_show_one_photograph_in_several_views(toy) -> None:
    dataset = toy({1: 50})
    batch = sample_batch(dataset, 0, 0, 2000, 2, augmentation=STRONG, self_episodes=0.25)
    alone = (batch.index == batch.index[:, -1:]).all(dim=1)
    assert alone.float().mean().item() == pytest.approx(0.25, abs=0.03)
    views = batch.parameters[alone]
    assert not (views[:, 0] == views[:, 1]).all(dim=1).any()
    others = batch.index[~alone]
    assert (others[:, :2] != others[:, 2:]).all()


def test_self_episodes_may_have_their_own_augmentation(toy) -> None:
    batch = sample_batch(
        toy({1: 50}), 0, 0, 400, 1, self_episodes=0.5, self_augmentation=Augmentation(scale=(0.5, 0.5))
    )
    alone = (batch.index == batch.index[:, -1:]).all(dim=1)
    side = batch.parameters[:, :, 0].abs()
    assert side[alone] == pytest.approx(0.5)
    assert (side[~alone] == 1).all()


def test_some_queries_lack_the_class(toy) -> None:
    """Half of the draws go to all 100 photographs, of which 60 do not show class 1 and 40 do not show class 2."""
    dataset = toy({1: 40, 2: 60})
    shows = np.array([c for _, c in dataset.pairs])
    batch = sample_batch(dataset, 0, 0, 8000, 2, absent=0.5)
    lacks = shows[batch.index[:, -1]] != batch.class_id.numpy()
    for c, share in ((1, 0.6), (2, 0.4)):
        assert lacks[batch.class_id == c].mean() == pytest.approx(0.5 * share, abs=0.02)
    assert (shows[batch.index[:, :-1]] == batch.class_id.numpy()[:, None]).all()
    without = sample_batch(dataset, 0, 0, 8000, 2)
    assert torch.equal(batch.index[:, :-1], without.index[:, :-1]), "supports are the same either way"
    assert torch.equal(batch.index[~lacks], without.index[~lacks])


def test_a_query_that_lacks_the_class_has_a_mask_that_would_label_it(toy) -> None:
    """Label 1 of another set is another class: its photographs are no proof that this class is not there."""
    mixture = Mixture([(toy({1: 10, 2: 10}), 1), (toy({1: 30}), 1)])
    batch = sample_batch(mixture, 0, 0, 2000, 1, absent=1.0)
    other = batch.class_id >= 256
    assert (batch.index[other] >= 20).all() and (batch.index[~other] < 20).all()
    shown = dict(mixture.pairs)
    assert all(
        shown[q] == c for q, c in zip(batch.index[other][:, -1].tolist(), batch.class_id[other].tolist(), strict=True)
    )


def test_absent_episodes_keep_the_supports_and_lose_the_class(toy) -> None:
    mixture = Mixture([(toy({1: 10, 2: 10}), 1), (toy({1: 30}), 1)])
    drawn = episodes(mixture, seed=0, indices=range(100), max_shots=3)
    absent = absent_episodes(mixture, drawn, seed=0)
    assert [(e.supports, e.class_id) for e in absent] == [(e.supports, e.class_id) for e in drawn if e.class_id < 256]
    shown = set(mixture.pairs)
    assert all((e.query, e.class_id) not in shown and e.query < 20 for e in absent)
    assert absent == absent_episodes(mixture, drawn, seed=0) != absent_episodes(mixture, drawn, seed=1)


def test_views_do_not_depend_on_the_shots(toy) -> None:
    dataset = toy({1: 50})
    one, five = (sample_batch(dataset, 0, 0, 8, k, augmentation=STRONG) for k in (1, 5))
    assert torch.equal(one.parameters[:, -1], five.parameters[:, -1])
    assert torch.equal(one.parameters[:, 0], five.parameters[:, 0])


def test_half_of_the_photographs_are_mirrored_independently(toy) -> None:
    batch = sample_batch(toy({1: 50}), 0, 0, 4000, 1)
    mirrored = batch.parameters[:, :, 0].lt(0).float()
    assert mirrored.mean(dim=0).tolist() == pytest.approx([0.5, 0.5], abs=0.03)
    assert (mirrored[:, 0] * mirrored[:, 1]).mean().item() == pytest.approx(0.25, abs=0.03)


def test_impossible_shots_are_refused(toy) -> None:
    for shots in (0, 64):
        with pytest.raises(Error, match="1 to 63 shots"):
            sample_batch(toy({1: 100}), 0, 0, 1, shots)


def test_mixed_shots_cover_their_range() -> None:
    counts = Counter(mixed_shots(0, step, 1, 5) for step in range(1000))
    assert set(counts) == {1, 2, 3, 4, 5}
    assert all(150 < n < 250 for n in counts.values())


def test_a_batch_takes_little_time(toy) -> None:
    dataset = toy({c: 50 for c in range(1, 100)})
    sample_batch(dataset, 0, 0, 8, 5, augmentation=STRONG)
    times = []
    for step in range(50):
        start = time.process_time()
        sample_batch(dataset, 0, step, 8, 5, augmentation=STRONG)
        times.append(time.process_time() - start)
    assert np.median(times) < 5e-3  # one millisecond on an idle machine


def test_episodes_are_read_from_a_file(toy, tmp_path: Path) -> None:
    dataset = toy({1: 2, 14: 3})
    file = tmp_path / "episodes.json"
    file.write_text(json.dumps([{"category_id": 14, "query": "3", "support": ["4", "2"]}]))
    assert episodes_from_file(file, dataset) == [Episode(3, (4, 2), 14)]
    file.write_text(json.dumps([{"category_id": 14, "query": "0", "support": ["77"]}]))
    with pytest.raises(Error, match="does not have with that class: 0, 77"):
        episodes_from_file(file, dataset)
    file.write_text("[{}]")
    with pytest.raises(Error, match="no list of episodes"):
        episodes_from_file(file, dataset)

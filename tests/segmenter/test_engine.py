"""What is seen once can be asked of often."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dgpnet.annotations.legend import Legend
from dgpnet.segmenter import engine
from dgpnet.segmenter.support import prepare, read_examples
from tests.tiny import CONFIG, scene, scenes, tiny_segmenter


@pytest.mark.parametrize("resize", ["square", "pad"])
def test_an_encoded_photograph_is_answered_as_if_seen_anew(resize):
    segmenter = tiny_segmenter(CONFIG.but(similarity=True, resize=resize))
    concept = segmenter.learn(*scenes(2, classes=2))
    prepared = prepare(scene(7, (40, 70))[0], segmenter.network.config)
    encoded = segmenter.engine.encode(prepared.photo)
    for found, expected in zip(
        segmenter.engine.look_at(concept.memory, encoded), concept.maps([prepared])[0], strict=True
    ):
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected)
    assert encoded.bytes > prepared.photo.nbytes


def test_an_encoded_photograph_teaches_the_same(rng):
    segmenter = tiny_segmenter(CONFIG.but(similarity=True))
    photos, masks = scenes(3, classes=2)
    (shots,), _ = read_examples(photos, masks, ["a", "b"], segmenter.network.config)
    engine = segmenter.engine
    encoded = [engine.encode(prepare(photo, engine.config).photo) for photo in photos]
    points = [engine.points_of(one, shot) for one, shot in zip(encoded, shots, strict=True)]
    memory = engine.remember_points(points)
    expected = segmenter.learn(photos, masks, classes=["a", "b"])
    query = prepare(np.asarray(rng.integers(0, 255, (48, 64, 3)), np.uint8), engine.config)
    found = engine.maps(memory, [query.photo])[0]
    assert memory.examples == 3
    torch.testing.assert_close(found.log_odds, expected.maps([query])[0].log_odds, rtol=1e-4, atol=1e-4)


def test_what_is_seen_does_not_depend_on_how_many_share_the_batch(monkeypatch):
    segmenter = tiny_segmenter()
    engine, memory = segmenter.engine, segmenter.learn(*scenes(2)).memory
    photos = [prepare(scene(i, (48, 64))[0], engine.config).photo for i in range(4)]
    passed = []
    look = engine.predictor.look
    monkeypatch.setattr(engine.predictor, "look", lambda known, seen: passed.append(len(seen)) or look(known, seen))
    together = engine.maps(memory, photos, batch=4)
    for chosen in ([2], [3, 0], [0, 1, 3]):
        for i, found in zip(chosen, engine.maps(memory, [photos[i] for i in chosen], batch=4), strict=True):
            assert all(torch.equal(one, other) for one, other in zip(found, together[i], strict=True))
    assert passed == [4] * 4, "filled up: another number would be rounded otherwise"


UNSAID = [("right half", np.s_[:, 32:], 2), ("a corner", np.s_[32:, 32:], 3), ("a narrow strip", np.s_[:, 28:36], 4)]


@pytest.mark.parametrize(("place", "left"), [(one[1], one[2]) for one in UNSAID], ids=[one[0] for one in UNSAID])
def test_where_nobody_said_what_there_is_nothing_is_learned(place, left):
    """A photograph of 64 x 64 has four points; against the same points taken out by hand."""
    segmenter = tiny_segmenter(CONFIG.but(similarity=True))
    photo, mask = scene(0, (64, 64))
    mask[place] = 255
    concept = segmenter.learn([photo], [mask])
    assert {one.points for one in concept.memory.learned.values()} == {(left,)}
    (shot,) = concept.shots[0]
    plain = segmenter.engine.runs([replace(shot, ignore=np.zeros_like(shot.ignore))])[0]
    cells = shot.ignore.reshape(2, 32, 2, 32).mean((1, 3)).flatten()
    kept = plain.each(lambda one: one[:, :, torch.from_numpy(cells <= 0.5)])
    expected = segmenter.predictor.learn_points(kept)
    query = prepare(scene(7)[0], segmenter.network.config).photo
    found, wanted = (segmenter.engine.maps(memory, [query])[0] for memory in (concept.memory, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_painted_amid_ignore_is_learned_and_what_is_ignore_all_over_is_kept_whole():
    photos, masks = scenes(2, classes=2)
    amid, nothing = (np.full((64, 64), 255, np.uint8) for _ in range(2))
    amid[5, 5] = 1
    further = [scene(seed, (64, 64))[0] for seed in (3, 4)]
    concept = tiny_segmenter().learn([*photos, *further], [*masks, amid, nothing], classes=Legend.of(["a", "b"]))
    assert {one.points for one in concept.memory.learned.values()} == {(4, 4, 1, 4)}


@pytest.mark.parametrize("resize", ["square", "pad"])
def test_examples_with_ignore_are_learned_one_by_one_or_at_once_and_taken_back(resize):
    segmenter = tiny_segmenter(CONFIG.but(similarity=True, resize=resize))
    photos, masks = scenes(4)
    masks[1][-20:] = 255
    masks[2][:, -30:] = 255
    assert all(1 in mask for mask in masks)
    whole = segmenter.learn(photos, masks, classes=["it"])
    query = [whole.prepare(scene(7)[0])]
    grown = segmenter.learn(photos[:1], masks[:1], classes=["it"])
    for photo, mask in zip(photos[1:], masks[1:], strict=True):
        grown = grown.extend([photo], [mask])
    less = segmenter.learn([photos[0], *photos[2:]], [masks[0], *masks[2:]], classes=["it"])
    for one, other in ((whole, grown), (whole.without(1), less)):
        for found, expected in zip(one.maps(query)[0], other.maps(query)[0], strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_with_inducing_points_too_all_are_learned_from_at_once(monkeypatch):
    """However many points each of them has: each step would choose among all points anew."""
    monkeypatch.setattr(engine, "EXACT_POINTS", 20)
    monkeypatch.setattr(engine, "INDUCING_POINTS", 12)
    segmenter = tiny_segmenter(CONFIG.but(similarity=True))
    photos, masks = scenes(8)
    for mask in masks[::2]:
        mask[-20:] = 255
    calls = []
    real = segmenter.predictor.network.learn_points
    monkeypatch.setattr(
        segmenter.predictor.network, "learn_points", lambda *args, **options: calls.append(1) or real(*args, **options)
    )
    concept = segmenter.learn(photos, masks, classes=["it"])
    assert concept.budgeted and concept.memory.examples == 8 and len(calls) == 1
    assert {len(one.points) for one in concept.memory.learned.values()} == {8}
    less = concept.without(0)
    assert less.memory.examples == 7 and less.segment(photos[0]).mask.shape == photos[0].shape[:2]

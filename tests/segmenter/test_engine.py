"""What is seen once can be asked of often."""

import numpy as np
import pytest
import torch

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

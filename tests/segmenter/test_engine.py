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

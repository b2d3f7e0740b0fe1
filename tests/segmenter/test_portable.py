import pickle

import numpy as np
import pytest

from dgpnet.segmenter import concept as module
from dgpnet.segmenter.portable import portable, traveller
from tests.tiny import scenes, tiny_segmenter


def test_a_concept_arrives_where_its_model_s_file_is_not():
    photos, masks = scenes(2)
    concept = tiny_segmenter().learn(photos, masks)
    arrived = pickle.loads(portable(concept))
    assert arrived.fingerprint == concept.fingerprint
    np.testing.assert_array_equal(arrived.segment(photos[0]).mask, concept.segment(photos[0]).mask)


def test_nothing_is_estimated_for_a_worker(monkeypatch):
    photos, masks = scenes(3)
    concept = tiny_segmenter().learn(photos, masks)
    monkeypatch.setattr(module, "left_out", lambda *_: pytest.fail("it was estimated"))
    arrived = pickle.loads(portable(traveller(concept)))
    np.testing.assert_array_equal(arrived.segment(photos[0]).mask, concept.segment(photos[0]).mask)
    assert concept.shots is not None

import pickle

import numpy as np

from dgpnet.segmenter.portable import portable
from tests.tiny import scenes, tiny_segmenter


def test_a_concept_arrives_where_its_model_s_file_is_not():
    photos, masks = scenes(2)
    concept = tiny_segmenter().learn(photos, masks)
    arrived = pickle.loads(portable(concept))
    assert arrived.fingerprint == concept.fingerprint
    np.testing.assert_array_equal(arrived.segment(photos[0]).mask, concept.segment(photos[0]).mask)

"""What CVAT's function makes of what was found, without CVAT's library; `make backends` has it."""

import sys

import numpy as np
import pytest

from dgpnet.annotations.shapes import fill_polygon, paint
from dgpnet.backends.cvat import Clicking, Finding, classes_of, create, outlines_of
from dgpnet.cli import run
from dgpnet.errors import Error
from tests.tiny import scene, tiny_checkpoint, tiny_segmenter

SIZE = (48, 64)


@pytest.fixture(scope="module")
def concept():
    photos, masks = zip(*[scene(n, SIZE, classes=2) for n in (0, 1)], strict=True)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "tea spoon"])


def test_each_class_that_was_found_has_its_mask_and_others_have_none(concept):
    for n in range(6):
        found = concept.segment(scene(10 + n, SIZE, classes=2)[0])
        several = dict(classes_of(found, None))
        assert list(several) == [value for value in (1, 2) if (found.mask == value).any()]
        assert all(np.array_equal(mask, found.mask == value) for value, mask in several.items())


def test_classes_below_the_threshold_are_left_out(concept):
    found = concept.segment(scene(12, SIZE, classes=2)[0])
    for least in (0.0, *found.class_scores, 1.0):
        there = [value for value, _ in classes_of(found, least)]
        assert there == [
            v for v, score in enumerate(found.class_scores, 1) if score >= least and (found.mask == v).any()
        ]


def test_polygons_enclose_what_was_found():
    mask = np.zeros(SIZE, bool)
    mask[5:30, 8:40] = mask[35:45, 50:60] = True
    outlines = outlines_of(mask)
    assert len(outlines) == 2
    pieces = [(1, fill_polygon(np.reshape(points, (-1, 2)), SIZE)) for points in outlines]
    assert (mask & (paint(SIZE, pieces) > 0)).sum() / mask.sum() > 0.97


def test_with_a_concept_it_finds_and_without_one_it_is_clicked(concept, tmp_path):
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    file = tmp_path / "mug.concept"
    concept.save(file)
    finding = create(str(file), model=model, threshold=0.5)
    assert isinstance(finding, Finding) and finding.concept.fingerprint == concept.fingerprint
    assert isinstance(create(model=model), Clicking)
    with pytest.raises(Error, match="tile"):
        create(str(file), model=model, tile="yes")
    with pytest.raises(Error, match=r"gone\.concept"):
        create(str(tmp_path / "gone.concept"), model=model)


def test_without_cvats_library_the_command_says_how_to_get_it(concept, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cvat_sdk", None)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    concept.save(tmp_path / "mug.concept")
    assert run(["backend", "cvat", str(tmp_path / "mug.concept"), "--model", model]) == 2
    assert "pip install 'dgpnet[labelstudio,cvat]'" in capsys.readouterr().err

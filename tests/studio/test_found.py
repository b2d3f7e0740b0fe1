"""Masks that were found."""

import numpy as np
import pytest

from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.segmenter.segmentation import Judged
from dgpnet.studio.found import Finds, Found, etag_of

LEGEND = Legend.of(["mug", "spoon"], [1, 7])
JUDGED = Judged(np.full((4, 5), 9, np.uint8), 0.5, 0.1, 0.2, 0.3, 0.4, (0.5, 0.6), (0.3, 0.4), (0.1, 0.2))


def pixels(value=7):
    mask = np.zeros((8, 10), np.uint8)
    mask[1:3, 1:3] = value
    mask[5:7, 5:9] = value
    return mask


def put(finds, key="a/b", value=7, concept="c"):
    found = Found.of(key, (1, 2), concept, pixels(value), LEGEND, JUDGED, settled=True)
    finds.put(found, pixels(value), JUDGED.uncertainty, LEGEND)
    return found


@pytest.fixture
def finds(tmp_path):
    one = Finds(tmp_path)
    one.open()
    yield one
    one.close()


def test_it_is_shown_at_once_and_there_after_a_restart(tmp_path, finds):
    found = put(finds)
    assert (finds.pixels(found) == pixels()).all() and found.areas == {7: 12}
    assert finds.get("a/b") is not None and finds.get("other") is None
    finds.flush()
    again = Finds(tmp_path)
    again.open()
    known = again.get("a/b")
    assert known.parts == {7: 2} and known.judged["score"] == 0.5 and known.etag == found.etag
    assert (again.pixels(known) == pixels()).all()
    assert (again.uncertainty(known) == 9).all()
    again.close()


def test_the_folder_job_takes_it(finds):
    found = put(finds)
    result = finds.result(found, LEGEND)
    assert (result.mask == np.where(pixels() == 7, 2, 0)).all()
    assert result.judged.class_scores == (0.5, 0.6)
    other = finds.result(found, Legend.of(["spoon"], [7]))
    assert (other.mask == (pixels() == 7)).all() and other.judged.class_scores == (0.6,)


def test_equal_pixels_have_one_etag():
    assert etag_of(pixels()) == etag_of(pixels().copy()) != etag_of(pixels(1))
    assert etag_of(np.zeros((2, 3), np.uint8)) != etag_of(np.zeros((3, 2), np.uint8))


def test_what_is_dropped_or_damaged_is_not_there(tmp_path, finds):
    put(finds, "a")
    found = put(finds, "b")
    finds.flush()
    finds.drop(["a"])
    assert finds.get("a") is None and not finds.path("a").exists()
    finds._resident.clear()
    finds.path("b").write_bytes(b"damaged")
    with pytest.raises(Error):
        finds.pixels(finds.get("b") or found)
    assert finds.get("b") is None


def test_a_file_has_the_very_mask(finds):
    found = put(finds)
    newer = put(finds, value=1)
    assert finds.file(newer).is_file()
    with pytest.raises(Error):
        finds.file(found)


def test_lines_that_say_nothing_are_left_out():
    assert Found.read({"key": "a"}) is None
    assert Found.read({"key": "a", "areas": 3}) is None

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.images import IGNORE
from dgpnet.segmenter import masks

RED_AND_BLUE = ((250, 0, 0), (0, 0, 250))
LEGENDS = {
    "values": Legend(("mug", "3"), (7, 3), RED_AND_BLUE),
    "white": Legend(("mug", "3"), (255, 3), RED_AND_BLUE),
    "deep": Legend(("mug", "3"), (300, 2), RED_AND_BLUE),
    "colours": Legend(("mug", "3"), (1, 2), RED_AND_BLUE, coded_by="colour"),
    "grey": Legend(("mug", "3"), (1, 2), ((224, 224, 224), (9, 9, 9)), coded_by="colour"),
}
MASK = np.array([[0, 1, 1], [2, 2, 0]], np.uint8)


def values_of(legend: Legend, ignored: bool) -> st.SearchStrategy[int]:
    """Ignore cannot be told from a class that is painted in white."""
    return st.sampled_from([0, 1, 2, IGNORE] if ignored and IGNORE not in legend.values else [0, 1, 2])


@pytest.mark.parametrize("name", LEGENDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_what_is_written_reads_back_and_is_known_as_ours(tmp_path_factory, name, data):
    legend, path = LEGENDS[name], tmp_path_factory.mktemp("m") / "a.png"
    mask = data.draw(arrays.arrays(np.uint8, (4, 5), elements=values_of(legend, ignored=True)))
    digest = masks.write(path, mask, legend)
    np.testing.assert_array_equal(masks.read(path, legend, (4, 5)), mask)
    assert masks.digest_of(path) == digest
    assert masks.is_ours(path)
    mask[0, 0] = 1 if mask[0, 0] != 1 else 2
    assert masks.write(tmp_path_factory.mktemp("m") / "a.png", mask, legend) != digest


def test_masks_have_the_values_and_the_colours_that_were_painted(tmp_path):
    path = tmp_path / "a.png"
    masks.write(path, MASK, LEGENDS["values"])
    image = Image.open(path)
    assert np.unique(np.asarray(image)).tolist() == [0, 3, 7]
    assert image.convert("RGB").getpixel((1, 0)) == RED_AND_BLUE[0]
    masks.write(path, MASK, LEGENDS["deep"])
    assert np.unique(np.asarray(Image.open(path))).tolist() == [0, 2, 300]
    masks.write(path, MASK, LEGENDS["colours"])
    image = Image.open(path)
    assert np.unique(np.asarray(image)).tolist() == [0, 1, 2]
    assert image.convert("RGB").getpixel((0, 1)) == RED_AND_BLUE[1]


@pytest.mark.parametrize("name", ["values", "deep", "colours"])
def test_a_support_of_masks_and_classes_as_written_has_these_classes(tmp_path, name):
    legend = LEGENDS[name]
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (3, 2)).save(tmp_path / "images" / "a.png")
    masks.write(tmp_path / "masks" / "a.png", MASK, legend)
    (tmp_path / "classes.json").write_text(json.dumps(masks.classes_json(legend)))
    support = read_support(tmp_path)
    names = ["", *support.classes]
    assert set(support.classes) == set(legend.names)
    shown = [[names[value] for value in row] for row in support.examples[0].mask]
    assert shown == [["", "mug", "mug"], ["3", "3", ""]]


def test_what_a_person_saved_is_theirs_and_read_in_whatever_way_it_was_saved(tmp_path):
    path, legend = tmp_path / "a.png", LEGENDS["values"]
    masks.write(path, MASK, legend)
    image = Image.open(path)
    image.load()
    for saved in (image, image.convert("RGB"), Image.fromarray(np.asarray(image))):
        saved.info.clear()
        saved.save(path)
        assert not masks.is_ours(path)
        np.testing.assert_array_equal(masks.read(path, legend), MASK)
    image.convert("RGB").quantize(5).save(path)  # another palette, whose entries mean nothing
    np.testing.assert_array_equal(masks.read(path, LEGENDS["colours"]), MASK)


ONE, DEEP = Legend.of(["mug"], [7]), Legend.of(["mug"], [300])


@pytest.mark.parametrize("white", [np.uint8(255), np.uint16(65535), np.full(3, 255, np.uint8)])
@pytest.mark.parametrize("legend", [ONE, DEEP])
def test_white_that_a_person_saved_is_the_one_class_or_refused(tmp_path, legend, white):
    path = tmp_path / "a.png"
    Image.fromarray((MASK > 0)[..., None] * white if white.ndim else (MASK > 0) * white).save(path)
    found, taken = masks.read_edited(path, legend, (2, 3), ignores=lambda: False)
    np.testing.assert_array_equal(found, (MASK > 0).astype(np.uint8))
    assert taken
    several = Legend(("mug", "3"), (legend.values[0], 3), RED_AND_BLUE)
    for one, ignored in ((legend, True), (several, False)):
        with pytest.raises(Error, match=r"nothing but black and white, which may be any of mug, .*classes\.json"):
            masks.read_edited(path, one, (2, 3), ignores=lambda ignored=ignored: ignored)


def test_white_that_is_a_class_or_not_alone_is_what_it_is_everywhere(tmp_path):
    path, wanted = tmp_path / "a.png", MASK.copy()

    def check(pixels: np.ndarray, legend: Legend) -> None:
        Image.fromarray(pixels).save(path)
        found, taken = masks.read_edited(path, legend, ignores=lambda: True)
        np.testing.assert_array_equal(found, wanted)
        assert not taken

    wanted[wanted == 2] = IGNORE
    check(ONE.applied(wanted), ONE)
    wanted[wanted == IGNORE] = 0
    check(wanted * np.uint8(255), LEGENDS["white"])
    check(ONE.applied(wanted), ONE)
    check(np.stack([wanted * np.uint8(part) for part in ONE.colours[0]], axis=2), ONE)


def test_what_is_no_mask_of_these_classes_is_an_error(tmp_path):
    path, legend = tmp_path / "a.png", LEGENDS["values"]
    for wrong in (MASK + 20, MASK[:1], np.zeros((2, 3, 3), np.uint8) + 77):
        Image.fromarray(wrong).save(path)
        with pytest.raises(Error):
            masks.read(path, legend, (2, 3))
    path.write_bytes(b"words")
    with pytest.raises(Error):
        masks.is_ours(path)
    alike = Legend(("a", "b"), (1, 2), ((9, 9, 9), (9, 9, 9)))
    Image.new("RGB", (3, 2), (9, 9, 9)).save(path)
    with pytest.raises(Error):
        masks.read(path, alike)

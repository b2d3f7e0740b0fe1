"""PASCAL VOC's layout with CVAT's labelmap.txt."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.annotations.labelmap import read_labelmap, voc_colour
from dgpnet.errors import Error

LABELMAP = """# label:color_rgb:parts:actions
background:0,0,0::
mug:250,50,83::
spoon:51,221,255::
ignored:224,224,192::
"""
INDEX = np.array([[0, 1, 2], [2, 1, 3]], np.uint8)
COLOURS = np.array([(0, 0, 0), (250, 50, 83), (51, 221, 255), (224, 224, 192)], np.uint8)


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    for folder in ("JPEGImages", "SegmentationClass", "SegmentationObject"):
        (tmp_path / folder).mkdir()
        picture = COLOURS[INDEX] if folder != "JPEGImages" else np.zeros((2, 3, 3), np.uint8)
        Image.fromarray(picture).save(tmp_path / folder / ("a.jpg" if folder == "JPEGImages" else "a.png"))
    (tmp_path / "labelmap.txt").write_text(LABELMAP)
    (tmp_path / "ImageSets/Segmentation").mkdir(parents=True)
    (tmp_path / "ImageSets/Segmentation/default.txt").write_text("a\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["RGB", "P"])
def test_cvats_segmentation_masks_are_read(voc: Path, kind: str) -> None:
    if kind == "P":
        picture = Image.fromarray(INDEX)
        picture.putpalette(COLOURS.tobytes())
        picture.save(voc / "SegmentationClass/a.png")
    support = read_support(voc)
    assert support.classes == ("mug", "spoon")
    assert support.legend.coded_by == "colour"
    assert support.legend.colours == ((250, 50, 83), (51, 221, 255))
    np.testing.assert_array_equal(support.examples[0].mask, [[0, 1, 2], [2, 1, 255]])
    assert any("SegmentationObject" in note for note in support.notes)


def test_pascals_own_masks_are_read_by_their_numbers(voc: Path) -> None:
    (voc / "labelmap.txt").unlink()
    table = [channel for n in range(256) for channel in voc_colour(n).to_bytes(3, "big")]
    for name, index in (("a", np.where(INDEX == 3, 255, 7 * INDEX)), ("b", np.where(INDEX == 3, 255, 0))):
        Image.new("RGB", (3, 2)).save(voc / f"JPEGImages/{name}.jpg")
        picture = Image.fromarray(index.astype(np.uint8))
        picture.putpalette(table)
        picture.save(voc / f"SegmentationClass/{name}.png")
    support = read_support(voc)
    assert support.legend.values == (7, 14)
    assert support.legend.colours == ((128, 128, 128), (64, 128, 128))
    assert set(np.unique(support.examples[1].mask)) == {0, 255}


def test_pascals_colours() -> None:
    assert [voc_colour(n) for n in (0, 1, 2, 7, 8, 15, 255)] == [
        *(0, 0x800000, 0x008000, 0x808080),
        *(0x400000, 0xC08080, 0xE0E0C0),
    ]


def test_labels_without_colours_have_pascals() -> None:
    assert read_labelmap(Path("labelmap.txt"), "background:::\nmug:::\n") == {0: "background", 0x800000: "mug"}


@pytest.mark.parametrize("text", ["", "# nothing", "mug:1,2::", "mug:1,2,300::", "mug:a,b,c::", "a:1,2,3::\nb:1,2,3::"])
def test_a_broken_label_map_is_refused(text: str) -> None:
    with pytest.raises(Error, match=r"labelmap\.txt"):
        read_labelmap(Path("labelmap.txt"), text)

"""Pictures show what they are given, where it belongs."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet import pictures
from dgpnet.colours import PALETTE
from dgpnet.errors import Error
from dgpnet.pictures.canvas import PAPER
from dgpnet.pictures.photographs import HEAT

GREY = np.full((60, 80, 3), 120, np.uint8)


def disc(height: int = 60, width: int = 80, radius: float = 20.0) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width]
    return (np.hypot(rows - height / 2, columns - width / 2) < radius).astype(np.uint8)


def has(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    """Rows and columns where the picture has exactly this colour."""
    return np.argwhere((np.asarray(picture) == colour).all(axis=-1))


def test_overlay_leaves_the_background_alone_and_tints_classes():
    picture = np.asarray(pictures.overlay(GREY, disc() * 2, opacity=0.5))
    assert (picture[disc() == 0] == 120).all()
    expected = (120 + PALETTE[2].astype(int)) / 2
    np.testing.assert_allclose(picture[30, 40], expected, atol=1)


def test_overlay_outlines_each_class_in_its_own_full_colour():
    picture = np.asarray(pictures.overlay(GREY, disc()))
    edge = int(np.flatnonzero(disc()[30])[0])
    assert (picture[30, edge] == PALETTE[1]).all()
    assert not (np.asarray(pictures.overlay(GREY, disc(), outline=False)) == PALETTE[1]).all(axis=-1).any()


def test_overlay_greys_ignored_pixels_and_draws_no_outline_around_them():
    photo = np.zeros((20, 20, 3), np.uint8)
    mask = np.zeros((20, 20), np.uint8)
    mask[5:15, 5:15] = 255
    picture = np.asarray(pictures.overlay(photo, mask, opacity=0.5))
    assert (picture[5:15, 5:15] == 64).all()


def test_overlay_refuses_a_mask_of_another_size():
    with pytest.raises(Error, match="resize"):
        pictures.overlay(GREY, disc(30, 30))


def test_heat_map_brightens_with_the_value():
    ramp = np.linspace(-0.2, 1.2, 40)[None].repeat(4, axis=0)
    ramp[0, 0] = math.nan
    light = np.asarray(pictures.heat_map(ramp)).astype(float).sum(axis=-1)[1]
    assert (np.diff(light) >= 0).all()
    assert light[0] == sum(HEAT[0])
    assert light[-1] == sum(HEAT[-1])


def test_heat_map_over_a_photograph_keeps_its_light_and_shade():
    photo = GREY.copy()
    photo[:, 40:] = 240
    picture = np.asarray(pictures.heat_map(np.zeros((60, 80)), photo=photo)).astype(int)
    assert picture[30, 60].sum() > picture[30, 20].sum()


@pytest.mark.parametrize(("count", "side"), [(1, 1), (4, 2), (5, 3), (10, 4)])
def test_mosaic_lays_pictures_out_row_by_row(count: int, side: int):
    tiles = [Image.new("RGB", (30, 20), (10 + i, 0, 0)) for i in range(count)]
    sheet = np.asarray(pictures.mosaic(tiles, (240, 160)))
    assert sheet.shape == (160, 240, 3)
    for i in range(count):
        row, column = int((i // side + 0.5) * 160 / side), int((i % side + 0.5) * 240 / side)
        assert sheet[row, column].tolist() == [10 + i, 0, 0]
    if count < side * side:
        assert sheet[-1, -1].tolist() == list(PAPER)


def test_grid_puts_each_picture_in_its_cell_and_cuts_it_to_fill():
    red, blue = Image.new("RGB", (40, 40), (200, 0, 0)), Image.new("RGB", (90, 30), (0, 0, 200))
    sheet = pictures.grid([[red, None], [None, blue]], columns=["a", "b"], labels=["one", "two"], cell=(60, 40))
    top_left, bottom_right = has(sheet, (200, 0, 0)), has(sheet, (0, 0, 200))
    assert len(top_left) == len(bottom_right) == 60 * 40
    assert top_left.max(axis=0)[0] < bottom_right.min(axis=0)[0]
    assert top_left.max(axis=0)[1] < bottom_right.min(axis=0)[1]


def test_grid_refuses_rows_that_do_not_fit_its_headings():
    with pytest.raises(Error, match="grid"):
        pictures.grid([[None, None]], columns=["only one"])


def test_caption_writes_into_the_lower_left_corner_only():
    plain = Image.new("RGB", (200, 150), (90, 90, 90))
    changed = (np.asarray(pictures.caption(plain, "IoU 83")) != 90).any(axis=-1)
    rows, columns = np.nonzero(changed)
    assert rows.min() > 100
    assert columns.max() < 120
    assert (np.asarray(plain) == 90).all()  # the picture given stays as it is


def test_save_writes_whole_files_in_the_format_of_the_name(tmp_path: Path):
    for name, kind in (("a.png", "PNG"), ("b.jpg", "JPEG")):
        pictures.save(Image.new("RGB", (4, 4)), tmp_path / name)
        with Image.open(tmp_path / name) as opened:
            assert opened.format == kind
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.jpg"]

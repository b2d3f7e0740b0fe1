"""Soft brushes: their edges are no classes, and small classes are no edges."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from dgpnet.annotations import SupportSet, edges, read_support
from dgpnet.errors import Error

WIDTH, HEIGHT = 220, 160
PAINTS = {
    "white": ("L", [255]),
    "grey": ("L", [100]),
    "two greys": ("L", [100, 200]),
    "white as RGB": ("RGB", [(255, 255, 255)]),
    "red": ("RGB", [(255, 0, 0)]),
    "red and blue": ("RGB", [(0, 0, 255), (255, 0, 0)]),
    "three that touch": ("RGB", [(0, 0, 255), (0, 200, 0), (255, 0, 0)]),
}


def drawing(paint: str, seed: int, width: int = 12) -> Image.Image:
    """Strokes and a disk of each class, four times as large as the mask."""
    mode, colours = PAINTS[paint]
    rnd = random.Random(seed)
    picture = Image.new(mode, (4 * WIDTH, 4 * HEIGHT))
    pen = ImageDraw.Draw(picture)
    for colour in colours:
        points = [(rnd.randrange(4 * WIDTH), rnd.randrange(4 * HEIGHT)) for _ in range(4)]
        pen.line(points, fill=colour, width=4 * width, joint="curve")
        x, y = rnd.randrange(200, 600), rnd.randrange(200, 400)
        pen.ellipse((x - 120, y - 120, x + 120, y + 120), fill=colour)
        pen.text((20, 20), "A few words", fill=colours[0], font_size=64)
    return picture


def hard(picture: Image.Image) -> Image.Image:
    return picture.resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)


SOFT: dict[str, Callable[[Image.Image], Image.Image]] = {
    "antialiased": lambda picture: picture.resize((WIDTH, HEIGHT), Image.Resampling.BOX),
    "half a pixel": lambda picture: hard(picture).filter(ImageFilter.GaussianBlur(0.5)),
    "one pixel": lambda picture: hard(picture).filter(ImageFilter.GaussianBlur(1)),
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., SupportSet]:
    """read(masks, "classes.json's text") -> the support set."""

    def support(masks: list[Image.Image], classes: str | None = None) -> SupportSet:
        for folder in ("images", "masks"):
            (tmp_path / folder).mkdir(exist_ok=True)
        for n, mask in enumerate(masks):
            Image.new("RGB", mask.size).save(tmp_path / "images" / f"{n}.bmp")
            mask.save(tmp_path / "masks" / f"{n}.png")
        if classes:
            (tmp_path / "classes.json").write_text(classes)
        return read_support(tmp_path)

    return support


def meant(picture: Image.Image, paint: str) -> NDArray[np.uint8]:
    pixels = np.asarray(hard(picture)).reshape(HEIGHT, WIDTH, -1)
    labels = np.zeros((HEIGHT, WIDTH), np.uint8)
    for number, colour in enumerate(PAINTS[paint][1], 1):
        labels[(pixels == np.array(colour)).all(2)] = number
    return labels


@pytest.mark.parametrize("soft", SOFT)
@pytest.mark.parametrize("paint", PAINTS)
def test_a_soft_brush_paints_as_many_classes_as_a_hard_one(
    read: Callable[..., SupportSet], paint: str, soft: str
) -> None:
    drawn = [drawing(paint, seed) for seed in range(2)]
    support = read([SOFT[soft](picture) for picture in drawn])
    assert len(support.classes) == len(PAINTS[paint][1])
    assert "pixels of soft edges are taken for the nearer of their two sides" in support.notes[0]
    for example, picture in zip(support.examples, drawn, strict=True):
        wanted = meant(picture, paint)
        assert (example.mask == wanted).mean() > 0.97
        for number in range(1, len(support.classes) + 1):
            one, other = example.mask == number, wanted == number
            assert (one & other).sum() / (one | other).sum() > 0.85


@pytest.mark.parametrize("paint", ["white", "red"])
def test_a_wide_blur_and_thin_lines_are_one_class(read: Callable[..., SupportSet], paint: str) -> None:
    picture = drawing(paint, 1)
    thin = drawing(paint, 2, width=1)
    support = read([hard(picture).filter(ImageFilter.GaussianBlur(2)), SOFT["antialiased"](thin)])
    for example, one in zip(support.examples, (picture, thin), strict=True):
        wanted = meant(one, paint) > 0
        assert ((example.mask == 1) & wanted).sum() / ((example.mask == 1) | wanted).sum() > 0.9


def test_an_edge_across_a_class_in_between_has_no_rim_of_it(read: Callable[..., SupportSet]) -> None:
    picture = Image.new("L", (4 * WIDTH, 4 * HEIGHT))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((100, 100, 300, 300), fill=200)
    pen.rectangle((500, 100, 700, 300), fill=100)
    (example,) = read([SOFT["one pixel"](picture)]).examples
    disk = example.mask[:, :100]
    assert set(np.unique(disk)) == {0, 2}


def test_small_and_thin_classes_stay(read: Callable[..., SupportSet]) -> None:
    mask = np.zeros((40, 60), np.uint8)
    mask[5:30, 5:30] = 7
    mask[32, 5:30], mask[34, 5:30], mask[36, 5:30], mask[5:30, 40], mask[20, 50] = 1, 2, 3, 5, 6
    support = read([Image.fromarray(mask)])
    assert support.legend.values == (1, 2, 3, 5, 6, 7)
    assert not support.notes


def test_a_solid_grey_is_a_class_beside_soft_white(read: Callable[..., SupportSet]) -> None:
    picture = drawing("grey", 3)
    ImageDraw.Draw(picture).rectangle((0, 0, 200, 100), fill=40)
    assert read([SOFT["antialiased"](picture)]).legend.values == (40, 100)


def test_few_shades_are_soft_where_the_classes_are_named(read: Callable[..., SupportSet]) -> None:
    mask = np.zeros((30, 30, 3), np.uint8)
    mask[5:20, 5:20, 0] = 255
    mask[4, 5:20, 0], mask[20, 5:20, 0] = 100, 150
    (example,) = read([Image.fromarray(mask)], '{"mug": "#ff0000"}').examples
    assert example.mask[4].sum() == 0 and example.mask[20].sum() == 15


def test_a_soft_brush_in_white_is_the_one_class_that_is_named(read: Callable[..., SupportSet]) -> None:
    picture = drawing("white", 1)
    support = read([SOFT["one pixel"](picture)], '["mug"]')
    assert support.classes == ("mug",) and support.legend.values == (1,)
    wanted = meant(picture, "white") > 0
    assert ((support.examples[0].mask == 1) == wanted).mean() > 0.99


def test_soft_white_and_a_corrected_mask_of_ones_are_one_class(read: Callable[..., SupportSet]) -> None:
    picture = drawing("white", 1)
    ones = Image.fromarray((np.asarray(hard(picture)) > 0).astype(np.uint8))
    support = read([SOFT["antialiased"](picture), ones])
    assert support.legend.values == (1,)
    assert (support.examples[0].mask == support.examples[1].mask).mean() > 0.98


@pytest.mark.parametrize("paint", ["white", "red"])
def test_too_few_shades_to_be_sure_are_refused(read: Callable[..., SupportSet], paint: str) -> None:
    mode, (colour,) = PAINTS[paint]
    picture = Image.new(mode, (60, 40))
    ImageDraw.Draw(picture).rectangle((11, 11, 31, 31), fill=colour)
    with pytest.raises(Error, match=r"0\.png shows .* as thin edges between others only"):
        read([picture.resize((30, 20), Image.Resampling.BOX)])


def test_a_gradient_is_no_edge(read: Callable[..., SupportSet]) -> None:
    picture = hard(drawing("white", 1)).filter(ImageFilter.GaussianBlur(12))
    with pytest.raises(Error, match=r"nothing but edges.*paint it without smooth edges"):
        read([picture])


def test_the_core_is_what_lies_in_blocks_of_three() -> None:
    places = np.zeros((7, 9), np.uint8)
    places[1:4, 1:4] = 1
    places[5, 5:8] = 2
    inside = edges.core(places)
    assert inside[1:4, 1:4].all() and not inside[5, 5:8].any() and inside[:4, 4:].all()
    assert not edges.core(places[:2]).any()

"""What values and colours of masks mean: the rules of annotations/codes.py, and that mixtures are never guessed."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations import SupportSet, folder, read_support
from dgpnet.annotations.painted import look, read
from dgpnet.annotations.reading import Found, Request
from dgpnet.errors import Error

SIZE = (24, 32)
Write = Callable[..., Path]


def blocks(*values: int) -> NDArray[np.uint8]:
    """0 all round, and a block of 7 × 5 pixels of each value."""
    mask = np.zeros(SIZE, np.uint16 if max(values, default=0) > 255 else np.uint8)
    for n, value in enumerate(values):
        mask[2 + 10 * (n // 4) : 9 + 10 * (n // 4), 2 + 7 * (n % 4) : 7 + 7 * (n % 4)] = value
    return mask


def colours(*given: tuple[int, int, int], background: tuple[int, int, int] = (0, 0, 0)) -> Image.Image:
    table = np.array([background, *given], np.uint8)
    return Image.fromarray(table[blocks(*range(1, len(given) + 1))])


def save(root: Path, masks: dict[str, NDArray[np.uint8] | Image.Image], classes: object = None) -> Path:
    for folder_ in ("images", "masks"):
        (root / folder_).mkdir(parents=True, exist_ok=True)
    for name, mask in masks.items():
        picture = mask if isinstance(mask, Image.Image) else Image.fromarray(mask)
        Image.new("RGB", picture.size).save(root / "images" / f"{name}.bmp")
        picture.save(root / "masks" / f"{name}.png")
    if classes is not None:
        (root / "classes.json").write_text(json.dumps(classes))
    return root


@pytest.fixture
def painted(tmp_path: Path) -> Callable[..., SupportSet]:
    """painted(a=mask, ..., classes={...}) -> the support set."""

    def read(*, classes: object = None, names: list[str] | None = None, **masks: object) -> SupportSet:
        return read_support(save(tmp_path / "set", masks, classes), names=names)  # type: ignore[arg-type]

    return read


def notes(support: SupportSet) -> str:
    return "\n".join(support.notes)


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
ONE = (blocks(1) > 0).astype(np.uint8)


def palette(mask: NDArray[np.uint8], *given: tuple[int, int, int]) -> Image.Image:
    picture = Image.fromarray(mask)
    picture.putpalette([channel for colour in given for channel in colour])
    return picture


WHITES = {
    "8 bits": Image.fromarray(ONE * 255),
    "16 bits": Image.fromarray(ONE.astype(np.uint16) * 65535),
    "1 bit": Image.fromarray(ONE > 0),
    "RGB": Image.fromarray(ONE * 255).convert("RGB"),
    "RGBA": Image.fromarray(ONE * 255).convert("RGBA"),
    "palette": palette(ONE, (0, 0, 0), WHITE),
    "cut-out in black": Image.merge("RGBA", [*colours().split(), Image.fromarray(ONE * 255)]),
}


@pytest.mark.parametrize("kind", WHITES)
def test_white_is_the_object_beside_a_corrected_mask_of_ones(painted: Callable[..., SupportSet], kind: str) -> None:
    support = painted(a=WHITES[kind], b=WHITES["8 bits"], c=blocks(1))
    assert support.classes == ("object",)
    assert support.legend.values == (1,)
    for example in support.examples:
        np.testing.assert_array_equal(example.mask, ONE)
    assert "white is the object in" in notes(support)


@pytest.mark.parametrize("kind", WHITES)
def test_white_keeps_its_own_number_where_there_is_no_other(painted: Callable[..., SupportSet], kind: str) -> None:
    support = painted(a=WHITES[kind])
    assert support.legend.values == ({"16 bits": 65535, "palette": 1}.get(kind, 255),)
    np.testing.assert_array_equal(support.examples[0].mask, ONE)


@pytest.mark.parametrize("kind", WHITES)
def test_white_among_several_classes_is_refused(painted: Callable[..., SupportSet], kind: str) -> None:
    with pytest.raises(Error, match=r"a\.png shows .* alone.*classes\.json"):
        painted(a=WHITES[kind], b=blocks(1, 2))
    with pytest.raises(Error, match=r"a\.png shows .* alone.*classes\.json"):
        painted(a=WHITES[kind], b=colours(RED, BLUE))


def test_white_is_refused_where_255_is_ignore_in_another_mask(painted: Callable[..., SupportSet]) -> None:
    with pytest.raises(Error, match=r"a\.png shows 255 alone, which is ignore in b\.png"):
        painted(a=blocks(255), b=blocks(1, 255))
    with pytest.raises(Error, match=r"a\.png shows 255 alone"):
        painted(a=np.full(SIZE, 255, np.uint8), b=blocks(1, 255))


@pytest.mark.parametrize(
    "settled, expected", [({"mug": 1, "__ignore__": 255}, 255), ({"mug": 1, "spoon": 255}, 2), ({"mug": 255}, 1)]
)
def test_what_classes_json_says_of_white_settles_it(
    painted: Callable[..., SupportSet], settled: dict[str, int], expected: int
) -> None:
    others = {} if 1 not in settled.values() else {"b": blocks(1)}
    support = painted(a=blocks(255), **others, classes=settled)
    np.testing.assert_array_equal(support.examples[0].mask, expected * ONE)


def test_255_beside_classes_is_ignore_and_said(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=blocks(1, 255), b=blocks(2), c=blocks(300, 65535))
    assert support.legend.values == (1, 2, 300)
    assert "255 is ignore in 1 masks" in notes(support) and "65535 is ignore in 1 masks" in notes(support)


def test_numbers_stay_as_painted(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=blocks(1, 2, 3), b=blocks(7, 5), c=blocks(65534))
    assert support.legend.values == (1, 2, 3, 5, 7, 65534)
    assert support.classes == ("1", "2", "3", "5", "7", "65534")
    np.testing.assert_array_equal(support.examples[1].mask, blocks(5, 4))


@pytest.mark.parametrize("value", [65536, 10**8, 2**31 - 1, -1])
def test_numbers_beyond_16_bits_are_refused(painted: Callable[..., SupportSet], value: int, tmp_path: Path) -> None:
    root = save(tmp_path, {"a": blocks(1)})
    (root / "masks/a.png").unlink()
    Image.fromarray(np.where(ONE, value, 0).astype(np.int32)).save(root / "masks/a.tif")
    with pytest.raises(Error, match=r"a\.tif has the values .* a mask has 0 to 65535"):
        read_support(root)


def test_names_go_to_the_values_in_order(painted: Callable[..., SupportSet]) -> None:
    assert painted(a=blocks(7, 2), names=["two", "seven"]).classes == ("two", "seven")
    with pytest.raises(Error, match=r"The masks show 2 values \(2, 7\), but 3 names"):
        painted(a=blocks(7, 2), names=["two", "seven", "ten"])
    assert painted(a=colours(RED, BLUE), names=["blue", "red"]).legend.colours == (BLUE, RED)


def test_given_names_do_not_go_before_those_of_the_file(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=blocks(1), classes=["mug"], names=["cup"])
    assert support.classes == ("mug",)
    assert "the names that were given are not used" in notes(support)


def test_faults_are_told_before_a_wrong_number_of_names(painted: Callable[..., SupportSet]) -> None:
    with pytest.raises(Error, match=r"a\.png shows 255 alone"):
        painted(a=blocks(255), b=blocks(1, 2), names=["mug"])


def test_colours_of_palettes_are_kept(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=palette(blocks(1, 2), (0, 0, 0), RED, BLUE))
    assert (support.legend.coded_by, support.legend.values, support.legend.colours) == ("value", (1, 2), (RED, BLUE))


def test_a_palette_among_colours_is_read_by_its_colours(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=colours(RED, BLUE), b=palette(blocks(1, 2), (0, 0, 0), BLUE, RED))
    assert support.classes == ("#0000ff", "#ff0000")
    np.testing.assert_array_equal(support.examples[0].mask, blocks(2, 1))
    np.testing.assert_array_equal(support.examples[1].mask, blocks(1, 2))


def test_grey_is_a_colour_among_colours_where_it_is_stored_as_one(painted: Callable[..., SupportSet]) -> None:
    grey = (128, 128, 128)
    support = painted(a=colours(RED, grey), b=colours(grey))
    assert support.classes == ("#808080", "#ff0000")
    np.testing.assert_array_equal(support.examples[1].mask, ONE)


def test_numbers_among_colours_are_refused(painted: Callable[..., SupportSet]) -> None:
    with pytest.raises(Error, match=r"b\.png has values"):
        painted(a=colours(RED, BLUE), b=blocks(1, 2))
    with pytest.raises(Error, match=r"a\.png is painted in colours"):
        painted(a=colours(RED), b=blocks(1), classes=["mug"])


def test_white_is_the_background_of_colours_without_black(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=colours(RED, background=WHITE))
    assert support.classes == ("object",) and support.legend.colours == (RED,)
    np.testing.assert_array_equal(support.examples[0].mask, ONE)
    assert "white is the background in 1 masks" in notes(support)
    with pytest.raises(Error, match="white and no black"):
        painted(a=colours(WHITE, background=RED))


def test_a_palette_whose_object_comes_first_is_read_by_its_colours(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=palette(1 - ONE, RED, WHITE))
    np.testing.assert_array_equal(support.examples[0].mask, ONE)
    support = painted(a=palette(1 - ONE, RED, (0, 0, 0)))
    np.testing.assert_array_equal(support.examples[0].mask, ONE)


def test_black_on_white_is_refused_unless_white_is_named(painted: Callable[..., SupportSet]) -> None:
    with pytest.raises(Error, match=r"a\.png is black on white.*\{\"object\": 255\}"):
        painted(a=255 - ONE * 255)
    np.testing.assert_array_equal(painted(a=255 - ONE * 255, classes={"object": 255}).examples[0].mask, 1 - ONE)


def test_white_beside_black_and_colours_is_a_class(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=colours(RED, WHITE), b=colours(WHITE))
    assert support.classes == ("#ff0000", "#ffffff")
    np.testing.assert_array_equal(support.examples[1].mask, 2 * ONE)


def photograph(rng: np.random.Generator) -> Image.Image:
    return Image.fromarray(rng.integers(0, 255, (*SIZE, 3), np.uint8))


def test_the_photograph_cut_out_is_the_object(painted: Callable[..., SupportSet], rng: np.random.Generator) -> None:
    cut = photograph(rng)
    cut.putalpha(Image.fromarray(ONE * 255))
    support = painted(a=cut)
    np.testing.assert_array_equal(support.examples[0].mask, ONE)
    assert "what is not transparent is the object in 1 masks" in notes(support)
    with pytest.raises(Error, match="nothing but edges"):
        painted(a=photograph(rng))


def test_colours_on_nothing_are_classes_with_soft_alpha_or_hard(painted: Callable[..., SupportSet]) -> None:
    picture = colours(RED, BLUE)
    alpha = np.where(blocks(1, 2), 255, 0).astype(np.uint8)
    alpha[2, 2:7], alpha[3, 2:7] = 60, 200  # the edge of a soft brush
    picture.putalpha(Image.fromarray(alpha))
    support = painted(a=picture)
    expected = blocks(2, 1)
    expected[2, 2:7] = 0
    np.testing.assert_array_equal(support.examples[0].mask, expected)
    assert "half-transparent edges are made hard in 1 masks" in notes(support)


def test_black_and_white_survives_a_jpeg_and_nothing_else_does(
    painted: Callable[..., SupportSet], tmp_path: Path, rng: np.random.Generator
) -> None:
    root = save(tmp_path, {"a": blocks(255)})
    (root / "masks/a.png").unlink()
    big = np.kron(ONE * 255, np.ones((4, 4), np.uint8))
    Image.new("RGB", big.shape[::-1]).save(root / "images/a.bmp")
    Image.fromarray(big).save(root / "masks/a.jpg", quality=75)
    support = read_support(root)
    np.testing.assert_array_equal(support.examples[0].mask, big // 255)
    assert "1 masks are of a format that changes values" in notes(support)
    for wrong in (Image.fromarray(big // 2), photograph(rng).resize(big.shape[::-1])):
        wrong.save(root / "masks/a.jpg")
        with pytest.raises(Error, match="JPEG"):
            read_support(root)


@pytest.mark.parametrize("lossless", [True, False])
def test_webp_is_read_where_it_changed_nothing(tmp_path: Path, lossless: bool) -> None:
    root = save(tmp_path, {"a": blocks(1, 2)})
    (root / "masks/a.png").unlink()
    Image.fromarray(blocks(100, 200)).convert("RGB").save(root / "masks/a.webp", lossless=lossless)
    if lossless:
        np.testing.assert_array_equal(read_support(root).examples[0].mask, blocks(1, 2))
    else:
        with pytest.raises(Error, match="WEBP"):
            read_support(root)


def test_a_gif_that_moved_its_palette_is_read_by_what_it_shows(tmp_path: Path) -> None:
    root = save(tmp_path, {"a": blocks(1, 2)})
    (root / "masks/a.png").unlink()
    Image.fromarray(blocks(100, 200)).save(root / "masks/a.gif")
    Image.fromarray(blocks(200)).save(root / "masks/b.gif")
    Image.new("RGB", SIZE[::-1]).save(root / "images/b.bmp")
    support = read_support(root)
    assert support.legend.values == (100, 200)
    np.testing.assert_array_equal(support.examples[1].mask, 2 * ONE)


def test_voc_grey_is_ignore(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=colours(RED, (224, 224, 192)))
    np.testing.assert_array_equal(support.examples[0].mask, blocks(1, 255))


def test_names_for_255_in_16_bits(painted: Callable[..., SupportSet]) -> None:
    support = painted(a=blocks(255, 300, 65535))
    assert support.legend.values == (255, 300)
    np.testing.assert_array_equal(support.examples[0].mask, blocks(1, 2, 255).astype(np.uint8))


def test_many_numbers_are_not_soft_edges(painted: Callable[..., SupportSet], rng: np.random.Generator) -> None:
    noise = rng.choice(np.array([0, 1, 2, 3, 4, 5, 9, 12, 40], np.uint8), SIZE)
    support = painted(a=noise)
    assert support.legend.values == (1, 2, 3, 4, 5, 9, 12, 40)
    np.testing.assert_array_equal(np.array([0, *support.legend.values])[support.examples[0].mask], noise)


def as_mode(mask: NDArray[np.uint8], mode: str, values: list[int], paint: list[tuple[int, int, int]]) -> Image.Image:
    """mask of 0 … N, written with these values or colours for 1 … N."""
    numbers = np.array([0, *values])[mask]
    if mode in ("RGB", "RGBA"):
        return Image.fromarray(np.array([(0, 0, 0), *paint], np.uint8)[mask]).convert(mode)
    if mode == "P":
        table = np.zeros((256, 3), np.uint8)
        table[values] = paint
        return palette(numbers.astype(np.uint8), *table.tolist())
    return Image.fromarray(numbers.astype({"L": np.uint8, "I;16": np.uint16}[mode]))


CLASSES = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 254), min_size=n, max_size=n, unique=True),
        st.lists(
            st.tuples(*[st.integers(0, 15).map(lambda v: 17 * v)] * 3).filter(
                lambda c: len(set(c)) > 1 and c != (224, 224, 192)
            ),
            min_size=n,
            max_size=n,
            unique=True,
        ),
    )
)


@given(CLASSES, st.sampled_from(["L", "P", "RGB", "RGBA", "I;16"]), st.integers(0, 2**32))
@settings(max_examples=60)
def test_whatever_is_painted_is_read_as_painted(tmp_path_factory, classes, mode, seed) -> None:
    values, paint = classes
    rng = np.random.default_rng(seed)
    mask = np.kron(rng.integers(0, len(values) + 1, (4, 5)), np.ones((4, 4), int))
    mask[:4, :4] = 0
    mask[-4:, -4:] = rng.integers(1, len(values) + 1)
    shown = sorted(set(mask.ravel().tolist()) - {0})
    root = save(tmp_path_factory.mktemp("set"), {"a": as_mode(mask, mode, values, paint)})
    support = read_support(root)
    if mode in ("RGB", "RGBA"):
        back = np.array([(0, 0, 0), *support.legend.colours])[support.examples[0].mask]
        assert set(support.legend.colours) == {paint[n - 1] for n in shown}
        np.testing.assert_array_equal(back, np.array([(0, 0, 0), *paint])[mask])
    else:
        back = np.array([0, *support.legend.values])[support.examples[0].mask]
        np.testing.assert_array_equal(back, np.array([0, *values])[mask])


MORE = {**WHITES, "one": blocks(1), "two": blocks(1, 2), "ignore": blocks(1, 255), "red": colours(RED)}
MORE |= {"redblue": colours(RED, BLUE), "on white": colours(RED, background=WHITE), "empty": blocks()}
MORE |= {"void": blocks(255), "palette 1 2": palette(blocks(1, 2), (0, 0, 0), RED, BLUE)}


@pytest.mark.parametrize("first", MORE)
@pytest.mark.parametrize("added", MORE)
def test_one_more_mask_changes_no_meaning_or_is_refused(tmp_path: Path, first: str, added: str) -> None:
    def classes(found: Found) -> list[NDArray[np.int32]]:
        return [draw()[1] for draw in found.drawings]

    def read(**masks: object) -> Found:
        return folder.read(Request(save(tmp_path / "-".join(masks), masks)))  # type: ignore[arg-type]

    before = read(a=MORE[first])
    (alone,) = classes(before)
    after = read(a=MORE[first], b=MORE[added])
    if after.problems:
        return
    together = classes(after)[0]
    # The same pixels are background, ignored and classes, and classes that were two are not one now.
    for mark in (0, -1):
        np.testing.assert_array_equal(together == mark, alone == mark)
    pairs = set(zip(alone.ravel().tolist(), together.ravel().tolist(), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_a_large_mask_in_colours_takes_one_byte_a_pixel(tmp_path: Path) -> None:
    picture = colours(RED, GREEN, BLUE).resize((2000, 1500), Image.Resampling.NEAREST)
    picture.save(tmp_path / "a.png")
    assert read(tmp_path / "a.png", 10**7).pixels.nbytes == 3_000_000
    shown = look(tmp_path / "a.png", 10**7)
    assert shown.colours == (0, 0x0000FF, 0x00FF00, 0xFF0000)
    assert sum(shown.counts) == 3_000_000

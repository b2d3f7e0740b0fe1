"""images/ + masks/: every kind of mask, with and without classes.json."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet import images
from dgpnet.annotations import read_support
from dgpnet.errors import Error

INDEX = np.array([[0, 1, 2], [2, 1, 255]], np.uint8)
SIZE = INDEX.shape
COLOURS = {0: (0, 0, 0), 1: (255, 0, 0), 2: (0, 0, 255), 255: (224, 224, 192)}


def coloured(mask: np.ndarray) -> Image.Image:
    return Image.fromarray(np.array([[COLOURS[value] for value in row] for row in mask.tolist()], np.uint8))


@pytest.fixture
def masked(tmp_path: Path, photo: Callable[..., Path]) -> Callable[..., Path]:
    """masked(a=image or array, ...) writes photographs with these masks; returns their folder."""

    def write(**masks: Image.Image | np.ndarray) -> Path:
        for name, mask in masks.items():
            picture = mask if isinstance(mask, Image.Image) else Image.fromarray(mask)
            photo(f"images/{name}.jpg", (picture.height, picture.width))
            (tmp_path / "masks").mkdir(exist_ok=True)
            picture.save(tmp_path / "masks" / f"{name}.png")
        return tmp_path

    return write


def test_index_masks(masked: Callable[..., Path]) -> None:
    support = read_support(masked(a=INDEX))
    assert support.format == "folder"
    assert support.classes == ("1", "2")
    (example,) = support.examples
    assert example.photo.name == "a.jpg"
    assert example.mask.dtype == np.uint8
    np.testing.assert_array_equal(example.mask, INDEX)


def test_masks_that_we_write_come_back(masked: Callable[..., Path], blobs: Callable[..., np.ndarray]) -> None:
    mask = blobs((30, 40), 3, ignore=True)
    root = masked(a=mask)
    images.write_mask(root / "masks" / "a.png", mask)
    (example,) = read_support(root, names=["x", "y", "z"]).examples
    np.testing.assert_array_equal(example.mask, mask)


def test_a_palette_is_read_by_index(masked: Callable[..., Path]) -> None:
    picture = Image.fromarray(INDEX, "L")
    picture.putpalette([7, 7, 7] * 256)
    np.testing.assert_array_equal(read_support(masked(a=picture)).examples[0].mask, INDEX)


def test_sixteen_bits_are_read_by_value(masked: Callable[..., Path]) -> None:
    deep = np.array([[0, 300, 65535], [7, 0, 0]], np.uint16)
    support = read_support(masked(a=deep), names=["seven", "three hundred"])
    np.testing.assert_array_equal(support.examples[0].mask, [[0, 2, 255], [1, 0, 0]])


@pytest.mark.parametrize("white", [True, 255, 65535])
def test_black_and_white_is_one_class(masked: Callable[..., Path], white: int) -> None:
    inside = np.array([[0, 1], [1, 0]])
    mask = {True: inside.astype(bool), 255: (inside * 255).astype(np.uint8), 65535: (inside * 65535).astype(np.uint16)}
    root = masked(a=mask[white], empty=np.zeros_like(mask[white]))
    support = read_support(root)
    assert support.classes == ("object",)
    np.testing.assert_array_equal(support.examples[0].mask, inside)
    (root / "classes.json").write_text('{"1": "coin"}')
    support = read_support(root)
    assert support.classes == ("coin",)
    np.testing.assert_array_equal(support.examples[0].mask, inside)
    np.testing.assert_array_equal(support.examples[1].mask, 0)


def test_grey_saved_as_rgb_is_read_by_value(masked: Callable[..., Path]) -> None:
    support = read_support(masked(a=Image.fromarray(INDEX).convert("RGB")))
    np.testing.assert_array_equal(support.examples[0].mask, INDEX)


def test_colours_without_names_are_classes(masked: Callable[..., Path]) -> None:
    mask = np.where(INDEX == 255, 0, INDEX)
    support = read_support(masked(a=coloured(mask)))
    assert support.classes == ("#0000ff", "#ff0000")
    np.testing.assert_array_equal(support.examples[0].mask, np.array([0, 2, 1])[mask])


@pytest.mark.parametrize(
    "names",
    [
        {"red": [255, 0, 0], "blue": [0, 0, 255], "__ignore__": [224, 224, 192]},
        {"red": "#ff0000", "blue": "#0000FF", "__ignore__": "#e0e0c0"},
        {"#000000": "background", "#ff0000": "red", "#0000ff": "blue", "#e0e0c0": "__ignore__"},
    ],
)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_colours_with_names(masked: Callable[..., Path], names: dict[str, object], mode: str) -> None:
    root = masked(a=coloured(INDEX).convert(mode, palette=Image.Palette.ADAPTIVE))
    (root / "classes.json").write_text(json.dumps(names))
    support = read_support(root)
    assert support.classes == ("red", "blue")
    np.testing.assert_array_equal(support.examples[0].mask, INDEX)


@pytest.mark.parametrize(
    "names",
    [
        ["mug", "spoon"],
        ["background", "mug", "spoon"],
        {"1": "mug", "2": "spoon"},
        {"spoon": 2, "mug": 1, "background": 0},
    ],
)
def test_names_of_values(masked: Callable[..., Path], names: object) -> None:
    root = masked(a=INDEX)
    (root / "classes.json").write_text(json.dumps(names))
    support = read_support(root)
    assert support.classes == ("mug", "spoon")
    np.testing.assert_array_equal(support.examples[0].mask, INDEX)


def test_classes_choose_and_order(masked: Callable[..., Path]) -> None:
    root = masked(a=INDEX)
    (root / "classes.json").write_text('["mug", "spoon"]')
    (spoon,) = read_support(root, classes=["spoon"]).examples
    np.testing.assert_array_equal(spoon.mask, [[0, 0, 1], [1, 0, 255]])
    (both,) = read_support(root, classes=["spoon", "mug"]).examples
    np.testing.assert_array_equal(both.mask, [[0, 2, 1], [1, 2, 255]])
    with pytest.raises(Error, match="no class fork; it has mug, spoon"):
        read_support(root, classes=["fork"])


def test_photographs_without_a_mask_are_no_examples(masked: Callable[..., Path], photo: Callable[..., Path]) -> None:
    root = masked(a=INDEX)
    photo("images/b.jpg", SIZE)
    (root / "masks" / "notes.txt").write_text("not a mask")
    (root / "masks" / "._a.png").write_text("what a Mac leaves behind")
    assert [example.photo.name for example in read_support(root).examples] == ["a.jpg"]


def test_folders_within_are_mirrored(masked: Callable[..., Path], photo: Callable[..., Path]) -> None:
    root = masked(a=INDEX)
    photo("images/trip/a.png", SIZE)
    (root / "masks/trip").mkdir()
    Image.fromarray(INDEX).save(root / "masks/trip/a.png")
    assert [example.photo.relative_to(root).as_posix() for example in read_support(root).examples] == [
        "images/a.jpg",
        "images/trip/a.png",
    ]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_in_either_orientation_lies_on_the_photograph(
    tmp_path: Path, photo: Callable[..., Path], orientation: int, blobs: Callable[..., np.ndarray]
) -> None:
    stored = blobs((6, 9))
    shown = images.orient(stored, orientation)
    (tmp_path / "masks").mkdir()
    for name, mask in (("shown", shown), ("stored", stored)):
        photo(f"images/{name}.jpg", stored.shape, orientation)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{name}.png")
    upright, as_file = read_support(tmp_path).examples
    assert images.read_photo(upright.photo).shape[:2] == upright.mask.shape
    np.testing.assert_array_equal(upright.mask, shown)
    if orientation >= 5:  # otherwise the size cannot tell, and masks are as viewers show them
        np.testing.assert_array_equal(as_file.mask, shown)


def told(error: Error) -> str:
    """The sentence and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def test_every_broken_mask_is_named_at_once(masked: Callable[..., Path], photo: Callable[..., Path]) -> None:
    root = masked(a=INDEX, b=INDEX, c=INDEX, d=INDEX, unknown=np.full(SIZE, 9, np.uint8))
    (root / "classes.json").write_text('["mug", "spoon"]')
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(root / "masks/a.png")
    (root / "masks/b.png").write_bytes(b"no picture")
    (root / "images/c.jpg").unlink()
    photo("images/d.png", SIZE)
    with pytest.raises(Error) as caught:
        read_support(root)
    message = told(caught.value)
    assert "5 problems" in message
    for name, reason in (
        ("a.png", "5 x 5"),
        ("b.png", "no image format"),
        ("c.png", "no photograph"),
        ("d.png", "d.jpg, d.png"),
        ("unknown.png", "shows 9"),
    ):
        assert any(name in line and reason in line for line in message.splitlines()), (name, message)


def test_a_long_list_of_problems_is_cut(masked: Callable[..., Path]) -> None:
    root = masked(**{f"m{number:02}": INDEX for number in range(30)})
    for path in (root / "images").iterdir():
        path.unlink()
    with pytest.raises(Error, match="30 problems") as caught:
        read_support(root)
    assert told(caught.value).count("no photograph") == 10
    assert told(caught.value).endswith("and 20 more")


def test_a_photograph_saved_as_mask_is_refused(masked: Callable[..., Path], rng: np.random.Generator) -> None:
    with pytest.raises(Error, match=r"a\.png has \d+ colours that are nothing but edges"):
        read_support(masked(a=rng.integers(0, 255, (40, 40, 3), np.uint8)))


def test_names_that_no_mask_shows_are_left_out_and_said(masked: Callable[..., Path]) -> None:
    root = masked(a=INDEX)
    (root / "classes.json").write_text('["mug", "spoon", "fork", "knife"]')
    support = read_support(root)
    assert support.classes == ("mug", "spoon")
    assert "2 classes are shown by no mask and left out (first: fork)." in support.notes


def test_only_empty_masks_are_refused(masked: Callable[..., Path]) -> None:
    with pytest.raises(Error, match="anything but background"):
        read_support(masked(a=np.zeros(SIZE, np.uint8)))


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "3", '{"mug": true}', '{"mug": "red"}', '{"mug": 1, "spoon": [1, 2, 3]}', '{"mug": [1, 2]}',
        '{"mug": 1, "cup": 1}', '{"mug": 1, "mug": 2}', '{"1": "mug", "1": "cup"}', '["mug", "mug"]', '{"0": "mug"}',
        '["background"]', '{"mug": 65536}', '{"mug": 1000000000000000}', '{"mug": ' + "9" * 5000 + "}", "[" * 100000,
        '["mug", null]', '{"": 1}', '"mug"', '{"mug": "#12345g"}', '{"mug": -1}',
    ],
)  # fmt: skip
def test_a_broken_class_list_is_refused(masked: Callable[..., Path], text: str) -> None:
    root = masked(a=INDEX)
    (root / "classes.json").write_text(text)
    with pytest.raises(Error, match=r"classes\.json"):
        read_support(root)


def test_a_class_list_elsewhere_is_not_read(
    masked: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = masked(a=INDEX)
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text('{"password": "hunter2"}')
    for name in ("classes.json", "labelmap.txt"):
        (root / name).symlink_to(secret)
        with pytest.raises(Error, match="leads outside") as caught:
            read_support(root)
        assert "hunter2" not in told(caught.value)
        (root / name).unlink()


def test_a_class_list_is_a_small_file(masked: Callable[..., Path]) -> None:
    root = masked(a=INDEX)
    (root / "classes.json").write_text('["mug", "spoon"' + " " * (1 << 20) + "]")
    with pytest.raises(Error, match="no list of classes"):
        read_support(root)
    (root / "classes.json").unlink()
    (root / "classes.json").mkdir()
    with pytest.raises(Error, match="is no file"):
        read_support(root)


def test_links_out_of_the_folder_are_refused(
    masked: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = masked(a=INDEX, b=INDEX)
    outside = tmp_path_factory.mktemp("outside")
    for name in ("images/a.jpg", "masks/b.png"):
        target = (root / name).rename(outside / Path(name).name)
        (root / name).symlink_to(target)
    with pytest.raises(Error, match="2 problems") as caught:
        read_support(root)
    assert told(caught.value).count("leads outside") == 2


def test_a_huge_mask_is_refused_before_it_is_decoded(masked: Callable[..., Path]) -> None:
    with pytest.raises(Error, match=r"a\.png"):
        read_support(masked(a=INDEX), max_pixels=4)

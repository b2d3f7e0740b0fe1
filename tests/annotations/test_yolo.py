"""YOLO-seg folders: class lists in every notation, polygons with holes and several parts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.annotations import Item, export, read_support, yolo
from dgpnet.errors import Error

SIZE = (20, 40)
SQUARE = "0.1 0.1 0.5 0.1 0.5 0.6 0.1 0.6"


@pytest.fixture
def tree(tmp_path: Path, photo: Callable[..., Path]) -> Callable[..., Path]:
    """tree(lines) writes images/a.jpg, labels/a.txt and classes.txt."""

    def write(lines: str, names: str = "mug\nspoon\n", listing: str = "classes.txt") -> Path:
        photo("images/a.jpg", SIZE)
        (tmp_path / "labels").mkdir(exist_ok=True)
        (tmp_path / "labels/a.txt").write_text(lines)
        (tmp_path / listing).write_text(names)
        return tmp_path

    return write


@pytest.mark.parametrize(
    "names",
    [
        "names: [mug, spoon]",
        "names: ['mug', \"spoon\"]  # two",
        "names: [\n  'mug',\n  'spoon']\n",
        "names: {0: mug, 1: spoon}",
        "names:\n  0: mug\n  1: 'spoon'\n",
        "names:\n- mug\n- spoon\n",
        "names:\n  - mug\n\n  - spoon\nroboflow:\n  version: 1\n",
        "names:\n  1: spoon\n  0: mug\nval: x",
    ],
)
@pytest.mark.parametrize("before", ["", "path: /elsewhere\ntrain: ../train/images # here\nnc: 2\n"])
def test_class_lists_in_every_notation(tree: Callable[..., Path], names: str, before: str) -> None:
    root = tree(f"1 {SQUARE}\n0 0.6 0.6 0.9 0.6 0.9 0.9 0.6 0.9\n", before + names, "data.yaml")
    for path in (root, root / "data.yaml"):
        support = read_support(path)
        assert (support.format, support.classes) == ("yolo", ("mug", "spoon"))
        mask = support.examples[0].mask
        assert (mask[2:12, 4:20] == 2).all()
        assert (mask[12:18, 24:36] == 1).all()


def test_names_with_commas_and_colons(tree: Callable[..., Path]) -> None:
    names = """names: ["a, b", 'it''s: c']"""
    assert read_support(tree(f"0 {SQUARE}\n1 {SQUARE}", names, "data.yaml"), classes=["it's: c"]).classes == (
        "it's: c",
    )


def test_small_objects_lie_on_large_ones(tree: Callable[..., Path]) -> None:
    mask = read_support(tree(f"1 0.2 0.2 0.4 0.2 0.4 0.4 0.2 0.4\n0 {SQUARE}")).examples[0].mask
    assert mask[5, 10] == 2


def test_an_empty_file_is_a_negative_and_a_photograph_without_file_no_example(
    tree: Callable[..., Path], photo: Callable[..., Path]
) -> None:
    root = tree(f"0 {SQUARE}", "mug")
    photo("images/b.png", (5, 5))
    photo("images/c.png", (5, 5))
    (root / "labels/b.txt").write_text("\n")
    support = read_support(root)
    assert [(example.photo.name, bool(example.mask.any())) for example in support.examples] == [
        ("a.jpg", True),
        ("b.png", False),
    ]


def test_splits_in_either_order_of_folders(tmp_path: Path, photo: Callable[..., Path]) -> None:
    (tmp_path / "data.yaml").write_text("names: [mug]")
    for images, labels in (("images/train", "labels/train"), ("valid/images", "valid/labels")):
        photo(f"{images}/a.jpg", SIZE)
        (tmp_path / labels).mkdir(parents=True)
        (tmp_path / labels / "a.txt").write_text(f"0 {SQUARE}")
    photos = [example.photo.relative_to(tmp_path).as_posix() for example in read_support(tmp_path).examples]
    assert photos == ["images/train/a.jpg", "valid/images/a.jpg"]


@pytest.mark.parametrize("instances", [False, True])
def test_what_goes_out_comes_back(
    tmp_path: Path, photo: Callable[..., Path], blobs: Callable[..., np.ndarray], instances: bool
) -> None:
    masks = {"a.jpg": blobs((90, 141), 2), "trip/b.jpg": blobs((77, 60), 2), "c.jpg": np.zeros((9, 9), np.uint8)}
    for name, mask in masks.items():
        photo(f"yolo/images/train/{name}", mask.shape)
    items = [Item(name, mask) for name, mask in masks.items()]
    path = export("yolo", tmp_path, ['5" mug', "spoon: big"], items, instances=instances)
    support = read_support(path)
    assert support.classes == ('5" mug', "spoon: big")
    for example, name in zip(support.examples, sorted(masks), strict=True):
        for value in (1, 2):
            read, written = example.mask == value, masks[name] == value
            assert (read & written).sum() >= 0.99 * (read | written).sum()
        np.testing.assert_array_equal(example.mask, masks[name])  # in fact nothing is lost


def test_ignore_becomes_background(tmp_path: Path) -> None:
    mask = np.full((4, 4), 255, np.uint8)
    mask[1:3, 1:3] = 1
    path = export("yolo", tmp_path, ["mug"], [Item("a.jpg", mask)])
    assert (path / "labels/train/a.txt").read_text().startswith("0 0.2500001 0.2500001 ")
    assert (path / "labels/train/a.txt").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("0 0.1 0.1 0.5", "coordinates are not pairs"),
        ("7 0.1 0.1 0.5 0.1 0.5 0.6", "class '7' is none of 0..0"),
        ("-1 0.1 0.1 0.5 0.1 0.5 0.6", "class '-1'"),
        ("mug 0.1 0.1 0.5 0.1 0.5 0.6", "class 'mug'"),
        ("0 0.1 0.1 0.5 a 0.5 0.6", "not numbers"),
        ("0 10 10 50 10 50 60", "outside the photograph of 40 x 20"),
        ("0 nan nan 0.5 0.1 0.5 0.6", "outside the photograph"),
        ("0 1e308 1e308 0.5 0.1 0.5 0.6", "outside the photograph"),
    ],
)
def test_a_broken_line_is_named(tree: Callable[..., Path], lines: str, reason: str) -> None:
    with pytest.raises(Error, match=reason) as caught:
        read_support(tree(f"0 {SQUARE}\n{lines}", "mug"))
    assert "a.txt, line 2" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", ["nc: 2", "names: []", "names: {1: mug}", "names:\n  0: mug\n  5: spoon"])
def test_a_broken_class_list_is_named(tree: Callable[..., Path], names: str) -> None:
    with pytest.raises(Error, match=r"data\.yaml"):
        read_support(tree(f"0 {SQUARE}", names, "data.yaml"))


def test_missing_photographs_and_labels_are_named(tree: Callable[..., Path]) -> None:
    root = tree(f"0 {SQUARE}", "mug")
    (root / "images/a.jpg").unlink()
    with pytest.raises(Error, match=r"a\.txt: there is no photograph .*images/a\.\*"):
        read_support(root)
    (root / "labels/a.txt").unlink()
    with pytest.raises(Error, match=r"no labels/\*\.txt"):
        read_support(root)


def test_links_out_of_the_folder_are_refused(
    tree: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tree(f"0 {SQUARE}", "mug")
    target = (root / "images/a.jpg").rename(tmp_path_factory.mktemp("outside") / "a.jpg")
    (root / "images/a.jpg").symlink_to(target)
    with pytest.raises(Error, match="leads outside"):
        read_support(root)
    (root / "labels/b.txt").symlink_to("/etc/passwd")
    with pytest.raises(Error, match=r"b\.txt: .*leads outside"):
        read_support(root)


def test_bytes_that_are_no_text_are_refused(tree: Callable[..., Path]) -> None:
    root = tree("", "mug")
    (root / "labels/a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Error, match="not a text file"):
        read_support(root)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('names:\n  0: "mug #1"\n  1: spoon # of silver\n', ["mug #1", "spoon"]),
        ("names: ['mug #1', b#2, \"#3\"] # three", ["mug #1", "b#2", "#3"]),
        ("names:\n- 'it''s: a, b'\n- a:b\n# nothing\n- \"x\\\"y\"\ntrain: x", ["it's: a, b", "a:b", 'x"y']),
        ('names: ["\\xE9t\\xE9", "\\u676F", "\\ud83d\\ude00", "\\U0001F600"]', ["été", "杯", "😀", "😀"]),
        ("names: [\n  Tasse,  # cup\n  杯,\n]\nnc: 2", ["Tasse", "杯"]),
        ('names: {"1": b, 0: "a: {x}"}', ["a: {x}", "b"]),
        ("names:\n  '0': a\n  \"1\": b\n", ["a", "b"]),
        ("names: {0: person, 1: traffic light}", ["person", "traffic light"]),
        ("names:\n  0: yes\n  1: 7\n", ["yes", "7"]),
    ],
)
def test_names_come_back_as_yaml_has_them(text: str, expected: list[str]) -> None:
    assert yolo.yaml_names(text, Path("data.yaml")) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1), min_size=1))
def test_any_names_in_quotes_come_back(names: list[str]) -> None:
    for text in (
        f"nc: 1\nnames: {json.dumps(names)}\n",
        "names:\n" + "".join(f"  {n}: {json.dumps(name)}\n" for n, name in enumerate(names)),
        "names:\n" + "".join("- '" + name.replace("'", "''") + "' # x\n" for name in names),
    ):
        assert yolo.yaml_names(text, Path("data.yaml")) == names


@pytest.mark.parametrize("text", ["names: [a, b", "names: |\n  a\n", "names: *x", "names: [[a]]", "names:\n  a b\n"])
def test_what_is_no_list_of_names_is_refused(text: str) -> None:
    with pytest.raises(Error, match=r"data\.yaml: 'names' cannot be read"):
        yolo.yaml_names(text, Path("data.yaml"))


def test_boxes_specks_and_unused_classes_are_counted_and_left_out(tree: Callable[..., Path]) -> None:
    lines = f"1 {SQUARE}\n1 0.5 0.5 0.2 0.2\n1 0.1 0.1\n1 0.11 0.1 0.11 0.1 0.11 0.1"
    support = read_support(tree(lines))
    assert support.classes == ("spoon",)
    assert support.legend.values == (2,)
    told = " ".join(support.notes)
    assert "1 lines are boxes, which are no masks" in told
    assert "1 lines have fewer than 3 corners" in told
    assert "1 polygons cover no pixel" in told
    assert "1 classes of the list are nowhere and are left out: mug" in told


def test_outlines_with_whole_corners_hold_their_border_pixels(tree: Callable[..., Path]) -> None:
    """Contours of OpenCV, as ultralytics and supervision write them, with six digits."""
    corners = [(2, 1), (2, 3), (7, 3), (7, 1)]
    text = " ".join(f"{x / SIZE[1]:.6g} {y / SIZE[0]:.6g}" for x, y in corners)
    support = read_support(tree(f"0 {text}"))
    assert (support.examples[0].mask[1:4, 2:8] == 1).all()
    assert (support.examples[0].mask == 1).sum() == 18
    assert any("whole numbers" in note for note in support.notes)


@pytest.mark.parametrize("name", ["data.yaml", "classes.txt"])
def test_a_list_of_classes_outside_the_folder_is_not_read(
    tree: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    root = tree(f"0 {SQUARE}", "mug", "kept.txt")
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("names: [hidden]")
    (root / name).symlink_to(secret)
    for path in (root, root / name):
        with pytest.raises(Error, match="leads outside") as caught:
            read_support(path)
        assert "hidden" not in str(caught.value)


def test_key_points_are_refused(tree: Callable[..., Path]) -> None:
    with pytest.raises(Error, match="key points"):
        read_support(tree(f"0 {SQUARE}", "kpt_shape: [17, 3]\nnames: [person]", "data.yaml"))


def test_a_blank_line_in_the_list_of_classes_is_no_class(tree: Callable[..., Path]) -> None:
    with pytest.raises(Error, match="is no name for a class"):
        read_support(tree(f"1 {SQUARE}", "mug\n\nspoon\n"))


def test_photographs_elsewhere_need_not_be_split(tree: Callable[..., Path]) -> None:
    root = tree(f"0 {SQUARE}", "mug")
    (root / "labels/train").mkdir()
    (root / "labels/a.txt").rename(root / "labels/train/a.txt")
    assert read_support(root, photos=root / "images").examples[0].photo == root / "images/a.jpg"

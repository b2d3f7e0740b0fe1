import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import FORMATS, Item, export, read_support
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import Found
from dgpnet.colours import PALETTE
from dgpnet.errors import Error

RED, BLUE = (255, 0, 0), (0, 0, 255)


def test_without_values_classes_are_numbered_and_have_the_palettes_colours():
    legend = Legend.of(["mug", "spoon"])
    assert legend.values == (1, 2)
    assert legend.colours == tuple(tuple(colour) for colour in PALETTE[1:3].tolist())


def test_a_mask_is_written_in_the_values_that_were_painted():
    mask = np.array([[0, 1, 2, 255]], np.uint8)
    assert Legend.of(["mug", "spoon"], [5, 7]).applied(mask).tolist() == [[0, 5, 7, 255]]
    deep = Legend.of(["mug", "spoon"], [5, 700]).applied(mask)
    assert deep.dtype == np.uint16 and deep.tolist() == [[0, 5, 700, 65535]]


def test_it_goes_through_json():
    legend = Legend(("mug", "spoon"), (5, 7), (RED, BLUE), "colour", ((6, "fork"),))
    assert Legend.from_json(json.loads(json.dumps(legend.to_json()))) == legend


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"names": [], "values": [], "colours": []},
        {"names": ["a", "a"], "values": [1, 2], "colours": ["#000000", "#000000"]},
        {"names": ["a", "b"], "values": [1, 1], "colours": ["#000000", "#000000"]},
        {"names": ["a"], "values": [0], "colours": ["#000000"]},
        {"names": ["a"], "values": [10**15], "colours": ["#000000"]},
        {"names": ["a"], "values": [1], "colours": ["#0000"]},
        {"names": ["a"], "values": [1], "colours": [5]},
        {"names": ["a"], "values": ["x"], "colours": ["#000000"]},
        {"names": ["a"], "values": [1], "colours": ["#000000"], "coded_by": "smell"},
    ],
)
def test_what_is_no_legend_is_an_error(fields):
    with pytest.raises(Error):
        Legend.from_json({"coded_by": "value", "unused": [], **fields})


def test_numbers_and_colours_that_a_format_has_no_place_for_come_back_from_the_file_beside_it(tmp_path: Path) -> None:
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    painted = Legend(("mug", "spoon"), (700, 3), ((1, 2, 3), (4, 5, 6)))
    mask = np.array([[1, 1, 1, 2, 2, 2]] * 4, np.uint8)
    for format_ in FORMATS:
        path = export(format_, tmp_path / format_, painted, [Item("a.png", mask)])
        found = read_support(path, photos=tmp_path, classes=["mug", "spoon"])
        assert found.legend == painted, format_
        assert (found.examples[0].mask == mask).all()


def test_a_class_that_the_file_does_not_know_gets_a_free_number() -> None:
    found = Found(("fork", "mug", "spoon"), [], values=(3, 1, 4))
    known = found.known_by(Legend(("mug", "spoon"), (3, 5), ((1, 2, 3), (4, 5, 6))))
    assert known.values == (4, 3, 5)
    assert known.colours is not None and known.colours[1:] == ((1, 2, 3), (4, 5, 6))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"names": 3}', '{"names": ["a"], "values": [1e999]}', "x" * 2_000_000]
)
def test_a_broken_file_beside_it_is_a_sentence(tmp_path: Path, text: str) -> None:
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    path = export("coco", tmp_path, ["mug"], [Item("a.png", np.ones((4, 6), np.uint8))])
    (tmp_path / "legend.json").write_text(text)
    with pytest.raises(Error, match="legend"):
        read_support(path)

import json

import numpy as np
import pytest

from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.images import PALETTE

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

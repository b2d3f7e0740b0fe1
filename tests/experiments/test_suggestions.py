import pytest

from dgpnet import data
from dgpnet.errors import Error
from dgpnet.experiments.suggestions import Row, compare, markdown
from tests.tiny import tiny_segmenter


def test_every_class_with_enough_photographs_is_compared_on_photographs_that_were_no_examples():
    dataset = data.build("synthetic", kinds=3, photographs=12, side=64, objects=2, folds=1)
    rows = compare(tiny_segmenter(), dataset, budget=2, draws=2)
    enough = [n for c, n in dataset.classes.items() if sum(pair[1] == c for pair in dataset.pairs) >= 8]
    assert [row.name for row in rows] == enough
    for row in rows:
        assert 0 <= row.suggested <= 1
        assert len(row.random) == 2
    assert compare(tiny_segmenter(), dataset, budget=2, draws=2) == rows
    with pytest.raises(Error, match="no class with 40"):
        compare(tiny_segmenter(), dataset, budget=10, draws=2)


def test_the_table_says_what_was_gained():
    rows = [Row("cat", 30, 0.7, (0.5, 0.6)), Row("cow", 25, 0.6, (0.6, 0.5))]
    text = markdown(rows, 5, "command")
    assert "| cat | 30 | 70.0 | 55.0 ± 7.1 | +15.0 |" in text
    assert "| **mean** | | **65.0** | 55.0 ± 0.0 | **+10.0** |" in text

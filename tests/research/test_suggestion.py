import pytest

from dgpnet import data
from dgpnet.errors import Error
from research.encoded import encode_examples, photographs_of
from research.suggestion import Comparison, Trial, compare, markdown, page, suggested, verdict
from tests.tiny import tiny_segmenter


def test_every_class_with_enough_photographs_is_compared():
    dataset = data.build("synthetic", kinds=3, photographs=12, side=64, objects=2, folds=1)
    trial = Trial(budget=2, draws=2, pool=9, queries=3, least=3)
    rows = list(compare(tiny_segmenter(), dataset, dataset, trial))
    enough = [name for c, name in dataset.classes.items() if len(photographs_of(dataset, c)) >= 8]
    assert [row.name for row in rows] == enough
    for row in rows:
        assert 0 <= row.suggested <= 1
        assert len(row.random) == 2
        assert row.pool <= 9
        assert row.queries == 3
    assert list(compare(tiny_segmenter(), dataset, dataset, trial)) == rows
    with pytest.raises(Error, match="no class with 40"):
        next(compare(tiny_segmenter(), dataset, dataset, Trial(budget=10)))


def test_the_examples_are_those_that_the_segmenter_suggests():
    dataset = data.build("synthetic", kinds=2, photographs=10, side=64, objects=2, folds=1)
    class_id = next(iter(dataset.classes))
    photographs = photographs_of(dataset, class_id)
    segmenter = tiny_segmenter()
    points = encode_examples(segmenter, dataset, photographs, class_id)
    assert suggested(segmenter, points, 3) == segmenter.suggest([dataset.photo(i) for i in photographs], budget=3)


def test_the_table_says_what_was_gained():
    rows = [Comparison("cat", 30, 10, 0.7, (0.5, 0.6)), Comparison("cow", 25, 10, 0.6, (0.6, 0.5))]
    text = markdown(rows)
    assert "| cat | 30 | 10 | 70.0 | 55.0 ± 7.1 | +15.0 |" in text
    assert "| **mean** | | | 65.0 | 55.0 ± 0.0 | +10.0 |" in text
    assert text in page(rows, Trial(), {"model": "default"})


def test_a_difference_counts_where_chance_would_not_make_it():
    random = (0.5, 0.52, 0.48)
    assert "asking pays" in verdict([Comparison("cat", 30, 10, 0.6, random)])
    assert "random examples are better" in verdict([Comparison("cat", 30, 10, 0.4, random)])
    assert "chance" in verdict([Comparison("cat", 30, 10, 0.51, random)])

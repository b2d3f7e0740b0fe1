import pytest
import torch

from dgpnet import data
from dgpnet.errors import Error
from dgpnet.metrics import confusion, foreground_iou
from research.encoded import encode_examples, encode_queries, iou, learn, photographs_of
from research.examples import costs
from research.examples_report import BUDGETED, EXACT
from tests.tiny import CONFIG, tiny_segmenter


@pytest.fixture(scope="module")
def dataset():
    return data.build("synthetic", kinds=2, photographs=12, side=64, objects=2, folds=1)


@pytest.fixture(scope="module")
def class_id(dataset):
    return next(iter(dataset.classes))


@pytest.mark.parametrize("resize", ["square", "pad"])
def test_photographs_encoded_once_give_what_the_segmenter_gives(dataset, class_id, resize):
    segmenter = tiny_segmenter(CONFIG.but(resize=resize))
    photographs = photographs_of(dataset, class_id)
    examples, asked = photographs[:4], photographs[4:]
    points = encode_examples(segmenter, dataset, examples, class_id)
    memory = learn(segmenter, points.chosen([2, 0]))
    concept = segmenter.learn(
        [dataset.photo(examples[i]) for i in (2, 0)], [dataset.mask(examples[i]) == class_id for i in (2, 0)]
    )
    counts = torch.zeros(4, dtype=torch.int64)
    for i, found in zip(asked, concept.segment_all(dataset.photo(i) for i in asked), strict=True):
        truth = torch.from_numpy((dataset.mask(i) == class_id).astype("uint8"))
        counts += confusion(torch.from_numpy(found.mask) == 1, truth)
    queries = list(encode_queries(segmenter, dataset, asked, class_id))
    assert iou(segmenter, memory, queries) == pytest.approx(float(foreground_iou(counts)), abs=1e-3)


def test_a_budget_bounds_what_a_query_is_compared_with(dataset, class_id):
    segmenter = tiny_segmenter()
    how = {"counts": (1, 3, 4), "most_exact": 3, "budget": 8, "queries": 2}
    found = list(costs(segmenter, dataset, dataset, class_id, **how))
    assert [(one.examples, one.kind) for one in found] == [(1, EXACT), (3, EXACT), (3, BUDGETED), (4, BUDGETED)]
    assert [one.points for one in found] == [4, 12, 12, 16]  # 64² at stride 32
    assert [one.automatic for one in found] == [True, True, False, False]
    assert found[0].gp_bytes < found[1].gp_bytes
    assert all(0 <= one.iou <= 1 and 0 < one.gp_s < one.query_s and one.learn_s > 0 for one in found)
    with pytest.raises(Error, match="1000 examples are needed"):
        next(costs(segmenter, dataset, dataset, class_id, **{**how, "counts": (1000,)}))

"""Several ways of looking at a photograph, whose answers are averaged."""

import numpy as np
import pytest
import torch

from dgpnet.errors import Error
from dgpnet.segmenter import Calibration, Segmenter
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import prepare, read_examples
from dgpnet.segmenter.views import View, described, joined, look, look_in_tiles, restored
from tests.tiny import CONFIG, SIZE, scene, scenes, tiny_network, tiny_segmenter

LARGER = 2 * SIZE
QUERY = scene(50, (70, 90))[0]


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return tiny_segmenter(CONFIG.but(similarity=True))


@pytest.fixture(scope="module")
def views(segmenter) -> tuple[View, ...]:
    """Of two examples, at two sizes."""
    return tuple(view_at(segmenter, size) for size in (SIZE, LARGER))


def shots_at(segmenter: Segmenter, size: int, count: int = 2, first: int = 0):
    config = segmenter.network.config.but(size=size)
    (shots,), _ = read_examples(*scenes(count, first=first), ["it"], config)
    return shots


def view_at(segmenter: Segmenter, size: int, count: int = 2) -> View:
    return View(segmenter, size, segmenter.engine.at(size).remember(shots_at(segmenter, size, count)))


def maps_of(log_odds: list[list[float]]) -> Maps:
    odds = torch.tensor([log_odds])
    return Maps(odds, torch.rand(odds.shape[1:]), torch.rand(odds.shape))


def hot(temperature: float) -> View:
    """A view by a model of that temperature, which is all that averaging asks of it."""
    model = Segmenter(tiny_network(), calibration=Calibration(temperature=temperature))
    return View(model, SIZE, memory=None)


def test_log_odds_are_averaged_each_in_units_of_its_own_temperature():
    one, other = maps_of([[1.0, -2.0], [0.0, 4.0]]), maps_of([[3.0, 3.0], [-6.0, 0.0]])
    found = joined([one, other], [hot(2.0), hot(3.0)])
    by_hand = [[2 * (1 / 2 + 3 / 3) / 2, 2 * (-2 / 2 + 3 / 3) / 2], [2 * (0 - 6 / 3) / 2, 2 * (4 / 2 + 0) / 2]]
    torch.testing.assert_close(found.log_odds, torch.tensor([by_hand]))
    assert torch.equal(found.novelty, one.novelty) and torch.equal(found.likeness, one.likeness)


def test_what_is_averaged_has_the_resolution_of_the_finest():
    coarse, fine = maps_of([[2.0]]), maps_of([[0.0, 1.0], [2.0, -1.0]])
    found = joined([coarse, fine], [hot(1.0), hot(1.0)])
    torch.testing.assert_close(found.log_odds, (2.0 + fine.log_odds) / 2)
    assert found.novelty.shape == (2, 2) and found.likeness.shape == (1, 2, 2)


def test_one_view_says_what_it_says_and_a_bias_is_added_to_it():
    one = maps_of([[1.0, -2.0]])
    assert joined([one], [hot(2.0)]) is one
    assert torch.equal(joined([one], [hot(2.0)], 0.5).log_odds, one.log_odds + 0.5)
    both = joined([one, one], [hot(1.0), hot(1.0)], -1.0)
    torch.testing.assert_close(both.log_odds, one.log_odds - 1.0)


def test_looking_in_several_ways_is_looking_in_each(views):
    photo = prepare(QUERY, *(view.engine.config for view in views))
    (found,) = look(views, [photo], bias=0.25)
    each = [view.engine.maps(view.memory, [one])[0] for view, one in zip(views, photo.photos, strict=True)]
    assert [one.log_odds.shape[-1] for one in each] == [SIZE, LARGER]
    torch.testing.assert_close(found.log_odds, joined(each, views, 0.25).log_odds)


def test_a_photograph_no_larger_than_a_tile_is_seen_whole_and_a_larger_one_without_a_seam(views):
    small = scene(3, (SIZE, SIZE))[0]
    (whole,) = look(views, [prepare(small, *(view.engine.config for view in views))])
    assert torch.equal(look_in_tiles(views, small, [float(SIZE)]).log_odds, whole.log_odds)
    large = np.tile(small, (3, 4, 1))
    found = look_in_tiles(views, large, [float(SIZE)], bias=0.5)
    assert found.log_odds.shape == (1, 3 * SIZE, 4 * SIZE) and found.log_odds.isfinite().all()
    torch.testing.assert_close(found.log_odds, look_in_tiles(views, large, [float(SIZE)]).log_odds + 0.5)


def test_a_view_grows_and_shrinks_as_if_it_had_learned_so(segmenter):
    grown = view_at(segmenter, LARGER, 2).extended(shots_at(segmenter, LARGER, 3)[2:])
    whole = view_at(segmenter, LARGER, 3)
    photo = prepare(QUERY, grown.engine.config).photo
    for one, other in ((grown, whole), (whole.without(2), view_at(segmenter, LARGER, 2))):
        a, b = (view.engine.maps(view.memory, [photo])[0] for view in (one, other))
        torch.testing.assert_close(a.log_odds, b.log_odds, atol=1e-4, rtol=1e-4)


def test_what_a_file_tells_of_views_gives_them_back(segmenter, views):
    changed = {
        name: (p + 0.01).half().float() for name, p in segmenter.network.named_parameters() if name.startswith("dec")
    }
    better = segmenter.tuned(changed)
    several = (view_at(better, SIZE), view_at(better, LARGER), *views)
    told, tensors = described(several)
    assert [(one["size"], one["tuned"]) for one in told] == [
        (SIZE, True),
        (LARGER, True),
        (SIZE, False),
        (LARGER, False),
    ]
    assert [sum(name.startswith(f"{i}.tuned.") for name in tensors) > 0 for i in range(4)] == [
        True,
        False,
        False,
        False,
    ]
    back = restored(told, tensors, [segmenter])
    assert back[0].segmenter is back[1].segmenter and back[2].segmenter is segmenter
    photo = prepare(QUERY, *(view.engine.config for view in several))
    assert torch.equal(look(back, [photo])[0].log_odds, look(several, [photo])[0].log_odds)


def test_a_model_that_is_not_at_hand_is_said(views):
    told, tensors = described(views)
    with pytest.raises(Error, match=r"a further model .* not at hand; learn it again"):
        restored(told, tensors, [tiny_segmenter(seed=1)])

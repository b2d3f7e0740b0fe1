import numpy as np
import pytest
import torch

from dgpnet.annotations.outlines import parts
from dgpnet.errors import Error
from dgpnet.segmenter import load
from dgpnet.segmenter.propose import look, propose
from tests.tiny import CONFIG, scene, tiny_segmenter


@pytest.fixture(scope="module")
def small():
    """A trained network, which proposes something sensible."""
    return load("small", device="cpu")


def picture(size=(120, 160)):
    """Two discs of one colour on a shaded ground; a photograph (H, W, 3), and where each disc is."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    photo = np.stack([40 + columns // 4, 80 + rows // 4, np.full(size, 60)], -1).astype(np.uint8)
    discs = [(rows - y) ** 2 + (columns - x) ** 2 <= 22**2 for y, x in ((40, 40), (80, 120))]
    for disc in discs:
        photo[disc] = (220, 60, 50)
    return photo, discs


def iou(a, b):
    return np.count_nonzero(a & b) / np.count_nonzero(a | b)


def test_a_click_proposes_the_thing_that_it_is_on(small):
    photo, (left, right) = picture()
    seen = look(small, photo)
    for disc, point in ((left, (40, 40)), (right, (120, 80))):
        found = propose(small, seen, [point])
        assert found.shape == photo.shape[:2] and found.dtype == bool
        assert iou(found, disc) > 0.8


def test_looking_once_changes_nothing(small):
    photo, _ = picture()
    assert np.array_equal(propose(small, photo, [(40, 40)]), propose(small, look(small, photo), [(40, 40)]))


@pytest.mark.parametrize("resize", ["square", "pad"])
@pytest.mark.parametrize("seed", range(4))
def test_a_proposal_is_one_region_with_the_click_in_it(resize, seed):
    segmenter = tiny_segmenter(CONFIG.but(resize=resize), seed)
    photo, _ = scene(seed, (40, 72))
    found = propose(segmenter, photo, [(50, 9)])
    assert found[9, 50]
    assert len(list(parts(found))) == 1


def test_what_a_negative_click_is_on_is_left_out(small):
    photo, (left, right) = picture()
    seen = look(small, photo)
    both = propose(small, seen, [(40, 40), (120, 80)])
    assert iou(both, left | right) > 0.7
    one = propose(small, seen, [(40, 40), (120, 80, False)])
    assert not one[80, 120] and one[40, 40]
    assert iou(one, left) > 0.7


def test_a_stroke_is_many_points_and_stays(small):
    photo, (left, right) = picture()
    stroke = np.zeros(photo.shape[:2], bool)
    stroke[40, 30:50] = True
    stroke[80, 110:130] = True
    found = propose(small, photo, stroke=stroke)
    assert found[stroke].all()
    assert iou(found, left | right) > 0.7


def test_what_was_learned_takes_part(small):
    photo, (left, right) = picture()
    concept = small.learn([photo], [left | right], classes=["disc"])
    assert iou(propose(small, photo, [(40, 40)], concept=concept), left) > 0.85


@pytest.mark.parametrize(
    ("points", "stroke", "message"),
    [
        ([], None, "at least one positive"),
        ([(1, 1, False)], None, "at least one positive"),
        ([(1,)], None, "A point is"),
        ([(99, 1)], None, "x is a number from 0 to 64"),
        ([(1, float("nan"))], None, "y is a number"),
        ([(1, 1, "yes")], None, "positive is True or False"),
        ((1, 1), None, "A point is"),
        ([], np.zeros((3, 3), bool), "boolean array of the photograph's size"),
        ([], np.zeros((48, 64), bool), "at least one positive"),
    ],
)
def test_wrong_use_is_explained(points, stroke, message):
    with pytest.raises(Error, match=message):
        propose(tiny_segmenter(), scene(0)[0], points, stroke)


def test_another_models_eyes_and_memory_are_refused():
    photo, mask = scene(0)
    one, other = tiny_segmenter(), tiny_segmenter(seed=1)
    with pytest.raises(Error, match="another model"):
        propose(other, look(one, photo), [(1, 1)])
    with pytest.raises(Error, match="another model"):
        propose(other, photo, [(1, 1)], concept=one.learn([photo], [mask]))
    with pytest.raises(Error, match="label is a whole number, from 1 to 1"):
        propose(one, photo, [(1, 1)], concept=one.learn([photo], [mask]), label=2)


def test_a_click_holds_no_gradient(small):
    assert not any(one.requires_grad for one in look(small, picture()[0]).features.values())
    assert torch.is_grad_enabled()

import io
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dgpnet.annotations.legend import Legend
from dgpnet.network.graphs import Call, Graphs
from dgpnet.segmenter import segmentation
from dgpnet.segmenter.calibration import Belief, Calibration, Curve
from dgpnet.segmenter.kinship import Kinship
from dgpnet.segmenter.segmentation import EVERYTHING, Maps, Segmentation, enlarge, judge, resample
from dgpnet.segmenter.segmentation import render as render_on
from tests.replayed import Replayed


def maps(classes: int = 2, size: tuple[int, int] = (8, 12)) -> Maps:
    return Maps(3 * torch.randn(classes, *size), torch.rand(size), torch.rand(classes, *size))


def render(
    found: Maps,
    size: tuple[int, ...],
    calibration: Calibration,
    *,
    kin: Kinship | None = None,
    min_likeness: float = 0.0,
    **options: float,
) -> Segmentation:
    legend = Legend.of([f"class {c}" for c in range(1, len(found.log_odds) + 1)])
    photo = np.zeros((*size, 3), np.uint8)
    judged = judge([found], calibration, kin=kin, **options)
    return render_on([found], judged, [photo], legend, calibration, min_likeness=min_likeness, **options)[0]


#: Presence by likeness alone, above one half where that is above its kin's; quality by overlap alone, without a floor.
BELIEVING = Calibration(
    presence=Belief((0.0, 40.0, 0, 0, 0), (0.0, 40.0, 0, 0, 0)),
    quality=Belief((-8.0, 0, 0, 16, 0), (-8.0, 0, 0, 16, 0)),
)
KIN = Kinship(torch.tensor([0.5, 0.5]).double(), torch.ones(2).double(), torch.zeros(2).double())


def unlike(log_odds: float = 4.0) -> Maps:
    """Two classes, a half of the photograph each, of which the second is unlike its examples."""
    odds = torch.full((2, 8, 12), -log_odds)
    odds[0, :4], odds[1, 4:] = log_odds, log_odds
    likeness = torch.stack([torch.full((8, 12), 0.7), torch.full((8, 12), 0.3)])
    return Maps(odds, torch.rand(8, 12), likeness)


def test_a_class_that_is_probably_not_there_is_left_out_unless_all_is_to_be_kept():
    found, kept = (render(unlike(), (16, 24), BELIEVING, kin=KIN, keep_all=all_of_it) for all_of_it in (False, True))
    first, second = 1 / (1 + np.exp(-40 * 0.2)), 1 / (1 + np.exp(40 * 0.2))
    assert found.class_presence == kept.class_presence == pytest.approx((first, second), abs=1e-5)
    assert found.presence == pytest.approx(1 - (1 - first) * (1 - second))
    assert set(np.unique(found.mask)) == {0, 1} and set(np.unique(kept.mask)) == {1, 2}
    assert found.class_scores[1] == pytest.approx(1 - second, abs=1e-5)  # it is right to have nothing of it
    np.testing.assert_array_equal(found.probability, kept.probability)


def test_a_concepts_own_shift_moves_presence():
    shifted = Kinship(KIN.own, KIN.known, torch.tensor([-9.0, 9.0]).double())
    assert [p >= 0.5 for p in render(unlike(), (8, 12), BELIEVING, kin=shifted).class_presence] == [False, True]


def test_the_score_has_no_floor():
    scores = [judge([unlike(odds)], BELIEVING, kin=KIN, keep_all=True)[0].class_scores[0] for odds in (6.0, 1.0, 0.1)]
    assert scores[0] > 0.9 > scores[1] > scores[2]
    assert scores[2] < 0.1


def test_where_presence_is_not_known_it_is_taken_to_be_there():
    for calibration, kin in ((Calibration(), KIN), (BELIEVING, None)):
        found = render(unlike(), (8, 12), calibration, kin=kin)
        assert found.presence == 1 and set(np.unique(found.mask)) == {1, 2}


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30), st.integers(1, 30))
def test_resampling_rows_is_interpolating_the_whole(h, w, height, width):
    x = torch.randn(2, h, w, generator=torch.Generator().manual_seed(h + 10 * w))
    whole = F.interpolate(x[None], (height, width), mode="bilinear", align_corners=False)[0]
    middle = height // 2
    parts = [resample(x, (height, width), slice(0, middle)), resample(x, (height, width), slice(middle, height))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


def test_everything_has_the_size_and_type_it_promises():
    found = render(maps(), (31, 17), Calibration())
    assert found.mask.shape == found.uncertainty.shape == found.novelty.shape == (31, 17)
    assert found.probability.shape == (3, 31, 17)
    assert found.mask.dtype == np.uint8
    assert {found.probability.dtype, found.uncertainty.dtype, found.novelty.dtype} == {np.dtype(np.float32)}
    np.testing.assert_allclose(found.probability.sum(0), 1, atol=1e-5)
    np.testing.assert_array_equal(found.mask > 0, found.probability.argmax(0) > 0)
    assert 0 <= found.score <= 1


@pytest.mark.parametrize("threshold", [None, 0.2, 0.4, 0.7])
def test_neighbours_decide_which_class_a_pixel_has_but_never_whether_it_has_one(threshold):
    torch.manual_seed(0)
    given_maps, size = maps(classes=4, size=(24, 32)), (50, 40)
    found = render(given_maps, size, Calibration(1.3), threshold=threshold)
    background, *chances = found.probability
    probable = np.stack([chance > background if threshold is None else chance >= threshold for chance in chances])
    np.testing.assert_array_equal(found.mask > 0, probable.any(0))
    labelled = np.argwhere(found.mask > 0)
    assert all(probable[found.mask[y, x] - 1, y, x] for y, x in labelled)
    most = np.where(probable.any(0), 1 + np.argmax(chances, 0), 0)
    changed = (most != found.mask).mean()
    assert changed == 0 if threshold == 0.7 else changed > 0  # two cannot both have more than a half


def test_what_one_class_is_given_is_what_its_own_log_odds_say():
    given_maps = maps(classes=1)
    own = F.interpolate(given_maps.log_odds[None], (20, 30), mode="bilinear", align_corners=False)[0, 0]
    np.testing.assert_array_equal(render(given_maps, (20, 30), Calibration()).mask, (own > 0).numpy())


def test_bands_give_what_one_piece_gives(monkeypatch):
    given_maps = maps()
    whole = render(given_maps, (40, 50), Calibration())
    monkeypatch.setattr(segmentation, "BAND", 500)
    bands = render(given_maps, (40, 50), Calibration())
    for name in EVERYTHING:
        np.testing.assert_allclose(getattr(bands, name), getattr(whole, name), atol=1e-5)
    assert bands.score == pytest.approx(whole.score)


def test_numbers_describe_the_maps_at_their_own_size():
    given_maps = maps()
    (judged,) = judge([given_maps], Calibration())
    same = render(given_maps, given_maps.novelty.shape, Calibration())
    assert judged.score == same.score
    assert judged.mean_uncertainty == pytest.approx(float(same.uncertainty.mean()), rel=1e-5)
    assert judged.mean_novelty == pytest.approx(given_maps.novelty.mean().item(), rel=1e-5)
    np.testing.assert_allclose(judged.uncertainty / 255, same.uncertainty, atol=0.5 / 255 + 1e-6)


def test_likeness_is_that_of_what_was_found():
    given_maps = maps()
    label = render(given_maps, given_maps.novelty.shape, Calibration()).mask
    own = {c: [given_maps.likeness[c - 1, y, x].item() for y, x in np.argwhere(label == c)] for c in (1, 2)}
    (judged,) = judge([given_maps], Calibration())
    assert judged.likeness == pytest.approx(np.mean(own[1] + own[2]), rel=1e-5)
    assert judged.class_likeness == pytest.approx([np.mean(own[1]), np.mean(own[2])], rel=1e-5)
    (nothing,) = judge([given_maps], Calibration(), threshold=1.0)
    assert (nothing.likeness, nothing.class_likeness) == (1, (1, 1))


@pytest.mark.parametrize("threshold", [None, 0.7])
def test_photographs_are_judged_together_as_alone(monkeypatch, threshold):
    curve = Curve((0.0, 0.2, 1.0), (0.1, 0.5, 0.6))
    calibration = Calibration(1.5, Curve(), curve, curve)
    several = [maps(), maps(), maps(size=(9, 7)), maps()]
    alone = [judge([one], calibration, threshold=threshold)[0] for one in several]
    monkeypatch.setattr(segmentation, "BAND", 200)
    for one, together in zip(alone, judge(several, calibration, threshold=threshold), strict=True):
        np.testing.assert_array_equal(one.uncertainty, together.uncertainty)
        for name in ("score", "mean_uncertainty", "mean_novelty", "likeness"):
            assert getattr(one, name) == pytest.approx(getattr(together, name), rel=1e-5)


def test_only_what_is_kept_is_returned():
    given_maps = maps()
    some = enlarge(given_maps, (9, 9), Calibration(), keep=["mask"])
    assert some.keys() == {"mask"}
    np.testing.assert_array_equal(some["mask"], render(given_maps, (9, 9), Calibration()).mask)


def test_a_threshold_of_one_half_is_the_default_for_one_class_and_others_grow_or_shrink_the_mask():
    given_maps = maps(classes=1)
    areas = {t: render(given_maps, (40, 40), Calibration(), threshold=t).mask.sum() for t in (None, 0.1, 0.5, 0.9)}
    assert areas[None] == areas[0.5]
    assert areas[0.1] > areas[0.5] > areas[0.9]


def test_uncertainty_speaks_of_the_label_that_was_given():
    found = render(maps(classes=1), (16, 16), Calibration(), threshold=0.9)
    given = np.take_along_axis(found.probability, found.mask[None].astype(int), 0)[0]
    np.testing.assert_allclose(found.uncertainty, 1 - given, atol=1e-6)


def test_each_class_has_a_score_of_its_own_and_one_class_has_that_of_all():
    one, two = maps(1), maps(2)
    (alone,) = judge([one], Calibration())
    assert alone.class_scores == (alone.score,)
    (both,) = judge([two], Calibration())
    assert min(both.class_scores) <= both.score <= max(both.class_scores)


def test_a_class_that_is_too_unlike_is_left_out_of_the_mask_alone():
    given_maps = maps()
    kept = render(given_maps, (8, 12), Calibration())
    low, high = sorted(kept.class_likeness)
    found = render(given_maps, (8, 12), Calibration(), min_likeness=(low + high) / 2)
    gone = 1 + kept.class_likeness.index(low)
    np.testing.assert_array_equal(found.mask, np.where(kept.mask == gone, 0, kept.mask))
    np.testing.assert_array_equal(found.probability, kept.probability)
    assert found.score == kept.score


def test_it_says_what_it_is_in_one_line():
    found = render(maps(), (31, 17), Calibration())
    assert re.fullmatch(r"Segmentation\(17 × 31: class 1 [\d.]+%, class 2 [\d.]+%; score 0\.\d\d\)", repr(found))
    assert len(repr(render(maps(200), (8, 12), Calibration()))) < 200


def test_a_notebook_shows_the_photograph_with_what_was_found():
    large = render(maps(1), (1200, 900), Calibration())
    with Image.open(io.BytesIO(large._repr_png_())) as picture:
        assert picture.size == (600, 800)
    red = Legend(("mug",), (1,), ((255, 0, 0),))
    seen = [maps(1)]
    (found,) = render_on(seen, judge(seen, Calibration()), [np.zeros((8, 12, 3), np.uint8)], red, Calibration())
    drawn = np.asarray(found.overlay())
    assert drawn[..., 0].any() and not drawn[..., 1:].any()


@pytest.mark.parametrize("call", [Replayed, *([lambda: Graphs(8)] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("classes", [1, 2])
def test_judged_and_enlarged_by_a_graph_it_is_the_same(call: Callable[[], Call], classes: int) -> None:
    device = "cpu" if call is Replayed else "cuda"
    quick = call()
    curves = Calibration(
        1.3, Curve((0.1, 0.6), (0.2, 0.9)), Curve((0.2, 0.5), (0.1, 0.4)), Curve((0.3, 0.9), (0.2, 0.8))
    )
    believing = replace(curves, presence=BELIEVING.presence, quality=BELIEVING.quality)
    for round_ in range(3):
        for calibration in (curves, believing):
            for kin in (
                None,
                Kinship(*(part[:classes].to(device) for part in (KIN.own, KIN.known, KIN.shift + round_))),
            ):
                several = [maps(classes).each(lambda one: one.to(device)) for _ in range(3)]
                for options in ({}, {"threshold": 0.3}, {"keep_all": True}):
                    found = judge(several, calibration, kin=kin, call=quick, **options)
                    for one, other in zip(found, judge(several, calibration, kin=kin, **options), strict=True):
                        assert {**vars(one), "uncertainty": None} == {**vars(other), "uncertainty": None}
                        np.testing.assert_array_equal(one.uncertainty, other.uncertainty)
                for keep in (EVERYTHING, ["mask"], ["mask", "uncertainty"]):
                    for size in ((20, 30), (9, 30)):
                        given = enlarge(several[0], size, calibration, keep=keep, call=quick)
                        plain = enlarge(several[0], size, calibration, keep=keep)
                        assert list(given) == list(plain) and all(torch.equal(given[n], plain[n]) for n in plain)


def test_what_is_done_in_bands_is_never_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "BAND", 60)
    quick, given = Replayed(), maps()
    judge([given], Calibration(), call=quick)
    enlarge(given, (40, 30), Calibration(), call=quick)
    assert quick.calls == 0

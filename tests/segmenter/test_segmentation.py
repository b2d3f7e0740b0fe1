import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.segmenter import segmentation
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.segmentation import EVERYTHING, Maps, render, resample


def maps(classes: int = 2, size: tuple[int, int] = (8, 12)) -> Maps:
    return Maps(3 * torch.randn(classes, *size), torch.rand(size))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30), st.integers(1, 30))
def test_resampling_rows_is_interpolating_the_whole(h, w, height, width):
    x = torch.randn(2, h, w, generator=torch.Generator().manual_seed(h + 10 * w))
    whole = F.interpolate(x[None], (height, width), mode="bilinear", align_corners=False)[0]
    middle = height // 2
    parts = [resample(x, (height, width), slice(0, middle)), resample(x, (height, width), slice(middle, height))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


def test_everything_has_the_size_and_type_it_promises():
    found = render(maps(), (31, 17), Calibration()).segmentation()
    assert found.mask.shape == found.uncertainty.shape == found.novelty.shape == (31, 17)
    assert found.probability.shape == (3, 31, 17)
    assert found.mask.dtype == np.uint8
    assert {found.probability.dtype, found.uncertainty.dtype, found.novelty.dtype} == {np.dtype(np.float32)}
    np.testing.assert_allclose(found.probability.sum(0), 1, atol=1e-5)
    np.testing.assert_array_equal(found.mask, found.probability.argmax(0))
    assert 0 <= found.score <= 1


def test_bands_give_what_one_piece_gives(monkeypatch):
    given_maps = maps()
    whole = render(given_maps, (40, 50), Calibration())
    monkeypatch.setattr(segmentation, "BAND", 500)
    bands = render(given_maps, (40, 50), Calibration())
    for name in EVERYTHING:
        torch.testing.assert_close(getattr(bands, name), getattr(whole, name))
    assert bands.areas == whole.areas
    assert bands.score == pytest.approx(whole.score)
    assert bands.mean_uncertainty == pytest.approx(whole.mean_uncertainty)
    assert bands.mean_novelty == pytest.approx(whole.mean_novelty)


def test_numbers_describe_the_maps():
    given_maps = maps()
    found = render(given_maps, (20, 30), Calibration())
    assert found.areas == tuple(int((found.mask == c).sum()) for c in (1, 2))
    assert found.mean_uncertainty == pytest.approx(found.uncertainty.mean().item(), rel=1e-5)
    assert found.mean_novelty == pytest.approx(given_maps.novelty.mean().item(), rel=1e-5)


def test_only_what_is_kept_is_returned():
    given_maps = maps()
    all_of_it, some = (
        render(given_maps, (9, 9), Calibration()),
        render(given_maps, (9, 9), Calibration(), keep=["mask"]),
    )
    assert torch.equal(some.mask, all_of_it.mask)
    assert some.probability.numel() == some.uncertainty.numel() == some.novelty.numel() == 0
    assert some.score == all_of_it.score


def test_a_threshold_of_one_half_is_the_default_for_one_class_and_others_grow_or_shrink_the_mask():
    given_maps = maps(classes=1)
    areas = {t: render(given_maps, (40, 40), Calibration(), threshold=t).areas[0] for t in (None, 0.1, 0.5, 0.9)}
    assert areas[None] == areas[0.5]
    assert areas[0.1] > areas[0.5] > areas[0.9]


def test_uncertainty_speaks_of_the_label_that_was_given():
    found = render(maps(classes=1), (16, 16), Calibration(), threshold=0.9)
    torch.testing.assert_close(found.uncertainty, 1 - found.probability.gather(0, found.mask.long()[None])[0])

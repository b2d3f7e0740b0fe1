"""Classes that are coupled: level evidence gives way to its neighbourhood, clear evidence does not."""

import pytest
import torch

from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.coupling import CELLS, PULL, leaning
from dgpnet.segmenter.segmentation import Maps, enlarge, labels

SIZE = (96, 96)


def mask(log_odds: torch.Tensor) -> torch.Tensor:
    """At the size of the maps, as a photograph gets it."""
    maps = Maps(log_odds, torch.zeros(log_odds.shape[1:]), torch.zeros_like(log_odds))
    size = (log_odds.shape[1], log_odds.shape[2])
    return enlarge(maps, size, Calibration(), keep=["mask"])["mask"]


def disc() -> torch.Tensor:
    """(H, W) bool: one object in the middle."""
    y, x = torch.meshgrid(*(torch.arange(side) - side / 2 for side in SIZE), indexing="ij")
    return y**2 + x**2 < 30**2


def painted(first: torch.Tensor, evidence: float) -> torch.Tensor:
    """Log-odds (2, H, W): the disc is an object, whose pixels are said to be of the first class, or of the second, with
    so much between the two."""
    either = torch.where(disc(), 4.0, -4.0)
    more = torch.where(first, evidence, -evidence) / 2
    return torch.stack([either + more, either - more])


def test_speckles_in_one_object_become_one_label():
    torch.manual_seed(0)
    speckled = painted(torch.rand(SIZE) < 0.7, evidence=1.0)
    assert set(labels(speckled, Calibration(), None)[disc()].tolist()) == {1, 2}
    assert set(mask(speckled)[disc()].tolist()) == {1}
    assert (mask(speckled) > 0).equal(disc())


def test_a_border_that_the_evidence_is_clear_about_stays_where_it_is():
    top = torch.arange(SIZE[0])[:, None].expand(SIZE) < 45
    clear = painted(top, evidence=2 * PULL)
    assert mask(clear).equal(labels(clear, Calibration(), None))


def test_a_small_thing_with_clear_evidence_stays():
    small = torch.zeros(SIZE, dtype=torch.bool)
    small[50, 50] = True
    assert mask(painted(small, evidence=PULL + 0.1))[50, 50] == 1
    assert mask(painted(small, evidence=1.0))[50, 50] == 2


@pytest.mark.parametrize("shape", [(2, 1, 1), (3, 2, 500), (2, 700, 3), (5, 97, 64), (4, 3, 60, 90)])
def test_no_pixel_leans_further_than_the_pull_whatever_the_size(shape):
    torch.manual_seed(0)
    lean = leaning(6 * torch.randn(shape), Calibration(1.3))
    assert lean.shape[:-2] == shape[:-2] and max(lean.shape[-2:]) <= CELLS
    torch.testing.assert_close(lean.sum(0), torch.full(lean.shape[1:], PULL), atol=1e-3, rtol=0)
    assert lean.min() >= 0


def test_photographs_lean_together_as_alone():
    torch.manual_seed(0)
    several = 4 * torch.randn(3, 4, 60, 90)  # (C, N, h, w)
    together = leaning(several, Calibration(1.2))
    for n in range(4):
        torch.testing.assert_close(together[:, n], leaning(several[:, n], Calibration(1.2)), atol=1e-5, rtol=1e-5)


def test_classes_are_treated_alike():
    torch.manual_seed(0)
    odds = 4 * torch.randn(3, 50, 70)
    lean = leaning(odds, Calibration())
    torch.testing.assert_close(leaning(odds[[2, 0, 1]], Calibration()), lean[[2, 0, 1]], atol=1e-4, rtol=1e-4)

"""What training and fitting make small."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from dgpnet.loss import loss


def test_the_loss_is_pytorchs_weighted_mean() -> None:
    logits = torch.randn(3, 2, 8, 8)
    target = torch.randint(0, 2, (3, 8, 8)).to(torch.uint8)
    target[:, :2] = 255
    sums, weights = loss(logits, target)
    expected = F.cross_entropy(logits, target.long(), torch.tensor([1.0, 4.0]), ignore_index=255)
    torch.testing.assert_close(sums.sum() / weights.sum(), expected)
    for i in range(3):
        alone = F.cross_entropy(logits[i : i + 1], target[i : i + 1].long(), torch.tensor([1.0, 4.0]), ignore_index=255)
        torch.testing.assert_close(sums[i] / weights[i], alone)


def test_ignored_pixels_neither_count_nor_pull() -> None:
    logits = torch.randn(1, 2, 4, 4, requires_grad=True)
    sums, weights = loss(logits, torch.full((1, 4, 4), 255, dtype=torch.uint8), overlap=0.5)
    sums.sum().backward()
    assert weights.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_overlap_adds_one_minus_the_iou_of_each_episode() -> None:
    logits = torch.randn(3, 2, 8, 8, dtype=torch.float64)
    target = torch.randint(0, 2, (3, 8, 8)).to(torch.uint8)
    target[:, :2] = 255
    plain, weights = loss(logits, target, foreground=2.0)
    sums, same = loss(logits, target, foreground=2.0, overlap=0.7)
    torch.testing.assert_close(same, weights)
    for i in range(3):
        shared = either = 1.0
        pixels = zip(logits[i].flatten(1).T.tolist(), target[i].flatten().tolist(), strict=True)
        for (background, foreground), truth in pixels:
            if truth != 255:
                p = 1 / (1 + math.exp(background - foreground))
                shared, either = shared + p * truth, either + p + truth - p * truth
        expected = plain[i] / weights[i] + 0.7 * (1 - shared / either)
        torch.testing.assert_close(sums[i] / weights[i], expected, check_dtype=False)


def test_overlap_pulls_what_is_found_where_nothing_is() -> None:
    logits = torch.tensor([[-50.0, 0.0], [50.0, 0.0]]).view(1, 2, 1, 2).requires_grad_()
    sums, weights = loss(logits, torch.zeros(1, 1, 2, dtype=torch.uint8), overlap=0.5)
    torch.testing.assert_close(sums, 100 + math.log(2) + 0.5 * weights * (1 - 1 / torch.tensor([2.5])))
    sums.sum().backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all() and logits.grad[0, 1].gt(0).all()

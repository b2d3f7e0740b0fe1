"""What training and fitting make small."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.images import IGNORE


def loss(logits: Tensor, target: Tensor, *, foreground: float = 4.0, overlap: float = 0.0) -> tuple[Tensor, Tensor]:
    """Weighted cross-entropy as sum and weight, so that parts can be joined: Σ sums / Σ weights is PyTorch's mean.

    logits: (B, 2, H, W) float, background and foreground. target: (B, H, W) uint8, 0, 1 or 255 (ignored).
    Returns two (B,) float32: Σ w·CE and W = Σ w over the pixels of each episode, w = 1 or `foreground`. With `overlap`
    the former have overlap·W·(1 − J) added, J the episode's IoU of probabilities p: (Σ pt + 1) / (Σ (p + t − pt) + 1).
    """
    margin = logits[:, 1].float() - logits[:, 0].float()
    truth, valid = target == 1, target != IGNORE
    weight = torch.where(truth, foreground, 1.0) * valid
    entropy = F.softplus(torch.where(truth, -margin, margin))
    sums, weights = (weight * entropy).sum((1, 2)), weight.sum((1, 2))
    if overlap:
        found = margin.sigmoid() * valid
        shared = (found * truth).sum((1, 2))
        either = (found + truth).sum((1, 2)) - shared
        sums = sums + overlap * weights * (1 - (shared + 1) / (either + 1))
    return sums, weights

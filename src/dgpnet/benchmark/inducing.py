"""The choice of inducing points: in panels, as `gp.inducing` makes it, against one point after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dgpnet.benchmark.growth import clustered_features
from dgpnet.benchmark.timing import Effort, measure
from dgpnet.gp import Kernel, SquaredExponential
from dgpnet.gp.inducing import EXPLAINED, pivots
from dgpnet.gp.linalg import full_precision


@torch.no_grad()
def one_by_one(kernel: Kernel, x: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """`pivots` of points (S, D) as the textbook has it: look at all, take the one with most variance left, again."""
    left = kernel.diagonal(x).clone()
    floor = EXPLAINED * left.max()
    similarity = kernel.against(x)
    factor = left.new_zeros(min(budget, len(x)), len(x))
    chosen: list[int] = []
    while len(chosen) < len(factor):
        best = int(left.argmax())
        if chosen and left[best] <= floor:
            break
        known = factor[: len(chosen)]
        row = (similarity(x[best : best + 1])[:, 0] - known[:, best] @ known) / left[best].clamp(min=floor).sqrt()
        factor[len(chosen)] = row
        left = (left - row.square()).clamp(min=0)
        left[best] = 0
        chosen.append(best)
    return torch.tensor(chosen, device=x.device), left


def measured(*, points: int, budget: int, device: torch.device, effort: Effort, features: int = 512) -> dict[str, Any]:
    """Milliseconds of both, and the share of the prior variance that the points chosen by each leave unexplained."""
    kernel, x = SquaredExponential(features**0.5), clustered_features(points, features, device)[0]
    once = replace(effort, warmup=1)
    with full_precision(device):
        ours = measure(lambda: pivots(kernel, x, budget), device, effort)
        plain = measure(lambda: one_by_one(kernel, x, budget), device, once)
        (index, left), (expected, remains) = pivots(kernel, x, budget), one_by_one(kernel, x, budget)
    return {
        "points": points,
        "budget": budget,
        "ours_ms": ours,
        "naive_ms": plain,
        "ratio": plain / ours,
        "left": float(left.mean()),
        "naive_left": float(remains.mean()),
        "same": len(set(index.tolist()) & set(expected.tolist())) / len(expected),
    }

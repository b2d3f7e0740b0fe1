"""The Gaussian process alone against the size of its problem: time and memory of learning and of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dgpnet import pictures
from dgpnet.benchmark.timing import Effort, measure, peak_memory
from dgpnet.gp import GaussianProcess, Posterior, SquaredExponential
from dgpnet.network import PRESETS
from dgpnet.pictures import Picture, Series
from dgpnet.segmenter.engine import INDUCING_POINTS

#: Queries are those of the finer level, which has four times the points of the other.
STRIDE = 16
EXACT, INDUCING = "exact", "inducing"


def measured(
    *,
    shots: int,
    side: int,
    kind: str,
    device: torch.device,
    effort: Effort,
    features: int = 512,
    outputs: int = 64,
    window: int = 5,
) -> dict[str, Any]:
    """One point of a curve. `kind`: exact, or a budget of inducing points as the segmenter takes it."""
    support = shots * (side // PRESETS["paper"].support_stride) ** 2
    budget = INDUCING_POINTS if kind == INDUCING else None
    process = GaussianProcess(SquaredExponential(features**0.5)).to(device)
    x, y = clustered_features(support, features, device), torch.randn(1, support, outputs, device=device)
    grid = clustered_features((side // STRIDE) ** 2, features, device).unflatten(1, (side // STRIDE, side // STRIDE))
    posterior: list[Posterior] = []

    def learn() -> None:
        posterior[:] = [process.condition(x, y, budget=budget)]

    def ask() -> None:
        posterior[0].predict(grid, window)

    effort = replace(effort, warmup=0)  # counting memory warms up: the largest problems take seconds
    with torch.no_grad():
        learn_bytes = peak_memory(learn, device)
        learn_ms = measure(learn, device, effort)
        ask_bytes = peak_memory(ask, device)
        ask_ms = measure(ask, device, effort)
    return {
        "kind": kind,
        "shots": shots,
        "side": side,
        "support_points": support,
        "query_points": (side // STRIDE) ** 2,
        "learn_ms": learn_ms,
        "query_ms": ask_ms,
        "learn_bytes": learn_bytes,
        "query_bytes": ask_bytes,
    }


def clustered_features(count: int, features: int, device: torch.device) -> Tensor:
    """Points in a few clusters, as far apart as a trained network's: neither all alike nor all unrelated."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    centres = torch.randn(16, features, generator=generator)
    which = torch.randint(16, (count,), generator=generator)
    noise = torch.randn(count, features, generator=generator)
    return ((centres[which] + 0.3 * noise) * 0.15).to(device)[None]


#: What grows, and what is measured of it, as the plots label them.
AXES = {"shots": "examples", "side": "side of the photograph in pixels"}
MEASURES = {"ms": ("time", "milliseconds"), "bytes": ("memory", "GiB beyond the inputs")}


def plots(points: list[dict[str, Any]]) -> dict[str, Picture]:
    """Time and memory against shots and against the side of the photograph; memory only where it was counted."""
    drawn = {}
    for axis, x_label in AXES.items():
        for unit, (name, y_label) in MEASURES.items():
            series = _lines(points, axis, unit)
            if series:
                drawn[f"growth-{axis}-{name}"] = pictures.line_plot(
                    series,
                    title="The Gaussian process alone, one level",
                    x_label=x_label,
                    y_label=y_label,
                    log_x=True,
                    log_y=True,
                    x_ticks=sorted({x for one in series for x in one.x}),
                )
    return drawn


def plot_names(points: list[dict[str, Any]]) -> list[str]:
    """What `plots` gives, without drawing it."""
    pairs = ((axis, unit) for axis in AXES for unit in MEASURES)
    return [f"growth-{axis}-{MEASURES[unit][0]}" for axis, unit in pairs if _lines(points, axis, unit)]


def _lines(points: list[dict[str, Any]], axis: str, unit: str) -> list[Series]:
    chosen = [point for point in points if point["against"] == axis and "error" not in point]
    found = [_series(chosen, axis, f"{part}_{unit}", kind) for kind in (EXACT, INDUCING) for part in ("learn", "query")]
    return [one for one in found if one.y]


def _series(points: list[dict[str, Any]], axis: str, value: str, kind: str) -> Series:
    scale = 2.0**30 if value.endswith("bytes") else 1.0
    found = [(point[axis], point[value] / scale) for point in points if point["kind"] == kind and point.get(value)]
    label = f"{'learning' if value.startswith('learn') else 'a query'}, {kind}"
    return Series(label, [y for _, y in found], [x for x, _ in found], dashed=kind == INDUCING, emphasis=kind == EXACT)

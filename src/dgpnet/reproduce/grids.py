"""Qualitative figures: what networks make of the same episodes, side by side.

Episodes are the first of the test's own draw with as many different classes as there are, not chosen by their outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet import data, pictures, weights
from dgpnet.data.episodes import Episode
from dgpnet.evaluation.qualitative import binary, segment
from dgpnet.images import resize_photo
from dgpnet.pictures import Picture
from dgpnet.reproduce.tables import Grid
from dgpnet.segmenter import Calibration

DRAWN = 400
"""Episodes among which different classes are looked for."""
NESTED = (1, 5, 10)
"""Supports are shown in the groups that these shots add."""


def draw(grid: Grid, models: Sequence[Path], dataset: data.Dataset, device: torch.device) -> Picture:
    """The figure: `models` are the trained networks of the grid's models, `dataset` is cached at their size."""
    networks = [weights.load(path, device=device) for path in models]
    shots = max(model.shots for model in grid.models)
    episodes = varied(dataset, shots, grid.episodes)
    rows: list[list[Picture | None]] = []
    for episode in episodes:
        query = _photo(dataset, episode.query)
        row: list[Picture | None] = [*_supports(dataset, episode, shots), Image.fromarray(query)]
        doubt = np.zeros(query.shape[:2], np.float32)
        for network, model in zip(networks, grid.models, strict=True):
            mask, doubt = segment(network, dataset, episode, model.shots, Calibration())
            row.append(pictures.overlay(query, mask))
        if grid.uncertainty:
            row.append(pictures.heat_map(doubt, photo=query, high=0.5))
        row.append(_shown(dataset, episode.query, episode.class_id))
        rows.append(row)
    return pictures.grid(rows, columns=headings(grid), labels=[dataset.classes[e.class_id] for e in episodes])


def headings(grid: Grid) -> list[str]:
    """The columns: supports, query, each model's answer, the last one's uncertainty, the truth."""
    groups = _groups(max(model.shots for model in grid.models))
    names = [f"Support {first + 1}" + (f"-{last}" if last > first + 1 else "") for first, last in groups]
    answers = [model.title for model in grid.models]
    return [*names, "Query", *answers, *(["Uncertainty"] if grid.uncertainty else []), "Truth"]


def varied(dataset: data.Dataset, shots: int, count: int) -> list[Episode]:
    """The first `count` test episodes of seed 0 in which no class comes again before all others have come."""
    drawn = data.episodes(dataset, seed=0, indices=range(DRAWN), max_shots=shots)
    turns: dict[int, int] = {}
    ranked = []
    for number, episode in enumerate(drawn):
        turn = turns[episode.class_id] = turns.get(episode.class_id, -1) + 1
        ranked.append((turn, number, episode))
    return [episode for _, _, episode in sorted(ranked, key=lambda entry: entry[:2])[:count]]


def _groups(shots: int) -> list[tuple[int, int]]:
    """Supports first … last − 1 that each of the nested shots adds."""
    ends = [k for k in NESTED if k < shots] + [shots]
    return list(zip([0, *ends], ends, strict=False))


def _supports(dataset: data.Dataset, episode: Episode, shots: int) -> list[Picture]:
    drawn = [_shown(dataset, support, episode.class_id) for support in episode.supports[:shots]]
    return [pictures.mosaic(drawn[first:last], (480, 360)) for first, last in _groups(shots)]


def _shown(dataset: data.Dataset, photo: int, class_id: int) -> Picture:
    return pictures.overlay(_photo(dataset, photo), binary(dataset.mask(photo), class_id))


def _photo(dataset: data.Dataset, number: int) -> NDArray[np.uint8]:
    """The photograph in its own shape; a cache has it as a square."""
    return resize_photo(dataset.photo(number), dataset.size(number))

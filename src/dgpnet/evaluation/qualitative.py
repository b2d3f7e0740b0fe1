"""Pictures of episodes: supports, the query, what networks find in it and how sure they are, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet import data, pictures
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.data.episodes import Episode
from dgpnet.evaluation.measure import load, segmented
from dgpnet.images import IGNORE, resize_photo
from dgpnet.metrics import confusion, foreground_iou
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration

#: Supports are shown in the groups that these shots add.
NESTED = (1, 5, 10)
#: Width and height of what is put together or lettered: twice a cell's, which it is scaled to.
TILE = (480, 360)
#: Episodes among which different classes are looked for.
DRAWN = 400


@dataclass(frozen=True, eq=False)
class Contender:
    """A column of answers: its heading, the network that gives them, and how many supports it is given."""

    title: str
    network: DGPNet
    shots: int


def episode_grid(
    contenders: Sequence[Contender],
    dataset: Dataset,
    episodes: Sequence[Episode],
    *,
    calibration: Calibration | None = None,
    uncertainty: bool = True,
) -> pictures.Picture:
    """A row for each episode of a cached dataset. Columns: the supports, the query, what each contender finds in it
    with its IoU, the last one's uncertainty, and the truth."""
    most = max(one.shots for one in contenders)
    groups = list(pairwise([0, *(k for k in NESTED if k < most), most]))
    headings = [f"Support {first + 1}" + (f"-{last}" if last > first + 1 else "") for first, last in groups]
    headings += ["Query", *(one.title for one in contenders), *(["Uncertainty"] if uncertainty else []), "Truth"]
    rows = []
    for episode in episodes:
        supports = [_shown(dataset, number, episode.class_id) for number in episode.supports[:most]]
        row = [pictures.mosaic(supports[first:last], TILE) for first, last in groups]
        query, truth = _photo(dataset, episode.query), binary(dataset.mask(episode.query), episode.class_id)
        row.append(Image.fromarray(query))
        for one in contenders:
            found, doubt = segment(one.network, dataset, episode, one.shots, calibration or Calibration())
            iou = foreground_iou(confusion(torch.from_numpy(found == 1), torch.from_numpy(truth)).numpy())
            answer = pictures.mosaic([pictures.overlay(query, found)], TILE)  # cut to a cell before it is lettered
            row.append(pictures.caption(answer, f"IoU {100 * float(iou):.0f}"))
        if uncertainty:
            row.append(pictures.heat_map(doubt, photo=query, high=0.5))
        rows.append([*row, pictures.overlay(query, truth)])
    return pictures.grid(rows, columns=headings, labels=[dataset.classes[one.class_id] for one in episodes])


def varied_episodes(dataset: Dataset, shots: int, count: int) -> list[Episode]:
    """The first `count` test episodes of seed 0 in which no class comes again before all others have come; how well
    they come out has no part in it."""
    drawn = data.episodes(dataset, seed=0, indices=range(DRAWN), max_shots=shots)
    turns: dict[int, int] = {}
    ranked = []
    for number, episode in enumerate(drawn):
        turn = turns[episode.class_id] = turns.get(episode.class_id, -1) + 1
        ranked.append((turn, number, episode))
    return [episode for _, _, episode in sorted(ranked, key=lambda entry: entry[:2])[:count]]


@torch.inference_mode()
def segment(
    network: DGPNet, dataset: Dataset, episode: Episode, shots: int, calibration: Calibration
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Mask (H, W) in {0, 1} and uncertainty (H, W) of the query, at its own size."""
    device = next(network.parameters()).device
    network.eval()
    loaded = load(dataset, [episode], shots, pin=False).to(device)
    ((_, log_odds, _),) = segmented(network, loaded, [episode], shots, precision="float32", batch=1)
    mask = (log_odds > 0).long()
    uncertainty = calibration.uncertainty(calibration.probability(log_odds[None]), mask)
    return mask[0].byte().cpu().numpy(), uncertainty[0].cpu().numpy()


def binary(mask: NDArray[np.uint8], class_id: int) -> NDArray[np.uint8]:
    """A label mask with only this class: 0, 1 and 255."""
    return np.where(mask == IGNORE, mask, (mask == label_of(class_id)).astype(np.uint8))


def _shown(dataset: Dataset, number: int, class_id: int) -> pictures.Picture:
    return pictures.overlay(_photo(dataset, number), binary(dataset.mask(number), class_id))


def _photo(dataset: Dataset, number: int) -> NDArray[np.uint8]:
    """The photograph in its own shape; a cache has it as a square."""
    return resize_photo(dataset.photo(number), dataset.size(number))

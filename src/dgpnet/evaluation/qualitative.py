"""Pictures of episodes: supports, the query with its truth, what networks find in it, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet import pictures
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.data.episodes import Episode
from dgpnet.evaluation.measure import load, segmented
from dgpnet.images import IGNORE, resize_photo
from dgpnet.metrics import confusion, foreground_iou
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration

CELL = (240, 180)


def episode_grid(
    networks: Mapping[str, DGPNet],
    dataset: Dataset,
    episodes: Sequence[Episode],
    shots: Sequence[int],
    *,
    calibration: Calibration | None = None,
) -> pictures.Picture:
    """A row for each episode and number of shots. Columns: supports, query with truth, one for each network with its
    IoU, and the last network's uncertainty."""
    rows, labels = [], []
    for episode in episodes:
        for k in shots:
            rows.append(_row(networks, dataset, episode, k, calibration or Calibration()))
            labels.append(f"{dataset.classes[episode.class_id]}, {k} shot{'s' if k > 1 else ''}")
    columns = ["supports", "query", *networks, "uncertainty"]
    return pictures.grid(rows, columns=columns, labels=labels, cell=CELL)


def _row(
    networks: Mapping[str, DGPNet], dataset: Dataset, episode: Episode, shots: int, calibration: Calibration
) -> list[pictures.Picture]:
    supports = [
        pictures.overlay(_photo(dataset, i), binary(dataset.mask(i), episode.class_id))
        for i in episode.supports[:shots]
    ]
    query, truth = _photo(dataset, episode.query), binary(dataset.mask(episode.query), episode.class_id)
    row = [pictures.mosaic(supports, (2 * CELL[0], 2 * CELL[1])), pictures.overlay(query, truth)]
    doubt = np.zeros(truth.shape, np.float32)
    for network in networks.values():
        found, doubt = segment(network, dataset, episode, shots, calibration)
        iou = foreground_iou(confusion(torch.from_numpy(found == 1), torch.from_numpy(truth)).numpy())
        row.append(pictures.caption(pictures.overlay(query, found), f"IoU {100 * float(iou):.0f}"))
    return [*row, pictures.heat_map(doubt, photo=query, high=0.5)]


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


def _photo(dataset: Dataset, number: int) -> NDArray[np.uint8]:
    """The photograph in its own shape; a cache has it as a square."""
    return resize_photo(dataset.photo(number), dataset.size(number))

"""Whether the fast path costs any mIoU: the same episodes through it and through the listing done naively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from dgpnet import data
from dgpnet.benchmark import naive
from dgpnet.evaluation.measure import Network, load, measure
from dgpnet.metrics import IoU
from dgpnet.network import DGPNet
from dgpnet.network.fast import Predictor
from dgpnet.segmenter import Calibration

#: Episodes that are loaded at once.
UNIT = 256


def compared(
    network: DGPNet, predictor: Predictor, dataset: data.Dataset, drawn: Sequence[data.Episode], *, shots: int
) -> dict[str, Any]:
    """mIoU in percent of both paths on these episodes of `dataset`, which is cached at the network's size."""
    paths: dict[str, Network] = {"naive_miou": partial(naive.episode, network), "ours_miou": predictor.episode}
    miou = mious(paths, dataset, drawn, shots=shots, device=predictor.device)
    moved = miou["ours_miou"] - miou["naive_miou"]
    return {"shots": shots, "episodes": len(drawn), **miou, "moved": moved}


def mious(
    paths: Mapping[str, Network],
    dataset: data.Dataset,
    drawn: Sequence[data.Episode],
    *,
    shots: int,
    device: torch.device,
) -> dict[str, float]:
    """mIoU in percent of each path on these episodes of `dataset`, which is cached at the network's size."""
    scores = {name: IoU() for name in paths}
    with ThreadPoolExecutor(4) as readers:
        for first in range(0, len(drawn), UNIT):
            some = drawn[first : first + UNIT]
            loaded = load(dataset, some, shots, pin=False, executor=readers).to(device)
            for name, path in paths.items():
                found = measure(path, loaded, some, shots, calibration=Calibration())
                scores[name].update([episode.class_id for episode in some], found.counts.cpu().numpy())
    return {name: 100 * iou.compute(resamples=0).miou for name, iou in scores.items()}

"""Photographs without the object: what a network does with them, and which of its figures gives them away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from dgpnet.augment import normalise
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.data.episodes import Episode, absent_episodes
from dgpnet.evaluation.measure import load
from dgpnet.metrics import auroc
from dgpnet.network import DGPNet
from dgpnet.network.fast import Predictor
from dgpnet.segmenter.calibration import Calibration
from dgpnet.segmenter.segmentation import Judged, Maps, judge

#: A mask of less than this part of the photograph is as good as none.
QUIET = 0.005
#: Part of the photographs with the object that may be lost to be rid of some without it.
KEPT = 0.05
#: What is said of a photograph, so that more of it speaks for the object being there.
TELLING: dict[str, Callable[[Judged], float]] = {
    "score": lambda judged: judged.score,
    "likeness": lambda judged: judged.likeness,
    "novelty": lambda judged: -judged.mean_novelty,
}


def absent(
    network: DGPNet, dataset: Dataset, episodes: Sequence[Episode], calibration: Calibration, shots: Sequence[int]
) -> dict[str, dict[str, float]]:
    """For each number of shots, on photographs without the object: `quiet`, how many of 100 stay empty; `found`, the
    part of their pixels that is found, in percent; the AUROC of each figure for telling them from those that show it;
    and how many of 100 have less likeness than 95 % of those with the object."""
    result = {}
    for k in shots:
        there, lacking = (
            _judged(network, dataset, some, k, calibration)
            for some in (episodes, absent_episodes(dataset, episodes, seed=0))
        )
        if not (there and lacking):
            continue
        shares = [share for _, share in lacking]
        alike, unlike = ([judged.likeness for judged, _ in some] for some in (there, lacking))
        least = float(np.quantile(alike, KEPT))
        result[str(k)] = {
            "quiet": round(100 * float(np.mean([share < QUIET for share in shares])), 1),
            "found": round(100 * float(np.mean(shares)), 2),
            **{
                name: round(auroc_of(*([read(judged) for judged, _ in some] for some in (there, lacking))), 3)
                for name, read in TELLING.items()
            },
            "likeness that 95 % have": round(least, 2),
            "less than that": round(100 * float(np.mean(np.array(unlike) < least)), 1),
        }
    return result


@torch.inference_mode()
def _judged(
    network: DGPNet, dataset: Dataset, episodes: Sequence[Episode], shots: int, calibration: Calibration
) -> list[tuple[Judged, float]]:
    """What is said of each query with that many supports, and the part of its pixels that is found."""
    predictor = Predictor(network, graphs=False, dtype=torch.float32)
    result = []
    for episode in (e for e in episodes if len(e.supports) >= shots):
        loaded = load(dataset, [episode], shots, pin=False).to(predictor.device)
        rows = [loaded.place[n] for n in (*episode.supports[:shots], episode.query)]
        photos, masks = normalise(loaded.photos[rows]), loaded.masks[rows[:-1]] == label_of(episode.class_id)
        memory = predictor.learn(photos[None, :-1], masks[None, :, None].float())
        logits, novelty, likeness = predictor.answer(memory, photos[-1:])
        log_odds = (logits[:, :, 1] - logits[:, :, 0])[0]
        (judged,) = judge([Maps(log_odds, novelty[0], likeness[0])], calibration)
        result.append((judged, float((log_odds > 0).float().mean())))
    return result


def auroc_of(good: list[float], bad: list[float]) -> float:
    """How often one that is good lies above one that is bad."""
    values, place = np.unique([*bad, *good], return_inverse=True)
    parts = place[: len(bad)], place[len(bad) :]
    return auroc([np.bincount(part, minlength=len(values)) for part in parts])

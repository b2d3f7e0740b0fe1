"""Several classes at once: what lies together gets one label where the evidence is level.

Each class is decoded by itself, so that between two that look alike the larger log-odds may change from pixel to pixel.
A mean field couples them: a pixel leans towards the classes that its neighbourhood has, by at most PULL.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.segmenter.calibration import Calibration

#: Cells along the longer side of a photograph, in which neighbourhoods are told: 3 × 3 of them each.
CELLS = 48
#: What a neighbourhood that is all of one class adds to that class's log-odds; chosen in docs/results/classes.md.
PULL = 3.0
#: How often neighbours are asked, each time with what they were told before.
ROUNDS = 5
#: Keeps a division by nothing finite.
TINY = 1e-9


def leaning(log_odds: Tensor, calibration: Calibration, *, pull: float = PULL) -> Tensor:
    """log_odds: (C, …, h, w) -> (C, …, h', w') in [0, pull], at most CELLS a side: what to add to each class before
    they are compared, `pull` times its share of what the neighbourhood has of all of them."""
    height, width = log_odds.shape[-2:]
    longer = max(height, width)
    rows, columns = (min(side, max(1, round(side * CELLS / longer))) for side in (height, width))
    own = F.adaptive_avg_pool2d(log_odds, (rows, columns))
    most, lean = own.amax(0), torch.zeros_like(own)
    for _ in range(ROUNDS):
        sums = own + lean
        # The largest stays as large as it is: neighbours are told which class it is, not that more of it is there.
        chance = calibration.probability(sums - sums.amax(0) + most)[1:]
        around = F.avg_pool2d(chance, 3, 1, 1, count_include_pad=False)
        lean = pull * around / around.sum(0).clamp(min=TINY)
    return lean

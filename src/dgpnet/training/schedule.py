"""Learning rates as a pure function of the position: nothing to save, nothing to restore."""

import math

from dgpnet.training.config import TrainConfig


def rate_factor(step: int, config: TrainConfig) -> float:
    """What every learning rate is multiplied by at `step` (0 … iterations − 1).

    "step": 1, and `decay_factor` from the fraction `decay_at` of the run on. "cosine": half a cosine from 1 down to
    `decay_factor`. Both rise linearly over the fraction `warmup` of the run.
    """
    warmup = round(config.warmup * config.iterations)
    rise = min(1.0, (step + 1) / (warmup + 1))
    if config.schedule == "step":
        return rise * (config.decay_factor if step >= round(config.decay_at * config.iterations) else 1.0)
    progress = max(0, step - warmup) / max(1, config.iterations - warmup)
    return rise * (config.decay_factor + (1 - config.decay_factor) * 0.5 * (1 + math.cos(math.pi * progress)))


def average_weight(step: int, decay: float) -> float:
    """How much of the weights after `step` enters their moving average: 1 − decay, more while the average is young.

    A constant decay would leave the random start in the average of a short run.
    """
    return 1.0 - min(decay, (1 + step) / (10 + step))

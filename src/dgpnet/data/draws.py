"""Random numbers that are a function of their address: (seed, stream, index, slot) -> [0, 1).

A counter-based hash (SplitMix64) and not a generator with a state: whole batches are drawn at once in numpy, any
episode can be drawn without the ones before it, and the numbers are the same with every version of numpy.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

# One stream per purpose, so that the augmentation of an episode has nothing to do with its choice of photographs.
EVALUATION, TRAINING, AUGMENTATION, SHOTS, SYNTHETIC, TEXTURE, COMPOSITE, ABSENT, SIZES = range(9)

_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def uniform(seed: int, stream: int, index: ArrayLike, slots: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), float64 `(*index.shape, slots)`: `slots` of them for each element of `index` (int)."""
    key = _mix(np.array([seed & _MASK], np.uint64))
    key = _mix(key + np.uint64((stream + 1) * _STEP & _MASK))
    rows = _mix(key + np.asarray(index).astype(np.uint64)[..., None] * np.uint64(_STEP))
    columns = np.arange(1, slots + 1, dtype=np.uint64) * np.uint64(_STEP)
    return (_mix(rows + columns) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def distinct(draws: NDArray[np.float64], count: NDArray[np.int64], without: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ordered samples without replacement: row m has K different numbers of `range(count[m])`, none `without[m]`.

    draws: (M, K) in [0, 1); count, without: (M,). Returns (M, K); its first columns do not depend on K.
    """
    taken = without[:, None]
    chosen = np.empty(draws.shape, np.int64)
    for k in range(draws.shape[1]):
        # The r-th of those still free: step over each taken number in ascending order.
        r = (draws[:, k] * (count - 1 - k)).astype(np.int64)
        for column in taken.T:
            r += r >= column
        chosen[:, k] = r
        taken = np.sort(np.column_stack([taken, r]), axis=1)
    return chosen


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser; unsigned arithmetic wraps."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

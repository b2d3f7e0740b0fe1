"""Kernels and learners by the names that a configuration has for them: each is registered here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dgpnet.gp import Exponential, Kernel, Linear, SquaredExponential
from dgpnet.learners import GaussianLearner, Learner, NoLearner, PriorMask, Prototype

if TYPE_CHECKING:
    from dgpnet.network.config import Config

KERNELS: dict[str, Callable[[Config], Kernel]] = {
    "se": lambda c: SquaredExponential(c.length * c.features**0.5, variance=c.variance, trainable=c.trainable_kernel),
    "exponential": lambda c: Exponential(c.length * c.features**0.5, variance=c.variance, trainable=c.trainable_kernel),
    "linear": lambda c: Linear(variance=c.variance, trainable=c.trainable_kernel),
}
LEARNERS: dict[str, Callable[[Config], Learner]] = {
    "gp": lambda c: GaussianLearner(KERNELS[c.kernel](c), noise=c.noise, window=c.window),
    "prototype": lambda c: Prototype(),
    "prior": lambda c: PriorMask(),
    "none": lambda c: NoLearner(),
}

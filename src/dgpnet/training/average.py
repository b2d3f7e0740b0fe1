"""A moving average of the weights: smoother than the weights themselves, and what is kept at the end."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Average:
    """Exponential moving average of everything in the network that is a floating-point number.

    The running statistics of BatchNorm are averaged too: they belong to the weights that made them.
    """

    def __init__(self, network: nn.Module) -> None:
        self._live = {k: v for k, v in network.state_dict().items() if v.is_floating_point()}
        self._mean = {k: v.clone(memory_format=torch.preserve_format) for k, v in self._live.items()}
        self._weight = torch.zeros((), device=next(iter(self._live.values())).device)

    def set_weight(self, weight: float) -> None:
        """How much of the weights the next `update` takes in, 0 … 1."""
        self._weight.fill_(weight)

    @torch.no_grad()
    def update(self) -> None:
        """mean ← mean + weight · (now − mean), in a few kernels over all tensors and without the host."""
        mean, live = list(self._mean.values()), list(self._live.values())
        change = torch._foreach_sub(live, mean)
        torch._foreach_mul_(change, self._weight)
        torch._foreach_add_(mean, change)

    def tensors(self) -> dict[str, Tensor]:
        """The averages by name: the live tensors, not copies."""
        return dict(self._mean)

"""One training step: render, forward, backward, update. Static shapes, and never a word to the host inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dgpnet.augment import render
from dgpnet.data.episodes import Batch
from dgpnet.images import IGNORE
from dgpnet.loss import loss
from dgpnet.training.average import Average
from dgpnet.training.config import TrainConfig
from dgpnet.training.optimiser import Optimiser
from dgpnet.training.processes import mean

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.wrappers import _FabricModule

#: Columns of what a step returns, a row an episode; the norm of the whole gradient is the same in all.
METRICS = ("loss", "weight", "intersection", "union", "gradient")


class Inputs(NamedTuple):
    """What one step reads: E episodes of K shots that point into a store of photographs."""

    photos: Tensor
    """(N, 3, s, s) uint8."""
    masks: Tensor
    """(N, s, s) uint8 labels, 255 ignore."""
    indices: Tensor
    """(E, K + 1) int64 into photos and masks: the supports in order, the query last."""
    class_id: Tensor
    """(E,) int64."""
    parameters: Tensor
    """(E, K + 1, P) float32: how each photograph is flipped, cropped and coloured."""
    size: int
    """S, the side of the views."""

    def of(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """Other episodes that point into the same photographs."""
        return self._replace(
            indices=change(self.indices), class_id=change(self.class_id), parameters=change(self.parameters)
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All but the size."""
        return self.photos, self.masks, self.indices, self.class_id, self.parameters


def views(inputs: Inputs, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """Photographs (E, K + 1, 3, S, S) float32 and masks (E, K + 1, S, S) uint8 of the episodes."""
    episodes = Batch(inputs.indices, inputs.class_id, inputs.parameters)
    plain = config.plain_views and inputs.size == inputs.photos.shape[-1]
    photos, masks = render(inputs.photos, inputs.masks, *episodes.flat(), inputs.size, plain=plain)
    return photos.unflatten(0, inputs.indices.shape), masks.unflatten(0, inputs.indices.shape)


def forward(network: nn.Module, photos: Tensor, masks: Tensor, config: TrainConfig) -> Tensor:
    """Logits (E, 2, S, S) of the queries, which are last; ignore pixels of a support count as background."""
    # Every weight is used once a step: a cache of its casts would gain nothing, and cannot be captured.
    with torch.autocast(photos.device.type, torch.bfloat16, enabled=config.precision == "bf16", cache_enabled=False):
        logits: Tensor = network(photos[:, :-1], (masks[:, :-1] == 1).float(), photos[:, -1])
    return logits


def forward_backward(network: nn.Module, inputs: Inputs, config: TrainConfig) -> Tensor:
    """Adds the gradient of the *sum* of the loss over E episodes to the gradients of the network's parameters.

    Returns (E, 4) float32, the first four columns of `METRICS`: sum and weight of the loss, intersection and union of
    the foreground.
    """
    photos, masks = views(inputs, config)
    target = masks[:, -1]
    logits = forward(network, photos, masks, config)
    sums, weights = loss(logits, target, foreground=config.foreground, overlap=config.overlap)
    sums.sum().backward()
    found, truth, valid = logits[:, 1] > logits[:, 0], target == 1, target != IGNORE
    intersection, union = (found & truth).sum((1, 2)), ((found | truth) & valid).sum((1, 2))
    return torch.stack([sums.detach(), weights, intersection.float(), union.float()], dim=1)


class Stepper(Protocol):
    """Runs whole training steps."""

    def run(self, inputs: Inputs) -> Tensor:
        """One update from this process's E episodes; returns (E, 5) `METRICS`, on the device and not yet awaited."""
        ...


class EagerStepper:
    """The step as it is written, anywhere: CPU or GPU, one process or several, gradients accumulated or not.

    `network` is what `fabric.setup_module` returned. Gradients are those of the loss summed over all parts and
    processes, divided by the weight of all their pixels: however the episodes are split, the update is the same.
    """

    def __init__(
        self, fabric: Fabric, network: _FabricModule, optimiser: Optimiser, average: Average | None, config: TrainConfig
    ) -> None:
        self.fabric, self.network, self.config = fabric, network, config
        self.optimiser, self.average = optimiser, average

    def run(self, inputs: Inputs) -> Tensor:
        self.optimiser.forget_gradients()
        metrics = self.accumulate(inputs)
        return self.update(metrics)

    def accumulate(self, inputs: Inputs) -> Tensor:
        """Gradients of the summed loss, averaged over processes; returns (E, 4) metrics of this process's episodes."""
        parts = self.config.accumulate
        rows = []
        for i in range(parts):
            piece = inputs.of(lambda tensor, i=i: tensor.chunk(parts)[i])  # type: ignore[misc]
            # Processes exchange gradients once, with the last part.
            with self.fabric.no_backward_sync(self.network, enabled=i < parts - 1):
                rows.append(forward_backward(self.network, piece, self.config))
        return torch.cat(rows)

    @torch.no_grad()
    def update(self, metrics: Tensor) -> Tensor:
        """Divides, clips, takes AdamW's step unless something is not finite, updates the average."""
        total = mean(self.fabric, metrics[:, :2].sum(0))
        weight = total[1].clamp(min=1.0)  # a batch that is ignored everywhere has no gradient to divide
        gradients = [p.grad for p in self.optimiser.parameters.values() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        # g / max(W, ‖g‖ / clip) is g / W with its norm cut to `clip`.
        divisor = torch.maximum(weight, norm / self.config.clip) if self.config.clip else weight
        broken = ~(torch.isfinite(total[0]) & torch.isfinite(norm))
        self.optimiser.step(divisor, skip=broken.float())
        if self.average is not None:
            self.average.update()
        return torch.cat([metrics, (norm / weight).expand(len(metrics), 1)], dim=1)

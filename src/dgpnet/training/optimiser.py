"""AdamW over named, ordered groups, so that a resumed run attaches its state to the right tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dgpnet.errors import Error

ENCODER, PROJECTION = "encoder.body.", "encoder.project."


@dataclass(frozen=True)
class Group:
    """Parameters that share a learning rate: their names in the order of the network, and the rate before any decay."""

    name: str
    rate: float
    parameters: tuple[str, ...]


def parameter_groups(network: nn.Module, *, encoder: float, projection: float, rest: float) -> tuple[Group, ...]:
    """The groups `encoder`, `projection` and `rest` of what the network trains; an empty group is left out."""
    names = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
    groups = (
        Group("encoder", encoder, tuple(n for n in names if n.startswith(ENCODER))),
        Group("projection", projection, tuple(n for n in names if n.startswith(PROJECTION))),
        Group("rest", rest, tuple(n for n in names if not n.startswith((ENCODER, PROJECTION)))),
    )
    return tuple(group for group in groups if group.parameters)


class Optimiser:
    """PyTorch's fused AdamW with learning rates that live on the device, where a captured graph can read them.

    Its state exists from the start (zeros), so that a checkpoint before the first step is as complete as any other.
    """

    def __init__(self, network: nn.Module, groups: Sequence[Group], *, weight_decay: float) -> None:
        named = dict(network.named_parameters())
        device = next(iter(named.values())).device
        self.groups = tuple(groups)
        self.parameters = {name: named[name] for group in groups for name in group.parameters}
        self.rates = [torch.tensor(group.rate, dtype=torch.float32, device=device) for group in groups]
        settings = [
            {"name": group.name, "lr": rate, "params": [named[name] for name in group.parameters]}
            for group, rate in zip(groups, self.rates, strict=True)
        ]
        self.adamw = torch.optim.AdamW(
            settings, lr=self.rates[0], weight_decay=weight_decay, fused=True, capturable=device.type == "cuda"
        )
        for parameter in self.parameters.values():
            self.adamw.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }

    def set_rates(self, factor: float) -> None:
        """Learning rates for the next step: each group's own, times the schedule's factor."""
        for group, rate in zip(self.groups, self.rates, strict=True):
            rate.fill_(group.rate * factor)

    def forget_gradients(self) -> None:
        """Drops all gradients; the backward pass then hands its own over instead of adding to zeros."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self, divisor: Tensor, skip: Tensor) -> None:
        """One update with every gradient divided by `divisor` (), or none at all where `skip` () is 1; both float32.

        Division and decision happen inside the fused kernel (the door that gradient scalers use): no further pass
        over the gradients and no word to the host.
        """
        self.adamw.grad_scale, self.adamw.found_inf = divisor, skip  # type: ignore[attr-defined]
        self.adamw.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state by name, `<parameter>.step|exp_avg|exp_avg_sq`: the live tensors, not copies."""
        return {
            f"{name}.{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.adamw.state[parameter].items()
        }

    def describe(self) -> list[dict[str, object]]:
        """The groups for a checkpoint: name, rate and parameters, in order."""
        return [{"name": g.name, "rate": g.rate, "parameters": list(g.parameters)} for g in self.groups]

    def require(self, described: object) -> None:
        """Refuses a checkpoint whose groups are not these."""
        if described != self.describe():
            raise Error(
                "The checkpoint's optimiser groups are not this network's;"
                " continue with the configuration it was made with, or start in a new folder."
            )

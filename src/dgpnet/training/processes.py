"""One process or several: starting them, and adding up what they found."""

from __future__ import annotations

import logging
import os
from typing import cast

from lightning_fabric import Fabric
from torch import Tensor

from dgpnet import processor
from dgpnet.devices import find_device
from dgpnet.errors import Error
from dgpnet.training.config import TrainConfig


def launch(config: TrainConfig, device: str) -> Fabric:
    """One process on the device, or as many as `torchrun` started."""
    chosen = find_device(device)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if config.episodes % (world * config.accumulate):
        raise Error(
            f"{config.episodes} episodes a step do not split into {world} processes × {config.accumulate} parts;"
            f" set episodes to a multiple of {world * config.accumulate}."
        )
    one = chosen.index if chosen.type == "cuda" else None
    if world > 1 and one is not None:
        raise Error(f"{world} processes take a GPU each: give cuda as the device, not {chosen}.")
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=chosen.type,
        devices=local if one is None else [one],
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        precision="32-true",  # autocast belongs to the step, where a captured graph needs it its own way
    )
    if config.precision == "bf16" and fabric.device.type == "cpu":
        processor.require_half()
    fabric.launch()
    return fabric


def gather(fabric: Fabric, tensor: Tensor) -> Tensor:
    """(…) of each process -> (processes, …) in all of them."""
    return cast(Tensor, fabric.all_gather(tensor.to(fabric.device))).view(fabric.world_size, *tensor.shape)


def mean(fabric: Fabric, tensor: Tensor) -> Tensor:
    """The mean over processes, in all of them."""
    return tensor if fabric.world_size == 1 else cast(Tensor, fabric.all_reduce(tensor, reduce_op="mean"))

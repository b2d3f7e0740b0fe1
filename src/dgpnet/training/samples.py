"""What the network makes of a few training episodes, as one picture."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from dgpnet import pictures
from dgpnet.augment import NONE
from dgpnet.data.dataset import Dataset
from dgpnet.images import MEAN, STD
from dgpnet.network import DGPNet
from dgpnet.training.config import TrainConfig
from dgpnet.training.source import Store, batch_at
from dgpnet.training.step import forward, views

#: Episodes in the picture.
ROWS = 4


@torch.no_grad()
def sample_picture(network: DGPNet, dataset: Dataset, store: Store, config: TrainConfig) -> Image:
    """The first episodes of the run without augmentation: first support, query with its true mask, query as found.

    The network is left in training mode, and nothing of it is changed.
    """
    config = dataclasses.replace(config, augmentation=NONE, self_episodes=0.0, absent=0.0, sizes=(), cache_size=0)
    batch = batch_at(dataset, config, 0)[:ROWS]
    photos, masks = views(store.inputs(batch, config.network.size), config)
    network.eval()
    logits = forward(network, photos, masks, config)
    network.train()
    found = logits[:, 1] > logits[:, 0]
    rows = [
        [_shown(photos[i, 0], masks[i, 0]), _shown(photos[i, -1], masks[i, -1]), _shown(photos[i, -1], found[i])]
        for i in range(len(batch))
    ]
    names = [dataset.classes[int(class_id)] for class_id in batch.class_id]
    return pictures.grid(rows, columns=["support", "query, true", "query, found"], labels=names, cell=(240, 240))


def _shown(photo: Tensor, mask: Tensor) -> Image:
    """Normalised photo (3, H, W) and mask (H, W) as an overlay."""
    mean, std = (torch.tensor(values, device=photo.device)[:, None, None] for values in (MEAN, STD))
    colours = ((photo * std + mean) * 255).round().clamp(0, 255).byte().permute(1, 2, 0)
    return pictures.overlay(colours.cpu().numpy(), mask.cpu().numpy().astype(np.uint8))

"""Training works: a network that has never seen a class finds it from three examples."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from dgpnet import data, metrics, weights
from dgpnet.augment import NONE
from dgpnet.network import Config, DGPNet
from dgpnet.training import Running, Source, TrainConfig, train
from dgpnet.training.run import build_network

SHOTS, SIZE, EPISODES = 3, 128, 120
OPTIONS: dict[str, Any] = {"photographs": 300, "objects": 2}
NETWORK = Config(encoder="tiny", features=48, encodings=8, decoder_width=16, size=SIZE)
RECIPE = TrainConfig(
    sources=(Source("synthetic", fold=0, options=OPTIONS),),
    network=NETWORK,
    shots=(SHOTS,),
    iterations=200,
    episodes=4,
    projection="principal",
    rate=4e-3,
    encoder_rate=4e-3,
    projection_rate=4e-3,
    schedule="cosine",
    warmup=0.1,
)


class _Everything(torch.nn.Module):
    """Chance: with no idea of the class, calling every pixel the class is the best constant answer."""

    def forward(self, supports: torch.Tensor, masks: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.zeros_like(query[:, 0]), torch.ones_like(query[:, 0])], dim=1)


@torch.no_grad()
def _held_out(network: torch.nn.Module, cache: Path) -> float:
    """mIoU on classes of fold 0, which training leaves out."""
    dataset = data.build("synthetic", fold=0, split="test", size=SIZE, cache=cache, **OPTIONS)
    photos, masks = dataset.tensors()
    network.eval()
    found = metrics.IoU()
    for start in range(0, EPISODES, 20):
        batch = data.sample(dataset, 7, range(start, start + 20), SHOTS, augmentation=NONE)
        views, labels = data.render(photos, masks, *batch.flat(), plain=True)
        views, labels = views.unflatten(0, batch.index.shape), labels.unflatten(0, batch.index.shape)
        logits = network(views[:, :-1], (labels[:, :-1] == 1).float(), views[:, -1])
        found.update(batch.class_id.numpy(), metrics.confusion(logits[:, 1] > logits[:, 0], labels[:, -1]).numpy())
    return found.compute(resamples=1).miou


def _trained(learner: str, running: Running, out: Path) -> DGPNet:
    config = dataclasses.replace(RECIPE, network=NETWORK.but(learner=learner))
    return weights.load(train(config, out / learner, running))


def test_training_finds_classes_never_seen_and_the_gp_leads(cache: Path, tmp_path: Path) -> None:
    running = Running(device="cpu", cache=cache, quiet=True, pictures_every=0)
    untrained = _held_out(build_network(RECIPE, torch.device("cpu")), cache)
    chance = _held_out(_Everything(), cache)
    gp, prototype, none = (_held_out(_trained(name, running, tmp_path), cache) for name in ("gp", "prototype", "none"))
    scores = {"gp": gp, "prototype": prototype, "none": none, "untrained": untrained, "chance": chance}
    assert gp > 0.57, scores
    assert gp > prototype + 0.05, scores
    assert max(none, untrained, chance) < 0.53, scores

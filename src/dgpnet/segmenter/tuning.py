"""Training the small parts of a network, decoder and mask encoder, on the examples themselves.

Each example is in turn the query of the others, or of all, in several views. The image encoder is not trained, so every
view goes through it once; a step is then a Gaussian process, the decoder, and back.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.augment import DRAWS, Augmentation, draw_parameters, identity, render
from dgpnet.images import IGNORE
from dgpnet.loss import loss
from dgpnet.network import DGPNet
from dgpnet.segmenter.engine import learned_from, said
from dgpnet.segmenter.support import Shot

#: How a query differs from the photograph: a little nearer or farther, turned, in other light.
VIEWS = Augmentation(
    frame=0.7,
    scale=(0.7, 1.05),
    aspect=1.1,
    rotate=5.0,
    colour=0.5,
    brightness=0.15,
    contrast=0.15,
    saturation=0.15,
    hue=5.0,
)
#: Views that go through the encoder in all, and of one example at least and at most.
ENCODED, FEWEST, MOST = 48, 2, 4
#: Steps; AdamW's rate, which rises for WARMUP of them and then falls to END of itself, and how far back it looks.
STEPS, RATE, WARMUP, END, BETAS = 40, 1e-4, 10, 0.1, (0.9, 0.99)
#: The weights of the loss, as in training.
FOREGROUND, OVERLAP = 2.0, 0.5
#: Part of the steps whose query lacks the class, where there are such photographs.
ABSENT = 0.2
#: Part of the steps whose query is another view of an example that is learned from, too: what others tell nothing of is
#: no reason then to find it everywhere.
AMONG = 0.5
#: Parts of the network that are tuned.
PARTS = ("decoder", "mask_encoder")

Weights = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Encoding:
    """One view of an example: features {stride: (1, D, h, w)}, labels (H, W) uint8: 0, 1 … C, or 255 for ignore."""

    features: Mapping[int, Tensor]
    labels: Tensor


class Tuner:
    """K examples of one size; `tune` trains on any of them. What is never asked for is never encoded."""

    def __init__(self, network: DGPNet, shots: Sequence[Shot], *, seed: int = 0) -> None:
        """shots: square, as networks with `resize` "square" take them."""
        self.network = network
        self.device = next(network.parameters()).device
        self.classes = shots[0].masks.shape[0]
        self.shown = [shot.origin.shown for shot in shots]
        self._each = max(FEWEST, min(MOST, ENCODED // len(shots)))
        rng = np.random.default_rng(seed)
        self._shots = list(shots)
        self._labels = [_labels(shot) for shot in shots]
        self._drawn = [self._draw(labels, rng) for labels in self._labels]
        self._encoded: dict[tuple[int, int], Encoding] = {}

    @property
    def examples(self) -> int:
        """K."""
        return len(self._shots)

    def _draw(self, labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
        """Parameters of an example's views, the first of which is the example as it is."""
        drawn = [identity(1)]
        for _ in range(self._each - 1):
            drawn.append(draw_parameters(VIEWS, rng.random((1, DRAWS)), _anchor(labels, rng), labels.shape[0]))
        return np.concatenate(drawn).astype(np.float32)

    @torch.no_grad()
    def encoding(self, example: int, view: int = 0) -> Encoding:
        """A view of an example; 0 is the example as it is."""
        if (example, view) not in self._encoded:
            photo = torch.from_numpy(self._shots[example].photo).permute(2, 0, 1)[None].to(self.device)
            store = torch.from_numpy(self._labels[example])[None].to(self.device)
            parameters = torch.from_numpy(self._drawn[example][view : view + 1]).to(self.device)
            index = torch.zeros(1, dtype=torch.long, device=self.device)
            photos, masks = render(photo, store, index, None, parameters)
            self._encoded[example, view] = Encoding(self.network.encoder(photos), masks[0])
        return self._encoded[example, view]

    def tune(self, examples: Sequence[int]) -> Tuning:
        """Training on these examples, at least two; done a step at a time by whoever goes through it."""
        return Tuning(self, examples)

    def loss(self, network: DGPNet, examples: Sequence[int], query: int, rng: np.random.Generator) -> Tensor:
        """Of one view of the query, learned from the others as they are, or from all."""
        among = rng.random() < AMONG
        known = [i for i in examples if among or i != query]
        support = [self.encoding(i) for i in known]
        asked = self.encoding(query, int(rng.integers(int(among), self._each)))
        label = self._class(query, known, rng)
        features = {s: torch.cat([one.features[s] for one in support]) for s in asked.features}
        masks = torch.stack([one.labels == label for one in support])[None, :, None].float()
        points = network.support_points(features, masks)
        memory = learned_from(network.learn_points, said(network, points, [self._shots[i] for i in known]))
        logits = network.decode(asked.features, network.maps(memory, asked.features), 1)[:, 0]
        target = torch.where(asked.labels == IGNORE, IGNORE, (asked.labels == label).byte())[None]
        sums, weights = loss(logits, target.to(torch.uint8), foreground=FOREGROUND, overlap=OVERLAP)
        return (sums / weights.clamp(min=1.0)).sum()

    def _class(self, query: int, support: Sequence[int], rng: np.random.Generator) -> int:
        """Which class is asked for, 1 … C: one that the query shows, and now and then one that it lacks."""
        known = [any(shown) for shown in zip(*(self.shown[i] for i in support), strict=True)]
        here = [c for c, shown in enumerate(self.shown[query], 1) if shown and known[c - 1]]
        lacking = [c for c, shown in enumerate(self.shown[query], 1) if not shown and known[c - 1]]
        pool = lacking if not here or (lacking and rng.random() < ABSENT) else here
        return int(rng.choice(pool or range(1, self.classes + 1)))


class Tuning:
    """STEPS steps of training on some of a tuner's examples; going through it makes them."""

    def __init__(self, tuner: Tuner, examples: Sequence[int]) -> None:
        self._tuner, self._examples = tuner, list(examples)
        self._network = copy.deepcopy(tuner.network).requires_grad_(False)
        self._tuned = {
            f"{part}.{name}": p.requires_grad_()
            for part in PARTS
            if (module := getattr(self._network, part)) is not None
            for name, p in module.named_parameters()
        }
        self._start = {name: p.detach().clone() for name, p in self._tuned.items()}

    def __iter__(self) -> Iterator[int]:
        """The number of steps that were made, after each."""
        optimiser = torch.optim.AdamW(self._tuned.values(), lr=RATE, betas=BETAS, weight_decay=0.0)
        rng = np.random.default_rng(self._examples)
        queries: list[int] = []
        for step in range(STEPS):
            queries = queries or rng.permutation(self._examples).tolist()
            for group in optimiser.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / WARMUP) * (1 - (1 - END) * step / STEPS)
            optimiser.zero_grad(set_to_none=True)
            self._tuner.loss(self._network, self._examples, queries.pop(), rng).backward()
            optimiser.step()
            yield step + 1

    def weights(self, share: float) -> Weights:
        """What was tuned so far, drawn towards the network as it was: 0 is that network, 1 all that was tuned.

        In numbers that half precision has, so that a file holds what is used.
        """
        return {
            name: torch.lerp(self._start[name], p.detach(), share).half().float() if share else self._start[name]
            for name, p in self._tuned.items()
        }


def _labels(shot: Shot) -> NDArray[np.uint8]:
    """(H, W) uint8: 0, 1 … C, 255 ignore."""
    labels = np.zeros(shot.ignore.shape, np.uint8)
    for c, mask in enumerate(shot.masks, 1):
        labels[mask] = c
    labels[shot.ignore] = IGNORE
    return labels


def _anchor(labels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32] | None:
    """A pixel (1, 2) in [-1, 1] of something that was painted, which stays in view; None where nothing was."""
    rows, columns = np.nonzero((labels > 0) & (labels != IGNORE))
    if not len(rows):
        return None
    i = int(rng.integers(len(rows)))
    size = labels.shape[0]
    return np.array([[(2 * columns[i] + 1) / size - 1, (2 * rows[i] + 1) / size - 1]], np.float32)

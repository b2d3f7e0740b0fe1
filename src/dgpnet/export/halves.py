"""The two halves of a network as functions of tensors: photographs and masks to what is learned, and that with a
photograph to what is seen. What is learned crosses from one to the other as named tensors, its `State`."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from dgpnet.files import atomic
from dgpnet.learners import Learned, LearnedSimilarity, Similarity
from dgpnet.learners.gaussian import LearnedGaussian
from dgpnet.learners.nothing import LearnedNothing
from dgpnet.network import DGPNet, Memory, Points
from dgpnet.segmenter import Concept
from dgpnet.segmenter.segmentation import Maps

#: What a learned state is: tensors by name. All have 1 in front; "….weights" are (1, points, classes, encodings).
State = dict[str, Tensor]


def state_of(memory: Memory) -> State:
    """What queries read, as the query half takes it: of many points for plain similarity, those that are compared."""
    found = {}
    for name, one in memory.learned.items():
        for key, tensor in _thinned(one).state().items():
            found[f"{name}.{key}"] = tensor.unflatten(-1, (memory.classes, -1)) if key == "weights" else tensor
    return found


def write_state(concept: Concept, path: str | os.PathLike[str]) -> None:
    """Write what was learned to an .npz file: arrays by the names that an exported query half takes."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in state_of(concept.memory).items()}
    with atomic(os.fspath(path)) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


def _thinned(one: Learned) -> Learned:
    if isinstance(one, LearnedSimilarity) and isinstance(one.learner, Similarity):
        x, m = one.some(Similarity.MOST)
        return replace(one, x=x, m=m)
    return one


class QueryHalf(nn.Module):
    """photographs (1, 3, H, W) and a learned state -> `Maps`: log_odds (1, C, H, W), novelty (1, H, W) and likeness
    (1, C, H, W).

    memory: one of the network, of which the state takes the place.
    """

    def __init__(self, network: DGPNet, memory: Memory) -> None:
        super().__init__()
        self.network, self.memory = network, memory

    def forward(self, photographs: Tensor, state: State) -> tuple[Tensor, ...]:
        return tuple(Maps.of(self.network.look(self._known(state), photographs)))

    def _known(self, state: State) -> Memory:
        flat = {name: t.flatten(2) if name.endswith(".weights") else t for name, t in state.items()}
        counted = [t.shape[2] for name, t in state.items() if name.endswith((".weights", ".m"))]
        classes = counted[0] if counted else self.memory.classes
        memory = self.memory.with_state(flat)
        learned: dict[str, Learned] = {}
        for name, one in memory.learned.items():
            if isinstance(one, LearnedGaussian):
                learned[name] = replace(one, classes=state[f"{name}.weights"].shape[2])
            else:
                learned[name] = replace(one, classes=classes) if isinstance(one, LearnedNothing) else one
        return replace(memory, learned=learned, classes=classes)


class BakedHalf(nn.Module):
    """The query half that has its state in it."""

    def __init__(self, query: QueryHalf, state: State) -> None:
        super().__init__()
        self.query = query
        self.names = list(state)
        for i, tensor in enumerate(state.values()):
            self.register_buffer(f"state_{i}", tensor)

    def forward(self, photographs: Tensor) -> tuple[Tensor, ...]:
        state = {name: self.get_buffer(f"state_{i}") for i, name in enumerate(self.names)}
        found: tuple[Tensor, ...] = self.query(photographs, state)
        return found


class SupportHalf(nn.Module):
    """photographs (K, 3, H, W) and masks (K, C, H, W), 1 where the class is and 0 elsewhere -> the learned state."""

    def __init__(self, network: DGPNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, photographs: Tensor, masks: Tensor) -> State:
        points = self.network.support_points(self.network.encoder(photographs), masks[None])
        # As if one photograph had all the points: what is learned is the same, and how many there were is not asked.
        branches = {name: (_in_one(x), _in_one(y)) for name, (x, y) in points.branches.items()}
        points = Points(branches, 1, points.classes)
        return {
            name: t.unflatten(-1, (masks.shape[1], -1)) if name.endswith(".weights") else t
            for name, t in self.network.learn_points(points).state().items()
        }


def _in_one(points: Tensor) -> Tensor:
    """(B, K, P, …) -> (B, 1, K · P, …)."""
    return points.flatten(1, 2)[:, None]

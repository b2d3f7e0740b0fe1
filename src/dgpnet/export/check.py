"""Whether an exported network says what the network says: on a photograph, before anybody relies on it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.export.halves import State, state_of
from dgpnet.images import read_photo, resize_photo
from dgpnet.network import DGPNet, Memory
from dgpnet.segmenter import Concept
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import as_input

#: What log-odds may differ by, and the part of all pixels whose labels must be equal.
TOLERANCE, EQUAL = 1e-3, 0.999
#: Photographs that come with scikit-image: two to learn from, one to look at.
BUNDLED = ("coffee.png", "chelsea.png", "astronaut.png")

#: An exported half: arrays by name in, arrays by name out.
Half = Callable[[Mapping[str, NDArray[np.float32]]], dict[str, NDArray[np.float32]]]


@dataclass(frozen=True)
class Parity:
    """How far an exported network is from PyTorch's, on one size of photographs.

    log_odds    largest difference
    labels      part of all pixels whose labels are equal
    state       largest difference of the learned state from one computed in float64, over its largest value, and
    own_state   the same of PyTorch's in float32; None where the state was not learned by the exported half
    """

    height: int
    width: int
    photograph: str
    log_odds: float
    labels: float
    state: float | None = None
    own_state: float | None = None

    def require(self) -> Parity:
        """Itself; an Error where it is too far."""
        if not (self.log_odds <= TOLERANCE and self.labels >= EQUAL):
            raise Error(
                f"At {self.height}×{self.width} the exported network's log-odds differ by {self.log_odds:.2g} from "
                f"PyTorch's (allowed {TOLERANCE:g}) and {self.labels:.3%} of the labels are equal (wanted "
                f"{EQUAL:.1%}): nothing was written; try other versions of torch, onnx and onnxruntime."
            )
        return self

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def checked(network: DGPNet, runs: Mapping[str, Half], concept: Concept | None, size: tuple[int, int]) -> Parity:
    """How far the exported halves, by name, are from the network; an Error where it is too far."""
    if concept is None:
        return check_halves(network, runs["support"], runs["query"], size).require()
    return check_query(network, concept.memory, runs["query"], size).require()


def check_halves(network: DGPNet, support: Half, query: Half, size: tuple[int, int]) -> Parity:
    """Learn two classes from two photographs and look at a third, by both halves and by the network."""
    photos, name = photographs(size)
    masks = _masks(2, size)
    found = support({"photographs": photos[:2].numpy(), "masks": masks.numpy()})
    with torch.no_grad():
        memory = network.learn(photos[None, :2], masks[None])
        exact = state_of(copy.deepcopy(network).double().learn(photos[None, :2].double(), masks[None].double()))
    seen = query({"photographs": photos[2:].numpy(), **found})
    learned = {key: torch.from_numpy(value) for key, value in found.items()}
    errors = [_error(state, exact) for state in (learned, state_of(memory))]
    return _parity(network, memory, photos[2:], seen["log_odds"], name, *errors)


def check_query(network: DGPNet, memory: Memory, query: Half, size: tuple[int, int]) -> Parity:
    """Look at a photograph with what was learned, by the exported half that has it in it and by the network."""
    photos, name = photographs(size)
    return _parity(network, memory, photos[2:], query({"photographs": photos[2:].numpy()})["log_odds"], name)


def _parity(
    network: DGPNet, memory: Memory, photo: Tensor, found: NDArray[np.float32], name: str, *errors: float
) -> Parity:
    with torch.no_grad():
        expected = Maps.of(network.answer(memory, photo)).log_odds.numpy()
    equal = float((_labels(found) == _labels(expected)).mean())
    height, width = photo.shape[-2:]
    return Parity(height, width, name, float(np.abs(found - expected).max()), equal, *errors)


def _labels(log_odds: NDArray[np.float32]) -> NDArray[np.int64]:
    """(1, C, H, W) -> (1, H, W): 0 where no class is more probable than the background."""
    labels: NDArray[np.int64] = np.where(log_odds.max(1) > 0, log_odds.argmax(1) + 1, 0)
    return labels


def _error(found: State, exact: State) -> float:
    """The largest difference of any tensor, over the largest value of that tensor."""
    return max(float((found[name] - t).abs().max() / t.abs().max().clamp(min=1e-12)) for name, t in exact.items())


def photographs(size: tuple[int, int]) -> tuple[Tensor, str]:
    """Three photographs (3, 3, H, W) as the network takes them, and what they are: scikit-image's where it is
    installed, rendered ones otherwise."""
    package = find_spec("skimage")
    folder = Path(package.origin).parent / "data" if package is not None and package.origin else None
    if folder is not None and all((folder / name).is_file() for name in BUNDLED):
        photos: Sequence[NDArray[np.uint8]] = [read_photo(folder / name) for name in BUNDLED]
        what = f"scikit-image's {BUNDLED[-1]}"
    else:
        photos, what = [_rendered(seed, size) for seed in range(len(BUNDLED))], "rendered"
    return as_input([resize_photo(photo, size) for photo in photos], torch.device("cpu")), what


def _rendered(seed: int, size: tuple[int, int]) -> NDArray[np.uint8]:
    """(H, W, 3): blurred noise, which has edges, colours and textures of all scales."""
    rng = np.random.default_rng(seed)
    layers = [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in (3, 9, 33, 129)]
    photo: NDArray[np.uint8] = np.mean([resize_photo(layer, size) for layer in layers], axis=0).astype(np.uint8)
    return photo


def _masks(classes: int, size: tuple[int, int]) -> Tensor:
    """Masks (2, C, H, W) of discs beside each other."""
    y, x = np.ogrid[: size[0], : size[1]]
    discs = [
        (y / size[0] - 0.5) ** 2 + (x / size[1] - (c + 1) / (classes + 1)) ** 2 < (0.35 / classes) ** 2
        for c in range(classes)
    ]
    return torch.from_numpy(np.stack([discs, discs])).float()

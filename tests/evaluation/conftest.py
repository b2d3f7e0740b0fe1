"""A tiny network and a handful of odd-sized photographs, cached."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dgpnet import data
from dgpnet.data.dataset import Dataset
from dgpnet.network.config import Config
from dgpnet.network.dgpnet import DGPNet

SIDE = 64


class Discs(Dataset):
    """Coloured discs of three classes on grey, photographs of several sizes, with ignored rims."""

    def __init__(self, photographs: int = 12) -> None:
        self.photographs = photographs
        pairs = [(i, 1 + i % 3) for i in range(photographs)] + [(i, 1 + (i + 1) % 3) for i in range(photographs)]
        super().__init__("discs", {1: "red", 2: "green", 3: "blue"}, pairs)

    def __len__(self) -> int:
        return self.photographs

    def size(self, i: int) -> tuple[int, int]:
        return [(50, 70), (80, 61), (50, 70), (64, 64)][i % 4]

    def mask(self, i: int) -> np.ndarray:
        height, width = self.size(i)
        rows, columns = np.mgrid[:height, :width]
        mask = np.zeros((height, width), np.uint8)
        for label, place in ((1 + i % 3, 0.3), (1 + (i + 1) % 3, 0.7)):
            away = np.hypot(rows - height * place, columns - width * place)
            mask[away < 15] = 255
            mask[away < 12] = label
        return mask

    def photo(self, i: int) -> np.ndarray:
        mask = self.mask(i)
        photo = np.random.default_rng(i).integers(90, 160, (*mask.shape, 3)).astype(np.uint8)
        for label in (1, 2, 3):
            photo[mask == label, label - 1] = 230
        return photo

    def path(self, i: int) -> str:
        return f"disc-{i}.png"

    def fingerprint(self) -> str:
        return f"{self.photographs:064x}"


@pytest.fixture(scope="session")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The discs, cached at 64 × 64."""
    return data.cached(Discs(), SIDE, tmp_path_factory.mktemp("cache"), workers=1)


@pytest.fixture(scope="session")
def network() -> DGPNet:
    """A small untrained network."""
    return tiny_network()


def tiny_network(seed: int = 0) -> DGPNet:
    torch.manual_seed(seed)
    config = Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=SIDE)
    network = DGPNet(config).eval()
    # Spread the logits, so that masks are neither empty nor full.
    with torch.no_grad():
        for parameter in network.decoder.parameters():
            parameter.mul_(2)
    return network


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results.json.parts"

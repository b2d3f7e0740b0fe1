"""Small datasets, in memory and on disk."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dgpnet.data.dataset import Dataset, Pair


class Toy(Dataset):
    """Photographs of one colour each, with masks given as arrays (H, W); pairs are what the masks show."""

    def __init__(self, masks: list[NDArray[np.uint8]], class_first: bool = False, name: str = "toy") -> None:
        self.masks = masks
        pairs: list[Pair] = [(i, int(c)) for i, m in enumerate(masks) for c in np.unique(m) if 0 < c < 255]
        super().__init__(name, {c: f"class-{c}" for c in sorted({c for _, c in pairs})}, pairs, class_first=class_first)
        self.reads = 0

    def __len__(self) -> int:
        return len(self.masks)

    def photo(self, i: int) -> NDArray[np.uint8]:
        self.reads += 1
        return np.random.default_rng(i).integers(0, 256, (*self.masks[i].shape, 3), np.uint8)

    def mask(self, i: int) -> NDArray[np.uint8]:
        return self.masks[i]

    def path(self, i: int) -> str:
        return f"{self.name}/{i}.jpg"

    def fingerprint(self) -> str:
        return f"{self.name:_<32}{len(self)}"


@pytest.fixture
def toy() -> Callable[..., Toy]:
    """toy({class: photographs}): masks of 4 × 6 pixels, one class each."""

    def make(counts: dict[int, int], **options: object) -> Toy:
        masks = [np.full((4, 6), c, np.uint8) for c, n in counts.items() for _ in range(n)]
        return Toy(masks, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def toy_of() -> type[Toy]:
    """Toy datasets of given masks."""
    return Toy


@pytest.fixture
def save() -> Callable[..., None]:
    """save(path, array): an image file, folders made."""

    def write(path: Path, array: NDArray[np.uint8]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(path)

    return write


@pytest.fixture
def own_set(tmp_path: Path, save: Callable[..., None], rng: np.random.Generator) -> Path:
    """images/ + masks/ + classes.json: six photographs of 20 × 30 with mugs (1) and spoons (2)."""
    root = tmp_path / "kitchen"
    for n in range(6):
        save(root / "images" / f"{n}.png", rng.integers(0, 256, (20, 30, 3), np.uint8))
        mask = np.zeros((20, 30), np.uint8)
        mask[:, :15] = 1
        mask[:, 18 : 18 + 2 * n] = 2
        mask[0] = 255
        save(root / "masks" / f"{n}.png", mask)
    (root / "classes.json").write_text(json.dumps({"1": "mug", "2": "spoon"}))
    return root

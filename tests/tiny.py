"""The smallest network that has every part, and photographs to go with it."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet import weights
from dgpnet.network import Config, DGPNet
from dgpnet.segmenter import Segmenter

SIZE = 64
CONFIG = Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=SIZE)


def tiny_network(config: Config = CONFIG, seed: int = 0) -> DGPNet:
    """Untrained, always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return DGPNet(config).eval()


def tiny_segmenter(config: Config = CONFIG, seed: int = 0) -> Segmenter:
    return Segmenter(tiny_network(config, seed), dtype=torch.float32)


def tiny_checkpoint(path: Path, config: Config = CONFIG, seed: int = 0) -> Path:
    weights.save(path, tiny_network(config, seed))
    return path


def scene(seed: int, size: tuple[int, int] = (48, 64), classes: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A photograph (H, W, 3) of noise with one coloured rectangle for each class, and its mask (H, W)."""
    rng = np.random.default_rng(seed)
    height, width = size
    photo = rng.integers(0, 120, (height, width, 3), dtype=np.uint8)
    mask = np.zeros(size, np.uint8)
    colours = [(250, 60, 40), (40, 80, 250), (60, 240, 60)]
    for c in range(classes):
        y, x = rng.integers(0, height // 2), rng.integers(0, width // 2)
        photo[y : y + height // 3, x : x + width // 3] = colours[c % 3]
        mask[y : y + height // 3, x : x + width // 3] = c + 1
    return photo, mask


def scenes(count: int, *, first: int = 0, classes: int = 1) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]]:
    """Photographs of different sizes, and their masks."""
    pairs = [scene(first + i, (48 + 4 * i, 64), classes) for i in range(count)]
    return [photo for photo, _ in pairs], [mask for _, mask in pairs]


def write_support(folder: Path, count: int = 2, classes: int = 1) -> Path:
    """A folder of images/ and masks/."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for i, (photo, mask) in enumerate(zip(*scenes(count, classes=classes), strict=True)):
        Image.fromarray(photo).save(folder / "images" / f"{i}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{i}.png")
    return folder


def write_photos(folder: Path, count: int, size: tuple[int, int] = (40, 56)) -> Path:
    """A folder of JPEGs, some of them in a folder of their own."""
    (folder / "more").mkdir(parents=True)
    for i in range(count):
        where = folder / "more" if i % 3 == 2 else folder
        Image.fromarray(scene(100 + i, size)[0]).save(where / f"{i:04}.jpg", quality=90)
    return folder

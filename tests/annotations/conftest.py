"""Small photographs and masks to annotate."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

Photo = Callable[..., Path]
Blobs = Callable[..., NDArray[np.uint8]]


@pytest.fixture
def photo(tmp_path: Path) -> Photo:
    """photo("images/a.jpg", (H, W), orientation=6) writes a photograph of stored size (H, W) below tmp_path."""

    def write(name: str, size: tuple[int, int], orientation: int = 1) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0112] = orientation
        noise = np.random.default_rng(sum(size)).integers(0, 255, (*size, 3), np.uint8)
        Image.fromarray(noise).save(path, exif=exif)
        return path

    return write


@pytest.fixture
def blobs(rng: np.random.Generator) -> Blobs:
    """blobs((H, W), classes, ignore=True): a mask of several parts with holes, every class and ignore in it."""

    def draw(size: tuple[int, int], classes: int = 2, ignore: bool = False) -> NDArray[np.uint8]:
        height, width = size
        field = np.kron(rng.normal(size=(-(-height // 5), -(-width // 5))), np.ones((5, 5)))[:height, :width]
        field += 0.7 * rng.normal(size=size)
        values = [*range(classes + 1), *([255] if ignore else [])]
        edges = np.quantile(field, np.linspace(0, 1, len(values) + 1)[1:-1])
        return np.array(values, np.uint8)[np.digitize(field, edges)]

    return draw

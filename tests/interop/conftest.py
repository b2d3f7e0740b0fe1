"""Scenes to write and read, and the table of what came back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dgpnet.annotations import Item, Legend

Mask = NDArray[np.uint8]
#: Numbers and colours that no tool would choose by itself.
LEGEND = Legend(("mug", "tea spoon"), (3, 1), ((10, 200, 30), (200, 60, 3)), unused=((2, "fork"),))
#: Parts smaller than this are not judged in outlines.
LEAST = 40


@dataclass(frozen=True)
class Row:
    """What one tool made of one format: an IoU for each photograph and class."""

    tool: str
    format: str
    direction: str
    ious: list[float]


@dataclass
class Table:
    rows: list[Row] = field(default_factory=list)

    def add(self, tool: str, format_: str, direction: str, found: dict[str, Mask], masks: dict[str, Mask]) -> float:
        """found, masks: by the photographs' names, 0, 1 … C, 255. Returns the least IoU of a class in a photograph."""
        assert sorted(found) == sorted(masks)
        ious = [
            float(((found[name] == value) & (mask == value)).sum() / union)
            for name, mask in masks.items()
            for value in range(1, len(LEGEND.names) + 1)
            if (union := ((found[name] == value) | (mask == value)).sum())
        ]
        self.rows.append(Row(tool, format_, direction, ious))
        return min(ious)

    def lines(self) -> Iterator[str]:
        yield "| tool | version | format | | least IoU | mean IoU |"
        yield "|---|---|---|---|---|---|"
        for row in sorted(self.rows, key=lambda row: (row.direction, row.tool, row.format)):
            version = metadata.version(row.tool)
            least, mean = min(row.ious), np.mean(row.ious)
            yield f"| {row.tool} | {version} | {row.format} | {row.direction} | {least:.3f} | {mean:.3f} |"


_TABLE = pytest.StashKey[Table]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = Table()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[_TABLE].lines() if config.stash[_TABLE].rows else ():
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> Table:
    return request.config.stash[_TABLE]


def _scene(seed: int, size: tuple[int, int], radius: float, count: int) -> Mask:
    """Wavy parts of two classes, every third with a hole, some touching one another and the border."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(size, np.uint8)
    y, x = np.mgrid[: size[0], : size[1]]
    for number in range(count):
        cy, cx = rng.uniform(0, size[0]), rng.uniform(0, size[1])
        angle, distance = np.arctan2(y - cy, x - cx), np.hypot(y - cy, x - cx)
        reach = radius * rng.uniform(0.6, 1.4) * (1 + 0.2 * np.sin(rng.integers(3, 8) * angle + rng.uniform(0, 6)))
        mask[(distance < reach) & (distance > (number % 3 == 0) * 0.4 * reach)] = 1 + number % 2
    return _without_specks(mask)


def _without_specks(mask: Mask) -> Mask:
    from dgpnet.annotations import outlines

    for value in (1, 2):
        for top, left, pixels in outlines.parts(mask == value):
            if pixels.sum() < LEAST:
                mask[top : top + pixels.shape[0], left : left + pixels.shape[1]][pixels] = 0
    return mask


@pytest.fixture(scope="session")
def masks() -> dict[str, Mask]:
    """Small parts (40 pixels and more) to large ones, holes, neighbours, one photograph with nothing on it."""
    return {
        "small.png": _scene(1, (90, 121), 5, 40),
        "middle.png": _scene(2, (240, 200), 18, 25),
        "large.png": _scene(3, (480, 640), 60, 12),
        "empty.png": np.zeros((33, 44), np.uint8),
    }


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, masks: dict[str, Mask]) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name, mask in masks.items():
        Image.new("RGB", mask.shape[::-1], "grey").save(folder / name)
    return folder


@pytest.fixture(scope="session")
def items(masks: dict[str, Mask]) -> list[Item]:
    return [Item(name, mask, score=0.5) for name, mask in masks.items()]

"""A studio with the smallest network, and a client that speaks to it through a real connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.tiny import scene, tiny_segmenter

httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("fastapi", reason="the studio extra is not installed")

from dgpnet.segmenter import Segmenter  # noqa: E402
from dgpnet.serving import Access, Guard, serving  # noqa: E402
from dgpnet.studio.api import application, limits  # noqa: E402
from dgpnet.studio.project import Project, opened  # noqa: E402
from dgpnet.studio.studio import Studio, open_studio  # noqa: E402

SIZE = (48, 64)
"""(H, W) of all photographs here."""


@pytest.fixture(scope="session")
def segmenter() -> Segmenter:
    return tiny_segmenter()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six photographs, two of them in a folder of their own."""
    place = tmp_path / "photos"
    (place / "more").mkdir(parents=True)
    for i in range(6):
        Image.fromarray(scene(i, SIZE)[0]).save(place / ("more" if i > 3 else ".") / f"{i}.png")
    return place


@pytest.fixture
def project(folder: Path) -> Iterator[Project]:
    with opened(folder, None) as one:
        yield one


@pytest.fixture
def studio(folder: Path, segmenter: Segmenter) -> Iterator[Studio]:
    with open_studio(segmenter, folder) as one:
        yield one


@pytest.fixture
def client(studio: Studio) -> Iterator[Any]:
    guard = Guard(application(studio), Access.of("127.0.0.1"), limits())
    with (
        serving(guard, stop=[studio.hub.close]) as address,
        httpx.Client(base_url=f"{address}/api/v1/", timeout=120) as one,
    ):
        yield one


@pytest.fixture
def ids(client: Any) -> dict[str, str]:
    """Name -> id."""
    return {one["name"]: one["id"] for one in client.get("photographs").json()["items"]}


def truth(i: int) -> np.ndarray:
    """The mask of photograph i."""
    return scene(i, SIZE)[1]


def until(true: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What comes back, as soon as it is something."""
    end = time.monotonic() + seconds
    while not (answer := true()):
        assert time.monotonic() < end, "It did not happen."
        time.sleep(0.02)
    return answer

"""A run so small that a step takes milliseconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dgpnet.network import Config
from dgpnet.network.encoders import ENCODERS
from dgpnet.training import Running, Source, TrainConfig
from tests.training.tiny import TinyEncoder

NETWORK = Config(encoder="tiny", features=8, levels=(16,), encodings=4, decoder_width=8, size=32)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "tiny", lambda stride_on: TinyEncoder())


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of photographs for all tests here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def config() -> Callable[..., TrainConfig]:
    """A tiny run on `synthetic`, with whatever the test changes."""

    def make(**changes: Any) -> TrainConfig:
        options = {"photographs": 40, "objects": 2}
        settings: dict[str, Any] = {
            "sources": (Source("synthetic", fold=0, options=options),),
            "network": NETWORK,
            "iterations": 6,
            "episodes": 4,
            "rate": 1e-3,
            "encoder_rate": 1e-3,
            "projection_rate": 1e-3,
        }
        return TrainConfig(**{**settings, **changes})

    return make


@pytest.fixture
def running(cache: Path) -> Running:
    """Quiet, on the CPU, with the shared cache."""
    return Running(device="cpu", cache=cache, quiet=True, log_every=2, checkpoint_every=2, pictures_every=0)

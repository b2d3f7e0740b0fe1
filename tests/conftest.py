"""Fixtures for all tests; one thread each, so that parallel workers do not fight and results repeat."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# Children that tests start inherit this.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first example of a run pays for imports and warm-up, so a deadline would fail by chance.
settings.register_profile("dgpnet", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("dgpnet")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test starts from the same random state, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's random numbers, the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real photographs: $DGPNET_DATA or ../shared/data; the test is skipped where there is none."""
    root = Path(os.environ.get("DGPNET_DATA", REPOSITORY.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no data at {root}; set DGPNET_DATA")
    return root

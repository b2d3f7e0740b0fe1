"""Processes that tests start: they see this checkout, whatever is installed."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    """This process's, with the checkout and its tests to import from, and one thread."""
    places = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1", **more}

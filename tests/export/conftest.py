"""Tests of exports are skipped where the extra is missing."""

from collections.abc import Iterator

import pytest

from dgpnet.network.encoders import ENCODERS
from tests.training.tiny import TinyEncoder

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="session")
def quick_encoder() -> Iterator[str]:
    """The name of an encoder that takes no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODERS, "quick", lambda stride_on: TinyEncoder())
        yield "quick"

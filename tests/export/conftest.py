"""What the tests of exports share; those that need the extra are left out where it is missing."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from dgpnet.network.encoders import ENCODERS
from tests.training.tiny import TinyEncoder

installed = all(find_spec(package) for package in ("onnx", "onnxscript", "onnxruntime"))
collect_ignore = [] if installed else ["test_examples.py", "test_graphs.py", "test_to_onnx.py"]


@pytest.fixture(scope="session")
def quick_encoder() -> Iterator[str]:
    """The name of an encoder that takes no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODERS, "quick", lambda stride_on: TinyEncoder())
        yield "quick"

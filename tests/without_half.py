"""`pytest -p tests.without_half`: the tests on a machine that reports bfloat16 and dies when it multiplies in it.

The answer of a probe that died lies in the cache folder, as it would there, for this process and those it starts; a
product in bfloat16 ends the test that computes it.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dgpnet import processor

#: Parts of the names of operations that use the matrix unit.
PRODUCTS = ("mm", "convolution", "linear", "matmul", "addmv", "dot")


class IllegalInstruction(BaseException):
    """Nothing that the code under test would catch."""


class Dies(TorchDispatchMode):
    """Raises where the processor would end the process."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(part in str(func) for part in PRODUCTS) and any(
            isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 and value.device.type == "cpu"
            for value in args
        ):
            raise IllegalInstruction(f"{func} in bfloat16")
        return func(*args, **(kwargs or {}))


def pytest_configure() -> None:
    os.environ["DGPNET_CACHE"] = tempfile.mkdtemp(prefix="without-half-")
    processor._keep(Path(os.environ["DGPNET_CACHE"]) / "processors.json", False)
    processor._reports_half = lambda: True
    processor._kept.cache_clear()
    assert not processor.half_works()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with Dies():
        return (yield)

"""Tensors become arrays, each of its own memory, in order."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from dgpnet.segmenter import landing
from dgpnet.segmenter.landing import landed

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


def some(device: str, count: int) -> list[dict[str, Tensor]]:
    return [
        {
            "mask": torch.full((3, 4 + i), i, dtype=torch.uint8, device=device),
            "probability": torch.rand(2, 5, 3, device=device).transpose(1, 2),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("direct", [landing.DIRECT, -1])
def test_each_is_what_it_was_and_keeps_it(device: str, direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "DIRECT", direct)
    given = some(device, 20)
    expected = [{name: one.cpu().numpy().copy() for name, one in tensors.items()} for tensors in given]
    found = list(landed(iter(given)))
    for tensors in given:
        for one in tensors.values():
            if one.is_cuda:
                one.zero_()  # arrays have memory of their own
    assert len(found) == 20
    for arrays, those in zip(found, expected, strict=True):
        assert list(arrays) == ["mask", "probability"]
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, those[name])
            assert array.dtype == those[name].dtype and array.flags.writeable


def test_the_next_is_asked_for_before_the_last_is_waited_for() -> None:
    asked = 0

    def counted() -> Iterator[dict[str, Tensor]]:
        nonlocal asked
        for tensors in some("cpu", 3):
            asked += 1
            yield tensors

    seen = [(asked, arrays["mask"][0, 0]) for arrays in landed(counted())]
    assert seen == [(2, 0), (3, 1), (3, 2)]
    assert list(landed([])) == []

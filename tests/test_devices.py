"""A device is there and answers, or an Error says so."""

import pytest
import torch

from dgpnet.devices import find_device
from dgpnet.errors import Error


def test_by_default_it_is_the_gpu_if_there_is_one() -> None:
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    assert find_device().type == find_device(None).type == find_device("auto").type == usual


def test_a_device_has_its_name() -> None:
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["abacus", "cuda:99", "meta", "", "cpu:x", "x" * 10_000])
def test_what_is_not_there_or_gives_no_answers_is_said_in_one_sentence(name: str) -> None:
    with pytest.raises(Error, match="There is no device") as caught:
        find_device(name)
    assert len(str(caught.value)) <= 500 and "\n" not in str(caught.value)

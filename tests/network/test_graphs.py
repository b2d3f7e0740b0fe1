"""Functions captured as graphs give what they give when they are called."""

import pytest
import torch
from torch import Tensor

from dgpnet.network.graphs import Call, Graphs, Several, directly

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


def product(x: Tensor, y: Tensor) -> Several:
    return Several((x @ y, x.sum(0)))


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_each_call_answers_for_its_own_tensors(device: str) -> None:
    call: Call = Graphs(2) if device == "cuda" else directly
    kept = []
    for size in (3, 3, 4, 3, 5, 4, 3, 3):
        x, y = torch.randn(size, size, device=device), torch.randn(size, 2, device=device)
        for _ in range(3):
            kept.append((call("product", product, [x], [y], owner=y), product(x, y)))
    for found, expected in kept:  # at the end: later calls write over nothing that was given away
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_function_runs_no_more_once_it_is_captured_and_only_so_many_are_kept() -> None:
    runs = 0

    def counted(x: Tensor) -> Several:
        nonlocal runs
        runs += 1
        return Several((x + 1,))

    graphs, x = Graphs(1), torch.zeros(3, device="cuda")
    graphs("one", counted, [x])
    assert runs == 1
    graphs("one", counted, [x])  # again: a habit
    captured = runs
    assert captured > 2 and graphs("one", counted, [x + 4])[0].tolist() == [5, 5, 5] and runs == captured
    graphs("two", counted, [x])
    graphs("one", counted, [x])
    assert runs == captured + 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_graphs_that_share_memory_take_turns_on_all_streams() -> None:
    graphs, streams = Graphs(4), [torch.cuda.Stream() for _ in range(2)]

    def several(x: Tensor) -> Several:
        y = x
        for _ in range(20):
            y = (y @ x).tanh()
        return Several((y,))

    given = [torch.randn(side, side, device="cuda") / side for side in (400, 300, 500)]
    expected = [several(x)[0] for x in given]
    found = []
    torch.cuda.synchronize()
    for turn in range(30):
        with torch.cuda.stream(streams[turn % 2]):
            found.append(graphs("several", several, [given[turn % 3]])[0])
    torch.cuda.synchronize()
    for turn, one in enumerate(found):
        torch.testing.assert_close(one, expected[turn % 3])

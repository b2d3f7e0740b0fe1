"""The same function in processes."""

import os

import pytest

from dgpnet.data.parallel import parallel_map


@pytest.mark.parametrize("workers", [1, 2, 5, None])
def test_all_results_come_back_with_their_number(workers: int | None) -> None:
    found = dict(parallel_map(lambda x: x * x, list(range(20)), workers))
    assert found == {n: n * n for n in range(20)}


def test_nothing_to_do_is_fine() -> None:
    assert list(parallel_map(abs, [], 4)) == []


def test_work_is_done_in_other_processes() -> None:
    assert os.getpid() not in {pid for _, pid in parallel_map(lambda _: os.getpid(), [0, 1, 2, 3], 2)}


def test_an_exception_comes_back_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(parallel_map(lambda x: 1 // x, [1, 0], 2))


def test_a_worker_that_dies_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="died with exit code 3"):
        list(parallel_map(lambda _: os._exit(3), [1, 2], 2))


def test_stopping_early_leaves_no_process() -> None:
    import multiprocessing

    for _ in parallel_map(abs, list(range(1000)), 2):
        break
    assert not multiprocessing.active_children()

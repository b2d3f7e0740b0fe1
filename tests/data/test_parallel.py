"""The same function in processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgpnet.data.parallel import parallel_map
from tests.children import environment


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """Else they would wait for ever for somebody to take what they found, and keep the locks of their parent."""
    program = """
import os, sys, time
from dgpnet.data.parallel import parallel_map
def work(n):
    open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
    return bytes(1 << 20)
for _ in parallel_map(work, range(100), 3):
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment()) as parent:
        deadline = time.monotonic() + 30
        while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        parent.kill()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 3 and not any(Path(f"/proc/{pid}").exists() for pid in workers)

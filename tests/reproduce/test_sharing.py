"""Several commands in one folder divide the work, and what a killed one leaves the others do."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet.files import InUse
from dgpnet.reproduce import work
from dgpnet.reproduce.archive import Archive
from dgpnet.reproduce.plan import Places, Planner
from dgpnet.reproduce.scales import SYNTHETIC
from dgpnet.reproduce.tables import select
from dgpnet.reproduce.work import Worker
from dgpnet.training import Running

SMALL = ["--scale", "synthetic", "--iterations", "2", "--episodes", "2", "--device", "cpu"]
NETWORKS = 3  # of the table of the kernels


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded photographs, shared by the tests here."""
    return tmp_path_factory.mktemp("cache")


def start(out: Path, cache: Path) -> subprocess.Popen[str]:
    words = ["reproduce", "kernels", *SMALL, "--out", str(out), "--cache", str(cache)]
    return subprocess.Popen(
        [sys.executable, "-m", "dgpnet", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # two share the machine
    )


def said(process: subprocess.Popen[str], until: str = "") -> str:
    """What the process says, up to a line that has `until`, or to its end."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if until and until in line:
            break
    return "".join(lines)


def taken(text: str) -> list[str]:
    """The runs that a command worked on."""
    return re.findall(r"^\[\d+/\d+\] (\w+):", text, flags=re.MULTILINE)


def cells(out: Path) -> list[object]:
    content = json.loads((out / "tables" / "kernels.json").read_text(encoding="utf-8"))
    return [cell["ours"] for row in content["rows"] for cell in row["columns"][:2]]


def test_two_commands_train_each_network_once_and_both_end_with_the_table(tmp_path: Path, cache: Path) -> None:
    processes = [start(tmp_path, cache) for _ in range(2)]
    texts = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts
    runs = [key for text in texts for key in taken(text)]
    assert len(runs) == len(set(runs)) == NETWORKS
    assert all(cells(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be halted there")
def test_the_network_of_a_killed_command_is_taken_over(tmp_path: Path, cache: Path) -> None:
    first = start(tmp_path, cache)
    (run,) = taken(said(first, "[1/"))
    first.send_signal(signal.SIGSTOP)  # in the middle of its work, for as long as it takes
    second = start(tmp_path, cache)
    before = said(second, "waiting for")
    first.kill()
    first.communicate()
    after = said(second)
    assert second.wait() == 0
    assert "waiting for 1 network that another command is training" in before
    assert len(taken(before)) == NETWORKS - 1
    assert taken(after) == [run]
    assert all(cells(tmp_path))


def test_a_run_that_was_begun_with_its_data_elsewhere_goes_on(tmp_path: Path, cache: Path) -> None:
    archive = Archive(tmp_path)
    run = Planner(SYNTHETIC.changed(iterations=1, episodes=1), Places({}, {})).plan(select(["kernels"])).runs[0]
    config = archive.run_folder(run) / "config.json"
    config.parent.mkdir(parents=True)
    elsewhere = replace(run.config, sources=(replace(run.config.sources[0], root="/mnt/data"),))
    config.write_text(elsewhere.to_json(), encoding="utf-8")
    worker = Worker(archive, Running(device="cpu", cache=cache, quiet=True), lambda text: None)
    assert worker.train(run).is_file()
    config.write_text(replace(run.config, rate=0.5).to_json(), encoding="utf-8")
    archive.move(run)
    assert "0.5" in config.read_text(encoding="utf-8")  # another run's is not touched


def test_what_another_command_is_at_is_waited_for_and_said_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, lines = Archive(tmp_path), list[str]()
    plan = Planner(SYNTHETIC.changed(iterations=1, episodes=1), Places({}, {})).plan(select(["kernels"]))
    with ExitStack() as held:
        for run in plan.runs[:2]:
            held.enter_context(archive.alone(run))
        with pytest.raises(InUse, match=plan.runs[0].key), archive.alone(plan.runs[0]):
            pass
        looks = iter((lambda: None, held.close))
        monkeypatch.setattr(work.time, "sleep", lambda seconds: next(looks)())
        worker = Worker(archive, Running(device="cpu", cache=cache, quiet=True), lines.append)
        assert worker.work(plan) == []
    third, *others = taken("\n".join(lines))
    assert [third, *others] == [plan.runs[2].key, plan.runs[0].key, plan.runs[1].key]
    assert [line for line in lines if "waiting" in line] == ["waiting for 2 networks that other commands are training"]
    assert archive.left(plan).tests == ()

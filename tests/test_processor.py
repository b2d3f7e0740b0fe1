"""What a processor reports is tried where a crash harms nothing, once, and believed only then."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgpnet import processor
from dgpnet.errors import Error
from tests.children import environment

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
COUNTS = "import os; open(os.environ['COUNTED'], 'a').write('x')"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that reports bfloat16, with an empty cache folder."""
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(processor, "_reports_half", lambda: True)
    processor._kept.cache_clear()
    yield tmp_path
    processor._kept.cache_clear()


def test_a_probe_that_dies_means_not_here_and_is_said_in_one_line(machine, monkeypatch, capfd):
    monkeypatch.setattr(processor, "PROGRAM", DIES)
    assert not processor.half_works() and not processor.half_pays()
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and f"signal {int(signal.SIGILL)}" in said and "float32" in said
    with pytest.raises(Error, match="float32"):
        processor.require_half()


@pytest.mark.parametrize(("program", "word"), [("1 / 0", "wrong"), ("import time; time.sleep(60)", "hangs")])
def test_so_does_one_that_is_wrong_or_never_ends(machine, monkeypatch, capfd, program, word):
    monkeypatch.setattr(processor, "PROGRAM", program)
    monkeypatch.setattr(processor, "PATIENCE", 2)
    start = time.monotonic()
    assert not processor.half_pays()
    assert word in capfd.readouterr().err
    assert time.monotonic() - start < 20


def test_the_answer_is_kept_for_this_processor_and_version(machine, monkeypatch):
    monkeypatch.setenv("COUNTED", str(machine / "counted"))
    monkeypatch.setattr(processor, "PROGRAM", COUNTS)
    for _ in range(3):
        processor._kept.cache_clear()  # as a new process has it
        assert processor.half_pays()
    assert (machine / "counted").read_text() == "x"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")  # another question
    processor._kept.cache_clear()
    assert processor.half_pays()
    assert (machine / "counted").read_text() == "xx"
    assert len(json.loads((machine / "cache" / "processors.json").read_text())) == 2


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"a": 1}'])
def test_a_damaged_cache_is_asked_anew(machine, monkeypatch, damaged):
    monkeypatch.setattr(processor, "PROGRAM", "")
    place = machine / "cache" / "processors.json"
    place.parent.mkdir()
    place.write_bytes(damaged)
    assert processor.half_pays()
    assert json.loads(place.read_text())[processor._key()] is True


def test_a_cache_that_cannot_be_written_is_no_problem(machine, monkeypatch):
    monkeypatch.setenv("DGPNET_CACHE", "/dev/null/cache")
    monkeypatch.setattr(processor, "PROGRAM", "")
    assert processor.half_pays()


def test_what_is_not_reported_is_not_tried_and_not_quick(machine, monkeypatch):
    monkeypatch.setattr(processor, "_reports_half", lambda: False)
    monkeypatch.setattr(processor, "PROGRAM", DIES)
    assert processor.half_works() and not processor.half_pays()


def test_where_python_cannot_be_started_nothing_is_tried(machine, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not processor.half_pays()


def test_a_segmenter_on_such_a_machine_computes_in_float32(machine):
    """The whole way in a new process: the probe dies, everything else works."""
    program = f"""
from dgpnet import processor
processor._reports_half = lambda: True
processor.PROGRAM = {DIES!r}
import numpy as np
from tests.tiny import tiny_network, scenes
from dgpnet.segmenter import Segmenter
segmenter = Segmenter(tiny_network())
concept = segmenter.learn(*scenes(1))
print(segmenter.predictor.dtype, concept.segment(scenes(1)[0][0]).mask.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True, cwd=machine
    )
    assert done.stdout.split() == ["torch.float32", "(48,", "64)"]
    assert done.stderr.count("reports bfloat16") == 1


# -- manners -----------------------------------------------------------------------------------------------------------


def started(program: str, **more: str) -> str:
    own = {name: value for name, value in environment().items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**own, **more}, check=True
    ).stdout.strip()


def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise():
    program = "import dgpnet, os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('OMP_WAIT_POLICY'))"
    assert started(program) == f"{processor.TURNS} None"
    assert started(program, GOMP_SPINCOUNT="7") == "7 None"
    assert started(program, OMP_WAIT_POLICY="active") == "None active"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="malloc's settings are those of glibc")
def test_large_blocks_are_used_again_without_the_system_clearing_them():
    program = """
import {first}, resource, torch
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(50 << 18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
    kept, given_back = (int(started(program.format(first=first))) for first in ("dgpnet", "sys"))
    assert kept < given_back / 10

"""The tests pass on a machine whose bfloat16 is reported and unusable: all that compute in it ask before."""

import re
import subprocess
import sys
from pathlib import Path

from tests.children import REPOSITORY, environment

CAREFUL = """
import torch
from tests.capability import needs_half

def product():
    return torch.ones(2, 2).bfloat16() @ torch.ones(2, 2).bfloat16()

def test_asks_nobody():
    product()

@needs_half
def test_asks():
    product()

def test_converts_and_adds():
    torch.ones(2).bfloat16() + 1
"""


def outcome(*words: str) -> str:
    """The last line of pytest on such a machine."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.without_half", "-p", "no:cacheprovider", *words],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=REPOSITORY,
        timeout=120,
    )
    return done.stdout.strip().splitlines()[-1]


def test_a_test_that_multiplies_in_bfloat16_and_asks_nobody_would_fail(tmp_path: Path) -> None:
    path = tmp_path / "test_careful.py"
    path.write_text(CAREFUL)
    assert outcome(str(path)).startswith("1 failed, 1 passed, 1 skipped")


def test_those_that_name_it_pass() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")}
    named = [path for path, text in texts.items() if re.search("bf16|bfloat16", text) and path != Path(__file__)]
    last = outcome(*map(str, named), "-m", "not slow and not kill", "-k", "half or bf16 or bfloat16 or autocast")
    assert re.match(r"\d+ passed, \d+ skipped", last), last

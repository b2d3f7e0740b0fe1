"""The page's arithmetic by itself: runs, brushes, fills, history, tiles, what is unsent. By Node's test runner."""

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "js"


def test_the_modules_of_the_page_hold() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node is installed")
    files = sorted(str(path) for path in FOLDER.glob("*.test.mjs"))
    assert len(files) >= 6
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]

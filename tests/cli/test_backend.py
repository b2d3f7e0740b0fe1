"""`dgpnet backend` as a person starts and ends it."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from dgpnet.cli import run
from tests.children import environment
from tests.tiny import tiny_checkpoint

pytest.importorskip("fastapi", reason="the labelstudio extra is not installed")


def test_it_starts_says_where_it_is_and_ends_by_ctrl_c(tmp_path: Path):
    model = tiny_checkpoint(tmp_path / "tiny.safetensors")
    kept = tmp_path / "kept"
    words = ["backend", "label-studio", "--port", "0", "--model", model, "--project", kept, "--token", "random"]
    child = subprocess.Popen(
        [sys.executable, "-m", "dgpnet", *map(str, words)], env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    try:
        address = re.search(r"http://dgpnet:(\S+)@(\S+)", next(line for line in child.stderr if "is at" in line))
        assert address is not None
        asked = urllib.request.Request(f"http://{address[2]}/health", headers={"authorization": f"Bearer {address[1]}"})
        with urllib.request.urlopen(asked) as answer:
            assert json.load(answer)["status"] == "UP"
        assert run(["backend", "label-studio", "--port", "0", "--model", str(model), "--project", str(kept)]) == 2
        child.send_signal(signal.SIGINT)
        assert "saved" in child.stderr.read()
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.stderr.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--label-studio", "localhost:8080"], "http://localhost:8080"),
        (["--photos", "nowhere"], "no folder nowhere"),
        (["--fit-seconds", "-1"], "--fit-seconds is a number"),
        (["--api-key", "not a key"], "copy it again"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, capsys, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    assert run(["backend", "label-studio", *words, "--port", "0", "--model", model]) == 2
    assert told in capsys.readouterr().err

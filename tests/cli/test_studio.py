"""`dgpnet studio` as a person starts and ends it."""

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from dgpnet.cli import run
from tests.children import environment
from tests.tiny import tiny_checkpoint, write_photos, write_support

pytest.importorskip("fastapi", reason="the studio extra is not installed")


def test_it_starts_takes_a_support_and_ends_by_ctrl_c(tmp_path):
    photos = write_photos(tmp_path / "photos", 3)
    support = write_support(tmp_path / "support", 2)
    for path in (support / "images").iterdir():
        (photos / path.name).write_bytes(path.read_bytes())
    model = tiny_checkpoint(tmp_path / "tiny.safetensors")
    words = ["studio", photos, "--support", support, "--no-browser", "--port", "0", "--model", model]
    child = subprocess.Popen(
        [sys.executable, "-m", "dgpnet", *map(str, words)], env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    try:
        line = next(line for line in child.stderr if "The studio is at" in line)
        address = re.search(r"http://\S+", line)
        assert address is not None
        with urllib.request.urlopen(f"{address[0]}api/v1/project") as answer:
            assert b'"painted":2' in answer.read()
        child.send_signal(signal.SIGINT)
        assert "saved" in child.stderr.read()
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.stderr.close()
    assert len(list((photos / ".dgpnet" / "painted" / "masks").glob("*.png"))) == 2
    assert not list(photos.rglob("*.part"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "no folder"),
        (["photos", "--host", "0.0.0.0"], "--token"),
        (["photos", "--port", "99999"], "port"),
        (["photos", "--token", "short"], "12 to 200"),
        (["photos", "--support", "nowhere"], "no support set"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, capsys, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos", 1)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    port = [] if "--port" in words else ["--port", "0"]  # somebody may have a studio open
    assert run(["studio", *words, *port, "--no-browser", "--model", model]) == 2
    assert told in capsys.readouterr().err

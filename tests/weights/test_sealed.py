"""A sealed file comes back as it was written, or not at all."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from dgpnet.errors import Error
from dgpnet.weights import sealed

TENSORS = {"a": torch.arange(6, dtype=torch.float32).view(2, 3), "b.c": torch.tensor(3), "d": torch.zeros(0, 4)}
ABOUT = {"format": "x", "names": ["mug", "ü"], "n": [1.5, None]}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "a.sealed"
    sealed.write(path, TENSORS, ABOUT)
    return path


def test_everything_comes_back(written):
    tensors, about = sealed.read(written, "thing")
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_equal_content_gives_equal_bytes(written, tmp_path):
    sealed.write(tmp_path / "b", dict(reversed(TENSORS.items())), dict(reversed(ABOUT.items())))
    assert (tmp_path / "b").read_bytes() == written.read_bytes()


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_noticed(written, tmp_path_factory, place, bit):
    data = bytearray(written.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path = tmp_path_factory.mktemp("flipped") / "a.sealed"
    path.write_bytes(data)
    try:
        tensors, about = sealed.read(path, "thing")
    except Error as error:
        assert str(path) in str(error) and len(str(error)) < 500
    else:  # white space of the header, which means nothing
        assert about == ABOUT and all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_a_file_that_is_cut_off_or_something_else_is_refused(written, tmp_path):
    (tmp_path / "cut").write_bytes(written.read_bytes()[:-3])
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    save_file(TENSORS, tmp_path / "plain")
    save_file(TENSORS, tmp_path / "odd", metadata={sealed.KEY: "[1]"})
    save_file(TENSORS, tmp_path / "nested", metadata={sealed.KEY: "[" * 100_000})
    for name in ("cut", "text", "empty", "plain", "odd", "nested", "missing"):
        with pytest.raises(Error, match=name):
            sealed.read(tmp_path / name, "thing")


def test_a_full_disk_is_said_in_a_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(Error, match=r"a\.sealed: the disk is full"):
        sealed.write(tmp_path / "a.sealed", TENSORS, ABOUT)
    assert not list(tmp_path.iterdir())


WRITER = """
import resource, signal, sys, torch
from dgpnet.errors import Error
from dgpnet.weights import sealed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
most = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
names = {f"name {i}" for i in range(50)}  # a set: its order is another one in every process
try:
    sealed.write(sys.argv[1], {name: torch.tensor([len(name)]) for name in names}, {name: 1 for name in names})
except Error as error:
    print(error)
"""


def write_elsewhere(path: Path, *, seed: int = 0, most: int = 1 << 20) -> str:
    """What a process of its own says that writes a file, on a disk where files have at most so many bytes."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path), str(most)],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the system's on files")
def test_equal_content_gives_equal_bytes_in_every_process(tmp_path: Path) -> None:
    for seed in (1, 2):
        assert write_elsewhere(tmp_path / str(seed), seed=seed) == ""
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the system's on files")
def test_a_file_that_does_not_fit_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    assert "a.concept cannot be written (File too large)" in write_elsewhere(tmp_path / "a.concept", most=1000)
    assert list(tmp_path.iterdir()) == []

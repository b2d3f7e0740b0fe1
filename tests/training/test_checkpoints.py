"""Checkpoints: whole or not at all, the last good one kept, and only into what they fit."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dgpnet import Error, Notice
from dgpnet.training import checkpoints


def _tensors(value: float) -> dict[str, torch.Tensor]:
    return {
        "a": torch.full((2, 3, 4, 4), float(value)).to(memory_format=torch.channels_last),
        "b": torch.tensor(float(value)),
    }


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 7, _tensors(1.5), {"step": 7, "meter": [0.1, 1e-300]})
    tensors, position = checkpoints.load(tmp_path) or pytest.fail("nothing loaded")
    assert position == {"step": 7, "meter": [0.1, 1e-300]}
    live = _tensors(0)
    checkpoints.restore(live, tensors)
    assert torch.equal(live["a"], _tensors(1.5)["a"])
    assert live["a"].is_contiguous(memory_format=torch.channels_last)


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert checkpoints.load(tmp_path) is None


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        checkpoints.save(tmp_path, step, _tensors(step), {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000002.safetensors", "000000010.safetensors"]


def test_a_broken_newest_gives_way_to_the_one_before(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, _tensors(1), {"step": 1})
    path = checkpoints.save(tmp_path, 2, _tensors(2), {"step": 2})
    os.truncate(path, path.stat().st_size - 5)
    with pytest.warns(Notice, match=r"000000002\.safetensors is damaged"):
        _, position = checkpoints.load(tmp_path) or pytest.fail("nothing loaded")
    assert position == {"step": 1}


def test_one_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, 1, _tensors(1), {"step": 1, "meter": [0.5]})
    whole = path.read_bytes()
    tensors, position = checkpoints.load(tmp_path) or pytest.fail("nothing loaded")
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            try:
                found = checkpoints.load(tmp_path)
            except Error:
                continue
        assert found is not None and found[1] == position
        assert all(torch.equal(found[0][name], value) for name, value in tensors.items())


def test_a_checkpoint_without_a_digest_is_damaged(tmp_path: Path) -> None:
    save_file({"b": torch.tensor(2.0)}, tmp_path / "000000003.safetensors", metadata={"position": '{"step": 3}'})
    with pytest.warns(Notice, match="damaged"), pytest.raises(Error, match="None of the checkpoints"):
        checkpoints.load(tmp_path)


def test_nothing_readable_is_an_error_not_a_new_start(tmp_path: Path) -> None:
    (tmp_path / "000000001.safetensors").write_bytes(b"")
    with pytest.warns(Notice), pytest.raises(Error, match="None of the checkpoints"):
        checkpoints.load(tmp_path)


def test_a_failed_write_leaves_the_old_one_and_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(tmp_path, 1, _tensors(1), {"step": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Error, match="full"):
        checkpoints.save(tmp_path, 2, _tensors(2), {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["000000001.safetensors"]


LIMITED = """
import resource, signal, sys, torch
from pathlib import Path
from dgpnet.errors import Error
from dgpnet.training import checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    checkpoints.save(Path(sys.argv[1]), 2, {"a": torch.zeros(1000)}, {"step": 2})
except Error as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the system's on files")
def test_what_the_library_says_of_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "000000002.safetensors cannot be written" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_another_architecture_names_every_difference_and_changes_nothing() -> None:
    live = {"a": torch.zeros(2), "b": torch.zeros(3), "same": torch.zeros(1)}
    with pytest.raises(Error, match=r"missing b; unexpected c; a is \(5,\) instead of \(2,\)"):
        checkpoints.restore(live, {"a": torch.ones(5), "c": torch.ones(1), "same": torch.ones(1)})
    assert live["same"].item() == 0

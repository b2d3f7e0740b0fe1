"""Files appear whole or not at all, and names read from files stay inside their folder."""

import errno
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dgpnet.errors import Error
from dgpnet.files import (
    Journal,
    atomic,
    differences,
    inside,
    lock,
    read_record,
    remove_leftovers,
    require_space,
    write_record,
)


class TestAtomic:
    def test_the_file_appears_when_the_block_ends(self, tmp_path: Path) -> None:
        target = tmp_path / "mask.png"
        with atomic(target) as temporary:
            assert temporary.parent == tmp_path
            assert temporary.suffix == ".png"
            temporary.write_bytes(b"new")
            assert not target.exists()
        assert target.read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["mask.png"]

    @pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, SystemExit])
    def test_a_failure_leaves_the_old_file_and_nothing_else(self, tmp_path: Path, problem: type) -> None:
        target = tmp_path / "mask.png"
        target.write_bytes(b"old")
        with pytest.raises(problem), atomic(target) as temporary:
            temporary.write_bytes(b"half")
            raise problem
        assert target.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["mask.png"]

    def test_the_file_has_the_usual_permissions(self, tmp_path: Path) -> None:
        (tmp_path / "usual").write_bytes(b"")
        with atomic(tmp_path / "ours") as temporary:
            temporary.write_bytes(b"")
        assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_the_longest_name_a_disk_takes_works(self, tmp_path: Path) -> None:
        with atomic(tmp_path / ("a" * 251 + ".png")) as temporary:
            temporary.write_bytes(b"")

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Error, match="missing does not exist"), atomic(tmp_path / "missing" / "a.png"):
            pass

    @pytest.mark.parametrize(("code", "reason"), [(errno.ENOSPC, "full"), (errno.EROFS, "read-only")])
    def test_a_full_or_read_only_disk_is_explained(self, tmp_path: Path, code: int, reason: str) -> None:
        with pytest.raises(Error, match=rf"Cannot write .*a\.png: the disk is {reason}"), atomic(tmp_path / "a.png"):
            raise OSError(code, os.strerror(code))

    def test_a_folder_in_the_way_is_explained(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").mkdir()
        with pytest.raises(Error, match="it is a folder"), atomic(tmp_path / "a.png") as temporary:
            temporary.write_bytes(b"")
        assert os.listdir(tmp_path) == ["a.png"]

    @pytest.mark.parametrize("path", [".", "/", "", "a\0b", "a" * 300 + "/b", "a/" * 3000 + "b"])
    def test_what_cannot_be_a_file_is_refused(self, path: str) -> None:
        with pytest.raises(Error), atomic(path):
            pass

    def test_an_error_about_another_file_passes_through(self, tmp_path: Path) -> None:
        with pytest.raises(PermissionError), atomic(tmp_path / "a.png"):
            raise PermissionError(errno.EACCES, "denied", str(tmp_path / "other"))


def test_leftovers_of_a_kill_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    with pytest.raises(RuntimeError), atomic(tmp_path / "pictures" / "a.png") as temporary:
        temporary.write_bytes(b"half")
        shutil.copy(temporary, tmp_path / temporary.name)
        shutil.copy(temporary, temporary.with_suffix(".jpg"))
        raise RuntimeError
    for name in (".part.png", ".my.part.png", "a.part.png"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == [".my.part.png", ".part.png", "a.part.png", "pictures"]


class TestInside:
    @pytest.mark.parametrize(
        "name", ["a.png", "images/a.png", "masks/../images/a.png", "./a.png", "..a.png", "a b.png"]
    )
    def test_a_name_inside_is_joined(self, tmp_path: Path, name: str) -> None:
        assert inside(tmp_path, name) == tmp_path / name

    @pytest.mark.parametrize(
        "name",
        [
            "../a.png",
            "../../etc/passwd",
            "images/../../a.png",
            "/etc/passwd",
            "C:\\a.png",
            "C:a.png",
            "\\a.png",
            "",
            "a\0b",
        ],
    )
    def test_a_name_outside_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(Error, match="outside the folder"):
            inside(tmp_path / "root", name)

    def test_a_sibling_whose_name_starts_alike_is_outside(self, tmp_path: Path) -> None:
        with pytest.raises(Error, match="outside the folder"):
            inside(tmp_path / "root", "../root-2/a.png")

    def test_a_link_to_the_outside_is_refused_and_one_within_is_not(self, tmp_path: Path) -> None:
        root, outside = tmp_path / "root", tmp_path / "outside"
        root.mkdir()
        outside.mkdir()
        (root / "bad").symlink_to(outside)
        (root / "real").mkdir()
        (root / "good").symlink_to(root / "real")
        assert inside(root, "good/a.png") == root / "good" / "a.png"
        with pytest.raises(Error, match="outside the folder"):
            inside(root, "bad/a.png")

    def test_the_root_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "root").symlink_to(tmp_path / "real")
        assert inside(tmp_path / "root", "a.png") == tmp_path / "root" / "a.png"


class TestRequireSpace:
    def test_enough_is_silent_and_too_little_says_how_much(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=1_000_000_000))
        require_space(tmp_path, 1_000_000_000)
        with pytest.raises(Error, match=r"needs 2\.50 GB of disk space and 1\.00 GB are free"):
            require_space(tmp_path, 2_500_000_000)

    def test_a_folder_that_does_not_exist_yet_counts_for_its_disk(self, tmp_path: Path) -> None:
        require_space(tmp_path / "not" / "yet", 1)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "done.jsonl")


def write(journal: Journal, *records: dict[str, Any]) -> None:
    with journal:
        journal.add(*records)


def test_a_journal_gives_back_what_was_added_in_order(journal: Journal) -> None:
    assert journal.read() == []
    write(journal, {"name": "a", "crc": "mine"}, {"name": "\udce9 ü", "values": [1, 2.5, None]})
    write(journal, {"name": "c"})
    assert journal.read() == [
        {"name": "a", "crc": "mine"},
        {"name": "\udce9 ü", "values": [1, 2.5, None]},
        {"name": "c"},
    ]
    assert journal.damaged == 0


def test_a_journal_believes_no_line_with_a_changed_byte(journal: Journal) -> None:
    write(journal, {"name": "a", "score": 0.25}, {"name": "b", "score": 0.5})
    whole = journal.path.read_bytes()
    for place in range(len(whole)):
        for value in (whole[place] ^ 1, 0, 0x0A, 0xFF):
            if value != whole[place]:
                journal.path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
                left = journal.read()
                assert all(record in ({"name": "a", "score": 0.25}, {"name": "b", "score": 0.5}) for record in left)
                assert len(left) < 2 and journal.damaged


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_journal_goes_on_after_a_torn_line(journal: Journal, cut: int) -> None:
    write(journal, {"name": "a"}, {"name": "b"})
    journal.path.write_bytes(journal.path.read_bytes()[:-cut])
    write(journal, {"name": "c"})
    assert [record["name"] for record in journal.read()] == (["a", "b", "c"] if cut == 1 else ["a", "c"])


def test_threads_may_add_to_one_journal(journal: Journal) -> None:
    with journal, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: journal.add({"number": number}), range(200)))
    assert sorted(record["number"] for record in journal.read()) == list(range(200))


def test_a_journal_can_be_rewritten(journal: Journal) -> None:
    write(journal, {"step": 1}, {"step": 2})
    journal.rewrite(journal.read()[:1])
    assert journal.read() == [{"step": 1}]


def test_a_lock_is_held_once_and_says_by_whom(tmp_path: Path) -> None:
    with lock(tmp_path / "lock", "found/"):
        told = rf"^found/ is in use by process {os.getpid()} on "
        with pytest.raises(Error, match=told), lock(tmp_path / "lock", "found/"):
            pass
    with lock(tmp_path / "lock", "found/"):
        pass


def test_a_killed_process_lets_go_of_its_lock(tmp_path: Path) -> None:
    code = (
        "import sys, dgpnet.files as f\nwith f.lock(sys.argv[1], 'it'):\n print('held', flush=True)\n sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")], stdin=-1, stdout=-1)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    with pytest.raises(Error, match=f"process {child.pid} "), lock(tmp_path / "lock", "it"):
        pass
    child.kill()
    child.communicate()
    with lock(tmp_path / "lock", "it"):
        pass


RECORD: dict[str, Any] = {"name": "mug \udce9", "sizes": (384, 512), "inner": {"score": 0.25, "3": None}, "off": False}


def test_a_record_comes_back_and_can_be_laid_out_anew(tmp_path: Path) -> None:
    path = tmp_path / "about.json"
    assert read_record(path) is None
    write_record(path, RECORD)
    assert read_record(path) == {**RECORD, "sizes": [384, 512]}
    path.write_text(json.dumps(json.loads(path.read_text())))  # as an editor does
    assert read_record(path) == {**RECORD, "sizes": [384, 512]}


def test_a_record_with_a_changed_byte_is_none_or_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "about.json"
    write_record(path, RECORD)
    whole, right = path.read_bytes(), read_record(path)
    for place in range(len(whole)):
        for value in (b"", b"\n", b"0", bytes([whole[place] ^ 1]), b"\xff", whole[place : place + 1] * 2):
            path.write_bytes(whole[:place] + value + whole[place + 1 :])
            assert read_record(path) in (None, right)
        path.write_bytes(whole[:place])
        assert read_record(path) in (None, right)


def test_differences_are_named_by_path_and_tuples_are_lists() -> None:
    assert differences({"a": [1, 2], "b": {"c": 1}}, {"a": (1, 2), "b": {"c": 1}}) == []
    one = {"a": 1, "b": {"c": "x"}, "d": [{"e": 1}], "f": None}
    other = {"a": 2, "b": {"c": "y" * 90}, "d": []}
    assert differences(one, other) == [
        "a 1, not 2",
        f'b.c "x", not "{"y" * 23} … {"y" * 12}"',
        "d[0].e 1, not absent",
        "f null, not absent",
        "d absent, not []",
    ]


def test_a_journal_on_a_full_disk_adds_nothing_and_goes_on_later(tmp_path: Path) -> None:
    """Half a line, or one that comes later out of a buffer, would spoil what is added next."""
    program = """
import resource, sys
from dgpnet.files import Journal
with Journal(sys.argv[1]) as journal:
    journal.add({"n": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
    try:
        journal.add({"n": 2, "text": "x" * 1000})
    except OSError:
        print("full")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    journal.add({"n": 3})
"""
    path = tmp_path / "journal.jsonl"
    told = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    journal = Journal(path)
    assert told.stdout == "full\n"
    assert [record["n"] for record in journal.read()] == [1, 3] and journal.damaged == 0

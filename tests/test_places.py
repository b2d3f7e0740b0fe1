"""Where results go: what holds of a folder of a disk holds of object storage, which memory plays here."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dgpnet import places
from dgpnet.errors import Error
from dgpnet.places import Bucket, Folder, Place, place_of

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed here")


@pytest.fixture(params=["disk", "storage"])
def place(request, tmp_path) -> Iterator[Place]:
    if request.param == "disk":
        yield place_of(tmp_path / "found")
        return
    yield place_of("memory://places/found")
    memory = fsspec.filesystem("memory")
    if memory.exists("/places"):
        memory.rm("/places", recursive=True)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    yield Bucket("memory://places/found")
    memory = fsspec.filesystem("memory")
    if memory.exists("/places"):
        memory.rm("/places", recursive=True)


def test_an_address_is_storage_also_where_a_path_has_left_one_slash_and_all_else_a_folder():
    assert str(place_of("s3://bucket/found/")) == str(place_of(Path("s3://bucket/found"))) == "s3://bucket/found"
    assert place_of("s3://bucket/found").at("masks/a.png") == "s3://bucket/found/masks/a.png"
    assert isinstance(place_of("found"), Folder)
    assert place_of("found").at("masks") == Path("found/masks")


def test_what_is_put_is_there(place):
    assert place.content() == set()
    assert place.read("masks/trip/a.png") is None
    place.keep(place.put({"masks/trip/a.png": b"mask", "report/a.jpg": b"picture"}))
    assert place.put({"job.json": b"{}"}, sync=True) == ()
    assert place.content() == {"masks", "report", "job.json"}
    assert place.read("masks/trip/a.png") == b"mask"
    assert place.read("masks") is None
    with place.reading("masks/trip/a.png") as path, place.reading("masks/trip/b.png") as absent:
        assert (path.name, path.read_bytes(), absent) == ("a.png", b"mask", None)


def test_a_name_may_have_what_means_something_in_addresses(place):
    names = ("a::b", "a::c", "q?versions=1", "h#1", "s*", "[x]", "50%41", "back\\slash", "new\nline", "end.", "é")
    given = {f"masks/{name}.png": name.encode() for name in names}
    place.put(given)
    assert {name: place.read(name) for name in given} == given


def test_a_name_that_would_end_early_in_storage_is_none_that_it_takes(place):
    assert place.takes("masks/a?versions=1.png")
    assert place.takes("masks/a?versionId=1.png") == isinstance(place, Folder)


def test_a_file_is_written_when_its_block_ends_and_not_where_it_raises(place):
    with place.writing("report/data.js") as path:
        path.write_text("data")
        assert place.read("report/data.js") is None
    assert place.read("report/data.js") == b"data"
    with pytest.raises(ValueError), place.writing("report/data.js") as path:
        path.write_text("half")
        raise ValueError
    assert place.read("report/data.js") == b"data"


def test_what_is_made_ready_is_taken_and_nothing_else_stays(place):
    with place.stage(".dgpnet/stage") as stage:
        (stage / "coco.json").write_text("{}")
        (stage / "more.json").write_text("{}")
        place.take(stage / "coco.json", "annotations/coco.json")
    assert place.read("annotations/coco.json") == b"{}"
    assert not stage.exists()


def test_what_is_put_aside_is_not_overwritten(place):
    for n, expected in enumerate(("aside/masks/a.png", "aside/masks/a~2.png", "aside/masks/a~3.png")):
        place.put({"masks/a.png": str(n).encode()})
        assert place.aside("masks/a.png") == expected
        assert place.read(expected) == str(n).encode()
        assert place.read("masks/a.png") is None


def test_a_journal_has_what_was_added_also_after_it_was_opened_again(place):
    journal = place.journal("record/done.jsonl")
    assert (journal.exists(), journal.read()) == (False, [])
    with place.alone("record/lock"):
        for n in range(3):
            with place.journal("record/done.jsonl") as journal:
                journal.add({"n": n}, {"half": n + 0.5})
        journal = place.journal("record/done.jsonl")
        assert journal.exists()
        assert [record["n"] for record in journal.read() if "n" in record] == [0, 1, 2]
        journal.rewrite(journal.read()[:1])
        with journal:
            journal.add({"n": 7})
        assert place.journal("record/done.jsonl").read() == [{"n": 0}, {"n": 7}]


def test_one_job_at_a_time_and_the_next_when_it_has_ended(place):
    for _ in range(2):
        with place.alone("record/lock"):
            other = place_of(str(place))
            with pytest.raises(Error, match=r"in use by process \d+ on"), other.alone("record/lock"):
                pass


def test_in_storage_a_journal_is_parts_that_are_never_changed_and_a_copied_one_is_gone_on_with(bucket):
    with place_of_copy() as journal:
        journal.add({"n": 0})
    bucket.put({"record/done.jsonl": journal.path.read_bytes()})
    journal.path.unlink()
    with bucket.journal("record/done.jsonl") as journal:
        journal.add({"n": 1})
        first = bucket.read("record/done-00000001.jsonl")
        journal.add({"n": 2})
    assert bucket.names("record/done") == [
        "record/done-00000001.jsonl", "record/done-00000002.jsonl", "record/done.jsonl"]  # fmt: skip
    assert bucket.read("record/done-00000001.jsonl") == first
    assert [record["n"] for record in bucket.journal("record/done.jsonl").records()] == [0, 1, 2]
    bucket.put({"record/done-00000001.jsonl": first[:-5]})
    journal = bucket.journal("record/done.jsonl")
    assert [record["n"] for record in journal.read()] == [0, 2]
    assert journal.damaged == 1


def place_of_copy():
    return Folder(Path.cwd()).journal("done.jsonl")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_two_jobs_never_write_one_part(bucket):
    with bucket.journal("record/done.jsonl") as one, Bucket(str(bucket)).journal("record/done.jsonl") as other:
        one.add({"n": 1})
        with pytest.raises(Error, match="Another job writes to memory://places/found"):
            other.add({"n": 2})
        one.add({"n": 3})
    assert bucket.journal("record/done.jsonl").read() == [{"n": 1}, {"n": 3}]


@pytest.fixture
def asked_twice(monkeypatch) -> None:
    """Storage whose first answer is always lost."""
    create = Bucket.create

    def twice(self: Bucket, name: str, content: bytes) -> bool:
        create(self, name, content)
        return create(self, name, content)

    monkeypatch.setattr(Bucket, "create", twice)


def test_a_part_whose_writing_was_asked_for_twice_is_written_once(bucket, asked_twice):
    with bucket.journal("record/done.jsonl") as journal:
        journal.add({"n": 1})
    assert bucket.journal("record/done.jsonl").read() == [{"n": 1}]


def test_a_lock_whose_writing_was_asked_for_twice_is_one_s_own(bucket, asked_twice):
    with bucket.alone("record/lock"), pytest.raises(Error, match="in use"), Bucket(str(bucket)).alone("record/lock"):
        pass
    assert bucket.read("record/lock") is None


def test_a_copy_of_a_part_is_no_part(bucket):
    with bucket.journal("record/done.jsonl") as journal:
        journal.add({"n": 1})
    for name in ("done-00000001 copy.jsonl", "done-00000001.jsonl.bak", "done-old.jsonl"):
        bucket.put({f"record/{name}": bucket.read("record/done-00000001.jsonl")})
    with bucket.journal("record/done.jsonl") as journal:
        journal.add({"n": 2})
    assert bucket.journal("record/done.jsonl").read() == [{"n": 1}, {"n": 2}]


def test_a_lock_without_a_sign_of_life_is_taken_over_and_its_holder_stops(bucket, monkeypatch):
    monkeypatch.setattr(places, "BEAT", 0.02)
    with bucket.alone("record/lock"):
        told = json.loads(bucket.read("record/lock"))
        monkeypatch.setattr(places, "DEAD", -1.0)
        other = Bucket(str(bucket))
        with other.alone("record/lock"), bucket.journal("record/done.jsonl") as journal:
            end = time.monotonic() + 10
            while not bucket.lost and time.monotonic() < end:
                time.sleep(0.01)
            assert bucket.lost
            assert json.loads(other.read("record/lock"))["key"] != told["key"]
            with pytest.raises(Error, match="Another job"):
                journal.add({"n": 1})
            with other.journal("record/done.jsonl") as journal:
                journal.add({"n": 2})
    assert bucket.read("record/lock") is None


def test_a_holder_that_lives_says_so(bucket, monkeypatch):
    monkeypatch.setattr(places, "BEAT", 0.02)
    with bucket.alone("record/lock"):
        first = json.loads(bucket.read("record/lock"))["time"]
        end = time.monotonic() + 10
        while json.loads(bucket.read("record/lock"))["time"] == first and time.monotonic() < end:
            time.sleep(0.01)
        assert json.loads(bucket.read("record/lock"))["time"] > first


def test_storage_that_cannot_be_written_is_a_sentence_with_its_address():
    with pytest.raises(Error, match=r"nobody-knows://bucket/a cannot be written"):
        place_of("nobody-knows://bucket").put({"a": b""})


@pytest.mark.parametrize("text", ["s3://", "memory:///", "s3:/"])
def test_an_address_without_a_bucket_is_refused(text):
    with pytest.raises(Error, match="names no bucket; write it like"):
        place_of(text)


def test_an_address_of_the_disk_is_refused_with_its_path():
    with pytest.raises(Error, match="is a folder of this machine; give its path, /data/found"):
        place_of("file:///data/found")

import json
import os
from dataclasses import replace

import pytest

from dgpnet.errors import Error
from dgpnet.segmenter.ledger import Entry, Ledger, stamp
from dgpnet.segmenter.photographs import Photograph

ABOUT = {"version": 1, "support": "s", "model": "m", "options": {"overlay": False, "max_pixels": 9}}


@pytest.fixture
def photo(tmp_path) -> Photograph:
    path = tmp_path / "photos" / "mug.jpg"
    path.parent.mkdir()
    path.write_bytes(b"jpeg")
    return Photograph(path, "mug.jpg", "mug")


def entry(photo: Photograph) -> Entry:
    return Entry(
        name=photo.name,
        key=photo.key,
        path=str(photo.path.resolve()),
        stamp=stamp(photo.path),
        width=4,
        height=3,
        score=0.5,
        uncertainty=0.1,
        novelty=0.2,
        likeness=0.4,
        areas=(5, 6),
        seconds=0.01,
    )


def test_what_is_recorded_is_there_the_next_time(tmp_path, photo):
    with Ledger(tmp_path / "out", ABOUT) as ledger:
        assert not ledger.is_done(photo)
        ledger.add(entry(photo))
        assert ledger.is_done(photo)
    again = Ledger(tmp_path / "out", ABOUT)
    assert again.entries == {"mug": entry(photo)}
    assert again.is_done(photo)


def test_a_line_that_a_kill_cut_off_is_dropped_and_the_rest_kept(tmp_path, photo):
    with Ledger(tmp_path / "out", ABOUT) as ledger:
        ledger.add(entry(photo))
        ledger.add(replace(entry(photo), key="other"))
    done = tmp_path / "out" / ".dgpnet" / "done.jsonl"
    done.write_text(done.read_text()[:-10])
    with Ledger(tmp_path / "out", ABOUT) as ledger:
        assert set(ledger.entries) == {"mug"}
        ledger.add(replace(entry(photo), key="third"))
    assert set(Ledger(tmp_path / "out", ABOUT).entries) == {"mug", "third"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": "t"}, "another support"),
        ({"model": "n"}, "another model"),
        ({"options": {"overlay": True, "max_pixels": 9}}, "overlay (false then, true now)"),
        ({"options": {"overlay": False, "max_pixels": 8}}, "max-pixels (9 then, 8 now)"),
        ({"version": 2}, "another version"),
    ],
)
def test_two_jobs_never_mix(tmp_path, change, message):
    with Ledger(tmp_path / "out", ABOUT):
        pass
    with pytest.raises(Error) as caught:
        Ledger(tmp_path / "out", {**ABOUT, **change})
    assert message in str(caught.value)


def test_a_changed_photograph_is_done_again_and_a_moved_one_is_not(tmp_path, photo):
    with Ledger(tmp_path / "out", ABOUT) as ledger:
        ledger.add(entry(photo))
        moved = photo.path.parent.rename(tmp_path / "elsewhere") / photo.path.name
        assert ledger.is_done(replace(photo, path=moved))
        os.utime(moved, (1, 1))
        with pytest.raises(Error, match="another photograph called"):
            ledger.is_done(replace(photo, path=moved))
        moved.parent.rename(photo.path.parent)
        assert not ledger.is_done(photo)


def test_files_that_somebody_else_made_are_not_overwritten(tmp_path):
    (tmp_path / "out" / "masks").mkdir(parents=True)
    with pytest.raises(Error, match="already holds masks"):
        Ledger(tmp_path / "out", ABOUT)
    assert not (tmp_path / "out" / ".dgpnet" / "job.json").exists()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    with Ledger(tmp_path / "out", ABOUT):
        pass
    masks = tmp_path / "out" / "masks" / "trip"
    masks.mkdir(parents=True)
    (masks / ".0123456789ab.part.png").write_bytes(b"half")
    (masks / "whole.png").write_bytes(b"whole")
    with Ledger(tmp_path / "out", ABOUT):
        pass
    assert [path.name for path in masks.iterdir()] == ["whole.png"]


def test_an_output_folder_that_cannot_be_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Error, match="cannot be written"), Ledger(tmp_path / "file" / "out", ABOUT):
        pass
    with Ledger(tmp_path / "out", ABOUT):
        pass
    for text in ("{", json.dumps({**ABOUT, "precision": "nn"})):
        (tmp_path / "out" / ".dgpnet" / "job.json").write_text(text)
        with pytest.raises(Error, match="damaged"):
            Ledger(tmp_path / "out", ABOUT)


def test_looking_writes_nothing(tmp_path):
    Ledger(tmp_path / "out", ABOUT)
    assert not (tmp_path / "out").exists()


def test_the_precision_that_a_job_began_with_stays(tmp_path):
    with Ledger(tmp_path / "out", ABOUT):  # as it was before precision was recorded
        pass
    again = Ledger(tmp_path / "out", ABOUT)
    assert again.precision is None
    again.precision = "bfloat16"
    with again:
        pass
    assert Ledger(tmp_path / "out", ABOUT).precision == "bfloat16"
    with pytest.raises(Error, match="another model"):
        Ledger(tmp_path / "out", {**ABOUT, "model": "n"})


def test_the_record_is_plain_json(tmp_path, photo):
    with Ledger(tmp_path / "out", ABOUT) as ledger:
        ledger.add(entry(photo))
    assert json.loads((tmp_path / "out" / ".dgpnet" / "job.json").read_text()) == ABOUT
    assert json.loads((tmp_path / "out" / ".dgpnet" / "done.jsonl").read_text())["name"] == "mug.jpg"

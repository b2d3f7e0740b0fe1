import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgpnet import places
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.segmenter import masks
from dgpnet.segmenter.entries import Entry, stamp
from dgpnet.segmenter.figures import Figures
from dgpnet.segmenter.ledger import Ledger, checksum
from dgpnet.segmenter.photographs import Photograph
from dgpnet.segmenter.rounds import Round
from tests.tiny import scene

ROUND = Round("c", "m", {"mug": 1}, (("a.jpg", "1"),), {"overlay": False}, {"formats": []})
FIGURES = Figures(4, 3, False, False, 0.5, 0.4, 0.9, 0.1, 0.2, (5,), (0.4,), (), (0.5,), (0.4,), (0.9,), 0.01)


@pytest.fixture
def photo(tmp_path) -> Photograph:
    path = tmp_path / "photos" / "mug.jpg"
    path.parent.mkdir()
    path.write_bytes(b"jpeg")
    return Photograph(path, "mug.jpg", "mug")


def done(out: Path, photo: Photograph, made_with: str = ROUND.made_with) -> tuple[Entry, list[Path]]:
    """The entry of a photograph whose mask and further file are in place, and these."""
    mask, other = out / "masks" / f"{photo.key}.png", out / "report" / f"{photo.key}.jpg"
    for path in (mask, other):
        path.parent.mkdir(parents=True, exist_ok=True)
    digest = masks.write(mask, scene(0)[1], Legend.of(["mug"]))
    other.write_bytes(b"picture")
    path, files = os.path.realpath(photo.path), {f"report/{photo.key}.jpg": checksum(other.read_bytes())}
    own = checksum(mask.read_bytes())
    entry = Entry(photo.name, photo.key, path, stamp(photo.path), made_with, own, digest, files, FIGURES)
    return entry, [mask, other]


def test_what_is_recorded_is_there_the_next_time(tmp_path, photo):
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        assert not ledger.is_done(photo)
        entry, files = done(out, photo)
        ledger.add(entry, files)
        ledger.settle()
        assert ledger.is_done(photo)
    again = Ledger(out, ROUND)
    assert again.entries == {"mug": entry}
    assert again.is_done(photo)


def test_a_result_counts_only_as_it_was_written(tmp_path, photo):
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        ledger.add(*done(out, photo))
    mask, other = out / "masks" / "mug.png", out / "report" / "mug.jpg"
    whole = mask.read_bytes()
    os.utime(mask, (1, 1))  # as after copying the folder: the pixels tell
    assert Ledger(out, ROUND).is_done(photo)
    elsewhere = tmp_path / "other.png"
    masks.write(elsewhere, scene(1)[1], Legend.of(["mug"]))
    masks.write(tmp_path / "small.png", scene(0)[1][:9], Legend.of(["mug"]))
    for content in (b"", whole[: len(whole) // 2], elsewhere.read_bytes(), (tmp_path / "small.png").read_bytes()):
        mask.write_bytes(content)
        assert not Ledger(out, ROUND).is_done(photo)
    mask.write_bytes(whole)
    assert Ledger(out, ROUND).is_done(photo)
    other.write_bytes(b"")
    assert not Ledger(out, ROUND).is_done(photo)


def test_a_byte_that_a_disk_lost_is_noticed_though_size_and_time_stay(tmp_path, photo):
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        ledger.add(*done(out, photo))
    for path in (out / "masks" / "mug.png", out / "report" / "mug.jpg"):
        whole, status = path.read_bytes(), path.stat()
        half = len(whole) // 2
        path.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert not Ledger(out, ROUND).is_done(photo)
        path.write_bytes(whole)
    assert Ledger(out, ROUND).is_done(photo)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(["done.jsonl", "job.json"]), place=st.integers(0, 10_000), bits=st.integers(1, 255))
def test_damage_to_any_byte_is_never_believed_and_never_a_traceback(tmp_path_factory, file, place, bits):
    root = tmp_path_factory.mktemp("job")
    (root / "photos").mkdir()
    photos = [Photograph(root / "photos" / name, name, name) for name in ("a", "b")]
    with Ledger(root / "out", ROUND) as ledger:
        for photo in photos:
            photo.path.write_bytes(b"jpeg")
            ledger.add(*done(root / "out", photo))
    before = Ledger(root / "out", ROUND).entries
    path = root / "out" / ".dgpnet" / file
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= bits
    path.write_bytes(content)
    with Ledger(root / "out", ROUND) as ledger:
        assert ledger.entries.items() <= before.items()
        assert len(ledger.entries) >= (2 if file == "job.json" else 0)
        for photo in photos:
            ledger.add(*done(root / "out", photo))
    assert set(Ledger(root / "out", ROUND).entries) == {"a", "b"}
    assert Ledger(root / "out", ROUND).notes == []


def test_a_damaged_job_is_known_again_by_its_photographs_and_otherwise_refused(tmp_path, photo):
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        pass
    job = out / ".dgpnet" / "job.json"
    job.write_text('{"version": 1}')  # before there were checksums: which masks are a person's, nobody can tell
    for again in (False, True):
        with pytest.raises(Error, match="an earlier version"):
            Ledger(out, ROUND, again=again)
    job.write_bytes(b"")
    with pytest.raises(Error, match=r"damaged.*--again"):
        Ledger(out, ROUND)
    with Ledger(out, ROUND, again=True) as ledger:
        ledger.add(*done(out, photo))
    for content in (b"", b"\xff{", b"null\n"):
        job.write_bytes(content)
        with Ledger(out, ROUND) as ledger:
            assert ledger.is_done(photo)
        assert json.loads(job.read_text())["model"] == "m"
        job.write_bytes(content)
        with pytest.raises(Error, match="damaged"):
            Ledger(out, replace(ROUND, concept="d"))
    job.unlink()
    assert Ledger(out, ROUND).is_done(photo)
    with pytest.raises(Error, match="missing"):
        Ledger(out, replace(ROUND, concept="d"))


def test_a_record_that_leads_outside_is_not_believed(tmp_path, photo):
    out = tmp_path / "out"
    entry, _ = done(out / "x", photo)
    for wrong in ({"key": "../mug"}, {"key": "/mug"}, {"files": {"../../a": 1}}, {"figures": {"width": 3}}, {"key": 3}):
        assert Entry.of({**asdict(entry), **wrong}) is None
    assert Entry.of(json.loads(json.dumps(asdict(entry)))) == entry


def test_two_rounds_never_mix_unless_asked_to(tmp_path, photo):
    out, later = tmp_path / "out", replace(ROUND, concept="d", examples=(("a.jpg", "1"), ("b.jpg", "2")))
    with Ledger(out, ROUND) as ledger:
        ledger.add(*done(out, photo))
    with pytest.raises(Error, match=r"1 photograph was painted since: b\.jpg\. Add --again"):
        Ledger(out, later)
    with Ledger(out, later, again=True) as ledger:
        assert not ledger.is_done(photo)
        assert dict(ledger.entries.names()) == {"mug.jpg": "mug"}
        assert list(ledger.current()) == []
        ledger.add(*done(out, photo, later.made_with))
    assert Ledger(out, later).is_done(photo)  # as a killed job goes on, without asking again
    with pytest.raises(Error, match="earlier round"):
        Ledger(out, ROUND)
    moved = replace(later, values={"spoon": 1, "mug": 2})
    with pytest.raises(Error, match="mug was 1 in masks and is 2 now"):
        Ledger(out, moved, again=True)


def test_a_changed_photograph_is_done_again_and_a_moved_one_is_not(tmp_path, photo):
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        ledger.add(*done(out, photo))
        ledger.settle()
        moved = photo.path.parent.rename(tmp_path / "elsewhere") / photo.path.name
        assert ledger.is_done(replace(photo, path=moved))
        os.utime(moved, (1, 1))
        with pytest.raises(Error, match="another photograph called"):
            ledger.is_done(replace(photo, path=moved))
        moved.parent.rename(photo.path.parent)
        assert not ledger.is_done(photo)


def test_one_job_at_a_time(tmp_path):
    with Ledger(tmp_path / "out", ROUND):
        left = tmp_path / "out" / "masks" / ".0123456789ab.part.png"
        left.parent.mkdir()
        left.write_bytes(b"of the first, which is not done")
        with pytest.raises(Error, match="in use by process"), Ledger(tmp_path / "out", ROUND):
            pass
        assert left.exists()
    with Ledger(tmp_path / "out", ROUND):
        assert not left.exists()


def test_files_that_somebody_else_made_are_not_overwritten(tmp_path):
    (tmp_path / "out" / "masks").mkdir(parents=True)
    with pytest.raises(Error, match="already holds masks"):
        Ledger(tmp_path / "out", ROUND)
    assert not (tmp_path / "out" / ".dgpnet").exists()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    with Ledger(tmp_path / "out", ROUND):
        pass
    folder = tmp_path / "out" / "masks" / "trip"
    folder.mkdir(parents=True)
    (folder / ".0123456789ab.part.png").write_bytes(b"half")
    (folder / "whole.png").write_bytes(b"whole")
    (tmp_path / "out" / ".0123456789ab.part.csv").write_bytes(b"half")
    with Ledger(tmp_path / "out", ROUND):
        pass
    assert [path.name for path in folder.iterdir()] == ["whole.png"]
    assert not list((tmp_path / "out").glob(".*.part*"))


def test_an_output_folder_that_cannot_be_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Error, match="cannot be written"), Ledger(tmp_path / "file" / "out", ROUND):
        pass


def test_looking_writes_nothing(tmp_path):
    Ledger(tmp_path / "out", ROUND)
    assert not (tmp_path / "out").exists()


def test_the_precision_that_a_round_began_with_stays_for_that_round(tmp_path):
    with Ledger(tmp_path / "out", ROUND) as ledger:
        assert ledger.precision is None
        ledger.precision = "bfloat16"
        ledger.write_job()
    assert Ledger(tmp_path / "out", ROUND).precision == "bfloat16"
    assert Ledger(tmp_path / "out", replace(ROUND, concept="d"), again=True).precision is None


def test_a_line_is_written_only_after_the_files_are_on_the_disk(tmp_path, photo, monkeypatch):
    out, order = tmp_path / "out", []
    real = places.to_disk
    monkeypatch.setattr(places, "to_disk", lambda *given: order.append(("files", len(lines()))) or real(*given))

    def lines() -> list[str]:
        return (out / ".dgpnet" / "done.jsonl").read_text().splitlines()

    with Ledger(out, ROUND) as ledger:
        ledger.add(*done(out, photo))
        ledger.settle()
        assert order == [("files", 0)]
        assert len(lines()) == 1


def test_where_a_disk_cannot_be_synced_in_one_go_its_files_are(tmp_path, photo, monkeypatch):
    synced = []
    monkeypatch.setattr("sys.platform", "elsewhere")
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    out = tmp_path / "out"
    with Ledger(out, ROUND) as ledger:
        entry, files = done(out, photo)
        ledger.add(entry, files)
    assert {str(file) for file in files} | {str(file.parent) for file in files} <= set(synced)
    assert Ledger(out, ROUND).is_done(photo)

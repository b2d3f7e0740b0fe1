import errno
import json
import resource
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dgpnet import images
from dgpnet.annotations import read_support
from dgpnet.errors import Error
from dgpnet.files import Journal
from dgpnet.images import read_mask, read_photo
from dgpnet.network import fast
from dgpnet.network.fast import Predictor
from dgpnet.places import Folder
from dgpnet.segmenter import Concept, Segmenter, folder, job, masks, stages, streams
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.options import Options
from dgpnet.segmenter.outputs import counts, numbered, parts
from dgpnet.segmenter.photographs import find_photographs
from dgpnet.segmenter.segmentation import judge
from dgpnet.segmenter.support import prepare
from tests.capability import needs_half
from tests.tiny import CONFIG, scenes, tiny_network, tiny_segmenter, write_photos


@pytest.fixture(scope="module")
def concept() -> Concept:
    photos, masks = scenes(2, classes=2)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "spoon"])


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_photograph_gets_its_mask_in_the_folders_of_the_input(tmp_path, concept):
    photos = find_photographs([write_photos(tmp_path / "photos", 10)])
    outcome = segment_folder(concept, photos, tmp_path / "out")
    assert (outcome.done, outcome.before, outcome.failures, outcome.stopped) == (10, 0, {}, None)
    assert files(tmp_path / "out" / "masks") == {f"{photo.key}.png" for photo in photos}
    for photo in photos:
        found = concept.segment(photo.path)
        np.testing.assert_array_equal(read_mask(tmp_path / "out" / "masks" / f"{photo.key}.png"), found.mask)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    rows = {row["photo"]: row for row in summary["photographs"]}
    assert rows[photo.name]["score"] == pytest.approx(found.score, abs=1e-3)
    assert list(rows[photo.name]["areas"].values()) == [int((found.mask == c).sum()) for c in (1, 2)]
    scores = [row["score"] for row in summary["photographs"]]
    assert scores == sorted(scores)
    assert len(scores) == 10
    for kind, suffix in (("photo", "jpg"), ("mask", "png"), ("uncertainty", "png")):
        assert files(tmp_path / "out" / "report" / kind) == {f"{photo.key}.{suffix}" for photo in photos}


def test_a_photograph_too_long_for_an_overlay_costs_no_other_one(tmp_path, concept):
    photos = write_photos(tmp_path / "photos", 2)
    Image.new("RGB", (70_000, 1)).save(photos / "long.png")
    outcome = segment_folder(concept, photos, tmp_path / "out", overlay=True)
    assert (outcome.done, outcome.stopped, list(outcome.failures)) == (2, None, ["long.png"])
    assert "--overlay" in outcome.failures["long.png"]
    assert segment_folder(concept, photos, tmp_path / "plain").done == 3


def test_all_that_can_be_asked_for(tmp_path, concept):
    photos = find_photographs([write_photos(tmp_path / "photos", 4)])
    segment_folder(
        concept, photos, tmp_path / "out", overlay=True, uncertainty=True, instances=True, tile=True, formats=["coco"]
    )
    keys = {photo.key for photo in photos}
    for kind, suffix in (("overlays", ".jpg"), ("uncertainty", ".png"), ("instances", ".png")):
        assert files(tmp_path / "out" / kind) == {key + suffix for key in keys}
    coco = json.loads((tmp_path / "out" / "annotations" / "coco.json").read_text())
    assert {image["file_name"] for image in coco["images"]} == {photo.name for photo in photos}
    one = photos[0]
    found = concept.segment(one.path, tile=True)
    shown = np.asarray(Image.open(tmp_path / "out" / "uncertainty" / f"{one.key}.png"))
    np.testing.assert_allclose(shown / 255, found.uncertainty, atol=0.01)
    numbers = read_mask(tmp_path / "out" / "instances" / f"{one.key}.png")
    np.testing.assert_array_equal(numbers > 0, found.mask > 0)


def test_classes_that_are_unlike_the_examples_can_be_left_out(tmp_path, concept, monkeypatch):
    painted, masks = scenes(2, classes=2)
    able = tiny_segmenter(CONFIG.but(similarity=True)).learn(painted, masks)
    photos = find_photographs([write_photos(tmp_path / "photos", 6)])
    maps = {p.key: able.maps([prepare(read_photo(p.path), CONFIG)])[0] for p in photos}
    found = {p.key: able.segment(p.path, threshold=0.01) for p in photos}
    likeness = {
        key: judge([one], able.segmenter.calibration, threshold=0.01)[0].class_likeness for key, one in maps.items()
    }
    seen = sorted(one for both in likeness.values() for one in both if one < 1)
    least = (seen[0] + seen[-1]) / 2
    monkeypatch.setattr(folder, "UNLIKE", least)
    outcome = segment_folder(able, photos, tmp_path / "all", threshold=0.01)
    assert outcome.unlike == sum(one.mask.any() and one.likeness < least for one in found.values()) > 0
    assert segment_folder(concept, photos, tmp_path / "plain", threshold=0.01).unlike == 0  # it cannot tell
    assert outcome.less_like == 0
    demanding = segment_folder(able, photos, tmp_path / "out", threshold=0.01, min_likeness=least)
    assert (demanding.unlike, demanding.left_out) == (0, 0)
    assert demanding.less_like == sum(min(both) < least for both in likeness.values()) > 0
    for row in json.loads((tmp_path / "out" / "summary.json").read_text())["photographs"]:
        assert all(row["areas"][name] == 0 for name, like in row["likenesses"].items() if like < least)
    for key, one in found.items():
        kept = np.where(np.isin(one.mask, [c for c in (1, 2) if likeness[key][c - 1] >= least]), one.mask, 0)
        np.testing.assert_array_equal(read_mask(tmp_path / "out" / "masks" / f"{key}.png"), kept)
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())["photographs"]
    told = sorted(row["likeness"] for row in rows)
    assert told == pytest.approx(sorted(one.likeness for one in found.values()), abs=1e-3)
    with pytest.raises(Error, match="no plain similarity"):
        segment_folder(concept, photos, tmp_path / "other", min_likeness=0.5)
    assert not (tmp_path / "other").exists()


def test_what_goes_out_comes_back(tmp_path, concept):
    folder_of_photos = write_photos(tmp_path / "photos", 5)
    photos = find_photographs([folder_of_photos])
    segment_folder(concept, photos, tmp_path / "out")
    masks = {photo.path.resolve(): read_mask(tmp_path / "out" / "masks" / f"{photo.key}.png") for photo in photos}
    back = read_support(tmp_path / "out", photos=folder_of_photos)
    assert set(back.classes) <= {"mug", "spoon"}
    for example in back.examples:
        np.testing.assert_array_equal(example.mask, masks[example.photo.resolve()])


def test_a_second_run_skips_what_is_done_and_does_what_is_new(tmp_path, concept, monkeypatch):
    root = write_photos(tmp_path / "photos", 6)
    segment_folder(concept, find_photographs([root]), tmp_path / "out")
    before = {
        name: (tmp_path / "out" / "masks" / name).stat().st_mtime_ns for name in files(tmp_path / "out" / "masks")
    }
    Image.fromarray(scenes(1)[0][0]).save(root / "new.png")
    (tmp_path / "out" / "masks" / "0001.png").unlink()
    read: list[str] = []
    monkeypatch.setattr(stages, "open_photo", lambda path, **o: read.append(path.name) or images.open_photo(path, **o))
    outcome = segment_folder(concept, find_photographs([root]), tmp_path / "out")
    assert sorted(read) == ["0001.jpg", "new.png"]
    assert (outcome.done, outcome.before) == (7, 5)
    after = {name: (tmp_path / "out" / "masks" / name).stat().st_mtime_ns for name in before}
    assert {name for name in before if before[name] != after[name]} == {"0001.png"}
    assert len(json.loads((tmp_path / "out" / "summary.json").read_text())["photographs"]) == 7


@needs_half
def test_a_resumed_job_computes_in_the_precision_it_began_with(tmp_path, monkeypatch):
    photos, masks = scenes(1)
    used: list[torch.dtype] = []
    look = Predictor.look
    monkeypatch.setattr(Predictor, "look", lambda self, *given: used.append(self.dtype) or look(self, *given))
    root = write_photos(tmp_path / "photos", 1)
    for pays in (True, False):  # the machine that began the job had bfloat16, this one has not
        monkeypatch.setattr(fast, "half_pays", lambda device, pays=pays: pays)
        Image.fromarray(photos[0]).save(root / f"{pays}.png")
        concept = Segmenter(tiny_network()).learn(photos, masks)
        segment_folder(concept, find_photographs([root]), tmp_path / "out")
    assert used == [torch.bfloat16, torch.bfloat16]


def test_bad_photographs_are_listed_and_the_rest_carried_on(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 9)
    whole = (root / "0000.jpg").read_bytes()
    (root / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "empty.jpg").write_bytes(b"")
    (root / "text.jpg").write_text("these are words")
    (root / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(20))
    Image.new("L", (2000, 2000)).save(root / "huge.png")
    (root / "broken-link.jpg").symlink_to(tmp_path / "nowhere")
    outcome = segment_folder(concept, find_photographs([root]), tmp_path / "out", max_pixels=1_000_000)
    bad = ["broken-link.jpg", "empty.jpg", "huge.png", "phone.heic", "text.jpg", "truncated.jpg"]
    assert sorted(outcome.failures) == bad
    for name in bad:
        assert name in outcome.failures[name] or name == "broken-link.jpg"
        assert "\n" not in outcome.failures[name]
    assert outcome.done == 9
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert sorted(row["photo"] for row in summary["failures"]) == bad
    assert "truncated.jpg" in (tmp_path / "out" / "report" / "data.js").read_text()
    Image.fromarray(scenes(1)[0][0]).save(root / "empty.jpg")  # mended: the next run takes it up
    assert (
        "empty.jpg"
        not in segment_folder(concept, find_photographs([root]), tmp_path / "out", max_pixels=1_000_000).failures
    )


def test_a_full_disk_stops_the_job_loses_nothing_and_it_goes_on_later(tmp_path, concept, monkeypatch):
    photos = find_photographs([write_photos(tmp_path / "photos", 12)])
    written = []

    put = Folder.put

    def until_full(folder: Folder, contents: dict[str, bytes], **how: bool) -> tuple[Path, ...]:
        if len(written) >= 7:  # the record, its precision, and five photographs
            raise Error(f"Cannot write {folder}: the disk is full; choose another place or make room.")
        written.append(contents)
        return put(folder, contents, **how)

    monkeypatch.setattr(Folder, "put", until_full)
    outcome = segment_folder(concept, photos, tmp_path / "out")
    assert "disk is full" in outcome.stopped
    assert outcome.done == 5
    assert len(files(tmp_path / "out" / "masks")) == 5
    monkeypatch.undo()
    assert segment_folder(concept, photos, tmp_path / "out").done == 12


def test_a_disk_that_is_full_for_the_record_stops_the_job_as_well(tmp_path, concept, monkeypatch):
    photos = find_photographs([write_photos(tmp_path / "photos", 4)])
    add = Journal.add

    def full(journal: Journal, *records: dict[str, object]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "add", full)
    outcome = segment_folder(concept, photos, tmp_path / "out")
    assert "No space left" in outcome.stopped
    assert outcome.done == 0
    monkeypatch.setattr(Journal, "add", add)
    assert segment_folder(concept, photos, tmp_path / "out").done == 4


def test_a_disk_that_is_full_at_the_end_is_told_too(tmp_path, concept, monkeypatch):
    photos = find_photographs([write_photos(tmp_path / "photos", 2)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job, "write_summary", full)
    outcome = segment_folder(concept, photos, tmp_path / "out")
    assert "No space left" in outcome.stopped


def test_a_batch_too_large_for_the_device_is_cut(tmp_path, concept, monkeypatch):
    photos = find_photographs([write_photos(tmp_path / "photos", 5)])
    whole = Concept.maps

    def small_device(self: Concept, group: list, *, batch: int) -> list:
        if batch > 1 or group[0].size == (40, 57):
            raise torch.OutOfMemoryError
        return whole(self, group)

    Image.fromarray(scenes(1)[0][0]).resize((57, 40)).save(tmp_path / "photos" / "x.png")
    photos = find_photographs([tmp_path / "photos"])
    monkeypatch.setattr(Concept, "maps", small_device)
    outcome = segment_folder(concept, photos, tmp_path / "out")
    assert outcome.done == 5
    assert "memory" in outcome.failures["x.png"]


def test_progress_ends_at_the_end(tmp_path, concept):
    photos = find_photographs([write_photos(tmp_path / "photos", 5)])
    seen: list[tuple[int, int]] = []
    segment_folder(concept, photos, tmp_path / "out", advance=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    assert seen == sorted(seen)


def run_many(tmp_path: Path, concept: Concept, count: int) -> None:
    root, out = tmp_path / f"photos{count}", tmp_path / f"out{count}"
    root.mkdir()
    rng = np.random.default_rng(count)
    for i in range(count):
        Image.fromarray(rng.integers(0, 255, (24, 32, 3), np.uint8)).save(root / f"{i:05}.png")
    outcome = segment_folder(concept, [root], out)
    assert (outcome.done, outcome.failures) == (count, {})
    assert len(files(out / "masks")) == count
    assert len(json.loads((out / "summary.json").read_text())["photographs"]) == count


def test_few_photographs_are_in_memory_however_many_there_are(tmp_path, concept, monkeypatch):
    alive, most = 0, 0

    def count(change: int) -> None:
        nonlocal alive, most
        alive += change
        most = max(most, alive)

    class Counted(stages.Decoded):
        def __post_init__(self) -> None:
            count(1)
            weakref.finalize(self, count, -1)

    monkeypatch.setattr(stages, "Decoded", Counted)
    monkeypatch.setattr(streams, "at_once", lambda: 2)
    run_many(tmp_path, concept, 48)
    assert alive == 0
    assert most <= 8 + 8 + 2 * concept.segmenter.engine.batch(2)  # read ahead, being written, and in the network


@pytest.mark.slow
def test_two_thousand_photographs_in_constant_memory_with_no_file_missing(tmp_path, concept):
    run_many(tmp_path, concept, 200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run_many(tmp_path, concept, 2000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB; 2,000 such photographs have more


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 2.0}, "threshold"),
        ({"max_pixels": 0}, "max-pixels"),
        ({"formats": ["bmp"]}, "'coco', 'labelme'"),
        ({"min_likeness": 1.5}, "min-likeness"),
        ({"min_likeness": float("nan")}, "min-likeness"),
        ({"min_area": -1}, "min-area"),
        ({"min_area": 2.5}, "a whole number"),
        ({"simplify": float("inf")}, "simplify"),
        ({"overlay": "yes"}, "True or False"),
        ({"threshold": "0.5"}, "a number between 0 and 1"),
        ({"formats": "coco"}, "a list of names"),
        ({"formats": [3]}, "coco"),
        ({"prefix": None}, "prefix is a str"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(Error, match=message):
        Options.of(options)


def test_connected_parts_are_numbered_the_largest_first_and_counted():
    mask = np.array([[1, 0, 2, 2], [0, 0, 2, 2], [1, 1, 0, 0], [1, 0, 255, 1]], np.uint8)
    numbers = numbered(parts(mask), mask.shape)
    assert numbers.dtype == np.uint16
    assert numbers[0, 2] == 1
    assert numbers[2, 0] == numbers[2, 1] == numbers[3, 0] == 2
    assert {int(numbers[0, 0]), int(numbers[3, 3])} == {3, 4}
    assert numbers[3, 2] == 0
    assert counts(parts(mask), 3) == (3, 1, 0)
    assert counts(parts(mask, min_area=3), 3) == (1, 1, 0)
    assert not numbered(parts(mask * 0), mask.shape).any()


def test_what_is_known_is_not_found_again_and_comes_to_the_same_files(tmp_path, concept, monkeypatch):
    photos = write_photos(tmp_path / "photos", 4)
    segment_folder(concept, photos, tmp_path / "plain", formats=["coco"])
    found = find_photographs([photos])
    maps = concept.maps([prepare(read_photo(one.path), concept.segmenter.network.config) for one in found], batch=4)
    entries = {}
    for photo, judged in zip(found, judge(maps, concept.segmenter.calibration), strict=True):
        mask = masks.read(tmp_path / "plain" / "masks" / f"{photo.key}.png", concept.legend)
        entries[photo.key] = stages.Result(mask, None, judged, 0.0)
    monkeypatch.setattr(Concept, "maps", lambda *_, **__: pytest.fail("asked the network"))
    segment_folder(concept, photos, tmp_path / "known", formats=["coco"], known=lambda photo: entries[photo.key])
    for name in ("masks/0000.png", "annotations/coco.json", "report/index.html", "classes.json"):
        assert (tmp_path / "known" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name


def test_what_is_known_of_another_photograph_does_not_count(tmp_path, concept):
    photos = write_photos(tmp_path / "photos", 1)
    (maps,) = concept.maps([prepare(scenes(1)[0][0], concept.segmenter.network.config)])
    (judged,) = judge([maps], concept.segmenter.calibration)
    wrong = stages.Result(np.ones((3, 3), np.uint8), None, judged, 0.0)
    segment_folder(concept, photos, tmp_path / "out", known=lambda photo: wrong)
    assert read_mask(tmp_path / "out" / "masks" / "0000.png").shape == (40, 56)


def test_a_studio_beside_photographs_hides_none_of_them(tmp_path):
    photos = write_photos(tmp_path / "photos", 2)
    (photos / "report").mkdir()
    (photos / "0000.jpg").rename(photos / "report" / "0000.jpg")
    (photos / ".dgpnet" / "painted" / "masks").mkdir(parents=True)
    Image.new("L", (4, 4)).save(photos / ".dgpnet" / "painted" / "masks" / "0001.png")
    assert [photo.name for photo in find_photographs([photos])] == ["0001.jpg", "report/0000.jpg"]
    assert len(find_photographs([photos / "report"])) == 1
    (photos / ".dgpnet" / "job.json").write_text("{}")
    assert [photo.name for photo in find_photographs([photos])] == ["0001.jpg"]


def test_photographs_that_twelve_bits_hold_are_counted_in_one_note(tmp_path, concept):
    photos = write_photos(tmp_path / "photos", 2)
    for i in range(5):
        Image.fromarray(np.full((40, 56), 4095, np.uint16)).save(photos / f"field{i}.tif")
    notes = segment_folder(concept, photos, tmp_path / "out").notes
    assert [note.split(" bits and")[0] for note in notes] == ["5 photographs (first: field0.tif) have more than 8"]
    assert "no value above 4095 (12 bits), which is seen nearly black" in notes[0] and notes[0].endswith(".")
    Image.fromarray(np.full((40, 56), 4095, np.uint16)).save(photos / "later.png")
    (note,) = segment_folder(concept, photos, tmp_path / "out").notes
    assert note.startswith("later.png has more than 8 bits")

"""A folder job that writes to object storage, which memory plays here: the same bytes as in a folder of a disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.cli import run
from dgpnet.errors import Error
from dgpnet.places import Bucket
from dgpnet.segmenter import Concept
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.photographs import find_photographs
from tests.cluster.same import results, results_there
from tests.tiny import scenes, tiny_checkpoint, tiny_segmenter, write_photos, write_support

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed here")
OUT = "memory://job/found"


@pytest.fixture(scope="module")
def concept() -> Concept:
    photos, masks = scenes(2, classes=2)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "spoon"])


@pytest.fixture
def out() -> Iterator[Bucket]:
    yield Bucket(OUT)
    memory = fsspec.filesystem("memory")
    if memory.exists("/job"):
        memory.rm("/job", recursive=True)


def test_what_is_written_there_is_what_is_written_to_a_folder(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 8)
    (root / "broken.jpg").write_bytes(b"words")
    options = {"overlay": True, "uncertainty": True, "instances": True, "formats": ["coco", "yolo", "voc"]}
    here = segment_folder(concept, root, tmp_path / "here", **options)
    there = segment_folder(concept, root, OUT, **options)
    assert (there.done, there.failures, there.stopped) == (8, here.failures, None)
    assert list(there.failures) == ["broken.jpg"]
    assert there.annotations["coco"] == f"{OUT}/annotations/coco.json"
    assert results_there(OUT, tmp_path / "there") == results(tmp_path / "here")
    again = segment_folder(concept, root, OUT, **options)
    assert (again.done, again.before, list(again.failures), again.notes) == (8, 8, ["broken.jpg"], ())
    assert results_there(OUT, tmp_path / "again") == results(tmp_path / "here")
    assert out.read(".dgpnet/lock") is None


def test_a_job_that_was_cut_off_goes_on_and_what_is_lost_is_made_again(tmp_path, concept, out, monkeypatch):
    root = write_photos(tmp_path / "photos", 8)
    put, written = Bucket.put, []

    def until_cut_off(place: Bucket, contents: dict[str, bytes], **how: bool) -> tuple[Path, ...]:
        written.append(contents)
        if len(written) == 6:
            raise Error("The line is cut.")
        return put(place, contents, **how)

    monkeypatch.setattr(Bucket, "put", until_cut_off)
    first = segment_folder(concept, root, OUT)
    assert "The line is cut." in first.stopped
    assert 0 < first.done < 8
    monkeypatch.undo()
    out.remove("masks/0000.png")
    out.put({"report/photo/0001.jpg": b"half"})
    second = segment_folder(concept, root, OUT)
    assert (second.done, second.before) == (8, first.done - sum(name in _done(written) for name in ("0000", "0001")))
    segment_folder(concept, root, tmp_path / "whole")
    there, whole = results_there(OUT, tmp_path / "there"), results(tmp_path / "whole")
    for each in (there, whole):
        each[".dgpnet/done.jsonl"] = sorted(set(each[".dgpnet/done.jsonl"]))
    assert there == whole


def _done(written: list[dict[str, bytes]]) -> set[str]:
    return {name.removeprefix("masks/").removesuffix(".png") for put in written[:5] for name in put if "masks" in name}


def test_a_folder_that_was_copied_there_is_gone_on_with_and_the_other_way_round(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 6)
    segment_folder(concept, sorted(root.glob("*.jpg"))[:3], tmp_path / "here")
    memory = fsspec.filesystem("memory")
    for path in filter(Path.is_file, (tmp_path / "here").rglob("*")):
        if path.name != "lock":
            memory.pipe_file(f"/job/found/{path.relative_to(tmp_path / 'here').as_posix()}", path.read_bytes())
    assert segment_folder(concept, root, OUT).before == 3
    results_there(OUT, tmp_path / "back")
    record = tmp_path / "back" / ".dgpnet"
    with (record / "done.jsonl").open("ab") as file:
        file.writelines(part.read_bytes() for part in sorted(record.glob("done-*.jsonl")))
    assert segment_folder(concept, root, tmp_path / "back").before == 6


def test_a_mask_that_a_person_edited_there_is_kept_and_nonsense_is_put_aside(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 3)
    segment_folder(concept, root, OUT)
    edited = np.ones((40, 56), np.uint8)
    Image.fromarray(edited).save(tmp_path / "edited.png")
    out.put({"masks/0000.png": (tmp_path / "edited.png").read_bytes(), "masks/0001.png": b"nonsense"})
    outcome = segment_folder(concept, root, OUT)
    assert (outcome.edited, outcome.done, outcome.before) == (1, 3, 1)
    assert f"{OUT}/masks/0001.png" in outcome.notes[0]
    assert out.read("aside/masks/0001.png") == b"nonsense"
    assert out.read("masks/0000.png") == (tmp_path / "edited.png").read_bytes()
    other = scenes(2, first=5, classes=2)
    later = tiny_segmenter().learn(*other, classes=["mug", "spoon"])
    with pytest.raises(Error, match="holds an earlier round"):
        segment_folder(later, root, OUT)
    assert segment_folder(later, root, OUT, again=True).edited == 1


def test_annotations_that_somebody_edited_there_are_put_aside(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 2)
    segment_folder(concept, root, OUT, formats=["coco"])
    out.put({"annotations/coco.json": b'{"mine": 1}'})
    assert "left as it is" in segment_folder(concept, root, OUT, formats=["coco"]).notes[0]
    Image.fromarray(scenes(1)[0][0]).save(root / "new.jpg")
    outcome = segment_folder(concept, root, OUT, formats=["coco"])
    assert "kept as aside/annotations/coco.json" in outcome.notes[0]
    assert out.read("aside/annotations/coco.json") == b'{"mine": 1}'
    assert b"new.jpg" in out.read("annotations/coco.json")


def test_results_are_no_photographs_and_do_not_go_where_photographs_lie(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 3)
    memory = fsspec.filesystem("memory")
    for path in root.rglob("*.jpg"):
        memory.pipe_file(f"/job/{path.relative_to(root).as_posix()}", path.read_bytes())
    address = "memory://job"
    assert segment_folder(concept, address, OUT, overlay=True).done == 3
    assert segment_folder(concept, address, OUT, overlay=True).before == 3
    assert [photo.name for photo in find_photographs([address])] == ["0000.jpg", "0001.jpg", "more/0002.jpg"]
    for wrong, told in ((OUT, "both where photographs are"), (f"{OUT}/overlays", "among the results of a job")):
        with pytest.raises(Error, match=told):
            segment_folder(concept, wrong, OUT)


def test_an_address_may_be_given_as_a_path(tmp_path, concept, out):
    out.put({"photos/a.jpg": (write_photos(tmp_path / "photos", 1) / "0000.jpg").read_bytes()})
    (photo,) = find_photographs([Path(f"{OUT}/photos")])
    assert photo.where == f"{OUT}/photos/a.jpg"
    assert segment_folder(concept, Path(f"{OUT}/photos"), tmp_path / "found").done == 1


def test_what_nobody_knows_of_is_not_overwritten(tmp_path, concept, out):
    out.put({"masks/mine.png": b"mine"})
    with pytest.raises(Error, match="already holds masks"):
        segment_folder(concept, write_photos(tmp_path / "photos", 2), OUT)


def test_on_the_command_line_with_what_was_fitted_kept_there(tmp_path, monkeypatch, capsys, out):
    monkeypatch.chdir(tmp_path)
    write_support(tmp_path / "painted", 3)
    write_photos(tmp_path / "photos", 3)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    words = ["segment", "painted", "photos", "--out", OUT, "--model", model, "--fit", "--fit-seconds", "1"]
    assert run(words) == 0
    told = capsys.readouterr().out
    assert f"Masks: {OUT}/masks" in told
    assert f"Report: {OUT}/report/index.html" in told
    assert out.read(".dgpnet/fitted.concept") is not None
    assert run(words) == 0
    assert "(3 of them before)" in capsys.readouterr().out
    assert not (tmp_path / "memory:").exists()


def test_what_was_painted_is_kept_as_painted(tmp_path, concept, out):
    support = read_support(write_support(tmp_path / "painted", 2))
    examples = support.examples
    learned = tiny_segmenter().learn([one.photo for one in examples], [one.mask for one in examples])
    shutil.copytree(tmp_path / "painted" / "images", tmp_path / "photos")
    assert segment_folder(learned, tmp_path / "photos", OUT, painted=support).painted == 2


def test_a_name_that_storage_cannot_have_is_listed_and_all_else_is_done(tmp_path, concept, out):
    root = write_photos(tmp_path / "photos", 2)
    shutil.copy(root / "0000.jpg", root / "caf\udce9.jpg")
    outcome = segment_folder(concept, root, OUT)
    assert (outcome.done, outcome.stopped, list(outcome.failures)) == (2, None, ["caf\udce9.jpg"])
    assert "rename it" in outcome.failures["caf\udce9.jpg"]

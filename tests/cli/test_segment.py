"""`dgpnet segment`, `learn` and `suggest` as a person runs them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.cli import application, run
from dgpnet.images import read_mask
from dgpnet.network import fast
from tests.tiny import scene, tiny_checkpoint, write_photos, write_support


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_checkpoint(tmp_path_factory.mktemp("model") / "tiny.safetensors"))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with painted/ (a support set) and photos/, which is also the working directory."""
    write_support(tmp_path / "painted", 2)
    write_photos(tmp_path / "photos", 5)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


#: Two runs in the same precision agree but for rounding, which other batches change.
SAME = 0.999


def agreement(one: Path, other: Path) -> float:
    """Share of pixels that two masks agree on."""
    return float((read_mask(one) == read_mask(other)).mean())


def test_a_folder_of_photographs_becomes_a_folder_of_masks(here, model, capsys):
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model, "--overlay"]) == 0
    shown = capsys.readouterr()
    assert "5 photographs done, 0 failed." in shown.out
    assert "min-likeness" not in shown.out
    assert "found/report/index.html" in shown.out
    assert "Learned object from 2 photographs" in shown.err
    assert files(here / "found" / "masks") == {"0000.png", "0001.png", "0003.png", "0004.png", "more/0002.png"}
    assert files(here / "found" / "overlays") == {"0000.jpg", "0001.jpg", "0003.jpg", "0004.jpg", "more/0002.jpg"}
    assert {"summary.csv", "summary.json", "classes.json", "report/index.html"} <= files(here / "found")


def test_single_photographs_and_several_folders(here, model):
    (here / "one.png").write_bytes((here / "painted/images/0.png").read_bytes())
    write_photos(here / "others", 3)
    assert run(["segment", "painted", "one.png", "photos", "others", "--out", "found", "--model", model]) == 0
    assert {"one.png", "photos/0000.png", "others/more/0002.png"} <= files(here / "found" / "masks")


def test_everything_in_one_folder_works_and_is_not_segmented_itself(here, model):
    assert run(["segment", "painted", ".", "--out", "found", "--model", model]) == 0
    assert run(["segment", "painted", ".", "--out", "found", "--model", model]) == 0
    assert all(name.startswith("photos/") for name in files(here / "found" / "masks"))


def test_a_support_that_is_the_folder_itself(here, model):
    assert run(["segment", "painted", "painted", "--out", "found", "--model", model]) == 0
    assert files(here / "found" / "masks") == {"images/0.png", "images/1.png"}


def test_results_among_the_photographs_are_refused_and_those_below_them_are_no_photographs(here, model, capsys):
    before = files(here)
    assert run(["segment", "painted", "photos", "--out", "photos", "--model", model]) == 2
    assert "photos is both where photographs are" in capsys.readouterr().err
    assert files(here) == before
    for out in ("photos/found", "photos/other"):  # the second sees the results of the first
        assert run(["segment", "painted", "photos", "--out", out, "--model", model, "--overlay"]) == 0
        assert len(files(here / out / "masks")) == 5
    assert run(["segment", "painted", "photos/found/overlays", "--out", "more", "--model", model]) == 2
    assert "among the results of a job" in capsys.readouterr().err
    assert run(["segment", "painted", "photos", "--out", ".", "--model", model]) == 0  # around them
    assert run(["segment", "painted", "photos", "--out", ".", "--model", model]) == 0
    assert len(files(here / "masks")) == 5


def test_a_concept_stands_for_its_support(here, model, capsys, monkeypatch):
    monkeypatch.setattr(fast, "half_pays", lambda device: False)  # two jobs, each of which measures anew
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["classes"], told["examples"], told["budgeted"]) == (["object"], 2, False)
    assert run(["segment", "mug.concept", "photos", "--out", "a", "--model", model]) == 0
    assert run(["segment", "painted", "photos", "--out", "b", "--model", model]) == 0
    for name in files(here / "a" / "masks"):
        assert agreement(here / "a" / "masks" / name, here / "b" / "masks" / name) > SAME


def test_the_answer_as_json(here, model, capsys):
    shutil.copy(here / "painted" / "images" / "0.png", here / "photos")
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--json", "--instances"]
    assert run([*words, "--format", "coco", "--format", "yolo"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["done_before"], told["painted"], told["edited"]) == (6, 0, 1, 0)
    assert (told["failures"], told["notes"], told["stopped"]) == ({}, [], None)
    assert Path(told["report"]).is_file()
    assert Path(told["masks"]).is_dir()
    assert set(told["annotations"]) == {"coco", "yolo"}
    assert all(Path(path).exists() for path in told["annotations"].values())
    assert set(told["totals"]["object"]) == {"photographs", "area", "share", "count"}


def test_it_says_where_everything_is_and_what_there_is(here, model, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--instances", "--min-area", "4"]
    assert run([*words, "--format", "coco", "--format", "labelme"]) == 0
    shown = capsys.readouterr().out
    for place in ("Masks: found/masks", "Annotations: found/annotations/coco.json", "Report: found/report/index.html"):
        assert place in shown
    assert "Annotations: found/annotations/labelme" in shown
    assert "object: in " in shown
    assert " parts, " in shown


def test_an_edit_saved_white_on_black_is_told_in_the_line_of_edits(here, model, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model]
    assert run(words) == 0
    mask = Image.new("L", (56, 40))
    mask.paste(255, (0, 0, 9, 9))
    mask.save(here / "found" / "masks" / "0000.png")
    for _ in range(2):
        capsys.readouterr()
        assert run(words) == 0
        told = "Kept by hand: 0 as painted, 1 as edited in found/masks (1 white on black: taken for object)."
        assert told in capsys.readouterr().out


def test_masks_in_one_folder_with_photographs_are_none_but_for_case(here, model, capsys):
    flat = here / "flat"
    flat.mkdir()
    for n, (photo, mask) in enumerate([("DESK.JPG", "desk_mask.png"), ("\u00e9.jpg", "e\u0301-mask.PNG")]):
        for name, pixels in zip((photo, mask), scene(n), strict=True):
            Image.fromarray(pixels).save(flat / name)
    Image.fromarray(scene(5)[0]).save(flat / "other.jpg")
    assert run(["segment", "flat", "flat", "--out", "found", "--model", model]) == 0
    assert "3 photographs done, 0 failed." in capsys.readouterr().out
    assert files(here / "found" / "masks") == {"DESK.png", "\u00e9.png", "other.png"}
    assert run(["suggest", "flat", "--support", "flat", "--model", model]) == 0
    assert capsys.readouterr().out.split() == ["flat/other.jpg"]


@pytest.mark.parametrize("masks", ["masks", "SegmentationClass"])
def test_a_photograph_that_is_called_like_a_painted_one_is_no_mask(here, model, capsys, masks):
    """As cameras count anew every day."""
    days = here / "days"
    for place in ("images/day1", "images/day2", f"{masks}/day1", "SegmentationObject/day1"):
        (days / place).mkdir(parents=True)
    for name, pixels in zip(("images/day1/001.png", f"{masks}/day1/001.png"), scene(1), strict=True):
        Image.fromarray(pixels).save(days / name)
    Image.fromarray(scene(2)[0]).save(days / "images" / "day2" / "001.png")
    Image.fromarray(scene(1)[1]).save(days / "SegmentationObject" / "day1" / "001.png")
    assert run(["segment", "days", "days", "--out", "found", "--model", model]) == 0
    shown = capsys.readouterr().out
    assert "2 photographs done, 0 failed." in shown and "1 as painted, 0 as edited" in shown
    assert run(["suggest", "days", "--support", "days", "--model", model]) == 0
    assert capsys.readouterr().out.split() == ["days/images/day2/001.png"]
    assert run(["segment", "days", "days/images/day1", "--out", "one", "--model", model]) == 0
    assert "Kept by hand: 1 as painted, 0 as edited" in capsys.readouterr().out


def test_names_for_values_a_choice_of_classes_and_what_crowds_are(here, model, capsys):
    words = ["--out", "found", "--model", model]
    assert run(["segment", "painted", "photos", "--names", "mug", *words]) == 0
    assert json.loads((here / "found" / "classes.json").read_text()) == {"mug": 1}
    assert run(["segment", "painted", "photos", "--crowds", "some", *words]) == 2
    assert "takes ignore or objects" in capsys.readouterr().err
    assert run(["segment", "painted", "photos", "--classes", "a,,b", *words]) == 2
    assert run(["learn", "painted", "--names", "mug", "--out", "mug.concept", "--model", model]) == 0
    assert run(["segment", "mug.concept", "photos", "--names", "cup", *words]) == 2
    assert "--names is for what is still to be learned" in capsys.readouterr().err


def test_names_where_a_file_has_them_are_said_not_to_be_used(here, model, capsys):
    (here / "painted" / "classes.json").write_text('["mug"]')
    words = ["segment", "painted", "photos", "--names", "cup", "--out", "found", "--model", model]
    assert run(words) == 0
    assert "note: the names that were given are not used, those of the file are" in capsys.readouterr().err
    assert json.loads((here / "found" / "classes.json").read_text()) == {"mug": 1}
    with pytest.raises(SystemExit):
        application("segment")(args=["segment", "--help"], standalone_mode=True)
    assert "where no file has them" in " ".join(capsys.readouterr().out.split())


def test_photographs_that_twelve_bits_hold_are_told_of_in_few_lines(here, model, capsys):
    for i in range(3):
        field = Image.fromarray(np.full((40, 56), 4095, np.uint16))
        field.save(here / "photos" / f"field{i}.tif")
    (here / "painted" / "images" / "0.png").unlink()
    with Image.open(here / "painted" / "masks" / "0.png") as mask:
        Image.fromarray(np.full(mask.size[::-1], 4095, np.uint16)).save(here / "painted" / "images" / "0.png")
    command = [sys.executable, "-m", "dgpnet", "segment", "painted", "photos", "--out", "found", "--model", model]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=True).stderr
    lines = [line for line in told.splitlines() if "4095" in line]
    assert [line.split(" more than 8 bits")[0] for line in lines] == [
        "note: A photograph has",
        "note: 3 photographs (first: field0.tif) have",
    ]
    assert "Notice" not in told


def test_what_was_decided_while_reading_is_told(here, model, capsys, monkeypatch):
    from dgpnet import annotations

    real = annotations.read_support
    note = "White is the object in 2 masks."
    monkeypatch.setattr(annotations, "read_support", lambda *a, **o: replace(real(*a, **o), notes=(note,)))
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--json"]
    assert run(words) == 0
    shown = capsys.readouterr()
    assert f"note: {note}" in shown.err
    assert json.loads(shown.out)["notes"] == [note]


def test_a_name_that_is_no_text_is_no_obstacle(here, model, capsys):
    out = os.fsdecode(b"r\xe9sultats")
    (here / "photos" / os.fsdecode(b"caf\xe9.jpg")).write_bytes((here / "photos" / "0000.jpg").read_bytes())
    (here / "photos" / os.fsdecode(b"leer\xe9.jpg")).touch()
    assert run(["segment", "painted", "photos", "--out", out, "--model", model]) == 1
    shown = capsys.readouterr()
    assert "6 photographs done, 1 failed." in shown.out
    assert "leer\\udce9.jpg" in shown.err
    assert (here / out / "masks" / os.fsdecode(b"caf\xe9.png")).is_file()


@pytest.mark.parametrize("format", ["coco", "labelme", "yolo", "labelstudio"])
def test_other_formats(here, model, format):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--format", format]
    assert run([*words, "--instances", "--uncertainty", "--threshold", "0.4"]) == 0
    assert files(here / "found" / "annotations")
    assert len(files(here / "found" / "instances")) == len(files(here / "found" / "uncertainty")) == 5


def test_a_second_run_skips_and_another_support_is_refused(here, model, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model]
    assert run(words) == 0
    assert run(words) == 0
    assert "5 photographs done (5 of them before)" in capsys.readouterr().out
    before = {name: (here / "found" / name).read_bytes() for name in files(here / "found")}
    assert run([*words, "--threshold", "0.3"]) == 2
    assert "threshold (null then, 0.3 now)" in capsys.readouterr().err
    (here / "painted" / "masks" / "1.png").unlink()
    assert run(words) == 2
    told = capsys.readouterr().err
    assert "1 photograph was taken out of the examples: 1.png" in told
    assert "--again" in told
    assert {name: (here / "found" / name).read_bytes() for name in files(here / "found")} == before


def test_failures_are_listed_the_rest_is_done_and_the_exit_code_is_1(here, model, capsys):
    (here / "photos" / "bad.jpg").write_text("words")
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model]) == 1
    shown = capsys.readouterr()
    assert "5 photographs done, 1 failed." in shown.out
    assert "failed: photos/bad.jpg" in shown.err
    assert len(files(here / "found" / "masks")) == 5


def test_a_photograph_of_50000_by_50000_is_refused_before_it_is_decoded(here, model, capsys):
    def chunk(content: bytes) -> bytes:
        return (len(content) - 4).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")

    head = b"IHDR" + (50_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    parts = [head, b"IDAT" + zlib.compress(bytes(100)), b"IEND"]
    (here / "photos" / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, parts)))
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model]) == 1
    shown = capsys.readouterr().err
    assert "huge.png" in shown
    assert "pixels" in shown


def refusals() -> dict[str, tuple]:
    def outside(here: Path) -> None:
        coco = {"images": [{"id": 1, "file_name": "../../etc/passwd"}], "annotations": [], "categories": []}
        (here / "coco.json").write_text(json.dumps(coco))

    def not_json(here: Path) -> None:
        (here / "coco.json").write_text("{not json")

    def other_size(here: Path) -> None:
        Image.new("L", (9, 9)).save(here / "painted" / "masks" / "0.png")

    def empty_masks(here: Path) -> None:
        for path in (here / "painted" / "masks").iterdir():
            Image.fromarray(read_mask(path) * 0).save(path)

    def truncated(here: Path) -> None:
        path = here / "painted" / "images" / "0.png"
        path.write_bytes(path.read_bytes()[:200])

    def nothing(here: Path) -> None: ...

    return {
        "support missing": (nothing, ["nowhere", "photos"], "nowhere"),
        "photograph missing": (nothing, ["painted", "nowhere.jpg"], "nowhere.jpg"),
        "no photograph": (lambda here: (here / "none").mkdir(), ["painted", "none"], "no photograph in none"),
        "outside": (outside, ["coco.json", "photos"], "passwd"),
        "not JSON": (not_json, ["coco.json", "photos"], "coco.json is not JSON"),
        "other size": (other_size, ["painted", "photos"], "0.png"),
        "empty masks": (empty_masks, ["painted", "photos"], "painted"),
        "truncated": (truncated, ["painted", "photos"], "0.png"),
        "unknown class": (nothing, ["painted", "photos", "--classes", "a,b"], "class"),
        "unknown format": (nothing, ["painted", "photos", "--format", "bmp"], "'coco', 'labelme'"),
        "bad threshold": (nothing, ["painted", "photos", "--threshold", "7"], "threshold"),
        "concept with classes": (
            lambda here: (here / "x.concept").write_text(""),
            ["x.concept", "photos"],
            "x.concept",
        ),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_is_refused_in_a_sentence_before_any_work(here, model, capsys, name):
    make, words, says = refusals()[name]
    make(here)
    before = files(here)
    assert run(["segment", *words, "--out", "found", "--model", model]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("dgpnet: ")
    assert says in shown
    assert files(here) == before


def test_an_unknown_model_or_device_is_refused(here, model, capsys):
    assert run(["segment", "painted", "photos", "--out", "found", "--model", "none.safetensors"]) == 2
    assert "none.safetensors" in capsys.readouterr().err
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model, "--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_output_folder_is_refused(here, model, capsys):
    (here / "found").mkdir(mode=0o500)
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model]) == 2
    assert "found" in capsys.readouterr().err


def test_an_output_folder_that_may_not_be_made_is_refused(here, model, capsys, monkeypatch):
    def denied(self: Path, *args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", denied)
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model]) == 2
    assert "found cannot be written (Permission denied)" in capsys.readouterr().err


def test_learn_refuses_what_would_be_lost(here, model, capsys):
    assert run(["learn", "painted", "--out", "mug.txt", "--model", model]) == 2
    assert "mug.concept" in capsys.readouterr().err
    assert run(["learn", "painted", "--out", "mug.concept", "--model", model]) == 0
    assert run(["learn", "mug.concept", "--out", "mug.concept", "--model", model]) == 2
    assert (here / "mug.concept").stat().st_size > 0


def test_suggest_orders_photographs_with_and_without_a_support(here, model, capsys):
    assert run(["suggest", "photos", "--budget", "3", "--model", model]) == 0
    order = capsys.readouterr().out.split()
    assert len(order) == len(set(order)) == 3
    assert all(Path(path).is_file() for path in order)
    assert run(["suggest", "photos", "--budget", "2", "--support", "painted", "--model", model, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["suggested"]) == 2


@pytest.mark.parametrize(
    "words", [["", "photos", "--out", "f"], ["painted", "", "--out", "f"], ["painted", "photos", "--out", ""]]
)
def test_an_empty_argument_is_not_the_folder_one_is_in(here, capsys, words):
    before = files(here)
    assert run(["segment", *words]) == 2
    assert "empty" in capsys.readouterr().err
    assert files(here) == before


@pytest.mark.parametrize("out", [".", "/", "mug", "photos"])
def test_a_concept_needs_the_name_of_a_file(here, capsys, out):
    assert run(["learn", "painted", "--out", out]) == 2
    assert ".concept" in capsys.readouterr().err


def test_suggest_names_nothing_that_is_annotated_already(here, model, capsys):
    shown = here / "painted" / "images"
    (here / "photos" / "renamed.png").write_bytes(next(shown.iterdir()).read_bytes())
    words = ["suggest", "--budget", "99", "--support", "painted", "--model", model]
    assert run([*words, "photos"]) == 0
    suggested = capsys.readouterr().out
    assert "photos" in suggested and "renamed" not in suggested
    assert run([*words, "painted/images"]) == 2
    assert "annotated already" in capsys.readouterr().err


def test_suggest_leaves_out_what_cannot_be_read(here, model, capsys):
    (here / "photos" / "bad.jpg").write_bytes(b"")
    assert run(["suggest", "photos", "--budget", "9", "--model", model]) == 1
    shown = capsys.readouterr()
    assert len(shown.out.split()) == 5
    assert "bad.jpg" in shown.err


def start(here: Path, model: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "dgpnet", "segment", "painted", "many", "--out", "found", "--model", model]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}

    def heed_interrupts() -> None:  # a suite that runs in the background may have inherited that they are ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(words, cwd=here, text=True, preexec_fn=heed_interrupts, **pipes)


def until_some_are_done(here: Path, process: subprocess.Popen, some: int) -> None:
    done = here / "found" / ".dgpnet" / "done.jsonl"
    for _ in range(6000):
        if done.exists() and done.read_text().count("\n") >= some:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    raise AssertionError("the job does not get on")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_job_that_is_killed_goes_on_and_ends_as_if_it_had_not_been(here, model, how):
    count = 150
    (here / "many").mkdir()
    for i in range(count):
        Image.fromarray(scene(i, (40, 50))[0]).save(here / "many" / f"{i:03}.png")
    process = start(here, model)
    until_some_are_done(here, process, 8)
    process.send_signal(how)
    process.communicate()
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    recorded = (here / "found" / ".dgpnet" / "done.jsonl").read_text().count("\n")
    assert 8 <= recorded < count
    for path in (here / "found" / "masks").glob("[0-9]*.png"):
        assert read_mask(path).shape == (40, 50)  # whole, or not there
    if how == signal.SIGINT:
        assert not list((here / "found").rglob(".*.part*"))

    assert run(["segment", "painted", "many", "--out", "found", "--model", model]) == 0
    (here / "anew" / ".dgpnet").mkdir(parents=True)  # a job in the same precision that has done nothing yet
    shutil.copy(here / "found" / ".dgpnet" / "job.json", here / "anew" / ".dgpnet")
    assert run(["segment", "painted", "many", "--out", "anew", "--model", model]) == 0
    assert files(here / "found") == files(here / "anew")
    for name in files(here / "anew" / "masks"):
        assert agreement(here / "found" / "masks" / name, here / "anew" / "masks" / name) > SAME

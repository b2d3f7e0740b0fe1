"""Paint, segment, correct, put back, segment: the same classes, numbers and colours, in every format."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import FORMATS, read_support
from dgpnet.cli import run
from dgpnet.images import read_mask
from tests.tiny import tiny_checkpoint, write_photos, write_support

#: What stands for mug and spoon in the masks that are painted.
VALUES = [(1, 2), (7, 3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(tiny_checkpoint(tmp_path_factory.mktemp("model") / "tiny.safetensors"))


@pytest.fixture(params=VALUES, ids=str)
def here(tmp_path, monkeypatch, request) -> Path:
    """painted/ with two classes of these values, and photos/, in the working directory."""
    painted = write_support(tmp_path / "painted", 2, classes=2)
    table = np.array([0, *request.param], np.uint8)
    for path in (painted / "masks").iterdir():
        Image.fromarray(table[read_mask(path)]).save(path)
    (painted / "classes.json").write_text(json.dumps(dict(zip(("mug", "spoon"), request.param, strict=True))))
    write_photos(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def correct(here: Path, out: str = "found") -> None:
    """Paint both classes into every mask, as a program would that knows nothing but the file and classes.json."""
    classes = json.loads((here / out / "classes.json").read_text())
    for path in sorted((here / out / "masks").rglob("*.png")):
        image = Image.open(path)
        values = np.array(image)
        values[2:12, 3:20], values[20:30, 30:50] = classes["mug"], classes["spoon"]
        corrected = Image.fromarray(values)
        corrected.putpalette(image.getpalette())
        corrected.save(path)


def seen(folder: Path) -> dict[str, tuple[list, list]]:
    """Values and colours of every mask below a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            np.asarray(Image.open(path)).tolist(),
            np.asarray(Image.open(path).convert("RGB")).tolist(),
        )
        for path in folder.rglob("*.png")
    }


@pytest.mark.parametrize("format", list(FORMATS))
def test_what_is_corrected_and_put_back_means_the_same(here, model, format, capsys):
    classes = json.loads((here / "painted" / "classes.json").read_text())
    words = ["segment", "painted", "photos", "--out", "found", "--model", model, "--format", format]
    assert run(words) == 0
    assert json.loads((here / "found" / "classes.json").read_text()) == classes
    correct(here)
    corrected = seen(here / "found" / "masks")
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    annotations = json.loads(capsys.readouterr().out)["annotations"][format]
    assert seen(here / "found" / "masks") == corrected
    again = ["segment", annotations, "photos", "--images", "photos", "--out", "next", "--model", model]
    assert run(again) == 0
    assert seen(here / "next" / "masks") == corrected  # all of them are painted now
    assert set(json.loads((here / "next" / "classes.json").read_text())) >= set(classes)


def test_a_corrected_mask_among_the_painted_ones_means_the_same(here, model, capsys):
    words = ["segment", "painted", "photos", "--out", "found", "--model", model]
    assert run(words) == 0
    correct(here)
    shutil.copy(here / "found" / "masks" / "0000.png", here / "painted" / "masks")
    shutil.copy(here / "photos" / "0000.jpg", here / "painted" / "images")
    before, corrected = read_support("painted"), seen(here / "found" / "masks")
    capsys.readouterr()
    assert run(words) == 2
    told = capsys.readouterr().err
    assert "1 photograph was painted since: 0000.jpg" in told
    assert "--again" in told
    assert run([*words, "--again"]) == 0
    assert "Kept by hand: 1 as painted, 2 as edited" in capsys.readouterr().out
    assert seen(here / "found" / "masks") == corrected
    assert read_support("painted").legend == before.legend


def test_what_was_found_is_a_support(here, model):
    assert run(["segment", "painted", "photos", "--out", "found", "--model", model]) == 0
    correct(here)
    assert run(["learn", "found", "--images", "photos", "--out", "x.concept", "--model", model]) == 0
    assert run(["segment", "x.concept", "photos", "--out", "next", "--model", model]) == 0
    assert (here / "next" / "classes.json").read_text() == (here / "found" / "classes.json").read_text()

"""Painted masks: nothing that was answered is ever lost."""

import shutil

import numpy as np
import pytest
from PIL import Image

from dgpnet.studio import paintings as module
from dgpnet.studio.classes import Classes
from dgpnet.studio.paintings import Paintings
from dgpnet.studio.strokes import Rectangle, Stroke, encoded

CLASSES = Classes().with_new("mug")[0].with_new("spoon")[0]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "painted").mkdir()
    return tmp_path


def opened(root):
    one = Paintings(root, lambda: CLASSES)
    one.open()
    return one


def stroke(x, y, value, side=3):
    place = Rectangle(x, y, side, side)
    runs = [0, side * side, value]
    return Stroke.of(place, runs, {1, 2}), {"x": x, "y": y, "w": side, "h": side, "runs": runs, "id": f"{x}-{y}"}


def paint(all_of_them, key, *strokes):
    painting = all_of_them.get(key) or all_of_them.begin(key, (10, 12), None)
    for x, y, value in strokes:
        one, line = stroke(x, y, value)
        all_of_them.stroke(painting, one, **line)
    return painting


def save(all_of_them):
    for key in all_of_them.due():
        painting = all_of_them.get(key)
        n, pixels = all_of_them.copied(painting)
        all_of_them.saved(painting, n, all_of_them.save(key, pixels))


def test_a_kill_at_any_time_loses_nothing(root, tmp_path):
    first = opened(root)
    painting = paint(first, "a/one", (0, 0, 1), (5, 5, 2))
    expected = first.pixels(painting).copy()
    for moment in ("before it is saved", "after it is saved", "painted again"):
        copy = tmp_path.parent / f"copy-{moment.replace(' ', '-')}"
        shutil.copytree(root, copy)  # as a power cut would leave it
        again = opened(copy)
        found = again.get("a/one")
        assert (again.pixels(found) == expected).all(), moment
        assert found.areas == painting.areas
        assert again.knows("5-5") and not again.knows("9-9")
        again.close()
        if moment == "before it is saved":
            save(first)
        else:
            paint(first, "a/one", (2, 2, 2))
            expected = first.pixels(painting).copy()
    first.close()


def test_a_mask_is_a_file_that_every_command_reads(root):
    one = opened(root)
    paint(one, "a/one", (0, 0, 1), (5, 5, 2))
    save(one)
    image = Image.open(root / "painted" / "masks" / "a" / "one.png")
    assert (np.asarray(image) == one.pixels(one.get("a/one"))).all()
    assert one.get("a/one").parts == {1: 1, 2: 1} and not one.get("a/one").dirty


def test_a_painting_may_begin_with_a_mask_that_changes_later(root):
    base = root / "base.png"
    Image.fromarray(np.full((10, 12), 2, np.uint8)).save(base)
    one = opened(root)
    drawn, line = stroke(0, 0, 1)
    one.begin("b", (10, 12), base, drawn, **line)
    base.unlink()
    again = opened(root)
    pixels = again.pixels(again.get("b"))
    assert (pixels[:3, :3] == 1).all() and (pixels[3:] == 2).all()


def test_deleted_erased_and_replaced_masks_stay_so(root):
    one = opened(root)
    one.delete(paint(one, "gone", (0, 0, 1)))
    one.erase(paint(one, "erased", (0, 0, 1), (5, 5, 2)), 2)
    whole = np.zeros((10, 12), np.uint8)
    whole[4:] = 2
    paint(one, "whole", (0, 0, 1))
    one.replace("whole", whole)
    paint(one, "whole", (0, 0, 1))
    again = opened(root)
    assert sorted(again.keys()) == ["erased", "whole"]
    assert again.get("erased").areas == {1: 9}
    whole[:3, :3] = 1
    assert (again.pixels(again.get("whole")) == whole).all()


def test_a_mask_that_somebody_put_there_is_painted_and_a_damaged_one_is_told(root):
    folder = root / "painted" / "masks"
    folder.mkdir()
    Image.fromarray(np.eye(10, dtype=np.uint8)).save(folder / "mine.png")
    (folder / "bad.png").write_bytes(b"no picture")
    one = opened(root)
    assert one.get("mine").areas == {1: 10} and one.get("bad") is None
    assert any("bad.png" in note for note in one.notes)


def test_the_journal_is_shortened_and_says_the_same(root):
    one = opened(root)
    paint(one, "a", (0, 0, 1), (3, 3, 2))
    one.shorten([], longest=0)
    long = one.journal.path.stat().st_size
    save(one)
    one.shorten([{"op": "learned", "on": True}], longest=0)
    assert one.journal.path.stat().st_size < long + 400
    paint(one, "a", (6, 6, 1))
    expected = one.pixels(one.get("a")).copy()
    again = Paintings(root, lambda: CLASSES)
    others = again.open()
    assert {"op": "learned", "on": True} in others
    assert (again.pixels(again.get("a")) == expected).all()
    assert again.knows("3-3")


def test_what_is_in_its_file_is_put_out_of_memory(root, monkeypatch):
    monkeypatch.setattr(module, "RESIDENT", 300)
    one = opened(root)
    for key in "abcd":
        paint(one, key, (0, 0, 1))
    assert all(one.get(key).pixels is not None for key in "abcd"), "nothing is dropped that is in no file"
    save(one)
    paint(one, "d", (6, 6, 2))
    assert one.get("a").pixels is None
    assert encoded(one.pixels(one.get("a"))) == [0, 3, 1, 9, 3, 1, 9, 3, 1]

from pathlib import Path

import pytest

from dgpnet.errors import Error
from dgpnet.segmenter.photographs import find_photographs


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def names(photographs) -> list[str]:
    return [photo.name for photo in photographs]


def test_a_folder_is_searched_to_its_bottom_in_order(tmp_path):
    touch(tmp_path / "b.jpg", tmp_path / "a" / "z.PNG", tmp_path / "a" / "deep" / "y.heic", tmp_path / "notes.txt")
    assert names(find_photographs([tmp_path])) == ["a/deep/y.heic", "a/z.PNG", "b.jpg"]


def test_hidden_files_and_skipped_folders_are_left_out(tmp_path):
    touch(tmp_path / ".a.jpg", tmp_path / ".git" / "b.jpg", tmp_path / "out" / "c.png", tmp_path / "d.jpg")
    assert names(find_photographs([tmp_path], skip=[tmp_path / "out"])) == ["d.jpg"]
    assert names(find_photographs([tmp_path / "out"], skip=[tmp_path / "out"])) == ["c.png"]  # asked for by name


def test_a_file_is_taken_whatever_it_is_called(tmp_path):
    touch(tmp_path / "scan.0001", tmp_path / "dir" / "a.jpg")
    assert names(find_photographs([tmp_path / "scan.0001", tmp_path / "dir"])) == ["a.jpg", "scan.0001"]


def test_several_folders_keep_their_names(tmp_path):
    touch(tmp_path / "a" / "x.jpg", tmp_path / "b" / "x.jpg")
    assert names(find_photographs([tmp_path / "a", tmp_path / "b"])) == ["a/x.jpg", "b/x.jpg"]


def test_results_are_named_after_the_photograph_and_never_shared(tmp_path):
    touch(
        tmp_path / "IMG_1.HEIC",
        tmp_path / "IMG_1.jpg",
        tmp_path / "img_2.JPG",
        tmp_path / "IMG_2.png",
        tmp_path / "3.jpg",
    )
    keys = {photo.name: photo.key for photo in find_photographs([tmp_path])}
    assert keys["3.jpg"] == "3"
    assert keys["IMG_1.HEIC"] == "IMG_1.HEIC"
    assert keys["IMG_1.jpg"] == "IMG_1.jpg"
    assert keys["img_2.JPG"] == "img_2.JPG"
    assert len({key.lower() for key in keys.values()}) == 5


def test_given_twice_is_taken_once(tmp_path):
    touch(tmp_path / "a.jpg")
    assert len(find_photographs([tmp_path / "a.jpg", tmp_path / "a.jpg", tmp_path])) == 1


def test_wrong_use_is_explained(tmp_path):
    touch(tmp_path / "a" / "x.jpg", tmp_path / "b" / "x.jpg", tmp_path / "c" / "notes.txt")
    with pytest.raises(Error, match="no photograph or folder"):
        find_photographs([tmp_path / "missing"])
    with pytest.raises(Error, match="no photograph in"):
        find_photographs([tmp_path / "c"])
    with pytest.raises(Error, match=r"both be called x\.jpg"):
        find_photographs([tmp_path / "a" / "x.jpg", tmp_path / "b" / "x.jpg"])

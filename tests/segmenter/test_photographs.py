import os
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.errors import Error
from dgpnet.segmenter.entries import PAGE
from dgpnet.segmenter.photographs import Listing, find_photographs, with_keys


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


def test_a_folder_has_its_own_name_however_it_is_given(tmp_path, monkeypatch):
    touch(tmp_path / "a" / "x.jpg", tmp_path / "b" / "x.jpg")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    monkeypatch.chdir(tmp_path / "a")
    assert names(find_photographs([".", "../link"])) == ["a/x.jpg", "b/x.jpg"]
    assert names(find_photographs([tmp_path / "a" / "..", tmp_path / "a"]))[0] == "a/x.jpg"


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


#: Names that get into each other's way: suffixes twice, upper case, é in one piece and in two, files and folders.
NAMES = st.sampled_from(
    [
        *("a.jpg", "a.png", "a.jpg.png", "A.JPG", "a", "b.jpg", "a.png/b.jpg", "a.jpg/b.png", "a/b.jpg", "A/B.png"),
        *("a.jpg~2", "a.png~2/b.jpg", "\u00e9.jpg", "e\u0301.jpg", "\u00e9.png", "\udce9.jpg", "a.png/b.jpg.png"),
    ]
)


def alike(text: str) -> str:
    return normalize("NFC", text).casefold()


@given(st.sets(NAMES), st.sets(NAMES))
def test_no_two_photographs_ever_share_a_result_and_keys_stay_from_run_to_run(first, second):
    before = {photo.name: photo.key for photo in with_keys({name: Path(name) for name in first})}
    after = {photo.name: photo.key for photo in with_keys({name: Path(name) for name in second}, before)}
    assert {name: after[name] for name in first & second} == {name: before[name] for name in first & second}
    keys = {**before, **after}
    files = [alike(key + suffix) for key in keys.values() for suffix in (".png", ".jpg")]
    folders = {alike("/".join(key.split("/")[:n])) for key in keys.values() for n in range(1, key.count("/") + 1)}
    assert len(set(files)) == len(files)
    assert not folders & set(files)


def test_a_photograph_alone_is_called_as_people_expect():
    (photo,) = with_keys({"trip/kitchen.jpg": Path("x")})
    assert photo.key == "trip/kitchen"


def test_what_cannot_be_read_is_found_all_the_same(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "gone.jpg").symlink_to("nowhere")
    (tmp_path / os.fsdecode(b"caf\xe9.jpg")).write_bytes(b"x")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert names(find_photographs([tmp_path])) == ["caf\udce9.jpg", "gone.jpg", "loop.jpg", "pipe.jpg"]
    assert names(find_photographs([tmp_path / "loop.jpg"])) == ["loop.jpg"]


def test_a_folder_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    touch(tmp_path / "a.jpg", tmp_path / "closed" / "b.jpg")
    real = os.scandir

    def denied(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert names(find_photographs([tmp_path])) == ["a.jpg", "closed"]


def test_what_a_job_wrote_is_no_photograph(tmp_path):
    touch(tmp_path / "found" / ".dgpnet" / "job.json", tmp_path / "found" / "masks" / "a.png")
    touch(tmp_path / "found" / "report" / "photo" / "a.jpg", tmp_path / "found" / "mine.jpg", tmp_path / "a.jpg")
    assert names(find_photographs([tmp_path])) == ["a.jpg", "found/mine.jpg"]
    assert names(find_photographs([tmp_path / "found"])) == ["mine.jpg"]
    for inside in ("masks", "masks/a.png", "report/photo"):
        with pytest.raises(Error, match="among the results"):
            find_photographs([tmp_path / "found" / inside])
    with pytest.raises(Error, match="both where photographs are"):
        find_photographs([tmp_path / "found"], out=tmp_path / "found" / ".." / "found")
    with pytest.raises(Error, match="among the results"):
        find_photographs([tmp_path / "masks"], out=tmp_path)


def test_a_list_names_photographs_by_the_folder_that_they_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("photos/a/1.jpg", "photos/b/1.jpg", "photos/b/2.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "list.txt").write_text("photos/b/1.jpg\n\nphotos/a/1.jpg\nphotos/b/1.jpg\n")
    assert [photo.name for photo in find_photographs(["@list.txt"])] == ["a/1.jpg", "b/1.jpg"]
    for text, sentence in (
        ("photos/gone.jpg\n", "no photograph photos/gone.jpg"),
        ("\n", "names no photographs"),
        ("photos/a/1.jpg\ns3://bucket/1.jpg\n", "both files and addresses"),
    ):
        (tmp_path / "list.txt").write_text(text)
        with pytest.raises(Error, match=sentence):
            find_photographs(["@list.txt"])
    with pytest.raises(Error, match="list of photographs"):
        find_photographs(["@nowhere.txt"])


def test_a_pipe_is_a_list_too(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "b.jpg")
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as file:
        file.write(f"{tmp_path / 'b.jpg'}\n{tmp_path / 'a.jpg'}\n")
    try:
        assert names(find_photographs([f"@/dev/fd/{ours}"])) == ["a.jpg", "b.jpg"]
    finally:
        os.close(ours)


def test_what_storage_tells_apart_and_a_disk_does_not_has_results_of_its_own():
    names = ["x//b.jpg", "x/b.jpg", "x/./b.jpg"]
    keys = [photo.key for photo in with_keys({name: Path(f"{n}.jpg") for n, name in enumerate(names)})]
    assert len({os.path.normpath(key) for key in keys}) == 3


def test_a_list_drops_no_object_that_a_path_would_take_for_another(tmp_path):
    memory = pytest.importorskip("fsspec", reason="fsspec is not installed here").filesystem("memory")
    memory.pipe({"/listed/x/b.jpg": b"1", "/listed/x//b.jpg": b"2"})
    try:
        (tmp_path / "list.txt").write_text("memory://listed/x//b.jpg\nmemory://listed/x/b.jpg\n")
        with pytest.raises(Error, match=r"memory://listed/x//b\.jpg and memory://listed/x/b\.jpg would both be called"):
            find_photographs([f"@{tmp_path / 'list.txt'}"])
    finally:
        memory.rm("/listed", recursive=True)


def test_a_listing_has_each_once_sorted_by_name_and_knows_what_is_done(tmp_path):
    listing = Listing()
    many = [(f"{n:05}.jpg", tmp_path / f"{n:05}.jpg", None) for n in range(2 * PAGE + 1)]
    listing.add(reversed(many))
    listing.add(many[:10])
    listing.give_keys([("00001.jpg", "kept"), ("elsewhere.jpg", "00002")])
    photos = list(listing)
    assert [photo.name for photo in photos] == [name for name, _, _ in many]
    assert [photo.key for photo in photos[:4]] == ["00000", "kept", "00002.jpg", "00003"]
    assert listing.has_key("kept") and not listing.has_key("00001")
    assert photos[5] in listing and replace(photos[5], name="other") not in listing
    done = [photo.name for photo in photos[::2]]
    assert listing.set_done(done) == len(done)
    assert list(listing.to_do()) == photos[1::2]
    assert listing.set_done([]) == 0


def test_two_files_of_one_name_are_refused_wherever_the_first_was_found(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "b" / "a.jpg")
    for before in (0, 2 * PAGE):
        listing = Listing()
        listing.add((f"{n}.jpg", tmp_path / f"{n}.jpg", None) for n in range(before))
        with pytest.raises(Error, match=r"would both be called a\.jpg"):
            listing.add([("a.jpg", tmp_path / "a.jpg", None), ("a.jpg", tmp_path / "b" / "a.jpg", None)])
        listing.add([("a.jpg", tmp_path / "a.jpg", None)])
        with pytest.raises(Error, match=r"would both be called a\.jpg"):
            listing.add([("a.jpg", tmp_path / "b" / "a.jpg", None)])


def test_a_list_may_have_paths_from_the_root_and_from_here_and_no_name_leads_outside(tmp_path, monkeypatch):
    touch(tmp_path / "a.jpg", tmp_path / "here" / "b.jpg", tmp_path / "there" / "c.jpg")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "list.txt").write_text(f"../a.jpg\nb.jpg\n{tmp_path / 'there' / 'c.jpg'}\n")
    assert names(find_photographs([f"@{tmp_path / 'list.txt'}"])) == ["a.jpg", "here/b.jpg", "there/c.jpg"]
    for wrong in ("../a.jpg", "x/../../a.jpg", "/a.jpg"):
        with pytest.raises(Error, match="leads outside"):
            with_keys({wrong: tmp_path / "a.jpg"})

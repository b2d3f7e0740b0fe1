"""Which photographs a project has, and which may be opened."""

import os

import pytest
from PIL import Image

from dgpnet.errors import Error
from dgpnet.studio import photos


def test_ids_are_stable_and_no_paths():
    one, other = photos.id_of("a/b.png"), photos.id_of("a/c.png")
    assert one == photos.id_of("a/b.png") != other
    assert "/" not in one and "." not in one


def test_an_empty_folder_has_none(tmp_path):
    assert photos.find(tmp_path, tmp_path / ".dgpnet", {}) == []


def test_keys_stay_when_others_come(folder):
    first = {one.name: one.key for one in photos.find(folder, folder / ".dgpnet", {})}
    Image.new("RGB", (5, 5)).save(folder / "0.jpg")
    again = {one.name: one.key for one in photos.find(folder, folder / ".dgpnet", first)}
    assert first.items() <= again.items() and len(again) == 7


def test_links_out_of_the_folder_pipes_and_folders_are_not_opened(tmp_path, folder):
    secret = tmp_path / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    (folder / "link.png").symlink_to(secret)
    os.mkfifo(folder / "pipe.png")
    (folder / "gone.png").symlink_to(tmp_path / "nowhere.png")
    found = {one.name: one for one in photos.find(folder, folder / ".dgpnet", {})}
    for name, told in (("link.png", "outside"), ("pipe.png", "pipe"), ("gone.png", "outside|no photograph")):
        with pytest.raises(Error, match=told):
            photos.seen(folder, found[name])
    assert photos.seen(folder, found["0.png"])[0] == (48, 64)

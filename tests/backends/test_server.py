"""Photographs come from the Label Studio that was named, or from the folder that was allowed, and from nowhere else."""

import os
from pathlib import Path

import pytest

from dgpnet.backends.server import Server
from dgpnet.errors import Error
from tests.backends.conftest import KEY, SIZE, LabelStudio, png
from tests.tiny import scene

PHOTO = png(scene(3, SIZE)[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Photographs beside something that is nobody's business."""
    (tmp_path / "photos" / "trip").mkdir(parents=True)
    (tmp_path / "photos" / "trip" / "a mug.png").write_bytes(PHOTO)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(tmp_path / "photos" / "pipe.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("address", ["/data/upload/7/3.png", "{url}/data/upload/7/3.png"])
def test_what_is_on_the_server_is_fetched_with_the_key(studio: LabelStudio, address):
    assert Server(studio.url, KEY).photograph(address.format(url=studio.url)) == PHOTO


def test_a_token_that_has_run_out_is_asked_for_again(studio: LabelStudio):
    server = Server(f"{studio.url}/", KEY)
    assert server.photograph("/data/upload/7/3.png") == PHOTO
    studio.bearers += 1  # the server does not know the old one any more
    assert server.photograph("/data/upload/7/3.png") == PHOTO
    assert studio.asked.count("/api/token/refresh/") == 2


@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/mug.png",
        "https://{host}/data/upload/7/3.png",
        "http://127.0.0.1:1/data/upload/7/3.png",
        "//evil.example/data/upload/7/3.png",
        "http://{host}@evil.example/3.png",
        "http://user@{host}/data/upload/7/3.png",
        "\\\\evil.example\\3.png",
        "ftp://{host}/3.png",
        "s3://bucket/mug.png",
        "gopher://{host}/3.png",
        "file:///etc/passwd",
        "/data/local-files/?d=../secret.png",
        "/data/local-files/?d=/etc/passwd",
        "/data/local-files/?d=link.png",
        "/data/local-files/?d=pipe.png",
        "../secret.png",
        "trip/../../secret.png",
        "http://[broken",
        "mug\0.png",
        "",
        "a" * 5000,
        None,
        ["/data/upload/7/3.png"],
    ],
)
def test_everything_else_is_refused_without_a_word_to_anybody(studio: LabelStudio, folder, address):
    server = Server(studio.url, KEY, folder)
    given = address.format(host=studio.url.removeprefix("http://")) if isinstance(address, str) else address
    with pytest.raises(Error):
        server.photograph(given)
    assert studio.asked == []


def test_a_redirect_is_not_followed(studio: LabelStudio):
    with pytest.raises(Error, match="another place"):
        Server(studio.url, KEY).photograph("/data/elsewhere")
    with pytest.raises(Error, match="answered 404"):
        Server(studio.url, KEY).photograph("/data/nothing")


@pytest.mark.parametrize("key", [None, "legacy", "a.b.c"])
def test_without_the_right_key_it_is_said_where_to_get_one(studio: LabelStudio, key):
    with pytest.raises(Error, match="--api-key"):
        Server(studio.url, key).photograph("/data/upload/7/3.png")


def test_files_below_the_folder_are_read_however_they_are_named(studio: LabelStudio, folder):
    server = Server(studio.url, KEY, folder)
    path = folder / "trip" / "a mug.png"
    for address in (
        "/data/local-files/?d=trip/a%20mug.png",
        f"{studio.url}/data/local-files/?d=trip/a%20mug.png",
        "trip/a mug.png",
        str(path),
        path.as_uri(),
    ):
        assert server.photograph(address) == PHOTO
    assert studio.asked == []


def test_without_a_folder_no_file_is_read(studio: LabelStudio, folder):
    server = Server(studio.url, KEY)
    for address in ((folder / "trip" / "a mug.png").as_uri(), "trip/a mug.png"):
        with pytest.raises(Error, match="--photos"):
            server.photograph(address)
    with pytest.raises(Error, match="answered 404"):  # Label Studio's own path, as far as anybody knows
        server.photograph(str(folder / "trip" / "a mug.png"))


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://localhost", "http://me:secret@localhost", "http://", "[", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Error, match="like http://localhost:8080"):
        Server(url)


def test_a_server_that_is_not_there_is_said():
    with pytest.raises(Error, match="does not answer"):
        Server("http://127.0.0.1:9").photograph("/data/upload/1/a.png")


def test_a_photograph_that_is_too_large_is_cut_off(studio: LabelStudio, monkeypatch):
    monkeypatch.setattr("dgpnet.backends.server.LARGEST_PHOTO", 100)
    with pytest.raises(Error, match="more than 100 bytes"):
        Server(studio.url, KEY).photograph("/data/upload/7/3.png")

"""Object storage, played by memory: what lies there is listed and read, and what goes wrong is a sentence."""

from collections.abc import Iterator

import pytest

from dgpnet import storage
from dgpnet.errors import Error

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed here")


@pytest.fixture
def bucket() -> Iterator[str]:
    memory = fsspec.filesystem("memory")
    for name in ("a.jpg", "trip/b.jpg", "trip/deep/c.jpg"):
        memory.pipe_file(f"/bucket/{name}", name.encode())
    yield "memory://bucket"
    memory.rm("/bucket", recursive=True)


def below(address: str) -> dict[str, storage.Stored]:
    return {name: one for page in storage.below(address) for name, one in page.items()}


def test_addresses_are_told_from_paths():
    assert all(map(storage.is_address, ("s3://bucket/trip", "gs://b", "memory://b/c", "s3:/what/pathlib/leaves")))
    assert not any(map(storage.is_address, ("photos", "/photos/a:b", "C:/photos", "./s3://x", None)))


def test_objects_are_found_below_an_address_and_read(bucket):
    found = below(f"{bucket}/trip/")
    assert {name: one.address for name, one in found.items()} == {
        "b.jpg": "memory://bucket/trip/b.jpg",
        "deep/c.jpg": "memory://bucket/trip/deep/c.jpg",
    }
    assert storage.read(found["b.jpg"].address) == b"trip/b.jpg"
    assert found["b.jpg"].stamp[0] == len(b"trip/b.jpg")
    assert storage.stored([found["b.jpg"].address]) == [found["b.jpg"]]
    assert list(below(f"{bucket}/a.jpg")) == ["a.jpg"]


def test_an_object_that_has_changed_has_another_stamp(bucket):
    before = below(bucket)["a.jpg"].stamp
    assert below(bucket)["a.jpg"].stamp == before
    fsspec.filesystem("memory").pipe_file("/bucket/a.jpg", b"other")
    assert below(bucket)["a.jpg"].stamp != before


@pytest.mark.parametrize("address", ["memory://bucket/gone.jpg", "nobody-knows://bucket/a.jpg"])
def test_what_cannot_be_read_is_a_sentence_with_its_address(bucket, address):
    for ask in (storage.read, lambda one: storage.stored([one])):
        with pytest.raises(Error, match=address):
            ask(address)


def test_two_colons_are_part_of_a_name(bucket):
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/odd/a::b.jpg": b"ab", "/bucket/odd/a::c.jpg": b"ac"})
    found = below(f"{bucket}/odd")
    assert {name: storage.read(one.address) for name, one in found.items()} == {"a::b.jpg": b"ab", "a::c.jpg": b"ac"}
    assert storage.stored([f"{bucket}/odd/a::b.jpg"]) == [found["a::b.jpg"]]

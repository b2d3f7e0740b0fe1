"""Photographs in S3, as moto plays it on this machine: the same results as of files. `make scale`."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dgpnet import places
from dgpnet.cli import run
from dgpnet.cluster import Actors, Processes
from dgpnet.errors import Error
from dgpnet.places import place_of
from dgpnet.segmenter.folder import segment_folder
from tests.cluster.commands import PATIENCE, prepared, start
from tests.cluster.same import results, results_there
from tests.tiny import scenes, tiny_checkpoint, tiny_segmenter, write_photos, write_support

moto = pytest.importorskip("moto.server", reason="moto is not installed here; `make scale` has an environment with it")
s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed here; `make scale` has an environment with it")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """An address, and the folder of the same photographs."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        root = write_photos(tmp_path_factory.mktemp("files") / "photos", 20)
        (root / "broken.jpg").write_bytes(b"words")
        system = s3fs.S3FileSystem(skip_instance_cache=True)
        system.mkdir("bucket")
        system.put(str(root), "bucket/photos", recursive=True)
        yield "s3://bucket/photos", root
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def masks(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.*") if "masks" in path.parts}


def test_photographs_in_s3_come_out_like_files_by_one_process_by_several_and_by_a_cluster(tmp_path, bucket):
    pytest.importorskip("ray", reason="Ray is not installed here")
    address, root = bucket
    painted, shapes = scenes(2)
    concept = tiny_segmenter().learn(painted, shapes)
    segment_folder(concept, root, tmp_path / "files")
    expected = masks(tmp_path / "files")
    assert len(expected) == 20
    for name, crew in (("one", None), ("two", Processes(["cpu"])), ("ray", Actors("local", processors=1))):
        outcome = segment_folder(concept, address, tmp_path / name, crew=crew)
        assert (outcome.done, list(outcome.failures)) == (20, ["broken.jpg"])
        assert "s3://bucket/photos/broken.jpg" in outcome.failures["broken.jpg"]
        assert masks(tmp_path / name) == expected
        assert segment_folder(concept, address, tmp_path / name).before == 20


def test_on_the_command_line_a_list_does_as_well_and_results_go_there_too(tmp_path, bucket, monkeypatch, capsys):
    address, _ = bucket
    monkeypatch.chdir(tmp_path)
    write_support(tmp_path / "painted", 2)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    (tmp_path / "list.txt").write_text(f"{address}/0000.jpg\n{address}/more/0002.jpg\n")
    assert run(["segment", "painted", "@list.txt", "--out", "found", "--model", model]) == 0
    assert set(masks(tmp_path / "found")) == {"masks/0000.png", "masks/more/0002.png"}
    assert run(["segment", "painted", "@list.txt", "--out", "s3://bucket/listed", "--model", model]) == 0
    assert "Masks: s3://bucket/listed/masks" in capsys.readouterr().out
    assert not (tmp_path / "s3:").exists()
    there, here = results_there("s3://bucket/listed", tmp_path / "there"), results(tmp_path / "found")
    assert there == here


def test_results_in_s3_are_those_in_a_folder_by_one_process_by_several_and_by_a_cluster(tmp_path, bucket):
    pytest.importorskip("ray", reason="Ray is not installed here")
    address, _ = bucket
    concept = tiny_segmenter().learn(*scenes(2))
    options = {"overlay": True, "formats": ["coco"]}
    segment_folder(concept, address, tmp_path / "whole", **options)
    whole = results(tmp_path / "whole")
    crews = {"one": None, "two": Processes(["cpu", "cpu"]), "ray": Actors("local", processors=1)}
    for name, crew in crews.items():
        outcome = segment_folder(concept, address, f"s3://bucket/{name}", crew=crew, **options)
        assert (outcome.done, list(outcome.failures)) == (20, ["broken.jpg"])
        assert results_there(f"s3://bucket/{name}", tmp_path / name) == whole
        following = crews["one" if crew else "two"]
        assert segment_folder(concept, address, f"s3://bucket/{name}", crew=following, **options).before == 20


@pytest.mark.parametrize("kind", ["process", "actor"])
def test_a_worker_that_is_killed_half_way_costs_nothing_in_s3_and_another_job_waits(tmp_path, bucket, kind):
    ray = pytest.importorskip("ray", reason="Ray is not installed here")
    _, root = bucket
    out = f"s3://bucket/killed-{kind}"
    concept = tiny_segmenter().learn(*scenes(2))
    crew = Processes(["cpu", "cpu"]) if kind == "process" else Actors("local", processors=1)
    killed: list[object] = []

    def advance(done: int, total: int) -> None:
        busy = [member for member in crew._members if member.chunk is not None]
        if busy and not killed:
            killed.append(busy[0])
            if kind == "process":
                os.kill(busy[0].process.pid, signal.SIGKILL)
            else:
                ray.kill(busy[0].actor)
            with pytest.raises(Error, match=r"in use by process \d+ on .* wait until that ends"):
                segment_folder(concept, root, out)

    outcome = segment_folder(concept, root, out, crew=crew, advance=advance)
    assert killed
    assert (outcome.done, list(outcome.failures)) == (20, ["broken.jpg"])
    segment_folder(concept, root, tmp_path / "alone")
    assert results_there(out, tmp_path / "there") == results(tmp_path / "alone")


def test_a_job_that_was_killed_in_s3_is_gone_on_with_once_its_lock_is_void(tmp_path, bucket, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = prepared(tmp_path)
    process = start(here, out="s3://bucket/cut")
    place = place_of("s3://bucket/cut")
    while not place.names(".dgpnet/done-"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate()
    again = start(here, out="s3://bucket/cut")
    said, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 2
    assert "once s3://bucket/cut/.dgpnet/lock is removed" in said
    monkeypatch.setattr(places, "DEAD", 0.0)
    model = str(here / "tiny.safetensors")
    assert run(["segment", "painted", "photos", "--out", "s3://bucket/cut", "--model", model]) == 0
    assert run(["segment", "painted", "photos", "--out", "whole", "--model", model]) == 0
    assert results_there("s3://bucket/cut", tmp_path / "there") == results(tmp_path / "whole")

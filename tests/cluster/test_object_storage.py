"""Photographs in S3, as moto plays it on this machine: the same results as of files. `make scale`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dgpnet.cli import run
from dgpnet.cluster import Actors, Processes
from dgpnet.segmenter.folder import segment_folder
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


def test_on_the_command_line_a_list_does_as_well_and_results_go_to_a_folder(tmp_path, bucket, monkeypatch, capsys):
    address, _ = bucket
    monkeypatch.chdir(tmp_path)
    write_support(tmp_path / "painted", 2)
    model = str(tiny_checkpoint(tmp_path / "tiny.safetensors"))
    (tmp_path / "list.txt").write_text(f"{address}/0000.jpg\n{address}/more/0002.jpg\n")
    assert run(["segment", "painted", "@list.txt", "--out", "found", "--model", model]) == 0
    assert set(masks(tmp_path / "found")) == {"masks/0000.png", "masks/more/0002.png"}
    assert run(["segment", "painted", address, "--out", "s3://bucket/found", "--model", model]) == 2
    assert "Results go to a folder" in capsys.readouterr().err
    assert not (tmp_path / "s3:").exists()

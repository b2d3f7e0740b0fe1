"""Actors of a Ray cluster of three nodes on this machine: what comes out is what one process makes. `make scale`."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dgpnet.cluster import Actors, actors
from dgpnet.errors import Error
from dgpnet.places import place_of
from dgpnet.segmenter import Concept
from dgpnet.segmenter.folder import segment_folder
from tests.cluster.commands import PATIENCE, gone, lines, prepared, start
from tests.cluster.same import results
from tests.tiny import scenes, tiny_segmenter, write_photos

ray = pytest.importorskip("ray", reason="Ray is not installed here; `make scale` has an environment with it")
#: What each node has: of shared memory the least that Ray takes is enough.
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def concept() -> Concept:
    photos, masks = scenes(2, classes=2)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "spoon"])


@pytest.fixture(scope="module")
def cluster() -> Iterator["ray.cluster_utils.Cluster"]:
    """One machine that plays three."""
    from ray.cluster_utils import Cluster

    several = Cluster(initialize_head=True, head_node_args=NODE)
    for _ in range(2):
        several.add_node(**NODE)
    several.wait_for_nodes()
    ray.init(address=several.address, log_to_driver=False)
    yield several
    ray.shutdown()
    several.shutdown()


def test_a_cluster_makes_what_one_process_makes_though_a_node_is_killed_half_way(tmp_path, concept, cluster):
    root = write_photos(tmp_path / "photos", 120)
    (root / "broken.jpg").write_bytes(b"words")
    options = {"overlay": True, "instances": True, "formats": ["coco"]}
    alone = segment_folder(concept, root, tmp_path / "alone", **options)
    crew = Actors(processors=1)
    used: set[str] = set()
    killed: list[int] = []

    def advance(done: int, total: int) -> None:
        used.update(member.actor._actor_id.hex() for member in crew._members if member.chunk is not None)
        if done >= 40 and not killed:
            killed.append(done)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    shared = segment_folder(concept, root, tmp_path / "shared", crew=crew, advance=advance, **options)
    assert killed
    assert len(used) > 1
    assert shared.failures == alone.failures
    assert (shared.done, list(shared.failures), shared.stopped) == (120, ["broken.jpg"], None)
    assert all("A worker died" in note for note in shared.notes)
    assert results(tmp_path / "shared") == results(tmp_path / "alone")
    cluster.add_node(**NODE)  # for the tests that follow
    cluster.wait_for_nodes()


def test_a_job_begun_by_one_process_is_finished_by_a_cluster_and_the_other_way_round(tmp_path, concept, cluster):
    root = write_photos(tmp_path / "photos", 16)
    segment_folder(concept, root, tmp_path / "whole")
    begun = sorted(root.glob("*.jpg"))[:8]
    for name, first, second in (("there", None, Actors(processors=1)), ("back", Actors(processors=1), None)):
        segment_folder(concept, begun, tmp_path / name, crew=first)
        outcome = segment_folder(concept, root, tmp_path / name, crew=second)
        assert (outcome.done, outcome.before) == (16, 8)
        assert results(tmp_path / name) == results(tmp_path / "whole")


def test_an_actor_that_dies_costs_its_chunk_and_another_takes_its_place(tmp_path, concept, cluster):
    root = write_photos(tmp_path / "photos", 60)
    crew = Actors(processors=1)
    killed: list[object] = []

    def advance(done: int, total: int) -> None:
        busy = [member for member in crew._members if member.chunk is not None]
        if busy and not killed:
            killed.append(busy[0].actor)
            ray.kill(busy[0].actor)

    outcome = segment_folder(concept, root, tmp_path / "out", crew=crew, advance=advance)
    assert killed
    assert (outcome.done, outcome.failures) == (60, {})
    segment_folder(concept, root, tmp_path / "alone")
    assert results(tmp_path / "out") == results(tmp_path / "alone")


def test_a_folder_that_is_not_there_for_workers_is_said(tmp_path, concept, cluster, monkeypatch):
    root = write_photos(tmp_path / "photos", 4)
    whole, elsewhere = actors.packed, place_of(tmp_path / "else")
    monkeypatch.setattr(actors, "packed", lambda plan: whole(replace(plan, out=elsewhere)))
    with pytest.raises(Error, match="not the same folder"):
        segment_folder(concept, root, tmp_path / "out", crew=Actors(processors=1))


def test_a_cluster_that_is_not_there_is_an_error_in_a_sentence(tmp_path):
    with pytest.raises(Error, match="no Ray cluster at"):
        actors.connect(_Nowhere(), "127.0.0.1:1")


def test_ctrl_c_ends_the_cluster_leaves_nothing_half_written_and_one_process_goes_on(tmp_path):
    here = prepared(tmp_path)
    process = start(here, "--ray", "local")
    while lines(here) == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:  # otherwise it was quicker than the signal
        assert process.returncode == 130
        assert "Traceback" not in said
        assert "interrupted; nothing is half-written." in said
    assert not list((here / "found").rglob(".*.part*"))
    assert gone(process.pid)
    again = start(here)
    again.communicate(timeout=PATIENCE)
    assert again.returncode == 0
    assert lines(here) >= 60


class _Nowhere:
    """Ray, as it answers where nobody is (after a minute, which is not waited for here)."""

    def init(self, **options: object) -> None:
        raise ConnectionError("nobody is there")

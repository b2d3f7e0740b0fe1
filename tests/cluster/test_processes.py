"""Several processes on one folder: what comes out is what one process makes, whatever happens to them."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from dgpnet.cluster import Processes
from dgpnet.errors import Error
from dgpnet.segmenter import Concept
from dgpnet.segmenter.folder import segment_folder
from tests.cluster.commands import PATIENCE, gone, lines, prepared, start
from tests.cluster.same import results
from tests.tiny import scenes, tiny_segmenter, write_photos


@pytest.fixture(scope="module")
def concept() -> Concept:
    photos, masks = scenes(2, classes=2)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "spoon"])


def test_two_processes_make_what_one_makes_though_one_is_killed_and_list_what_is_broken(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 25)
    (root / "broken.jpg").write_bytes(b"words")
    everything = {"overlay": True, "uncertainty": True, "instances": True, "formats": ["coco"]}
    alone = segment_folder(concept, root, tmp_path / "alone", **everything)
    crew = Processes(["cpu", "cpu"])
    seen: list[tuple[int, int]] = []

    def advance(*now: int) -> None:
        seen.append(now)
        busy = [member for member in crew._members if member.chunk is not None]
        if len(seen) == 1 and busy:
            os.kill(busy[0].process.pid, signal.SIGKILL)

    shared = segment_folder(concept, root, tmp_path / "shared", crew=crew, advance=advance, **everything)
    assert results(tmp_path / "shared") == results(tmp_path / "alone")
    assert (shared.done, shared.failures) == (alone.done, alone.failures)
    assert list(shared.failures) == ["broken.jpg"]
    assert all("A worker died with" in note for note in shared.notes)
    assert seen == sorted(seen)
    assert seen[-1] == (26, 26)
    assert len(seen) > 4, "progress is told as chunks are done"


def test_a_job_begun_by_one_process_is_finished_by_others(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 8)
    segment_folder(concept, root, tmp_path / "whole")
    segment_folder(concept, sorted(root.glob("*.jpg"))[:4], tmp_path / "begun")
    outcome = segment_folder(concept, root, tmp_path / "begun", crew=Processes(["cpu"]))
    assert (outcome.done, outcome.before) == (8, 4)
    assert results(tmp_path / "begun") == results(tmp_path / "whole")


def test_a_device_that_is_not_there_is_refused_before_any_work():
    with pytest.raises(Error, match="no device"):
        Processes(["cpu", "99"])
    with pytest.raises(Error, match="at least one device"):
        Processes([])


def test_what_cannot_be_written_stops_the_job_and_it_goes_on_later(tmp_path, concept):
    root, out = write_photos(tmp_path / "photos", 6), tmp_path / "out"
    segment_folder(concept, [root / "0000.jpg"], out)
    shutil.rmtree(out / "report" / "mask")
    (out / "report" / "mask").write_text("a file where a folder should be")
    outcome = segment_folder(concept, root, out, crew=Processes(["cpu"]))
    assert outcome.stopped is not None
    assert "run the same command again" in outcome.stopped
    (out / "report" / "mask").unlink()
    assert segment_folder(concept, root, out).done == 6


@pytest.fixture
def here(tmp_path) -> Path:
    return prepared(tmp_path)


def test_ctrl_c_ends_all_processes_leaves_nothing_half_written_and_one_process_goes_on(here):
    process = start(here, "--devices", "cpu,cpu")
    while lines(here) == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:  # otherwise it was quicker than the signal
        assert process.returncode == 130
        assert said.strip().splitlines()[-1] == "dgpnet: interrupted; nothing is half-written."
        assert "Traceback" not in said
    assert not list((here / "found").rglob(".*.part*"))
    assert gone(process.pid)
    again = start(here)
    again.communicate(timeout=PATIENCE)
    assert again.returncode == 0
    rows = json.loads((here / "found" / "summary.json").read_text())["photographs"]
    assert len(rows) == 60


def test_both_ways_at_once_and_strange_devices_are_refused(here):
    for words, expected in (
        (["--devices", "cpu", "--ray", "local"], "either --devices or --ray"),
        (["--devices", "cpu,,"], "no device"),
    ):
        process = start(here, *words)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2
        assert expected in said
    assert not (here / "found").exists()

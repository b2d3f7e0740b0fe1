"""Twenty thousand photographs on a cluster: the same files as one process makes, and how much the driver remembers."""

import os
from pathlib import Path

import pytest
from PIL import Image

from dgpnet.cluster import Actors
from dgpnet.segmenter.folder import segment_folder
from tests.cluster.same import results
from tests.tiny import scene, scenes, tiny_segmenter

pytest.importorskip("ray", reason="Ray is not installed here; `make scale` has an environment with it")
psutil = pytest.importorskip("psutil", reason="psutil is not installed here; `make scale` has an environment with it")
#: How many; fewer for a quick look.
MANY = int(os.environ.get("DGPNET_MANY", "20000"))
#: Bytes that the driver's memory may grow by for each photograph: none of ours, but libraries keep what they like.
REMEMBERED = 1_000


def write_many(folder: Path, count: int) -> Path:
    """A thousand to a folder; a hundred different ones, since drawing takes longer than segmenting."""
    drawn = [Image.fromarray(scene(i, (24, 32))[0]) for i in range(100)]
    for i in range(count):
        where = folder / f"{i // 1000:03}"
        where.mkdir(parents=True, exist_ok=True)
        drawn[i % 100].save(where / f"{i % 1000:03}.jpg")
    return folder


def test_many_photographs_come_out_the_same_and_the_driver_remembers_little(tmp_path, capsys):
    photos, masks = scenes(1)
    concept = tiny_segmenter().learn(photos, masks)
    root = write_many(tmp_path / "photos", MANY)
    memory: list[tuple[int, int]] = []
    own = psutil.Process()

    def advance(done: int, total: int) -> None:
        memory.append((done, own.memory_info().rss))

    outcome = segment_folder(concept, root, tmp_path / "shared", crew=Actors("local", processors=1), advance=advance)
    assert (outcome.done, outcome.failures) == (MANY, {})
    (early, least), (late, most) = memory[len(memory) // 10], memory[-1]
    each = (most - least) / (late - early)
    with capsys.disabled():
        print(f"\n{MANY} photographs: the driver has {most / 1e6:.0f} MB, {each:.0f} bytes for each that is done")
    assert each < REMEMBERED
    segment_folder(concept, root, tmp_path / "alone")
    assert results(tmp_path / "shared") == results(tmp_path / "alone")

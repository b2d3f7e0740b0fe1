"""`Concept.map` on a Ray cluster of this machine: what a dataset gets is what `segment_all` gives, but for
rounding, which depends on how many photographs Ray gives together. `make scale`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dgpnet.cluster import Actors
from dgpnet.errors import Error
from dgpnet.images import read_mask
from dgpnet.segmenter import Concept
from dgpnet.segmenter.folder import segment_folder
from tests.tiny import scenes, tiny_segmenter, write_photos

ray = pytest.importorskip("ray", reason="Ray is not installed here; `make scale` has an environment with it")


@pytest.fixture(scope="module")
def concept() -> Concept:
    photos, masks = scenes(2, classes=2)
    return tiny_segmenter().learn(photos, masks, classes=["mug", "spoon"])


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    import ray.data

    ray.init(address="local", num_cpus=4, object_store_memory=100 << 20, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the actors have: rounding depends on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def alike(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> None:
    assert one.shape == other.shape
    assert (one == other).mean() > 0.99


def test_paths_get_what_segment_all_gives_and_what_is_broken_says_so(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 30)
    (root / "broken.jpg").write_bytes(b"words")
    paths = sorted(map(str, root.rglob("*.jpg")))
    dataset = concept.map(ray.data.from_items([{"path": path} for path in paths]), column="path", processors=1)
    rows = {row["path"]: row for row in dataset.take_all()}
    assert sorted(rows) == paths
    for path, found in zip(paths, concept.segment_all(paths, on_error="return"), strict=True):
        row = rows[path]
        if isinstance(found, Error):
            assert (row["error"], row["mask"].size, row["score"]) == (str(found), 0, 0)
            assert path.endswith("broken.jpg")
        else:
            alike(row["mask"], found.mask)
            for name in ("score", "likeness", "presence"):
                assert row[name] == pytest.approx(getattr(found, name), abs=1e-3)
            assert (row["error"], row["mask"].dtype) == ("", np.uint8)


def test_masks_are_those_of_the_folder_job(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 12)
    segment_folder(concept, root, tmp_path / "found", crew=Actors(processors=1))
    dataset = ray.data.from_items([{"path": str(path)} for path in root.rglob("*.jpg")])
    for row in concept.map(dataset, column="path", processors=1).take_all():
        key = Path(row["path"]).relative_to(root).with_suffix(".png")
        alike(row["mask"], read_mask(tmp_path / "found" / "masks" / key))


def test_images_of_many_sizes_that_ray_read_itself_and_other_columns_stay(tmp_path, concept):
    for i in range(9):
        Image.fromarray(scenes(1, first=i)[0][0][: 30 + i]).save(tmp_path / f"{i}.png")
    dataset = concept.map(ray.data.read_images(str(tmp_path), include_paths=True), workers=2, processors=1)
    rows = dataset.take_all()
    assert len(rows) == 9
    for row in rows:
        assert row["mask"].shape == row["image"].shape[:2]
        alike(row["mask"], concept.segment(row["path"]).mask)


def test_bytes_and_addresses_are_photographs_too_and_one_that_is_gone_says_so(tmp_path, concept):
    path = write_photos(tmp_path / "photos", 1) / "0000.jpg"
    rows = [{"image": path.read_bytes()}, {"image": b"words"}]
    good, bad = concept.map(ray.data.from_items(rows, override_num_blocks=1), processors=1).take_all()
    alike(good["mask"], concept.segment(path).mask)
    assert "cannot be read as a photo" in bad["error"]
    rows = [{"image": f"file://{path}"}, {"image": f"file://{tmp_path}/gone.jpg"}]
    good, gone = concept.map(ray.data.from_items(rows, override_num_blocks=1), processors=1).take_all()
    alike(good["mask"], concept.segment(path).mask)
    assert f"file://{tmp_path}/gone.jpg cannot be read" in gone["error"]


def test_how_to_segment_is_told_and_checked_before_anything_is_done(tmp_path, concept):
    root = write_photos(tmp_path / "photos", 2)
    dataset = ray.data.from_items([{"path": str(path)} for path in root.rglob("*.jpg")])
    (row, *_) = concept.map(dataset, column="path", processors=1, threshold=0.99, tile=True).take_all()
    alike(row["mask"], concept.segment(row["path"], threshold=0.99, tile=True).mask)
    for wrong, told in (
        ({"threshold": 2.0}, "threshold"),
        ({"column": 3}, "column is a str"),
        ({"workers": 0}, "workers"),
        ({"workers": (3, 2)}, "workers"),
        ({"per_gpu": 0}, "per_gpu"),
        ({"processors": 0}, "processors"),
    ):
        with pytest.raises(Error, match=told):
            concept.map(dataset, **wrong)
    with pytest.raises(Error, match="dataset"):
        concept.map([1, 2])


def test_as_many_workers_as_processors_wait_for_nothing(tmp_path, concept):
    for i in range(5):
        Image.fromarray(scenes(1, first=i)[0][0]).save(tmp_path / f"{i}.png")
    for how in ({"workers": 4, "processors": 1}, {"processors": 4}):
        assert concept.map(ray.data.read_images(str(tmp_path)), **how).count() == 5

"""Caches: right, resumable, self-contained, and clear about what is broken."""

import multiprocessing
import os
import shutil
import signal
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgpnet.augment import Augmentation, render
from dgpnet.data import Cache, Dataset, Mixture, build, cached, narrow, sample_batch, verify
from dgpnet.data import cache as cache_module
from dgpnet.data.cache import keep_labels
from dgpnet.errors import Error
from dgpnet.files import cache_folder, write_record
from dgpnet.images import resize_mask, resize_photo
from tests.damage import Damage, damage

FORK = multiprocessing.get_context("fork")


def random_masks(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.integers(0, 4, rng.integers(9, 40, 2)).astype(np.uint8) for _ in range(count)]


def test_a_cache_is_the_resized_dataset(toy_of, rng, tmp_path: Path) -> None:
    dataset = toy_of(random_masks(rng, 40))
    cache = cached(dataset, 16, tmp_path, workers=2)
    photos, masks = cache.tensors()
    assert (photos.shape, masks.shape, photos.dtype) == ((40, 3, 16, 16), (40, 16, 16), torch.uint8)
    for i in range(40):
        assert np.array_equal(cache.photo(i), resize_photo(dataset.photo(i), (16, 16)))
        assert np.array_equal(photos[i].permute(1, 2, 0).numpy(), cache.photo(i))
        assert np.array_equal(masks[i].numpy(), resize_mask(dataset.mask(i), (16, 16)))
        assert np.array_equal(cache.mask(i), dataset.mask(i))
        assert cache.size(i) == dataset.mask(i).shape
        assert cache.path(i) == dataset.path(i)
    assert (cache.pairs, cache.classes, cache.name, cache.side) == (dataset.pairs, dataset.classes, "toy", 16)


def test_the_second_time_nothing_is_read(toy, tmp_path: Path) -> None:
    cached(toy({1: 5}), 8, tmp_path, workers=1)
    again = toy({1: 5})
    cached(again, 8, tmp_path, workers=1)
    assert again.reads == 0
    cached(again, 12, tmp_path, workers=1)
    assert again.reads == 5


def test_a_cache_folder_stands_alone(own_set: Path, tmp_path: Path) -> None:
    dataset = build("folder", own_set, min_pixels=1, size=16, cache=tmp_path / "cache")
    moved = tmp_path / "elsewhere"
    shutil.copytree(dataset.folder, moved)
    shutil.rmtree(own_set)
    shutil.rmtree(tmp_path / "cache")
    cache = Cache.open(moved)
    assert cache.classes == {1: "mug", 2: "spoon"}
    assert len(cache.pairs) == 11
    assert cache.mask(3).shape == (20, 30)
    assert sample_batch(cache, 0, 0, 4, 2).index.shape == (4, 3)


def test_narrowed_pairs_of_a_dataset_are_those_of_its_cache(own_set: Path, tmp_path: Path) -> None:
    everything = build("folder", own_set, min_pixels=1, size=16, cache=tmp_path)
    spoons = build("folder", own_set, min_pixels=1, size=16, cache=tmp_path, classes=["spoon"])
    assert everything.folder == spoons.folder
    assert spoons.classes == {2: "spoon"}
    assert narrow(everything, ["spoon"]).pairs == spoons.pairs


def test_an_object_that_vanishes_keeps_a_pixel(toy_of, tmp_path: Path) -> None:
    mask = np.zeros((100, 100), np.uint8)
    mask[31, 77] = 5
    mask[60:62, 3] = 6
    assert set(np.unique(resize_mask(mask, (10, 10)))) == {0}
    cache = cached(toy_of([mask]), 10, tmp_path)
    small = cache.masks[0]
    assert small[3, 7] == 5
    assert small[6, 0] == 6
    assert np.count_nonzero(small) == 2
    assert not cache.notes


def test_an_object_that_vanishes_does_not_take_the_last_pixel_of_another() -> None:
    mask = np.zeros((4, 4), np.uint8)
    mask[1, 1], mask[0, 0], mask[0, 1] = 1, 2, 3  # all in the first pixel of 2 × 2
    small = keep_labels(mask, resize_mask(mask, (2, 2)))
    assert (small == 1).sum() == 1
    assert not {2, 3} & set(np.unique(small).tolist())


def test_a_pair_whose_mask_does_not_show_it_is_left_out_and_said(toy, tmp_path: Path) -> None:
    dataset = toy({1: 2, 2: 2})
    dataset.pairs.append((0, 2))
    cache = cached(dataset, 8, tmp_path)
    assert (0, 2) not in cache.pairs
    assert cache.notes == ["toy: toy/0.jpg is listed with class-2, which its mask does not show; left out"]


def test_anchors_are_pixels_of_their_pair(toy_of, rng, tmp_path: Path) -> None:
    cache = cached(toy_of(random_masks(rng, 10)), 20, tmp_path)
    points = np.round((cache.anchors() + 1) * 10 - 0.5).astype(int)
    assert points.shape == (len(cache.pairs), 8, 2)
    for (photo, c), rows in zip(cache.pairs, points, strict=True):
        assert all(cache.masks[photo][y, x] == c for x, y in rows)


def test_crops_of_a_cache_always_show_the_class(toy_of, tmp_path: Path) -> None:
    masks = []
    for n in range(6):
        mask = np.zeros((50, 60), np.uint8)
        mask[7 * n, 8 * n] = 1
        masks.append(mask)
    cache = cached(toy_of(masks), 40, tmp_path)
    wild = Augmentation(scale=(0.2, 2.0), rotate=90, shift=0.5)
    batch = sample_batch(cache, 0, 0, 64, 2, augmentation=wild)
    targets = render(*cache.tensors(), *batch.flat())[1]
    assert (targets == 1).flatten(1).any(dim=1).all()


def test_a_mixture_is_cached_member_by_member(toy, tmp_path: Path) -> None:
    a, b = toy({1: 3, 2: 2}, name="a"), toy({1: 4}, name="b")
    mixture = cached(Mixture([(a, 1), (b, 2)]), 8, tmp_path)
    assert sorted(p.name[0] for p in tmp_path.iterdir()) == ["a", "b"]
    photos, masks = mixture.tensors()
    assert photos.shape == (9, 3, 8, 8)
    assert masks[:, 0, 0].tolist() == [1, 1, 1, 2, 2, 1, 1, 1, 1]
    assert mixture.side == 8
    assert mixture.anchors().shape == (9, 8, 2)
    narrowed = cached(narrow(Mixture([(a, 1), (b, 2)]), [257]), 8, tmp_path)
    assert narrowed.pairs == [(n, 257) for n in range(5, 9)]
    assert narrowed.anchors().shape == (4, 8, 2)


class Cut(Exception):
    pass


def test_a_build_that_is_cut_off_goes_on(toy, tmp_path: Path) -> None:
    def stop(done: int, of: int) -> None:
        if done >= 64:
            raise Cut

    with pytest.raises(Cut):
        cached(toy({1: 100}), 8, tmp_path, workers=1, progress=stop)
    with pytest.raises(Error, match="no finished cache"):
        Cache.open(next(tmp_path.glob("*.partial")))
    rest = toy({1: 100})
    steps: list[tuple[int, int]] = []
    cache = cached(rest, 8, tmp_path, workers=1, progress=lambda *step: steps.append(step))
    assert rest.reads == 36
    assert steps == [(96, 100), (100, 100)]
    assert all(np.array_equal(cache.photo(i), resize_photo(rest.photo(i), (8, 8))) for i in range(100))
    assert not list(tmp_path.glob("*.partial"))


def test_a_killed_build_goes_on(tmp_path: Path) -> None:
    dataset = build("synthetic", photographs=200, side=32)

    def die(done: int, of: int) -> None:
        if done >= 96:
            os.kill(os.getpid(), signal.SIGKILL)

    killed = FORK.Process(target=cached, args=(dataset, 32, tmp_path), kwargs={"workers": 2, "progress": die})
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.partial/parts/*.npz"))) >= 3
    cache = cached(dataset, 32, tmp_path, workers=2)
    assert all(np.array_equal(cache.photo(i), dataset.photo(i)) for i in range(200))


def break_files(root: Path, save: Callable[..., None]) -> list[str]:
    """A truncated JPEG, a missing photograph, a mask of another size, a text file; the names to be reported."""
    photo = root / "JPEGImages" / "a0.jpg"
    photo.write_bytes(photo.read_bytes()[:-200])
    (root / "JPEGImages" / "a1.jpg").unlink()
    save(root / "SegmentationClassAug" / "a2.png", np.ones((5, 5), np.uint8))
    (root / "SegmentationClassAug" / "a3.png").write_text("no image")
    return ["a0.jpg", "a1.jpg", "a2.png", "a3.png"]


@pytest.fixture
def voc(tmp_path: Path, save: Callable[..., None], rng: np.random.Generator) -> Path:
    root = tmp_path / "VOC2012"
    for n in range(50):
        save(root / "JPEGImages" / f"a{n}.jpg", rng.integers(0, 256, (40, 60, 3), np.uint8))
        save(root / "SegmentationClassAug" / f"a{n}.png", np.full((40, 60), 1, np.uint8))
    for part in ("train", "val"):
        for fold in range(4):
            path = root / "splits" / "pascal-5i" / part / f"fold{fold}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"a{n}__01\n" for n in range(50)) if fold == 0 else "")
    return root


@pytest.mark.parametrize("workers", [1, 2])
def test_all_broken_files_are_named_at_once_and_nothing_is_left(voc: Path, save, tmp_path: Path, workers: int) -> None:
    names = break_files(voc, save)
    home = tmp_path / "cache"
    with pytest.raises(Error, match="4 photographs cannot be used") as found:
        build("pascal", voc, size=16, cache=home, workers=workers)
    told = "\n".join([str(found.value), *found.value.__notes__])
    assert all(name in told for name in names)
    assert not any(home.iterdir())
    with pytest.raises(Error, match="4 photographs cannot be used"):
        verify(build("pascal", voc), workers=workers)


def test_a_file_that_changes_makes_another_cache(voc: Path, save, tmp_path: Path) -> None:
    first = build("pascal", voc, size=16, cache=tmp_path / "cache")
    save(voc / "SegmentationClassAug" / "a7.png", np.repeat(np.arange(2, dtype=np.uint8), 30)[None].repeat(40, 0))
    second = build("pascal", voc, size=16, cache=tmp_path / "cache")
    assert first.folder != second.folder
    assert second.masks[second.names.index("JPEGImages/a7.jpg")].mean() == 0.5


def test_a_full_disk_is_noticed_before_anything_is_decoded(toy, tmp_path: Path, monkeypatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, 10**5))
    dataset = toy({1: 1000})
    with pytest.raises(Error, match="GB of disk space"):
        cached(dataset, 64, tmp_path)
    assert dataset.reads == 0


def test_a_cache_folder_that_cannot_be_written_is_an_error(toy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="cannot be written"):
        cached(toy({1: 2}), 8, tmp_path / "file")


def test_a_cache_is_not_cached_again_at_another_size(toy, tmp_path: Path) -> None:
    cache = cached(toy({1: 2}), 8, tmp_path)
    assert cached(cache, 8, tmp_path) is cache
    with pytest.raises(Error, match="has size 8, not 16"):
        cached(cache, 16, tmp_path)


def test_a_dataset_without_photographs_is_refused(toy, tmp_path: Path) -> None:
    with pytest.raises(Error, match="toy has no photographs"):
        cached(toy({}), 8, tmp_path)


def test_a_folder_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no finished cache"):
        Cache.open(tmp_path)
    write_record(tmp_path / "cache.json", {"format": 99})
    with pytest.raises(Error, match="build it again"):
        Cache.open(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dataset]:
    home = tmp_path_factory.mktemp("built")
    return home, build("synthetic", photographs=6, side=16, kinds=4, size=16, cache=home, workers=1)


@given(damage(), st.sampled_from(["cache.json", "objects.npz", "originals.npz", "photos.npy", "masks.npy"]))
def test_a_damaged_cache_is_built_again(built: tuple[Path, Dataset], change: Damage, name: str) -> None:
    with TemporaryDirectory() as place:
        home = Path(shutil.copytree(built[0], Path(place) / "home"))
        (path,) = home.glob(f"*/{name}")
        content = path.read_bytes()
        # Of the arrays only the head: their pixels carry no checksum.
        damaged = change(content[:96]) + content[96:] if path.suffix == ".npy" else change(content)
        path.write_bytes(damaged)
        again = build("synthetic", photographs=6, side=16, kinds=4, size=16, cache=home, workers=1)
        assert again.pairs == built[1].pairs and again.classes == built[1].classes
        assert np.array_equal(again.anchors(), built[1].anchors())
        assert all(np.array_equal(again.mask(i), built[1].mask(i)) for i in range(6))
        if path.suffix != ".npy":
            assert all(torch.equal(one, other) for one, other in zip(again.tensors(), built[1].tensors(), strict=True))


def test_a_damaged_chunk_of_a_killed_build_is_made_again(toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = toy({1: 40, 2: 40})
    whole = cached(dataset, 16, tmp_path / "whole", workers=1)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cache_module, "_finish", stop)
        cached(dataset, 16, tmp_path / "parts", workers=1)
    part = sorted((tmp_path / "parts").glob("*.partial/parts/*.npz"))[1]
    part.write_bytes(part.read_bytes()[:-40])
    again = cached(dataset, 16, tmp_path / "parts", workers=1)
    assert all(torch.equal(one, other) for one, other in zip(again.tensors(), whole.tensors(), strict=True))
    assert np.array_equal(again.anchors(), whole.anchors())


def test_where_caches_are(monkeypatch) -> None:
    monkeypatch.setenv("DGPNET_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("DGPNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_folder() == Path("/cache/dgpnet")


def test_two_processes_build_one_cache(toy, tmp_path: Path) -> None:
    dataset = toy({1: 200})
    running = [FORK.Process(target=cached, args=(dataset, 32, tmp_path), kwargs={"workers": 1}) for _ in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0, 0, 0]
    assert [p.name[:3] for p in tmp_path.iterdir()] == ["toy"]
    assert np.array_equal(Cache.open(next(tmp_path.iterdir())).photo(199), resize_photo(dataset.photo(199), (32, 32)))

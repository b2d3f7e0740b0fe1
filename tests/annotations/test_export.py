"""Writing: one by one, whole or not at all."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dgpnet.annotations import FORMATS, Item, export, read_support
from dgpnet.errors import Error


@pytest.mark.parametrize("format_", FORMATS)
def test_memory_does_not_grow_with_the_number_of_photographs(
    tmp_path: Path, format_: str, blobs: Callable[..., np.ndarray]
) -> None:
    mask = blobs((24, 24))

    def peak(count: int) -> int:
        tracemalloc.start()
        export(format_, tmp_path, ["a", "b"], (Item(f"{n}.jpg", mask, 0.5) for n in range(count)))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(3)
    assert peak(40) < 1.3 * peak(8) + 20_000


@pytest.mark.parametrize("format_", ["coco", "labelstudio"])
def test_a_file_that_was_cut_off_does_not_appear(tmp_path: Path, format_: str) -> None:
    def items() -> Iterator[Item]:
        yield Item("a.jpg", np.ones((4, 4), np.uint8))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(format_, tmp_path, ["a"], items())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_job_is_written_too(tmp_path: Path, format_: str) -> None:
    assert export(format_, tmp_path / "new", ["a"], []).exists()


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("polygons", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (64, 48)])
def test_full_masks_and_thin_photographs(
    tmp_path: Path, photo: Callable[..., Path], format_: str, polygons: bool, size: tuple[int, int]
) -> None:
    mask = np.ones(size, np.uint8)
    photo("photos/a.jpg", size)
    path = export(format_, tmp_path, ["a"], [Item("a.jpg", mask)], polygons=polygons)
    np.testing.assert_array_equal(read_support(path, photos=tmp_path / "photos").examples[0].mask, mask)


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match="expected one of coco, labelme, yolo, labelstudio"):
        export("voc", tmp_path, ["a"], [])
    with pytest.raises(Error, match=r"a\.jpg: the mask has the value 2"):
        export("coco", tmp_path, ["a"], [Item("a.jpg", np.full((2, 2), 2, np.uint8))])
    with pytest.raises(Error, match=r"a\.jpg: a mask is \(H, W\) uint8"):
        export("coco", tmp_path, ["a"], [Item("a.jpg", np.zeros((2, 2)))])
    for format_ in ("labelme", "yolo"):
        with pytest.raises(Error, match=r"two photographs .* a\.png is one of them"):
            export(format_, tmp_path, ["a"], [Item(name, np.zeros((2, 2), np.uint8)) for name in ("a.jpg", "a.png")])
        with pytest.raises(Error, match="leads outside"):
            export(format_, tmp_path, ["a"], [Item("../a.jpg", np.zeros((2, 2), np.uint8))])

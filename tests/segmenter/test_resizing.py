"""Photographs are resized on a GPU as Pillow does it, to the last bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dgpnet.images import resize_photo
from dgpnet.segmenter import resizing
from dgpnet.segmenter.resizing import CPU, LARGEST, LONGEST, OFTEN, by_products, order, resized

CUDA = pytest.param(torch.device("cuda"), marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
SIDE = st.integers(1, 300)
#: Nothing is computed there, so all that `resized` does itself is what Pillow does.
ELSEWHERE = torch.device("meta")


def noise(height: int, width: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("device", [CPU, CUDA])
@settings(deadline=None)
@given(SIDE, SIDE, SIDE, SIDE, st.integers(0, 9))
def test_every_pixel_is_that_of_pillow(device: torch.device, height: int, width: int, h: int, w: int, seed: int):
    rows_first = order((height, width), (h, w), device)
    assert rows_first is not None
    photo = noise(height, width, seed)
    np.testing.assert_array_equal(
        by_products(photo, (h, w), device, rows_first=rows_first), resize_photo(photo, (h, w))
    )


@pytest.mark.parametrize("size", [(480, 640), (640, 480), (1365, 2048), (100, 90)])
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_photographs_as_they_are_usual(device: torch.device, size: tuple[int, int]):
    rows_first = order(size, (384, 384), device)
    assert rows_first is not None
    white = np.full((*size, 3), 255, np.uint8)
    for photo in (noise(*size), noise(*size)[::-1], white, np.asfortranarray(noise(*size))):
        found = by_products(photo, (384, 384), device, rows_first=rows_first)
        assert found.flags.c_contiguous and found.dtype == np.uint8
        np.testing.assert_array_equal(found, resize_photo(photo, (384, 384)))


def test_what_may_not_be_written_to_stays_as_it_is():
    photo = noise(9, 7)
    photo.flags.writeable = False
    np.testing.assert_array_equal(by_products(photo, (4, 4), CPU, rows_first=True).shape, (4, 4, 3))
    np.testing.assert_array_equal(photo, noise(9, 7))


def test_where_pillow_does_something_else_it_does_it_all(monkeypatch: pytest.MonkeyPatch):
    def otherwise(photo: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        return np.array(Image.fromarray(photo).resize(size[::-1], Image.Resampling.BICUBIC))

    monkeypatch.setattr(resizing, "resize_photo", otherwise)
    order.cache_clear()
    try:
        assert order((31, 23), (17, 40), CPU) is None
        monkeypatch.setattr(resizing, "order", lambda *_: None)
        monkeypatch.setattr(resizing, "OFTEN", 0)
        monkeypatch.setattr(resizing, "pays", lambda device: True)
        np.testing.assert_array_equal(resized(noise(31, 23), (17, 40), ELSEWHERE), otherwise(noise(31, 23), (17, 40)))
    finally:
        order.cache_clear()


def test_devices_that_are_slow_at_it_leave_it_to_pillow():
    assert not resizing.pays(CPU) and not resizing.pays(ELSEWHERE) and not resizing.pays(torch.device("mps"))
    np.testing.assert_array_equal(resized(noise(9, 7), (4, 4), ELSEWHERE), resize_photo(noise(9, 7), (4, 4)))


def test_a_size_that_is_asked_for_again_and_again_is_taken_there(monkeypatch: pytest.MonkeyPatch):
    taken = []
    monkeypatch.setattr(resizing, "pays", lambda device: True)
    monkeypatch.setattr(
        resizing, "by_products", lambda *given, **how: taken.append(given) or by_products(*given, **how)
    )
    resizing._asked.cache_clear()
    order.cache_clear()
    for turn in range(OFTEN + 2):
        photo = noise(91, 73, turn)
        np.testing.assert_array_equal(resized(photo, (40, 40), CPU), resize_photo(photo, (40, 40)))
        resized(noise(90 + turn, 70), (40, 40), CPU)  # others, once each
        assert sum(given[0] is photo for given in taken) == (turn >= OFTEN)
    assert all(given[0].shape == (91, 73, 3) for given in taken)


def test_where_memory_is_short_pillow_does_it(monkeypatch: pytest.MonkeyPatch):
    def short(*given: object, **how: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(resizing, "pays", lambda device: True)
    monkeypatch.setattr(resizing, "OFTEN", 0)
    monkeypatch.setattr(resizing, "by_products", short)
    order.cache_clear()
    np.testing.assert_array_equal(resized(noise(33, 27), (4, 4), CPU), resize_photo(noise(33, 27), (4, 4)))


def test_a_photograph_too_large_to_take_there_a_picture_and_one_of_that_size_never_go_there(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(resizing, "pays", lambda device: True)
    monkeypatch.setattr(resizing, "OFTEN", 0)
    for large in (np.zeros((LARGEST // 4000 + 1, 4000, 3), np.uint8), np.zeros((LONGEST + 1, 4, 3), np.uint8)):
        assert resized(large, (8, 8), ELSEWHERE).shape == (8, 8, 3)
    np.testing.assert_array_equal(
        resized(Image.fromarray(noise(9, 7)), (4, 4), ELSEWHERE), resize_photo(noise(9, 7), (4, 4))
    )
    same = noise(8, 8)
    assert resized(same, (8, 8), ELSEWHERE) is same

"""Pairs by counting pixels."""

from pathlib import Path

import numpy as np
import pytest

from dgpnet.data.scan import count_pixels, pairs_of
from dgpnet.errors import Error


def test_counts_equal_counting(toy_of, rng, tmp_path: Path) -> None:
    masks = [rng.choice(np.array([0, 1, 7, 254, 255], np.uint8), (9, 11)) for _ in range(70)]
    counts = count_pixels(toy_of(masks), tmp_path, workers=2)
    assert counts.shape == (70, 256)
    assert all(counts[i, c] == (masks[i] == c).sum() for i in range(70) for c in range(256))


def test_counts_are_kept(toy, toy_of, tmp_path: Path, monkeypatch) -> None:
    first = count_pixels(toy({1: 3}), tmp_path)
    monkeypatch.setattr(toy_of, "mask", None)
    assert np.array_equal(count_pixels(toy({1: 3}), tmp_path), first)


def test_counts_do_without_a_place_to_keep_them(toy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert count_pixels(toy({1: 3}), tmp_path / "file").sum() == 3 * 24


def test_pairs_have_enough_pixels() -> None:
    counts = np.zeros((3, 256), np.int64)
    counts[:, 1], counts[:, 2] = (2048, 2047, 9000), (0, 1, 2)
    assert pairs_of(counts, [1], 2048) == [(0, 1), (2, 1)]
    assert pairs_of(counts, [2, 257], 0) == [(1, 2), (2, 2), (0, 257), (1, 257), (2, 257)]
    assert pairs_of(counts, [1], 1, photos=[2]) == [(2, 1)]


def test_unreadable_masks_are_all_named(toy_of, tmp_path: Path) -> None:
    class Broken(toy_of):
        def mask(self, i: int):
            if i % 2:
                raise Error(f"mask {i} is broken.")
            return super().mask(i)

    with pytest.raises(Error, match=r"(?s)2 photographs cannot be used, .*mask 1 is broken.*mask 3 is broken"):
        count_pixels(Broken([np.ones((2, 2), np.uint8)] * 4), tmp_path, workers=1)
    assert not list(tmp_path.iterdir())

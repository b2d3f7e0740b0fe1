"""Many masks in two files."""

from pathlib import Path

import numpy as np
import pytest

from dgpnet.data.masks import MaskStore, pack
from dgpnet.errors import Error


def test_masks_come_back_as_they_were(tmp_path: Path, rng: np.random.Generator) -> None:
    masks = [rng.integers(0, 256, size).astype(np.uint8) for size in ((3, 5), (1, 1), (40, 30))]
    streams = [pack(mask) for mask in masks]
    prefix = tmp_path / "coco.full"
    assert not MaskStore.exists(prefix)
    sizes = np.array([mask.shape for mask in masks], np.int32)
    MaskStore.write(prefix, sizes, np.array([len(s) for s in streams]), [b"".join(streams[:2]), streams[2]])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coco.full.bin", "coco.full.npz"]
    store = MaskStore(prefix)
    assert len(store) == 3
    assert all(np.array_equal(store[i], masks[i]) for i in (2, 0, 1))


def test_a_damaged_mask_is_one_sentence(tmp_path: Path) -> None:
    stream = pack(np.arange(64, dtype=np.uint8).reshape(8, 8))
    MaskStore.write(tmp_path / "some", np.array([[8, 8]], np.int32), np.array([len(stream)]), [stream])
    path = tmp_path / "some.bin"
    for damaged in (stream[:-3], stream[:5] + b"\0\0" + stream[7:], b""):
        path.write_bytes(damaged)
        with pytest.raises(Error, match=r"some\.bin is damaged; remove its folder"):
            MaskStore(tmp_path / "some")[0]

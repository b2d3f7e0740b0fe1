"""Many label masks of their own sizes in two files: compressed one after the other, and a table of where each lies."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.files import atomic


class MaskStore:
    """Masks 0..N-1 in `prefix`.bin and `prefix`.npz. sizes: (N, 2) int, height and width."""

    def __init__(self, prefix: Path) -> None:
        self.path = prefix.with_name(prefix.name + ".bin")
        with np.load(_table(prefix)) as table:
            self.sizes: NDArray[np.int32] = table["sizes"]
            self.offsets: NDArray[np.int64] = table["offsets"]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: int) -> NDArray[np.uint8]:
        """Mask i, (H, W) uint8."""
        start, stop = int(self.offsets[i]), int(self.offsets[i + 1])
        with open(self.path, "rb") as file:
            file.seek(start)
            stored = file.read(stop - start)
        try:
            return np.frombuffer(zlib.decompress(stored), np.uint8).reshape(self.sizes[i]).copy()
        except (zlib.error, ValueError) as problem:
            raise Error(f"{self.path} is damaged; remove its folder, and it is made again.") from problem

    @staticmethod
    def exists(prefix: Path) -> bool:
        """Whether there is a finished store; its table is written last."""
        return _table(prefix).exists()

    @staticmethod
    def write(prefix: Path, sizes: NDArray[np.int32], lengths: NDArray[np.int64], streams: Iterable[bytes]) -> None:
        """Write a store. lengths: (N,) bytes of each mask as `pack`ed; streams: those bytes, in any pieces."""
        with atomic(prefix.with_name(prefix.name + ".bin")) as temporary, open(temporary, "wb") as file:
            for stream in streams:
                file.write(stream)
        with atomic(_table(prefix)) as temporary:
            np.savez(temporary, sizes=sizes, offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def pack(mask: NDArray[np.uint8]) -> bytes:
    """A mask as the store keeps it."""
    return zlib.compress(mask.tobytes(), 1)


def _table(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".npz")

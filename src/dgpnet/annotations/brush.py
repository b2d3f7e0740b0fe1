"""Label Studio's brush: run lengths packed bit by bit.

A header of 32 bits (how many values follow), 5 bits (bits per value, minus 1) and four times 4 bits (the lengths of
the four kinds of counter, minus 1); then blocks of 1 bit (repeated?), 2 bits (which kind of counter), the counter
(values in the block, minus 1) and one value, if repeated, or all of them. The values are a (H, W, 4) picture whose
last channel is the mask.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dgpnet.annotations.runs import Runs, between, counts_of
from dgpnet.annotations.shapes import Patch, Work
from dgpnet.errors import Error

_CHANNELS: Final = 4
#: Bits, as Label Studio itself writes them.
_COUNTERS: Final = (3, 4, 8, 16)
_HEADER: Final = 32 + 5 + 4 * 4
#: The least value that belongs to the mask.
_OPAQUE: Final = 128
#: Of `Work`, to read one.
_A_BLOCK: Final = 150
#: Blocks that are spread out to bits at a time.
_CHUNK: Final = 1 << 18


def encode(patch: Patch, size: tuple[int, int]) -> bytes:
    """A piece of a (H, W) mask as white, opaque pixels on transparent black."""
    counts = counts_of(patch, size)
    values = np.arange(len(counts)) % 2 * 255
    values, lengths = values[counts > 0], counts[counts > 0] * _CHANNELS
    longest = 1 << _COUNTERS[-1]
    blocks = -(-lengths // longest)  # a run longer than the largest counter takes several
    values = np.repeat(values, blocks)
    rest = lengths - (blocks - 1) * longest
    lengths = np.full(len(values), longest)
    lengths[np.cumsum(blocks) - 1] = rest

    kind = np.searchsorted(1 << np.array(_COUNTERS), lengths)
    bits = np.array(_COUNTERS)[kind]
    codes = (((4 | kind) << bits | (lengths - 1)) << 8) | values
    header = size[0] * size[1] * _CHANNELS
    for number, width in ((8 - 1, 5), *((bits - 1, 4) for bits in _COUNTERS)):
        header = header << width | number
    pieces = [_bits(np.array([header]), np.array([_HEADER]))]
    for first in range(0, len(codes), _CHUNK):
        pieces.append(_bits(codes[first : first + _CHUNK], 11 + bits[first : first + _CHUNK]))
    return np.packbits(np.concatenate(pieces)).tobytes()


def _bits(codes: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The lowest `lengths` bits of each code, one after another, highest first."""
    place = np.repeat(np.cumsum(lengths), lengths) - 1 - np.arange(lengths.sum())
    return (np.repeat(codes, lengths) >> place & 1).astype(np.uint8)


def decode(data: bytes, size: tuple[int, int], work: Work | None = None) -> Runs:
    """The opaque pixels of a (H, W) mask. The size is checked before anything is allocated."""
    work = work or Work()
    total = len(data) * 8
    if total < _HEADER:
        raise _cut_off()
    header = int.from_bytes(data[:7], "big") >> (56 - _HEADER)
    expected = size[0] * size[1] * _CHANNELS
    if header >> 21 != expected:
        raise Error(f"its run lengths hold {header >> 21} values, expected {expected}, 4 per pixel; export it again.")
    if (header >> 16 & 31) + 1 != 8:
        raise Error("its run lengths do not have 8 bits per value; export it again.")
    counters = [(header >> shift & 15) + 1 for shift in (12, 8, 4, 0)]

    values = np.frombuffer(data, np.uint8)
    edges: list[int] = []  # first pixel inside, first pixel outside, ...
    at, position = 0, _HEADER

    def read(bits: int) -> int:
        nonlocal position
        position += bits
        if position > total:
            raise _cut_off()
        chunk = int.from_bytes(data[(position - bits) >> 3 : (position + 7) >> 3], "big")
        return chunk >> (-position % 8) & ((1 << bits) - 1)

    while at < expected:
        work.spend(_A_BLOCK)
        start = read(3)
        length = read(counters[start & 3]) + 1
        if length > expected - at:
            raise Error("its run lengths are longer than the photograph; export it again.")
        first, last = at // _CHANNELS, (at + length) // _CHANNELS  # pixels whose last channel lies in the block
        if start & 4:
            if read(8) >= _OPAQUE:
                edges += (first, last)
        else:
            if position + 8 * length > total:
                raise _cut_off()
            piece = np.unpackbits(values[position >> 3 : (position + 8 * length + 7) >> 3])
            block = np.packbits(piece[position % 8 :][: 8 * length])
            opaque = np.zeros(last - first + 2, bool)
            opaque[1:-1] = block[-(at + 1) % _CHANNELS :: _CHANNELS] >= _OPAQUE
            edges += (first + np.flatnonzero(opaque[1:] != opaque[:-1])).tolist()
            position += 8 * length
        at += length
    return between(np.array(edges, np.int64))


def _cut_off() -> Error:
    return Error("its run lengths are cut off; export it again.")

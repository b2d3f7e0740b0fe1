"""Label Studio's packed run lengths, against a reader that goes bit by bit."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgpnet.annotations import brush, shapes
from dgpnet.errors import Error


def decoded(data: bytes, size: tuple[int, int]) -> np.ndarray:
    return shapes.paint(size, [(1, brush.decode(data, size))]).astype(bool)


def pack(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def header(count: int, counters: tuple[int, ...] = (3, 4, 8, 16)) -> str:
    return f"{count:032b}{7:05b}" + "".join(f"{bits - 1:04b}" for bits in counters)


def bit_by_bit(data: bytes) -> list[int]:
    """All values, read from a string of bits."""
    bits = iter("".join(f"{byte:08b}" for byte in data))

    def take(n: int) -> int:
        return int("".join(next(bits) for _ in range(n)), 2)

    count, word = take(32), take(5) + 1
    counters = [take(4) + 1 for _ in range(4)]
    values: list[int] = []
    while len(values) < count:
        repeated, length = take(1), take(counters[take(2)]) + 1
        values += [take(word)] * length if repeated else [take(word) for _ in range(length)]
    return values


@given(arrays(bool, st.tuples(st.integers(1, 40), st.integers(1, 40))))
def test_what_is_encoded_comes_back(mask: np.ndarray) -> None:
    data = brush.encode(shapes.crop(mask), mask.shape)
    np.testing.assert_array_equal(bit_by_bit(data), np.repeat(mask.ravel() * 255, 4))
    np.testing.assert_array_equal(decoded(data, mask.shape), mask)


@pytest.mark.parametrize("run", [1, 2, 4, 64, 16383, 16384, 16385, 40000])
def test_runs_of_every_length_come_back(run: int) -> None:
    mask = np.zeros((2, run + 3), bool)
    mask[0, 1 : run + 1] = True
    np.testing.assert_array_equal(decoded(brush.encode(shapes.crop(mask), mask.shape), mask.shape), mask)


def test_blocks_of_single_values_and_other_counters_are_read() -> None:
    colours = (9, 8, 7, 255, 1, 2, 3, 0, 0, 0, 0, 255)  # three pixels: opaque, transparent, opaque
    single = "0" + "01" + f"{11:05b}" + "".join(f"{value:08b}" for value in colours)
    data = pack(header(12, (2, 5, 6, 7)) + single)
    np.testing.assert_array_equal(decoded(data, (1, 3)), [[True, False, True]])


@given(arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 6), st.just(4))), st.randoms())
def test_any_picture_in_any_blocks_is_read_by_its_last_channel(picture: np.ndarray, random: Random) -> None:
    values = picture.ravel().tolist()
    bits = header(len(values))
    while values:
        length = random.randint(1, min(8, len(values)))
        block, values = values[:length], values[length:]
        if random.random() < 0.5 and len(set(block)) == 1:
            bits += f"100{length - 1:03b}{block[0]:08b}"
        else:
            bits += f"000{length - 1:03b}" + "".join(f"{value:08b}" for value in block)
    np.testing.assert_array_equal(decoded(pack(bits), picture.shape[:2]), picture[:, :, 3] >= 128)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 6,
        pack(header(16)),  # no values
        pack(header(16) + "1" + "00" + "111"),  # cut off before the value
        pack(header(16) + "0" + "01" + "1111"),  # cut off before the values
        pack(header(16) + "1" + "11" + "1" * 16 + "0" * 8),  # more than fits
        pack(header(2**32 - 1) + "1" * 64),  # sixteen gigabytes would be wasted on it
        pack(f"{16:032b}{3:05b}" + "0" * 60),  # 4 bits per value
    ],
)
def test_broken_data_is_refused(data: bytes) -> None:
    with pytest.raises(Error, match="export it again"):
        brush.decode(data, (2, 2))

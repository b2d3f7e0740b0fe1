"""The floor counts what the paper's network does."""

import pytest

from dgpnet.benchmark import floor, naive
from dgpnet.benchmark.timing import Ceilings
from dgpnet.network import Config, DGPNet
from tests.tiny import CONFIG as TINY


def operations(pieces: list[floor.Piece]) -> float:
    return sum(piece.operations for piece in pieces)


def test_counts_every_part_and_scales_with_batch_and_shots() -> None:
    network = DGPNet(TINY)
    one = floor.count(network, batch=1, shots=1, size=64)
    many = floor.count(network, batch=3, shots=2, size=64)
    assert tuple(one) == naive.PARTS
    assert all(pieces for pieces in one.values())
    assert operations(many[naive.ENCODE_SUPPORT]) == 6 * operations(one[naive.ENCODE_SUPPORT])
    assert operations(many[naive.ENCODE_QUERY]) == 3 * operations(one[naive.ENCODE_QUERY])
    assert operations(many[naive.DECODE]) == 3 * operations(one[naive.DECODE])


def test_a_resnet50_has_the_operations_known_of_it() -> None:
    # 4.1 billion multiply-adds at 224², projections included a little more; four times the pixels in 448².
    pieces = floor.count(DGPNet(Config()), batch=1, shots=1, size=448)[naive.ENCODE_QUERY]
    assert operations(pieces) / 2 == pytest.approx(4 * 4.09e9, rel=0.05)


def test_without_covariance_a_query_costs_less() -> None:
    with_window = floor.inference(1, 256, 1024, 512, 64, 5)
    without = floor.inference(1, 256, 1024, 512, 64, 0)
    assert with_window[: len(without)] == without
    assert len(with_window) > len(without)


def test_the_slower_of_arithmetic_and_memory_counts() -> None:
    ceilings = Ceilings(copy=1e9, float32=1e9, bfloat16=4e9)
    assert floor.milliseconds([floor.Piece(1e9, 1.0, False)], ceilings) == pytest.approx(1000)
    assert floor.milliseconds([floor.Piece(1e9, 1.0, True)], ceilings) == pytest.approx(250)
    assert floor.milliseconds([floor.Piece(1.0, 2e9, True)], ceilings) == pytest.approx(2000)

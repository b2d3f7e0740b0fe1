"""Both paths see the same episodes."""

from pathlib import Path

import pytest

from dgpnet import data
from dgpnet.benchmark import accuracy, naive, speed
from dgpnet.network.fast import Predictor
from tests.tiny import tiny_network


def test_miou_does_not_move_in_float32(tmp_path: Path) -> None:
    dataset = data.build("synthetic", fold=1, split="test", size=64, cache=tmp_path, photographs=16, side=64, kinds=12)
    network = speed.settle(tiny_network().requires_grad_(False), 64)
    drawn = data.episodes(dataset, seed=0, indices=range(6), max_shots=2)
    found = accuracy.compared(naive.unfolded(network), Predictor(network), dataset, drawn, shots=2)
    assert found["episodes"] == 6
    assert found["ours_miou"] == pytest.approx(found["naive_miou"], abs=0.5)
    assert found["moved"] == pytest.approx(found["ours_miou"] - found["naive_miou"])

"""What is said of photographs without the object is counted as it was said."""

from pathlib import Path

import pytest
import torch

from dgpnet import data
from dgpnet.network import Config, DGPNet
from dgpnet.segmenter.calibration import Calibration
from research import absence
from research.absence import absent

CONFIG = Config(encoder="resnet18", similarity=True, features=16, encodings=4, decoder_width=8, size=64)


@pytest.mark.parametrize(("bias", "quiet", "found"), [(-50.0, 100.0, 0.0), (50.0, 0.0, 100.0)])
def test_a_constant_answer_tells_no_two_photographs_apart(
    tmp_path: Path, bias: float, quiet: float, found: float
) -> None:
    """A network that says "nothing", or "everything", whatever it sees."""
    dataset = data.build("synthetic", photographs=80, side=64, kinds=6, size=64, cache=tmp_path)
    network = DGPNet(CONFIG).eval()
    with torch.no_grad():
        network.decoder.classify.weight.zero_()
        network.decoder.classify.bias.copy_(torch.tensor([0.0, bias]))
    drawn = data.episodes(dataset, seed=0, indices=range(12), max_shots=5)
    for figures in absent(network, dataset, drawn, Calibration(), (1, 5)).values():
        assert (figures["quiet"], figures["found"], figures["score"]) == (quiet, found, 0.5)
        assert all(0 <= figures[name] <= 1 for name in absence.TELLING)
        if quiet:  # what was not found is not unlike anything
            assert (figures["likeness"], figures["likeness that 95 % have"], figures["less than that"]) == (0.5, 1, 0)


@pytest.mark.parametrize(("good", "bad", "expected"), [([2, 3], [0, 1], 1), ([0], [1], 0), ([0, 1, 2], [1], 0.5)])
def test_auroc_is_how_often_the_good_lie_above_the_bad(good: list[float], bad: list[float], expected: float) -> None:
    assert absence.auroc_of(good, bad) == expected

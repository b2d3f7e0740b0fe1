"""The naive path is the network, done the long way."""

import pytest
import torch

from dgpnet.benchmark import naive
from dgpnet.errors import Error
from dgpnet.network import DGPNet
from dgpnet.network.encoders import FrozenStatistics
from tests.tiny import CONFIG as TINY
from tests.tolerances import assert_equal


def an_episode(shots: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    supports, query = torch.randn(2, shots, 3, 64, 96), torch.randn(2, 3, 64, 96)
    return supports, (torch.rand(2, shots, 64, 96) > 0.5).float(), query


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kernel": "linear"},
        {"kernel": "exponential"},
        {"window": 0},
        {"output_space": "mask"},
        {"levels": (16,)},
        {"support_stride": 16},
    ],
    ids=str,
)
def test_equals_the_network(changes: dict[str, object]) -> None:
    torch.manual_seed(1)
    network = DGPNet(TINY.but(**changes)).eval()
    supports, masks, query = an_episode()
    with torch.no_grad():
        assert_equal(naive.episode(network, supports, masks, query), network(supports, masks, query))


def test_gradients_equal_the_networks() -> None:
    network = DGPNet(TINY).eval()
    episode = an_episode(1)
    found = []
    for path in (lambda *x: naive.episode(network, *x), network):
        network.zero_grad()
        path(*episode).square().mean().backward()
        found.append([p.grad.clone() for p in network.parameters() if p.grad is not None])
    for plain, ours in zip(*found, strict=True):
        assert_equal(plain, ours)


def test_the_clock_hears_every_part_of_the_papers_table_in_order() -> None:
    class Heard:
        def __init__(self) -> None:
            self.names: list[str] = []

        def lap(self, name: str) -> None:
            self.names.append(name)

    network, heard = DGPNet(TINY).eval(), Heard()
    with torch.no_grad():
        naive.episode(network, *an_episode(), heard)
    assert tuple(heard.names) == naive.PARTS


def test_a_window_outside_the_grid_is_zero() -> None:
    covariance = torch.arange(36.0).reshape(1, 6, 6)
    window = naive.gather_window(covariance, 2, 3, 3)
    assert window.shape == (1, 2, 3, 9)
    assert window[0, 0, 0].tolist() == [0, 0, 0, 0, 0, 1, 0, 3, 4]  # the corner: itself, right, below, below right
    assert window[0, 1, 2, 4] == 35


@pytest.mark.parametrize("changes", [{"learner": "prototype"}, {"learner": "none"}, {"similarity": True}], ids=str)
def test_other_learners_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Error, match="learner gp"):
        naive.episode(DGPNet(TINY.but(**changes)).eval(), *an_episode())


def test_unfolded_normalises_in_passes_of_their_own_and_gives_the_same() -> None:
    network = DGPNet(TINY).eval()
    plain = naive.unfolded(network)
    assert not any(isinstance(module, FrozenStatistics) for module in plain.modules())
    assert set(plain.state_dict()) == set(network.state_dict())
    with torch.no_grad():
        assert_equal(naive.episode(plain, *an_episode()), naive.episode(network, *an_episode()))
    assert not any(m.training for m in plain.train().modules() if isinstance(m, naive.PlainNorm))

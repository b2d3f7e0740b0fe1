"""What a query runs can be traced by `torch.export`, for every variant: plain operations on tensors, nothing else."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from dgpnet.gp import regression
from dgpnet.network import DGPNet, Memory
from dgpnet.network.encoders import ENCODERS
from dgpnet.network.fast import fold
from tests.network.test_dgpnet import TINY, VARIANTS, episode
from tests.tolerances import assert_equal
from tests.training.tiny import TinyEncoder

#: Encoders are traced with the whole network; whatever else varies, with one that takes no time.
ENCODING = {name: changes for name, changes in VARIANTS.items() if "encoder" in changes or name == "paper"}
OTHERS = {name: changes for name, changes in VARIANTS.items() if "encoder" not in changes}


@pytest.fixture
def quick_encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(ENCODERS, "quick", lambda stride_on: TinyEncoder())
    yield "quick"


class Query(nn.Module):
    """`DGPNet.look` with the learned state as inputs."""

    def __init__(self, network: DGPNet, memory: Memory) -> None:
        super().__init__()
        self.network, self.memory, self.names = network, memory, list(memory.state())

    def forward(self, photos: Tensor, state: list[Tensor]) -> list[Tensor]:
        return list(self.network.look(self.memory.with_state(dict(zip(self.names, state, strict=True))), photos))


def learned(network: DGPNet, shots: int = 2, classes: int = 1, budget: int | None = None) -> Memory:
    photos, masks, _ = episode(1, shots)
    shown = torch.stack([masks.roll(8 * c, -1) for c in range(classes)], 2)
    return network.learn(photos, shown, budget=budget)


def traced(network: DGPNet, memory: Memory) -> tuple[ExportedProgram, tuple[Tensor, list[Tensor]]]:
    given = episode(2)[2], list(memory.state().values())
    with torch.no_grad():
        return export(Query(network, memory).eval(), given), given


def check(network: DGPNet, memory: Memory) -> None:
    """The exported query answers as the network does, and is made of PyTorch's own operations alone."""
    program, given = traced(network, memory)
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    strange = {name for name in called if not name.startswith("aten.") and "getitem" not in name}
    assert not strange, "higher-order or custom operations"
    assert not {name for name in called if name.endswith(("out", "_out"))}
    with torch.no_grad():
        for found, expected in zip(program.module()(*given), network.answer(memory, given[0]), strict=True):
            assert_equal(found, expected)


@pytest.mark.parametrize("name", OTHERS)
def test_every_variant_of_the_learner(name: str, quick_encoder: str) -> None:
    torch.manual_seed(0)
    network = DGPNet(TINY.but(**OTHERS[name], encoder=quick_encoder)).eval()
    with torch.no_grad():
        check(network, learned(network))


@pytest.mark.parametrize("name", ENCODING)
def test_every_encoder(name: str) -> None:
    torch.manual_seed(0)
    network = fold(DGPNet(TINY.but(**ENCODING[name])).eval())
    with torch.no_grad():
        check(network, learned(network))


def test_inducing_points_several_classes_and_large_photographs(
    quick_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = DGPNet(TINY.but(similarity=True, encoder=quick_encoder)).eval()
    monkeypatch.setattr(regression, "CHUNK", 10)  # what is large goes in bands, which an export must not depend on
    with torch.no_grad():
        check(network, learned(network, classes=3, budget=4))


def test_one_export_serves_any_number_of_examples_and_photographs(quick_encoder: str) -> None:
    torch.manual_seed(0)
    network = DGPNet(TINY.but(encoder=quick_encoder)).eval()
    with torch.no_grad():
        memory = learned(network)
        points, photos = Dim("points", min=2), Dim("photos", min=2)
        shapes = {
            "basis": {1: points},
            "whitener": {1: points, 2: points},
            "weights": {1: points},
        }
        state = [shapes[name.rpartition(".")[2]] for name in memory.state()]
        given = episode(2)[2], list(memory.state().values())
        program = export(Query(network, memory).eval(), given, dynamic_shapes=({0: photos}, state))
        for shots, count in ((1, 3), (4, 2)):
            other, query = learned(network, shots), episode(count)[2]
            found = program.module()(query, list(other.state().values()))
            for one, expected in zip(found, network.answer(other, query), strict=True):
                assert_equal(one, expected)

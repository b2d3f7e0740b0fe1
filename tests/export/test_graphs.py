"""Every variant of the network as ONNX graphs: one export serves any number of examples and classes."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from dgpnet.errors import Error
from dgpnet.export.graphs import BLOCK, graph_of
from dgpnet.export.halves import state_of
from dgpnet.export.to_onnx import opened
from dgpnet.export.tracing import Traced, Tracer
from dgpnet.network import DGPNet
from dgpnet.network.fast import fold
from dgpnet.segmenter.segmentation import Maps
from tests.network.test_dgpnet import TINY, VARIANTS, episode
from tests.network.test_export import OTHERS
from tests.tolerances import assert_equal

SIDES = (64, 96)
#: Variants whose graphs depend on the support: what they are exported with is baked in.
BAKED = ("prior mask", "none")
#: Those that differ most; the others, of seconds each, run with the slow tests.
QUICK = ("exponential", "trainable linear", "prototype")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in OTHERS if name not in BAKED]


def network_of(name: str, encoder: str) -> DGPNet:
    torch.manual_seed(0)
    return fold(DGPNet(TINY.but(**VARIANTS[name], encoder=encoder)).eval())


def shown(shots: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Photographs (K, 3, H, W), masks (K, C, H, W) and a query (1, 3, H, W)."""
    photos, masks, query = episode(1, shots)
    return photos[0], torch.stack([masks[0].roll(8 * c, -1) for c in range(classes)], 1), query


def run(traced: Traced, path: Path, *arrays: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """What the graph of a half gives for each set of inputs."""
    ir.save(graph_of(traced), path)
    half = opened(path, threads=1)
    found = [half({name: tensor.numpy() for name, tensor in given.items()}) for given in arrays]
    return [{name: torch.from_numpy(array) for name, array in one.items()} for one in found]


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_both_halves_of_every_variant_for_any_number_of_examples_and_classes(
    name: str, quick_encoder: str, tmp_path: Path
) -> None:
    network = network_of(name, quick_encoder)
    tracer = Tracer(network, SIDES)
    episodes = [shown(1, 1), shown(3, 2)]
    given = [{"photographs": photos, "masks": masks} for photos, masks, _ in episodes]
    states = run(tracer.support(), tmp_path / "support.onnx", *given)
    queries = [{"photographs": query, **state} for (_, _, query), state in zip(episodes, states, strict=True)]
    seen = run(tracer.query(), tmp_path / "query.onnx", *queries)
    for (photos, masks, query), state, found in zip(episodes, states, seen, strict=True):
        memory = network.learn(photos[None], masks[None])
        for key, expected in state_of(memory).items():
            assert_equal(state[key], expected)
        answer = network.answer(memory, query)
        assert_equal(found["log_odds"], Maps.of(answer).log_odds)
        assert_equal(found["novelty"], answer.novelty)
        assert_equal(found["likeness"], answer.likeness)


@torch.no_grad()
@pytest.mark.parametrize("name", BAKED)
def test_what_depends_on_the_support_is_exported_with_it(name: str, quick_encoder: str, tmp_path: Path) -> None:
    network = network_of(name, quick_encoder)
    photos, masks, query = shown(3, 2)
    memory = network.learn(photos[None], masks[None])
    (found,) = run(Tracer(network, SIDES).baked(memory), tmp_path / "query.onnx", {"photographs": query})
    assert_equal(found["log_odds"], Maps.of(network.answer(memory, query)).log_odds)
    with pytest.raises(Error, match="--concept"):
        Tracer(network, SIDES).query()


class Whitener(nn.Module):
    def forward(self, gram: Tensor) -> Tensor:
        found: Tensor = torch.ops.dgpnet.whitener(gram)
        return found


def test_the_factorisation_is_as_exact_as_pytorchs(tmp_path: Path) -> None:
    size = Dim("size", min=2)
    program = export(Whitener(), (torch.eye(5)[None],), dynamic_shapes=({1: size, 2: size},))
    sizes = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7)
    rng = np.random.default_rng(0)
    # Points close together, whose kernel matrix has a condition number of about a thousand.
    points = [torch.from_numpy(rng.normal(size=(count, 16))) for count in sizes]
    exact = [torch.exp(-torch.cdist(x, x).square() / 32) + 0.1 * torch.eye(len(x)) for x in points]
    shape = (1, "size", "size")
    traced = Traced(program, {"gram": shape}, {"whitener": shape})
    found = run(traced, tmp_path / "whitener.onnx", *({"gram": gram[None].float()} for gram in exact))
    for one, gram in zip(found, exact, strict=True):
        whitener = torch.linalg.inv(torch.linalg.cholesky(gram))
        own = torch.linalg.inv(torch.linalg.cholesky(gram.float()))
        error, own_error = ((w - whitener).abs().max().item() for w in (one["whitener"][0], own))
        assert error <= max(2 * own_error, 1e-6)
        assert torch.equal(one["whitener"][0], one["whitener"][0].tril())

"""The network against the paper's listing done naively: same weights, same inputs, one process."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet import data
from dgpnet.benchmark import floor, naive
from dgpnet.benchmark.naive import TOTAL
from dgpnet.benchmark.timing import Ceilings, Effort, Stopwatch, measure, measure_laps, peak_memory
from dgpnet.network import DGPNet, Memory, mask_stem
from dgpnet.network.fast import Predictor
from dgpnet.network.graphs import Graph, Several

#: Photographs that are rendered.
DIFFERENT = 12


@dataclass(frozen=True)
class Episodes:
    """B episodes of K shots: supports (B, K, 3, S, S), masks (B, K, S, S) in {0, 1}, query (B, 3, S, S), normalised;
    target (B, S, S) int64, the query's mask."""

    supports: Tensor
    masks: Tensor
    query: Tensor
    target: Tensor


@cache
def rendered(size: int) -> tuple[Tensor, Tensor]:
    """Textured shapes: photographs (DIFFERENT, 3, size, size) uint8 and whether a shape is there, bool."""
    dataset = data.build("synthetic", photographs=DIFFERENT, side=size)
    photos = np.stack([dataset.photo(i).transpose(2, 0, 1) for i in range(DIFFERENT)])
    masks = np.stack([dataset.mask(i) > 0 for i in range(DIFFERENT)])
    return torch.from_numpy(photos), torch.from_numpy(masks)


def rendered_episodes(batch: int, shots: int, size: int, device: torch.device) -> Episodes:
    """Rendered photographs, the same in every run; a few of them, in turn."""
    photos, masks = (tensor.to(device) for tensor in rendered(size))
    index = torch.arange(batch * (shots + 1), device=device).remainder(len(photos)).view(batch, shots + 1)
    chosen, truth = data.normalise(photos)[index], masks[index].float()
    return Episodes(chosen[:, :-1], truth[:, :-1], chosen[:, -1], truth[:, -1].long())


@torch.no_grad()
def settle(network: DGPNet, size: int) -> DGPNet:
    """Give every BatchNorm of a random network the statistics of two photographs, lest activations explode."""
    plain = naive.unfolded(network)
    one = rendered_episodes(2, 1, size, next(network.parameters()).device)
    for module in plain.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.training, module.momentum = True, 1.0
    plain(one.supports, one.masks, one.query)
    network.load_state_dict(plain.state_dict())
    return network


# -- the run-time table ----------------------------------------------------------------------------------------------


def runtimes(
    network: DGPNet, predictor: Predictor, ceilings: Ceilings, *, batch: int, shots: int, size: int, effort: Effort
) -> dict[str, Any]:
    """One column of the run-time table for both paths, with ratio, memory, agreement and floor.

    network: as `naive.unfolded` gives it; predictor: of the same weights.
    """
    device = predictor.device
    one = rendered_episodes(batch, shots, size, device)
    episode = (one.supports, one.masks, one.query)
    with torch.no_grad():
        plain = measure_laps(lambda clock: naive.episode(network, *episode, clock), device, effort)
        plain_memory = peak_memory(lambda: naive.episode(network, *episode), device)
        expected = naive.episode(network, *episode)
        ours = {name: measure(work, device, effort) for name, work in parts(predictor, one).items()}
        ours_memory = peak_memory(lambda: predictor.episode(*episode), device)
        ours[TOTAL] = measure(lambda: predictor.episode(*episode), device, effort)
        found = predictor.episode(*episode)
    # Our learner encodes masks and conditions the process in one call: the first is known, the second is the rest.
    ours[naive.PREPARE] = max(0.0, ours[naive.PREPARE] - ours[naive.ENCODE_MASKS])
    pieces = floor.count(network, batch=batch, shots=shots, size=size)
    least = {part: floor.milliseconds(p, ceilings) for part, p in pieces.items()}
    return {
        "batch": batch,
        "shots": shots,
        "size": size,
        "naive_ms": {**{part: plain[part] for part in naive.PARTS}, TOTAL: plain["total"]},
        "ours_ms": {part: ours[part] for part in (*naive.PARTS, TOTAL)},
        "floor_ms": {**least, TOTAL: sum(least.values())},
        "ratio": plain["total"] / ours[TOTAL],
        "naive_bytes": plain_memory,
        "ours_bytes": ours_memory,
        "agreement": agreement(expected, found),
    }


def parts(predictor: Predictor, one: Episodes) -> dict[str, Callable[[], object]]:
    """Each part of the run-time table as our path does it, by itself: a captured graph on CUDA, a call elsewhere.

    The preparation includes the mask encoder, which `runtimes` takes off; projections belong to the Gaussian process.
    """
    network = predictor.network
    masks = one.masks[:, :, None]
    ready = predictor._ready
    support_features = network.encoder(ready(one.supports.flatten(0, 1)))
    query_features = network.encoder(ready(one.query))
    memory = network.learn_points(network.support_points(support_features, masks))
    maps = network.maps(memory, query_features)
    flat = masks.flatten(0, 2)[:, None].to(predictor.dtype)

    def features(values: Iterable[Tensor], like: Mapping[int, Tensor]) -> dict[int, Tensor]:
        return dict(zip(like, values, strict=True))

    return {
        naive.ENCODE_SUPPORT: _replay(
            predictor, lambda s: network.encoder(ready(s)).values(), one.supports.flatten(0, 1)
        ),
        naive.ENCODE_MASKS: _replay(predictor, lambda m: _encoded(network, m), flat),
        naive.PREPARE: _replay(
            predictor,
            lambda *f: _tensors(network.learn_points(network.support_points(features(f, support_features), masks))),
            *support_features.values(),
        ),
        naive.ENCODE_QUERY: _replay(predictor, lambda q: network.encoder(ready(q)).values(), one.query),
        naive.INFER: _replay(
            predictor, lambda *f: network.maps(memory, features(f, query_features)).values(), *query_features.values()
        ),
        naive.DECODE: _replay(
            predictor, lambda *f: [network.decode(features(f, query_features), maps, 1)], *query_features.values()
        ),
    }


def _encoded(network: DGPNet, masks: Tensor) -> Iterable[Tensor]:
    return network.mask_encoder(masks).values() if network.mask_encoder is not None else []


def _tensors(memory: Memory) -> list[Tensor]:
    return [t for branch in memory.learned.values() for t in branch.tensors().values() if t.is_floating_point()]


def _replay(predictor: Predictor, function: Callable[..., Iterable[Tensor]], *given: Tensor) -> Callable[[], object]:
    if predictor.device.type != "cuda":
        return lambda: list(function(*given))
    graph = Graph(lambda *x: Several(function(*x)), given)

    def replay(keep: object = function) -> None:  # a graph reads its inputs, and what the function refers to, each time
        graph.graph.replay()

    return replay


def agreement(expected: Tensor, found: Tensor) -> float:
    """Share of pixels with the same label; both (B, 2, H, W) logits."""
    return float((expected.argmax(1) == found.float().argmax(1)).float().mean())


# -- the mask encoder ------------------------------------------------------------------------------------------------


def mask_stems(
    network: DGPNet, predictor: Predictor, *, batch: int, shots: int, size: int, effort: Effort
) -> list[dict[str, Any]]:
    """The mask encoder with each of the ways to begin it: milliseconds of the beginning and of the whole, and by how
    much, of the largest value, the result differs from the naive one. What the machine cannot do has an `error`."""
    ours, plain = predictor.network.mask_encoder, network.mask_encoder
    assert ours is not None and plain is not None
    weight, bias, usual = ours.conv1.weight, ours.conv1.bias, ours.stem
    assert bias is not None
    one = rendered_episodes(batch, shots, size, predictor.device)
    masks = one.masks.flatten(0, 1)[:, None]
    ready = masks.to(predictor.dtype)
    found: list[dict[str, Any]] = []
    with torch.no_grad():
        expected = plain(masks)
        naive_ms = measure(_replay(predictor, lambda m: plain(m).values(), masks), predictor.device, effort)
        for name, stem in mask_stem.STEMS.items():
            same = {"batch": batch, "shots": shots, "size": size, "stem": name, "naive_ms": naive_ms}
            ours.stem = name
            try:
                begin = _replay(predictor, lambda m, stem=stem: [stem(m, weight, bias)], ready)
                whole = _replay(predictor, lambda m: ours(m).values(), ready)
                stem_ms, ms = (measure(work, predictor.device, effort) for work in (begin, whole))
                apart = max(
                    float((values.float() - expected[level]).abs().max() / expected[level].abs().max())
                    for level, values in ours(ready).items()
                )
                found.append({**same, "stem_ms": stem_ms, "ms": ms, "apart": apart})
            except Exception as problem:  # of a kernel that this machine or library does not have
                found.append({**same, "error": f"{type(problem).__name__}: {problem}"})
            finally:
                ours.stem = usual
    return found


# -- a concept that is asked again and again -------------------------------------------------------------------------


def cached(
    network: DGPNet, predictor: Predictor, *, batch: int, shots: int, size: int, effort: Effort
) -> dict[str, Any]:
    """One support set and `batch` queries: ours with the memory kept; naive with it kept, and encoded anew."""
    device = predictor.device
    one = rendered_episodes(1, shots, size, device)
    queries = rendered_episodes(batch, 1, size, device).query
    episode = (one.supports.expand(batch, -1, -1, -1, -1), one.masks.expand(batch, -1, -1, -1), queries)
    with torch.no_grad():
        memory = predictor.learn(one.supports, one.masks[:, :, None])
        memory_bytes = peak_memory(lambda: predictor.look(memory, queries), device)  # first: later calls replay
        known = naive.learn(network, *episode[:2])

        def both(clock: Stopwatch) -> None:  # in turn, so that whatever else the machine does slows both
            predictor.look(memory, queries)
            clock.lap("ours")
            naive.ask(network, known, queries)
            clock.lap("naive")

        longer = replace(effort, seconds=4 * effort.seconds)
        times = measure_laps(both, device, longer)
        ours, query_only = times["ours"], times["naive"]
        anew = measure(lambda: naive.episode(network, *episode), device, effort)
        same = agreement(naive.ask(network, known, queries), predictor.look(memory, queries).logits[:, 0])
    return {
        "batch": batch,
        "shots": shots,
        "size": size,
        "ours_ms": ours,
        "ours_ms_per_photograph": ours / batch,
        "naive_query_ms": query_only,
        "naive_ms": anew,
        "ratio_query": query_only / ours,
        "ratio": anew / ours,
        "ours_bytes": memory_bytes,
        "agreement": same,
    }


# -- training --------------------------------------------------------------------------------------------------------


def naive_training(network: DGPNet, *, episodes: int, shots: int, size: int, effort: Effort) -> dict[str, Any]:
    """A training step as one would first write it: float32, PyTorch's own AdamW and weighted cross-entropy."""
    network = naive.unfolded(network).train().requires_grad_(True)
    device = next(network.parameters()).device
    one = rendered_episodes(episodes, shots, size, device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=5e-5, weight_decay=1e-3)
    balance = torch.tensor([1.0, 4.0], device=device)

    def step() -> None:
        optimiser.zero_grad()
        logits = naive.episode(network, one.supports, one.masks, one.query)
        F.cross_entropy(logits, one.target, weight=balance, ignore_index=255).backward()
        optimiser.step()

    memory = peak_memory(step, device)
    return {"ms": measure(step, device, effort), "bytes": memory}


def our_training(
    network: DGPNet, *, episodes: int, shots: int, size: int, effort: Effort, fuse: bool
) -> dict[str, Any]:
    """The step of `dgpnet train`: photographs resident, views rendered on the device, captured where there is CUDA,
    and compiled before with `fuse`, as long runs do."""
    from dgpnet.training.config import Source, TrainConfig
    from dgpnet.training.processes import launch
    from dgpnet.training.run import Run
    from dgpnet.training.source import Store, batch_at, open_source

    device = next(network.parameters()).device
    config = TrainConfig(
        sources=(Source("synthetic", options={"photographs": 64, "side": size}),),
        network=network.config.but(size=size),
        shots=(shots,),
        episodes=episodes,
        precision="bf16" if device.type == "cuda" else "float32",
    )
    with tempfile.TemporaryDirectory(prefix="dgpnet-benchmark-") as folder:
        fabric = launch(config, device.type)
        dataset = open_source(config, cache=Path(folder))
        trained = copy.deepcopy(network).train().requires_grad_(True)
        run = Run(fabric, trained.to(memory_format=torch.channels_last), config)  # type: ignore[call-overload]
        store = Store(dataset, fabric.device)
        stepper = run.stepper(resident=store.resident, fuse=fuse)
        run.set_rates(0)
        prepared = store.inputs(batch_at(dataset, config, 0), config.network.size)
        memory = peak_memory(lambda: stepper.run(prepared), device)
        milliseconds = measure(lambda: stepper.run(prepared), device, effort)
    return {"ms": milliseconds, "bytes": memory}


def training(
    network: DGPNet, *, episodes: int, shots: int, size: int, effort: Effort, fuse: bool = False
) -> dict[str, Any]:
    """A training step both ways; ours also compiled with `fuse`, which takes half a minute first."""
    plain = naive_training(network, episodes=episodes, shots=shots, size=size, effort=effort)
    ours = our_training(network, episodes=episodes, shots=shots, size=size, effort=effort, fuse=False)
    compiled = None
    if fuse:
        compiled = our_training(network, episodes=episodes, shots=shots, size=size, effort=effort, fuse=True)["ms"]
    return {
        "episodes": episodes,
        "shots": shots,
        "size": size,
        "naive_ms": plain["ms"],
        "ours_ms": ours["ms"],
        "compiled_ms": compiled,
        "ratio": plain["ms"] / (compiled or ours["ms"]),
        "naive_bytes": plain["bytes"],
        "ours_bytes": ours["bytes"],
    }

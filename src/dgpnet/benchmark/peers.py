"""Other ways to the same end, in the same run: how many photographs a second, and how good.

All see the same episodes and the same encoder. Two are baselines of ours, and nobody's program: *nearest neighbours*
gives each patch of a photograph the label of the support's most similar patch, which is what training-free matchers
(Matcher, INSID3) do at heart, without their larger models and what they do besides; *prototypes* compares it with the
mean of the object's patches and that of the others. Neither has a part that was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet import data, pictures
from dgpnet.benchmark import accuracy, naive, speed
from dgpnet.benchmark.timing import Effort, measure
from dgpnet.evaluation.measure import Network
from dgpnet.network import DGPNet
from dgpnet.network.fast import Predictor
from dgpnet.pictures import Picture, Series

#: Patches are those of the encoder's features at this stride.
STRIDE = 16
OURS, LISTING, NEAREST, PROTOTYPES = (
    "dgpnet",
    "the paper's listing",
    "nearest neighbours (a baseline of ours)",
    "prototypes (a baseline of ours)",
)

#: Unit vectors of query and support (B, Q, D), (B, S, D) and the object's share of the support's patches (B, S) ->
#: log-odds, or what stands for them (B, Q). One support may serve all queries.
Matcher = Callable[[Tensor, Tensor, Tensor], Tensor]


def nearest(query: Tensor, support: Tensor, share: Tensor) -> Tensor:
    """The similarity of the most similar patch of the object, less that of the most similar other."""
    # Of a thin object no patch may be half full: then its fullest ones are the object.
    shown = share >= share.amax(-1, keepdim=True).clamp(max=0.5)
    alike = (query @ support.mT).float()
    inside, outside = (alike.masked_fill(~which[:, None, :], -1.0).amax(-1) for which in (shown, ~shown))
    return inside - outside


def prototypes(query: Tensor, support: Tensor, share: Tensor) -> Tensor:
    """The similarity to the mean of the object, less that to the mean of the others."""
    weights = torch.stack([share, 1 - share], 1)
    alike = (query.float() @ F.normalize(weights @ support.float(), dim=-1).mT).unbind(-1)
    return alike[0] - alike[1]


MATCHERS: dict[str, Matcher] = {NEAREST: nearest, PROTOTYPES: prototypes}


def patches(predictor: Predictor, photos: Tensor) -> Tensor:
    """photos: (N, 3, H, W), normalised -> (N, P, D), each of length 1."""
    body = predictor.network.encoder.body
    features = dict(zip(body.strides, body(predictor._ready(photos)), strict=True))[STRIDE]
    # Of lengths up to 1 half precision with the longer fraction keeps more.
    return F.normalize(features.flatten(2).mT.float(), dim=-1).to(torch.float16 if features.is_cuda else torch.float32)


def known(predictor: Predictor, photos: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """What a matcher needs of supports (B, K, 3, H, W) with masks (B, K, H, W)."""
    found = patches(predictor, photos.flatten(0, 1)).unflatten(0, tuple(photos.shape[:2])).flatten(1, 2)
    return found, F.avg_pool2d(masks, STRIDE).flatten(1)


def answer(predictor: Predictor, matcher: Matcher, support: Tensor, share: Tensor, query: Tensor) -> Tensor:
    """query: (N, 3, H, W) -> logits (N, 2, H, W)."""
    height, width = query.shape[-2:]
    odds = matcher(patches(predictor, query), support, share).unflatten(1, (height // STRIDE, width // STRIDE))
    odds = F.interpolate(odds[:, None], (height, width), mode="bilinear", align_corners=False)
    return torch.cat([torch.zeros_like(odds), odds], 1)


def episode(predictor: Predictor, matcher: Matcher, supports: Tensor, masks: Tensor, query: Tensor) -> Tensor:
    """A matcher, as `naive.episode` is called."""
    return answer(predictor, matcher, *known(predictor, supports, masks), query)


def measured(
    network: DGPNet | None,
    predictor: Predictor,
    dataset: data.Dataset,
    drawn: Sequence[data.Episode],
    *,
    batch: int,
    shots: int,
    effort: Effort,
) -> list[dict[str, Any]]:
    """Of each: photographs a second once the support is known, `batch` at a time, and mIoU in percent of the episodes.

    network: what the listing computes with; None where it has no such network, and is left out.
    """
    size, device = predictor.config.size, predictor.device
    one = speed.rendered_episodes(1, shots, size, device)
    queries = speed.rendered_episodes(batch, 1, size, device).query
    with torch.no_grad():
        memory = predictor.learn(one.supports, one.masks[:, :, None])
        support = known(predictor, one.supports, one.masks)
        work: dict[str, Callable[[], object]] = {OURS: lambda: predictor.look(memory, queries)}
        paths: dict[str, Network] = {OURS: predictor.episode}
        if network is not None:
            expanded = one.supports.expand(batch, -1, -1, -1, -1), one.masks.expand(batch, -1, -1, -1)
            work[LISTING] = partial(naive.ask, network, naive.learn(network, *expanded), queries)
            paths[LISTING] = partial(naive.episode, network)
        for name, matcher in MATCHERS.items():
            ask = partial(answer, predictor, matcher, *support)
            work[name] = speed._replay(predictor, lambda q, ask=ask: [ask(q)], queries)
            paths[name] = partial(episode, predictor, matcher)
        times = {name: measure(one, device, effort) for name, one in work.items()}
    good = accuracy.mious(paths, dataset, drawn, shots=shots, device=device)
    return [
        {
            "name": name,
            "shots": shots,
            "size": size,
            "batch": batch,
            "episodes": len(drawn),
            "photographs_per_second": 1e3 * batch / times[name],
            "miou": good[name],
        }
        for name in work
    ]


def plot(points: list[dict[str, Any]]) -> Picture:
    """mIoU over photographs a second: a line a way, a dot a number of shots."""
    names = dict.fromkeys(point["name"] for point in points)
    chosen = {name: [point for point in points if point["name"] == name] for name in names}
    return pictures.line_plot(
        [
            Series(
                name,
                [point["miou"] for point in several],
                [point["photographs_per_second"] for point in several],
                emphasis=name == OURS,
            )
            for name, several in chosen.items()
        ],
        title=f"{' and '.join(str(shots) for shots in sorted({point['shots'] for point in points}))} shots",
        x_label="photographs a second",
        y_label="mIoU",
        log_x=True,
    )

"""How quick each part could be at best: its operations and bytes over what the machine was seen to do.

Convolutions are counted one by one, each with its input, weight and output moved once (activations and normalisation
are taken to be free); the Gaussian process by formula, in float32. A part takes no less than the sum, over its pieces,
of the larger of the two times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dgpnet.benchmark import naive
from dgpnet.benchmark.timing import Ceilings
from dgpnet.network import DGPNet
from dgpnet.network.dgpnet import SHALLOW


@dataclass(frozen=True)
class Piece:
    """Operations (a multiply and an add are two) and bytes of one step; `half`: may be done in bfloat16."""

    operations: float
    bytes: float
    half: bool


def milliseconds(pieces: list[Piece], ceilings: Ceilings) -> float:
    """The least time for these pieces, one after the other."""
    total = 0.0
    for piece in pieces:
        rate = max(ceilings.bfloat16, ceilings.float32) if piece.half else ceilings.float32
        total += max(piece.operations / rate, piece.bytes / ceilings.copy)
    return 1e3 * total


def count(network: DGPNet, *, batch: int, shots: int, size: int) -> dict[str, list[Piece]]:
    """The pieces of each part of the run-time table for `batch` episodes of `shots` supports at size × size."""
    model = copy.deepcopy(network).to("meta").eval()
    levels = [int(stride) for stride in model.encoder.project]
    support = torch.empty(batch * shots, 3, size, size, device="meta")
    query = torch.empty(batch, 3, size, size, device="meta")
    mask = torch.empty(batch * shots, 1, size, size, device="meta")
    masks = model.mask_encoder
    features: dict[int, Tensor] = {}

    def encode(photos: Tensor) -> None:
        features.update(model.encoder(photos))
        for level in levels:
            model.encoder.project[str(level)](features[level])

    found = {
        naive.ENCODE_SUPPORT: _convolutions(lambda: encode(support)),
        naive.ENCODE_MASKS: _convolutions(partial(masks, mask)) if masks is not None else [],
        naive.ENCODE_QUERY: _convolutions(lambda: encode(query)),
    }
    inputs = {stride: features[stride] for stride in SHALLOW}
    prepare, infer = [], []
    for level in levels:
        s = shots * (size // (level * model.config.support_step(level))) ** 2
        q = (size // level) ** 2
        config = model.config
        outputs = config.encodings if config.output_space == "learned" else 1
        prepare += preparation(batch, s, config.features, outputs)
        infer += inference(batch, s, q, config.features, outputs, config.window)
        inputs[level] = torch.empty(batch, outputs + config.window**2, size // level, size // level, device="meta")
    found |= {naive.PREPARE: prepare, naive.INFER: infer}
    found[naive.DECODE] = _convolutions(lambda: model.decoder(inputs))
    return {part: found[part] for part in naive.PARTS}


def preparation(batch: int, s: int, features: int, outputs: int) -> list[Piece]:
    """K_ss, its factor, the factor's inverse, and the weights; S = s support points."""
    matrix = 4.0 * batch * s * s
    return [
        Piece(batch * s * s * features, 4.0 * batch * s * features + matrix, False),  # symmetric: half of 2S²D
        Piece(batch * s**3 / 3, 2 * matrix, False),
        Piece(batch * s**3 / 3, 2 * matrix, False),
        Piece(2.0 * batch * s * s * outputs, matrix + 8.0 * batch * s * outputs, False),
    ]


def inference(batch: int, s: int, q: int, features: int, outputs: int, window: int) -> list[Piece]:
    """K_qs, the mean, K_qs W^T with a triangular W, and the windows of both; Q = q query points."""
    cross = 4.0 * batch * q * s
    pieces = [
        Piece(2.0 * batch * q * s * features, 4.0 * batch * (q + s) * features + cross, False),
        Piece(2.0 * batch * q * s * outputs, cross + 4.0 * batch * (q + s) * outputs, False),
    ]
    if window:
        half = (window**2 + 1) / 2
        pieces += [
            Piece(batch * q * s * s, 2 * cross + 4.0 * batch * s * s, False),
            Piece(2.0 * batch * q * half * (features + s), cross + 4.0 * batch * q * (features + window**2), False),
        ]
    return pieces


class _Heard(TorchDispatchMode):
    """Notes every convolution, in half precision (two bytes a number)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pieces: list[Piece] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default:
            photos, weight = args[0], args[1]
            operations = 2.0 * output.numel() * weight[0].numel()
            moved = 2.0 * (photos.numel() + weight.numel() + output.numel())
            self.pieces.append(Piece(operations, moved, True))
        return output


def _convolutions(forward: Callable[[], object]) -> list[Piece]:
    """The convolutions that `forward` runs."""
    heard = _Heard()
    with torch.no_grad(), heard:
        forward()
    return heard.pieces

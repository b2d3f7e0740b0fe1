"""The paper's listing and run-time table done as they are written, on a network's own weights.

float32, the full Q×Q covariance of each query with the window gathered out of it, supports encoded anew for every
query. It is what the fast path is measured against and must agree with. `unfolded` gives a network whose encoder is
plain as well.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.errors import Error
from dgpnet.gp import Kernel
from dgpnet.learners import GaussianLearner
from dgpnet.network import DGPNet
from dgpnet.network.dgpnet import SHALLOW, Branch
from dgpnet.network.encoders import FrozenStatistics

#: Steps of an episode, as the paper names them in its table of run times.
ENCODE_SUPPORT = "Image encoder on support"
ENCODE_MASKS = "Mask encoder on support"
PREPARE = "GP preparation on support"
ENCODE_QUERY = "Image encoder on query"
INFER = "GP inference on query"
DECODE = "Decoder"
#: The rows of the paper's run-time table, in the order in which they happen, and what they come to.
PARTS = (ENCODE_SUPPORT, ENCODE_MASKS, PREPARE, ENCODE_QUERY, INFER, DECODE)
TOTAL = "Total"


class Clock(Protocol):
    """Whoever wants to know when each part ends."""

    def lap(self, name: str) -> None:
        """The part called `name` has just been asked for."""


class _NoClock:
    def lap(self, name: str) -> None:
        pass


@dataclass(frozen=True)
class Support:
    """What the listing keeps of a support set at one level: x_s (B, S, D), L (B, S, S) and L⁻ᵀL⁻¹y_s (B, S, E)."""

    learner: GaussianLearner
    x: Tensor
    lower: Tensor
    weights: Tensor


class PlainNorm(nn.BatchNorm2d):
    """Frozen statistics as a pass over the activations of its own, and not as a part of the convolution's weights."""

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, as the paper has it."""
        return super().train(False)


def unfolded(network: DGPNet) -> DGPNet:
    """A copy whose image encoder normalises after each convolution, as the paper's table has it."""
    plain = copy.deepcopy(network)
    for module in list(plain.modules()):
        for name, child in module.named_children():
            if isinstance(child, FrozenStatistics):
                norm = PlainNorm(child.num_features, eps=child.eps).to(child.weight.device)
                norm.load_state_dict(child.state_dict())
                setattr(module, name, norm.requires_grad_(child.weight.requires_grad).train(False))
    return plain


def episode(network: DGPNet, supports: Tensor, masks: Tensor, query: Tensor, clock: Clock | None = None) -> Tensor:
    """supports: (B, K, 3, H, W), masks: (B, K, H, W), query: (B, 3, H, W) -> logits (B, 2, H, W), as `network(...)`."""
    return ask(network, learn(network, supports, masks, clock), query, clock)


def learn(network: DGPNet, supports: Tensor, masks: Tensor, clock: Clock | None = None) -> dict[int, Support]:
    """The first half of an episode -> {stride: what the level's queries need}."""
    clock = clock or _NoClock()
    learners = _learners(network)
    features = network.encoder(supports.flatten(0, 1))
    x_s = {s: _points(network, s, features, supports.shape[:2], network.config.support_step(s)) for s in learners}
    clock.lap(ENCODE_SUPPORT)
    y_s = _outputs(network, masks, learners)
    clock.lap(ENCODE_MASKS)
    found = {}
    for s, learner in learners.items():
        found[s] = Support(learner, x_s[s], *prepare(learner.gp.kernel, learner.gp.noise, x_s[s], y_s[s]))
    clock.lap(PREPARE)
    return found


def ask(network: DGPNet, learned: Mapping[int, Support], query: Tensor, clock: Clock | None = None) -> Tensor:
    """The second half: query (B, 3, H, W) -> logits (B, 2, H, W)."""
    clock = clock or _NoClock()
    features = network.encoder(query)
    x_q = {s: _points(network, s, features, (query.shape[0], 1), 1) for s in learned}
    clock.lap(ENCODE_QUERY)
    maps = {}
    for s, support in learned.items():
        mean, covariance = infer(support, x_q[s])
        height, width = features[s].shape[-2:]
        parts = [mean.unflatten(1, (height, width))]
        if support.learner.window:
            parts.append(gather_window(covariance, height, width, support.learner.window))
        maps[s] = torch.cat(parts, -1).permute(0, 3, 1, 2)
    clock.lap(INFER)
    logits = network.decoder({**maps, **{s: features[s] for s in SHALLOW}})
    logits = F.interpolate(logits, size=tuple(query.shape[-2:]), mode="bilinear", align_corners=False)
    clock.lap(DECODE)
    return logits


def prepare(kernel: Kernel, noise: float, x_s: Tensor, y_s: Tensor) -> tuple[Tensor, Tensor]:
    """x_s: (B, S, D), y_s: (B, S, E) -> Cholesky factor L: (B, S, S) of K_ss + σ_y² I, and L⁻ᵀL⁻¹y_s: (B, S, E)."""
    identity = torch.eye(x_s.shape[1], device=x_s.device)
    lower = torch.linalg.cholesky(kernel(x_s) + noise * identity)
    half = torch.linalg.solve_triangular(lower, y_s, upper=False)
    return lower, torch.linalg.solve_triangular(lower.mT, half, upper=True)


def infer(support: Support, x_q: Tensor) -> tuple[Tensor, Tensor]:
    """x_q: (B, Q, D) -> mean (B, Q, E) and the full covariance (B, Q, Q)."""
    kernel = support.learner.gp.kernel
    k_sq = kernel(support.x, x_q)
    v = torch.linalg.solve_triangular(support.lower, k_sq, upper=False)
    return k_sq.mT @ support.weights, kernel(x_q) - v.mT @ v


def gather_window(covariance: Tensor, height: int, width: int, size: int) -> Tensor:
    """covariance: (B, Q, Q) of a grid of Q = height · width -> (B, height, width, size²): each point's neighbours."""
    r = size // 2
    grid = F.pad(covariance.unflatten(2, (height, width)).unflatten(1, (height, width)), (r, r, r, r))
    rows = torch.arange(height, device=covariance.device)[:, None, None, None]
    columns = torch.arange(width, device=covariance.device)[None, :, None, None]
    steps = torch.arange(size, device=covariance.device)
    windows = grid[:, rows, columns, rows + steps[:, None], columns + steps]  # (B, height, width, size, size)
    return windows.flatten(3)


def lists(network: DGPNet) -> bool:
    """Whether the paper's listing has such a network: Gaussian processes and nothing beside them."""
    branches = list(network.branches.values())
    return bool(branches) and all(isinstance(b, Branch) and isinstance(b.learner, GaussianLearner) for b in branches)


def _learners(network: DGPNet) -> dict[int, GaussianLearner]:
    """The Gaussian process of each level."""
    branches = [branch for branch in network.branches.values() if isinstance(branch, Branch)]
    found = {one.stride: one.learner for one in branches if isinstance(one.learner, GaussianLearner)}
    if not lists(network):
        raise Error("The paper's listing is a Gaussian process: choose a network with learner gp and no similarity.")
    return found


def _points(network: DGPNet, stride: int, features: Mapping[int, Tensor], shape: tuple[int, ...], step: int) -> Tensor:
    """Projected features of shape[0] · shape[1] photographs, every `step`-th row and column -> (B, S, D)."""
    x = network.encoder.project[str(stride)](features[stride])[..., ::step, ::step]
    points: Tensor = x.flatten(2).mT.unflatten(0, tuple(shape)).flatten(1, 2)
    return points


def _outputs(network: DGPNet, masks: Tensor, strides: Mapping[int, GaussianLearner]) -> dict[int, Tensor]:
    """What the support points are to give -> {stride: (B, S, E)}."""
    flat = masks.flatten(0, 1)[:, None]
    if network.mask_encoder is not None:
        encoded = network.mask_encoder(flat)
    else:
        encoded = {s: F.avg_pool2d(flat, s) for s in strides}
    found = {}
    for s in strides:
        step = network.config.support_step(s)
        y = encoded[s][..., ::step, ::step]
        found[s] = y.flatten(2).mT.unflatten(0, tuple(masks.shape[:2])).flatten(1, 2)
    return found

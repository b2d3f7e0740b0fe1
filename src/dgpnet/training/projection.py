"""How projections start: as principal components of the encoder's features, or so that the process sees nothing.

The paper does not say how they start. A projection learned from scratch on a few classes forgets much of what the
encoder knew of all others. Started as an orthogonal map onto the directions in which features vary, distances begin as
those of the encoder's own features, in a range in which the kernel tells them apart.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dgpnet.augment import normalise
from dgpnet.data.dataset import Dataset
from dgpnet.gp.kernels import Linear
from dgpnet.learners import GaussianLearner
from dgpnet.network import DGPNet

#: Photographs that the components are computed from, spread over the dataset.
PHOTOGRAPHS = 512
#: Mean squared distance of two features, in units of the kernel's ℓ² = √D.
SPREAD = 4.0
#: A stationary kernel with a smaller median has next to nothing to say, and next to no gradient.
BLIND = 0.01


@torch.no_grad()
def start_principal(network: DGPNet, dataset: Dataset, *, seed: int) -> None:
    """Sets the network's projections; a pure function of encoder, dataset and seed."""
    device = next(network.parameters()).device
    numbers = np.random.default_rng(seed).permutation(len(dataset))[:PHOTOGRAPHS]
    features: dict[str, list[Tensor]] = {name: [] for name in network.encoder.project}
    for start in range(0, len(numbers), 16):
        photos = np.stack([dataset.photo(int(i)).transpose(2, 0, 1) for i in numbers[start : start + 16]])
        found = network.encoder(normalise(torch.from_numpy(photos).to(device)))
        for name, parts in features.items():
            # Every third point each way: neighbours say much the same.
            parts.append(found[int(name)][:, :, ::3, ::3].movedim(1, -1).flatten(0, 2).double())
    for name, parts in features.items():
        projection = network.encoder.project[name]
        assert isinstance(projection, torch.nn.Conv2d)
        weight, bias = components(torch.cat(parts), projection.out_channels)
        projection.weight.copy_(weight[:, :, None, None])
        assert projection.bias is not None
        projection.bias.copy_(bias)


@torch.no_grad()
def blindness(network: DGPNet, dataset: Dataset, *, seed: int) -> list[str]:
    """A line for each level whose Gaussian process would start without seeing likeness between photographs."""
    device = next(network.parameters()).device
    numbers = np.random.default_rng(seed).permutation(len(dataset))[:8]
    photos = np.stack([dataset.photo(int(i)).transpose(2, 0, 1) for i in numbers])
    features = network.encoder(normalise(torch.from_numpy(photos).to(device)))
    found = []
    for branch in network.named_branches().values():
        if isinstance(branch.learner, GaussianLearner) and not isinstance(branch.learner.gp.kernel, Linear):
            x = network.branch_features(branch, features)[:, ::2, ::2].flatten(1, 2)
            half = len(x) // 2
            kernel = branch.learner.gp.kernel(x[:half].flatten(0, 1), x[half:].flatten(0, 1))
            if (median := float(kernel.median())) < BLIND:
                found.append(
                    f"stride {branch.stride}: the kernel between points of different photographs is {median:.0e} in"
                    " the median, so that the Gaussian process starts nearly blind; projection=principal lets it see"
                )
    return found


def components(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Weight (count, C) and bias (count,) that map features x: (N, C) to their leading principal components, scaled so
    that two of the mapped features lie √(SPREAD · √count) apart in the mean square. Beyond C components: zero."""
    mean = x.mean(0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    values, vectors = torch.linalg.eigh(covariance)  # ascending
    rows = vectors.flip(-1).T[:count]
    spread = 2 * values.flip(-1)[:count].clamp(min=0).sum()  # E‖x − y‖² = 2 tr Σ
    rows = rows * (SPREAD * count**0.5 / spread.clamp(min=1e-12)).sqrt()
    weight = x.new_zeros(count, x.shape[1])
    weight[: len(rows)] = rows
    return weight, -weight @ mean

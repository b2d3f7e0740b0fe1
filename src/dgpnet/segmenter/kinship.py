"""How like each other the examples of a class are, which tells how like them a find should be.

All of it comes from what a memory holds: a concept that was extended, or came from a file, has the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dgpnet.learners import LearnedSimilarity
from dgpnet.network import Memory
from dgpnet.segmenter.calibration import Belief

#: Mean cosine of the features of two photographs, place by place and over their mean, from which on they are as alike
#: as copies and the next frame of a film; and the part of what is painted in either that both must show for such two to
#: count as one: a camera that stands still sees one place, and the thing here and there, or not at all.
SAME, OVERLAP = 0.65, 0.5
#: Examples that the weights for several were fitted with.
ENOUGH = 5
#: Standard deviation, in log-odds, of how much presence differs from concept to concept.
DIFFERENT = 1.0
#: Steps of Newton's method, which needs five, and how small the last one is.
STEPS, NEAR = 20, 1e-12


@dataclass(frozen=True, eq=False)
class Kinship:
    """Of C classes, float64, each (C,). Examples that are almost the same photograph count as one.

    own      mean cosine of the painted part of an example to those of all others; 0 where one example shows the class
    known    how far that can be relied on, in [0, 1]: 0 with one example, 1 with ENOUGH
    shift    what is added to the log-odds of presence, by what examples left out, and photographs without the class,
             should have got, as far as that is known
    """

    own: Tensor
    known: Tensor
    shift: Tensor


def kinship(memory: Memory, belief: Belief | None) -> Kinship | None:
    """belief: by which presence is told · None for networks without plain similarity."""
    names = [name for name in memory.learned if name.endswith("_similarity")]
    if not names:
        return None
    learned = memory.learned[max(names, key=lambda name: int(name.split("_")[0]))]
    assert isinstance(learned, LearnedSimilarity)
    points, shares = (part[0].double().split(learned.points) for part in (learned.x, learned.m))
    first = _first_alike(points, shares)
    kept = sorted(set(first))
    merged = torch.tensor([[float(one == i) for one in first] for i in kept], dtype=torch.float64)  # (N, K)
    # From here on there is little to compute, which a GPU is slower to be told of than a processor is to do.
    sums = torch.stack([m.mT @ x for x, m in zip(points, shares, strict=True)]).cpu()  # (K, C, D)
    sums = torch.einsum("nk,kcd->ncd", merged, sums)
    parts = merged / merged.sum(1, keepdim=True) @ torch.stack([m.mean(0) for m in shares]).cpu()  # (N, C)
    shown = parts > 0
    count = shown.sum(0).clamp(min=1)
    several = count > 1
    others = F.normalize(sums.sum(0) - sums, dim=-1)
    likeness = (F.normalize(sums, dim=-1) * others).sum(-1)  # (N, C): of each example to the others
    own = torch.where(several, (likeness * shown).sum(0) / count, 0.0)
    known = ((1 - 1 / count) / (1 - 1 / ENOUGH)).clamp(max=1).double()
    shift = torch.zeros_like(own)
    if belief is not None:
        prototypes = F.normalize(sums.sum(0), dim=-1)
        for c in several.nonzero()[:, 0].tolist():
            here = shown[:, c]
            usual = parts[here, c].mean()
            lacking = [_best(points[kept[i]].cpu(), prototypes[c], usual) for i in (~here).nonzero()[:, 0].tolist()]
            without = torch.stack(lacking) if lacking else own.new_zeros(0)
            shift[c] = _shift(likeness[here, c] - own[c], without - own[c], belief)
    return Kinship(*(one.to(learned.x.device) for one in (own, known, known * shift)))


def _first_alike(points: Sequence[Tensor], shares: Sequence[Tensor]) -> list[int]:
    """For each example, points (P, D) of length 1 and shares of classes (P, C), the number of the first that is almost
    the same."""
    first, together = list(range(len(points))), torch.cat(list(points))
    centred = F.normalize(together - together.mean(0), dim=-1).float().split([len(one) for one in points])
    for shape in {one.shape for one in points}:
        places = [i for i, one in enumerate(points) if one.shape == shape]
        flat = torch.stack([centred[i].flatten() for i in places])
        alike = (flat @ flat.mT / shape[0] > SAME).tolist()
        for a, place in enumerate(places):
            earlier = (places[b] for b in range(a) if alike[a][b] and first[places[b]] == places[b])
            first[place] = next((one for one in earlier if _painted_alike(shares[one], shares[place])), place)
    return first


def _painted_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two masks, shares of classes (P, C), show each class in about the same places."""
    both, either = torch.minimum(one, other).sum(0), torch.maximum(one, other).sum(0)
    return bool((both >= OVERLAP * either).all())


def _best(points: Tensor, prototype: Tensor, share: Tensor) -> Tensor:
    """Of a photograph without the class, points (P, D): cosine of the mean of the likest of them, as many as the class
    usually has, to the prototype (D,)."""
    count = max(1, round(float(share) * len(points)))
    likest = points[(points @ prototype).topk(count).indices]
    return F.normalize(likest.sum(0), dim=0) @ prototype


def _shift(there: Tensor, lacking: Tensor, belief: Belief) -> Tensor:
    """What makes presence right for relative likenesses of examples with (n,) and without (m,) the class, and is
    small: the maximum of Σ log σ(z + δ) + Σ log σ(−z − δ) − δ² / 2 DIFFERENT², z the log-odds by likeness alone."""
    values = torch.cat([there, lacking])
    truth = torch.cat([torch.ones_like(there), torch.zeros_like(lacking)])
    z = belief.usual + belief.several[1] * values
    shift = z.new_zeros(())
    for _ in range(STEPS):
        chance = torch.sigmoid(z + shift)
        slope = (truth - chance).sum() - shift / DIFFERENT**2
        step = slope / ((chance * (1 - chance)).sum() + 1 / DIFFERENT**2)
        shift = shift + step
        if abs(step) < NEAR:
            break
    return shift

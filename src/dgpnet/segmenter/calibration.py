"""From a network's log-odds to numbers that mean what they say: how likely a label is wrong, how good a mask is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgpnet.errors import Error

#: Part of the photograph that counts as found in any case, so that an empty mask of an empty photograph scores 1.
NOTHING = 1e-3
#: Presence below which a class is left out of a mask.
PRESENT = 0.5


@dataclass(frozen=True)
class Curve:
    """A rising, piecewise linear map of [0, 1] through the knots (x, y), constant outside them."""

    x: tuple[float, ...] = (0.0, 1.0)
    y: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        numbers = all(math.isfinite(value) for value in (*self.x, *self.y))
        rising = all(a < b for a, b in zip(self.x, self.x[1:], strict=False))
        never_falls = all(a <= b for a, b in zip(self.y, self.y[1:], strict=False))
        inside = all(0 <= value <= 1 for value in self.y)
        if not (self.x and len(self.x) == len(self.y) and numbers and rising and never_falls and inside):
            raise Error("A calibration curve needs as many y as x, x that rise and y in [0, 1] that do not fall.")

    def __call__(self, values: Tensor) -> Tensor:
        """values: any shape, float -> the same shape."""
        if self == Curve():
            return values
        x, y = (_on(knots, values.dtype, values.device) for knots in (self.x, self.y))
        if len(self.x) == 1:
            return y.expand(values.shape)
        values = values.clamp(self.x[0], self.x[-1]).contiguous()
        right = torch.searchsorted(x, values).clamp(1, len(self.x) - 1)
        share = (values - x[right - 1]) / (x[right] - x[right - 1])
        return torch.lerp(y[right - 1], y[right], share)

    def from_zero(self) -> Curve:
        """The same curve, which below its lowest knot goes straight to (0, 0)."""
        return Curve((0.0, *self.x), (0.0, *self.y)) if self.x[0] > 0 else self


@cache
def _on(knots: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The knots as a tensor. Kept for good: captured graphs read it where it lies."""
    return torch.tensor(knots, dtype=dtype, device=device)


class Evidence(NamedTuple):
    """What speaks for a class being in a photograph, and for its mask being right; each (..., C).

    likeness    mean cosine of what was found to what was painted
    confidence  mean probability of the pixels that were found
    overlap     the expected IoU by the pixels' own probabilities
    share       log10 of the part of the photograph that was found, and a thousandth
    """

    likeness: Tensor
    confidence: Tensor
    overlap: Tensor
    share: Tensor


@dataclass(frozen=True)
class Belief:
    """A probability from evidence, σ(bias + Σ weight · figure): between that for one example and that for several.

    one, several   bias and the weights of `Evidence`, in its order: with one example, and with so many that likeness
                   counts over what examples left out have to the others
    usual          what Σ comes to, bias included, where the class is there: `several`, in the mean
    """

    one: tuple[float, ...]
    several: tuple[float, ...]
    usual: float = 0.0

    def __post_init__(self) -> None:
        for numbers in (self.one, self.several):
            if len(numbers) != 1 + len(Evidence._fields) or not all(map(math.isfinite, (*numbers, self.usual))):
                raise Error(f"A belief has a bias and {len(Evidence._fields)} weights, finite; given {numbers!r:.100}.")

    def __call__(self, evidence: Evidence, own: Tensor, known: Tensor, shift: Tensor | float = 0.0) -> Tensor:
        """own, known, shift: (C,), as in `Kinship` -> (..., C) in [0, 1]."""
        relative = evidence._replace(likeness=evidence.likeness - own)
        one, several = (
            bias + sum(weight * figure for weight, figure in zip(weights, figures, strict=True))
            for (bias, *weights), figures in ((self.one, evidence), (self.several, relative))
        )
        return torch.sigmoid(one + known * (several - one) + shift)


def _curve(fields: Mapping[str, Any] | None) -> Curve:
    return Curve() if fields is None else Curve(tuple(map(float, fields["x"])), tuple(map(float, fields["y"])))


def _belief(fields: Mapping[str, Any] | None) -> Belief | None:
    if fields is None:
        return None
    one, several = (tuple(map(float, fields[name])) for name in ("one", "several"))
    return Belief(one, several, float(fields["usual"]))


@dataclass(frozen=True)
class Calibration:
    """What was fitted on held-out episodes and is stored with the weights; the default changes nothing.

    temperature   divides the log-odds; never changes which label is the most probable
    background    1 − p of a pixel labelled background -> the probability that it is wrong
    foreground    the same for a pixel labelled with a class
    score         the expected IoU by those probabilities -> the IoU that such masks had
    presence      the probability that a class is in the photograph at all; None: not known, and taken to be so
    quality       the IoU to expect, whether it is there or not; None: `score` tells it
    """

    temperature: float = 1.0
    background: Curve = field(default_factory=Curve)
    foreground: Curve = field(default_factory=Curve)
    score: Curve = field(default_factory=Curve)
    presence: Belief | None = None
    quality: Belief | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise Error(f"The calibration's temperature must be a positive number, got {self.temperature}.")

    @staticmethod
    def from_json(fields: Mapping[str, Any] | None) -> Calibration:
        """From `{"temperature": 1.3, "background": {"x": […], "y": […]}, …}`, any of them missing."""
        fields = dict(fields or {})
        try:
            return Calibration(
                temperature=float(fields.get("temperature", 1.0)),
                background=_curve(fields.get("background")),
                foreground=_curve(fields.get("foreground")),
                score=_curve(fields.get("score")),
                presence=_belief(fields.get("presence")),
                quality=_belief(fields.get("quality")),
            )
        except (TypeError, KeyError, ValueError, OverflowError, AttributeError) as error:
            if isinstance(error, Error):
                raise
            raise Error(
                f"The checkpoint's calibration cannot be read ({error!r:.100}); save the checkpoint again."
            ) from error

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        curves = {"background": self.background, "foreground": self.foreground, "score": self.score}
        beliefs = {"presence": self.presence, "quality": self.quality}
        return {
            "temperature": self.temperature,
            **{name: {"x": list(curve.x), "y": list(curve.y)} for name, curve in curves.items()},
            **{name: asdict(belief) for name, belief in beliefs.items() if belief is not None},
        }

    def probability(self, log_odds: Tensor) -> Tensor:
        """log_odds: (C, ...) of each class against the background -> (C + 1, ...), softmax over [0, log-odds]."""
        odds = log_odds / self.temperature
        if len(odds) == 1:
            return torch.cat([-odds, odds]).sigmoid()  # the same, and several times quicker on a CPU
        return torch.cat([torch.zeros_like(odds[:1]), odds]).softmax(0)

    def rated(self, expected: Tensor) -> Tensor:
        """Scores of masks with these expected IoUs. What is worse than any mask that the curve was fitted to keeps its
        order: there the curve goes on straight to 0."""
        return self.score.from_zero()(expected)

    def uncertainty(self, probability: Tensor, mask: Tensor) -> Tensor:
        """probability: (C + 1, ...), mask: (...) int64 -> (...) in [0, 1], the probability that the label is wrong."""
        doubt = (1 - probability.gather(0, mask[None])[0]).clamp(0, 1)
        if self.background == self.foreground:
            return self.background(doubt)
        return torch.where(mask == 0, self.background(doubt), self.foreground(doubt))


def overlaps(probability: Tensor, uncertainty: Tensor, mask: Tensor) -> Tensor:
    """Expected intersection and union of each class, in pixels: (C, 2), to be summed over parts of a photograph.

    A pixel has its label with probability 1 − uncertainty; the rest is shared among the others as `probability` does.
    """
    rest = uncertainty / (1 - probability.gather(0, mask[None])[0]).clamp(min=1e-12)
    sums = []
    for c in range(1, len(probability)):
        here = mask == c
        sums += [torch.where(here, 1 - uncertainty, 0.0).sum(), torch.where(here, 1.0, probability[c] * rest).sum()]
    return torch.stack(sums).double().view(-1, 2)


def expected_iou(overlaps: Tensor, pixels: int) -> Tensor:
    """Expected intersection and union (..., 2) in photographs of so many pixels -> (...) in [0, 1].

    Of one class, or of several together, each then weighted by its union.
    """
    sums = overlaps + NOTHING * pixels
    return sums[..., 0] / sums[..., 1]

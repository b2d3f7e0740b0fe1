"""A concept fitted to its own examples: how photographs are seen, by which models, and how far decoders are tuned.

All is decided by leaving examples out. A change is kept where it gains more than noise: what was measured on a handful
of examples is drawn towards what the change gained elsewhere. What comes of it: docs/results/fitting.md.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from dgpnet.errors import Error
from dgpnet.network import Memory
from dgpnet.segmenter.engine import EXACT_POINTS, INDUCING_POINTS, learned_from, said
from dgpnet.segmenter.estimate import Estimate, LeftOut, compared, estimate, ious_of, known_to_others
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import Origin, Shot, as_input
from dgpnet.segmenter.tuning import STEPS, Tuner, Tuning, Weights
from dgpnet.segmenter.views import View, joined

if TYPE_CHECKING:
    from dgpnet.network import Config
    from dgpnet.segmenter.model import Segmenter

#: The larger of the two sizes at which photographs may be seen, over the network's own.
LARGER = 13 / 6
#: Seconds that fitting may take by default, and at the most.
SECONDS, LONGEST = 60.0, 86_400.0
#: Examples that are left out while fitting; of more, evenly spaced ones.
MOST = 10
#: With one example: part of the photograph that a thing may cover to be seen at both sizes.
SMALL_THING = 0.3
#: IoU that a change has to gain, as it is believed, for each doubling of the work.
WORTH = 0.003
#: Of the IoU of one photograph: how far two measurements of the same differ by chance.
CHANCE = 0.03
#: What may be added to log-odds, and the IoU that it has to gain for each unit.
BIASES, BIAS_WORTH = (-1.0, -0.5, 0.0, 0.5, 1.0), 0.01
#: Groups that examples are left out in while decoders are tuned; with fewer examples, one by one.
FOLDS = 2
#: Examples that tuning takes: where one is left out, one of the others is the query of the rest.
FEWEST_TUNED = 3
#: Steps after which it is known how long tuning takes.
PACED = 3
#: Part of the time that may go by before tuning begins, and that is kept for the end.
BEFORE_TUNING, END = 0.5, 0.1
#: A concept that has grown by this much since it was fitted should be fitted again.
GROWN = 1.5

Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Prior:
    """What a change gained in IoU where it was tried: mean, and standard deviation between sets."""

    mean: float
    spread: float

    def believed(self, gains: Sequence[float]) -> float:
        """The gain to expect, from what it gained on each example left out."""
        count = len(gains)
        if not count:
            return self.mean
        mean = sum(gains) / count
        own = sum((gain - mean) ** 2 for gain in gains) / count + CHANCE**2
        error = own / count * (1 + 1 / count)
        return (self.mean / self.spread**2 + mean / error) / (1 / self.spread**2 + 1 / error)


#: Of being seen at both sizes. At the larger one alone it gains no more, and things that fill a photograph lose.
SEEN = Prior(0.022, 0.045)
#: Of a decoder that is tuned, by the share of the tuning that is kept. It gains more than examples left out tell: they
#: are told of by decoders that were tuned on half as many.
TUNED: Mapping[float, Prior] = {0.5: Prior(0.02, 0.03), 1.0: Prior(0.03, 0.04)}
#: Of another threshold.
BIASED = Prior(0.0, 0.02)
#: Of another model's vote. Beside a decoder that is tuned it gained nothing, and is not asked for.
VOTED = Prior(0.014, 0.033)


@dataclass(frozen=True)
class Fitted:
    """What fitting chose.

    examples   K that it was fitted to
    bias       what is added to all log-odds
    cost       work for a photograph, over that of the model as it ships
    gain       in IoU, by leaving examples out; None with one example
    words      what was chosen
    """

    examples: int
    bias: float
    cost: float
    gain: float | None
    words: str

    def __str__(self) -> str:
        gained = "" if self.gain is None else f", {self.gain:+.2f} IoU on examples left out"
        return f"fitted: {self.words}; {self.cost:.1f}× the time of one view{gained}"

    def outgrown(self, examples: int) -> bool:
        """Whether fitting anew would pay with so many examples."""
        return examples >= max(self.examples + 1, math.ceil(GROWN * self.examples))

    @staticmethod
    def from_json(fields: Mapping[str, Any] | None) -> Fitted | None:
        """Of `dataclasses.asdict`; an Error where it is none."""
        if fields is None:
            return None
        try:
            gain = None if fields["gain"] is None else float(fields["gain"])
            bias, cost = float(fields["bias"]), float(fields["cost"])
            return Fitted(int(fields["examples"]), bias, cost, gain, str(fields["words"]))
        except (KeyError, TypeError, ValueError) as error:
            raise Error(f"What was fitted cannot be read ({error!r:.100}); learn the concept again.") from error


def sizes(config: Config) -> tuple[int, int]:
    """The network's own size, and the larger one."""
    return config.size, round(config.size * LARGER / 32) * 32


def fit(
    model: Segmenter,
    shots: Mapping[int, Sequence[Shot]],
    seconds: float = SECONDS,
    advance: Advance | None = None,
) -> tuple[tuple[View, ...], Fitted, Estimate | None]:
    """The views that serve these examples best, what was chosen, and what to expect.

    shots: size -> the K examples, of each of `sizes`.
    """
    clock = Clock(seconds, advance)
    own = model.network.config.size
    count = len(shots[own])
    if count == 1 and float(shots[own][0].masks.any(0).mean()) >= SMALL_THING:
        shots = {own: shots[own]}
    members = list(_members(model, shots, clock))
    plain = _chosen(members)
    tunable = model.network.config.resize == "square" and count >= FEWEST_TUNED
    tuned = _tuned(plain, members[0], clock) if tunable else None
    if tuned is None:
        best, before = _voted(plain, model.voters(), shots, clock), plain
        views = tuple(member.view for member in best.members)
    else:
        best, before, better = tuned.trial, tuned.before, model.tuned(tuned.weights)
        views = tuple(_view(better, member.view.size, member.shots) for member in best.members)
    bias = best.bias
    sooner, later = _gains(plain.ious(0.0), _together(members[:1]).ious(0.0)), _gains(best.ious(bias), before.ious(0.0))
    gains = [one + other for one, other in zip(sooner, later, strict=True)]
    told = estimate([best.left_out(i, bias) for i in best.seen], len(shots[own][0].masks))
    cost = best.work / members[0].work
    clock.tick(end=True)
    return views, _fitted(views, count, bias=bias, cost=cost, gain=_mean(gains) if gains else None), told


def _fitted(views: Sequence[View], examples: int, *, bias: float, cost: float, gain: float | None) -> Fitted:
    seen = sorted({view.size for view in views})
    words = [f"seen at {' and '.join(map(str, seen))} pixels"]
    names = [view.segmenter.name for view in views]
    if len(set(names)) > 1:
        words.append(f"by the models {' and '.join(dict.fromkeys(names))}")
    if any(view.segmenter.base is not None for view in views):
        words.append("decoder tuned")
    if bias:
        words.append(f"log-odds {bias:+.1f}")
    return Fitted(examples, bias, round(cost, 2), None if gain is None else round(gain, 4), ", ".join(words))


class Clock:
    """Time that fitting may take, and how much of it has gone."""

    def __init__(self, seconds: float, advance: Advance | None) -> None:
        self.seconds = seconds
        self._advance = advance
        self._start = time.monotonic()
        self.tick()

    @property
    def left(self) -> float:
        """Seconds."""
        return self.seconds - (time.monotonic() - self._start)

    def tick(self, *, end: bool = False) -> None:
        """Tell whoever waits."""
        if self._advance is not None:
            total = max(1, math.ceil(self.seconds))
            self._advance(total if end else max(0, min(total - 1, round(self.seconds - self.left))), total)


@dataclass(frozen=True, eq=False)
class Member:
    """A view that may take part. seen: what it says of each example that is left out · work: see `_work` · seconds:
    that a photograph took."""

    view: View
    shots: Sequence[Shot]
    seen: Mapping[int, Maps]
    work: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Trial:
    """What some members say together of examples that are left out."""

    members: Sequence[Member]
    seen: Mapping[int, Maps]

    @property
    def work(self) -> float:
        """Of all members."""
        return sum(member.work for member in self.members)

    def ious(self, bias: float) -> list[float]:
        """Of the examples that can be compared."""
        found = [
            ious_of(maps.log_odds + bias, self._shots(i), known_to_others(self._origins, i))[0]
            for i, maps in sorted(self.seen.items())
        ]
        return [iou for iou in found if iou is not None]

    @property
    def bias(self) -> float:
        """What is best added to log-odds."""
        usual = self.ious(0.0)
        worth = {bias: BIASED.believed(_gains(self.ious(bias), usual)) - BIAS_WORTH * abs(bias) for bias in BIASES}
        return max(worth, key=lambda bias: worth[bias])

    def left_out(self, i: int, bias: float) -> LeftOut:
        """The example of that number."""
        maps = self.seen[i]
        maps = maps._replace(log_odds=maps.log_odds + bias)
        calibration = self.members[0].view.segmenter.calibration
        return compared(maps, self._shots(i), known_to_others(self._origins, i), calibration)

    @property
    def _origins(self) -> list[Origin]:
        return [shot.origin for shot in self.members[0].shots]

    def _shots(self, i: int) -> list[Shot]:
        return [member.shots[i] for member in self.members]


class Tuned(NamedTuple):
    """A decoder that is tuned: what is said of examples left out by such as were tuned on others, and by the decoder as
    it ships when it learned from as few; and the weights."""

    trial: Trial
    before: Trial
    weights: Weights


def _gains(after: Sequence[float], before: Sequence[float]) -> list[float]:
    return [later - sooner for later, sooner in zip(after, before, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _work(model: Segmenter, size: int, examples: int) -> float:
    """Operations that a photograph of that size takes: convolutions grow with its area, the Gaussian processes' solves
    with the third power of it."""
    config, device, side = model.network.config, model.device, 64
    photo, mask = torch.zeros(1, 1, 3, side, side, device=device), torch.ones(1, 1, 1, side, side, device=device)
    with torch.no_grad():
        memory = model.network.learn(photo, mask)
        with FlopCounterMode(display=False) as counter:
            model.network.look(memory, photo[0])
    work = float(counter.get_total_flops()) * (size / side) ** 2
    for level in config.levels if config.learner == "gp" else ():
        known = examples * (size // max(level, config.support_stride)) ** 2
        known = known if known <= EXACT_POINTS else INDUCING_POINTS
        work += (size // level) ** 2 * known * (known + 2 * config.features)
    return work


def _view(model: Segmenter, size: int, shots: Sequence[Shot]) -> View:
    return View(model, size, model.engine.at(size).remember(shots))


def _members(
    model: Segmenter,
    shots: Mapping[int, Sequence[Shot]],
    clock: Clock,
    before: Sequence[Member] = (),
    *,
    part: float = BEFORE_TUNING,
) -> Iterator[Member]:
    """The model at each size, with what it says of examples that are left out: what comes after others only if by what
    these took it takes no more than that part of the time that is left."""
    rate = max((member.seconds / member.work for member in before), default=None)
    for size, some in shots.items():
        work = _work(model, size, len(some))
        if rate is not None and rate * work * len(some) > part * clock.left:
            continue
        member = _member(model, size, some, work, clock)
        rate = max(rate or 0.0, member.seconds / work)
        yield member


def _member(model: Segmenter, size: int, shots: Sequence[Shot], work: float, clock: Clock) -> Member:
    """Each photograph goes through the encoder once, to be learned from and to be looked at."""
    engine = model.engine.at(size)
    start = time.monotonic()
    left_out = min(MOST, len(shots)) if len(shots) > 1 else 0
    chosen = np.linspace(0, len(shots) - 1, left_out).round().astype(int).tolist()
    points, encoded = [], {}
    for i, shot in enumerate(shots):
        features = engine.encode(shot.photo)
        points.append(engine.points_of(features, shot))
        if i in chosen:
            encoded[i] = features
        clock.tick()
    view = View(model, size, engine.remember_points(points))
    seen = {}
    for i, features in encoded.items():
        seen[i] = engine.look_at(view.without(i).memory, features)
        clock.tick()
    return Member(view, shots, seen, work, (time.monotonic() - start) / len(shots))


def _chosen(members: Sequence[Member]) -> Trial:
    """The model at its own size, or at both, by what is believed of that."""
    own, both = _together(members[:1]), _together(members)
    return both if len(members) > 1 and _believed(SEEN, both, own) > 0 else own


def _together(members: Sequence[Member]) -> Trial:
    views = [member.view for member in members]
    return Trial(members, {i: joined([member.seen[i] for member in members], views) for i in members[0].seen})


def _believed(prior: Prior, trial: Trial, before: Trial) -> float:
    """What a trial is believed to gain over another, less what its work has to gain."""
    gains = _gains(trial.ious(0.0), before.ious(0.0))
    return prior.believed(gains) - WORTH * math.log2(max(1.0, trial.work / before.work))


def _voted(trial: Trial, voters: Sequence[Segmenter], shots: Mapping[int, Sequence[Shot]], clock: Clock) -> Trial:
    """With the other models that are believed to gain, at the same sizes."""
    seen_at = {member.view.size: shots[member.view.size] for member in trial.members}
    parts, views = [trial.seen], [trial.members[0].view]
    for voter in voters:
        some = list(_members(voter, seen_at, clock, trial.members, part=1 - END))
        if len(some) < len(seen_at):
            break  # there is no time for all of them
        more, heard = [*parts, _together(some).seen], [*views, some[0].view]
        both = Trial([*trial.members, *some], {i: joined([one[i] for one in more], heard) for i in trial.seen})
        if _believed(VOTED, both, trial) > 0:
            trial, parts, views = both, more, heard
    return trial


def _tuned(plain: Trial, own: Member, clock: Clock) -> Tuned | None:
    """The decoder tuned on the examples at the network's own size, and tried at the sizes that were chosen; None where
    that is not believed to gain, or there is no time for it."""
    tuner, probe = Tuner(own.view.segmenter.network, own.shots), Probe(plain)
    # A step, there and back, takes longer than to look at a photograph: what is hopeless is not begun.
    hopeless = own.seconds * STEPS * (len(probe.folds()) + 1) > clock.left * (1 - END)
    trials = None if hopeless else _tuned_in_turn(tuner, probe, clock)
    if trials is None:
        return None
    before = trials.pop(0.0)
    ious = before.ious(before.bias)
    gains = {share: TUNED[share].believed(_gains(trial.ious(trial.bias), ious)) for share, trial in trials.items()}
    best = max(gains, key=lambda share: gains[share])
    if gains[best] <= WORTH:
        return None
    tuning = tuner.tune(range(len(own.shots)))
    return Tuned(trials[best], before, tuning.weights(best)) if _in_time(tuning, clock) else None


def _tuned_in_turn(tuner: Tuner, probe: Probe, clock: Clock) -> dict[float, Trial] | None:
    """For each share of the tuning that is kept, 0 among them, what is said of examples left out; None where there is
    no time."""
    seen: dict[float, dict[int, Maps]] = {share: {} for share in (0.0, *TUNED)}
    folds = probe.folds()
    for done, fold in enumerate(folds):
        kept = [i for i in range(tuner.examples) if i not in fold]
        tuning = tuner.tune(kept)
        if not _in_time(tuning, clock, more=len(folds) - done):  # the other folds, and all examples together
            return None
        for share, maps in seen.items():
            maps |= probe.see(tuning.weights(share), kept, fold)
            clock.tick()
    return {share: Trial(probe.plain.members, maps) for share, maps in seen.items()}


def _in_time(tuning: Tuning, clock: Clock, more: int = 0) -> bool:
    """Make the steps of a tuning; not all of them where there is no time for these and for so many more tunings."""
    start = time.monotonic()
    for step in tuning:
        clock.tick()
        pace = (time.monotonic() - start) / step
        if step >= PACED and pace * (STEPS * (1 + more) - step) > clock.left * (1 - END):
            return False
    return True


class Probe:
    """Looks at examples with changed weights, without making a network quick that is thrown away at once."""

    def __init__(self, plain: Trial) -> None:
        """plain: what one model says, at one size or several."""
        self.plain = plain
        self.model = plain.members[0].view.segmenter
        self.network = copy.deepcopy(self.model.network)
        self._encoded: dict[tuple[Member, int], dict[int, Tensor]] = {}

    def folds(self) -> list[list[int]]:
        """Examples that are left out together."""
        chosen = list(self.plain.seen)
        count = FOLDS if len(chosen) > 3 else len(chosen)
        return [chosen[i::count] for i in range(count)]

    @torch.no_grad()
    def see(self, weights: Weights, kept: Sequence[int], fold: Sequence[int]) -> dict[int, Maps]:
        """What is said of each example of the fold, by what was learned from those that are kept."""
        self.network.load_state_dict(weights, strict=False)
        each: list[dict[int, Maps]] = []
        for member in self.plain.members:
            memory = self._memory([self._features(member, i) for i in kept], [member.shots[i] for i in kept])
            answers = {i: self.network.look_at(memory, self._features(member, i)) for i in fold}
            each.append({i: Maps.of(answer).each(lambda one: one[0]) for i, answer in answers.items()})
        views = [member.view for member in self.plain.members]
        return {i: joined([one[i] for one in each], views) for i in fold}

    def _features(self, member: Member, i: int) -> dict[int, Tensor]:
        """The example of that number through the image encoder, which is not tuned: once."""
        if (member, i) not in self._encoded:
            photo = as_input([member.shots[i].photo], self.model.device)
            self._encoded[member, i] = self.network.encoder(photo)
        return self._encoded[member, i]

    def _memory(self, features: Sequence[Mapping[int, Tensor]], shots: Sequence[Shot]) -> Memory:
        joint = {stride: torch.cat([one[stride] for one in features]) for stride in features[0]}
        masks = torch.from_numpy(np.stack([shot.masks for shot in shots])).to(self.model.device, torch.float32)
        points = self.network.support_points(joint, masks[None])
        return learned_from(self.network.learn_points, said(self.network, points, shots))

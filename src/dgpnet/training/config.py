"""Everything that decides what a training run comes to, as one validated value that goes to JSON and back."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dgpnet.augment import PAPER, STRONG, Augmentation
from dgpnet.data.episodes import ProtocolName
from dgpnet.errors import Error
from dgpnet.network.config import PRESETS, Config

#: What may be chosen: arithmetic, course of the learning rate, start of the projections.
PRECISIONS = ("float32", "bf16")
SCHEDULES = ("step", "cosine")
PROJECTIONS = ("auto", "random", "principal")
#: Datasets whose training photographs are COCO's: the paper trains these longer and larger.
FROM_COCO = ("coco", "coco2pascal")

#: Sides of the strong recipe's views, as shares of the network's size.
STRONG_SIZES = (2 / 3, 1.0, 1.0, 1.0, 4 / 3, 5 / 3)

#: Fields that may be null, with a value of the type that they have otherwise.
_OR_NULL: Mapping[str, Any] = {"fold": 0, "balance": 0.0}

#: What those of a field hold that is empty by default, where it is not text.
_ELEMENTS: Mapping[str, Any] = {"sizes": 0}

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """One dataset to draw episodes from.

    dataset   "pascal", "coco", "folder", "synthetic" …
    root      its folder; empty for one that is rendered
    weight    its share of the episodes, against the other sources' weights
    fold      the classes of this fold are held out; None: nothing is
    classes   only these, by name or id; empty: all that the fold leaves
    options   what that dataset takes beyond this
    """

    dataset: str
    root: str = ""
    weight: float = 1.0
    fold: int | None = None
    classes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults are the paper's recipe for PASCAL-5i; two runs of equal configuration are equal.

    sources           where episodes come from
    network           what is trained
    encoder_weights   file or folder with ImageNet weights of the image encoder; empty: random
    projection        how the encoder's projections start: "random", "principal": components of its features on the
                      training photographs, so that similarity starts as what ImageNet taught, or "auto": principal
                      where the encoder has weights of its own to start from; `start_from` has them already
    start_from        a dgpnet checkpoint of the same architecture to start from; empty: none
    shots             numbers of supports; each step draws one of them
    iterations        steps
    episodes          episodes of one step, all processes and accumulated parts together
    accumulate        parts that a process splits its share of them into, one forward and backward pass each
    precision         "float32", or "bf16": autocast around a Gaussian process that stays float32
    rate              learning rate of everything but the image encoder
    encoder_rate      learning rate of the encoder's body
    projection_rate   learning rate of its projections
    weight_decay      AdamW's, on everything
    schedule          "step": × decay_factor from the fraction decay_at of the run on; "cosine": down to decay_factor
    warmup            fraction of the run over which rates rise from zero
    clip              largest norm of the gradient; 0: any
    foreground        weight of a foreground pixel in the loss, background being 1
    overlap           weight of 1 − IoU (of probabilities, in each episode) in the loss, cross-entropy being 1
    average           decay of the moving average of the weights that is kept at the end; 0: the weights themselves
    balance           0: uniform over (photograph, class) pairs, 1: uniform over classes, 0.5: square root of their
                      sizes; None: what the protocol does for that dataset
    protocol          "paper": supports differ from each other; "reference": they may repeat
    augmentation      how views of photographs are drawn
    self_episodes     share of episodes whose supports are further views of the query's own photograph
    self_augmentation how the views of those episodes are drawn
    absent            share of episodes whose query is drawn from all photographs, and so mostly lacks the class
    sizes             sides of the views; each step draws one of them; empty: network.size always
    cache_size        side at which photographs are stored, at least network.size; 0: network.size
    seed              of everything that is random
    """

    sources: tuple[Source, ...] = ()
    network: Config = PRESETS["paper"]
    encoder_weights: str = ""
    projection: str = "auto"
    start_from: str = ""
    shots: tuple[int, ...] = (1,)
    iterations: int = 20_000
    episodes: int = 8
    accumulate: int = 1
    precision: str = "float32"
    rate: float = 5e-5
    encoder_rate: float = 1e-6
    projection_rate: float = 5e-5
    weight_decay: float = 1e-3
    schedule: str = "step"
    decay_at: float = 0.5
    decay_factor: float = 0.1
    warmup: float = 0.0
    clip: float = 0.0
    foreground: float = 4.0
    overlap: float = 0.0
    average: float = 0.0
    balance: float | None = None
    protocol: ProtocolName = "paper"
    augmentation: Augmentation = PAPER
    self_episodes: float = 0.0
    self_augmentation: Augmentation = STRONG
    absent: float = 0.0
    sizes: tuple[int, ...] = ()
    cache_size: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("iterations", "episodes", "accumulate"):
            _require(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("rate", "foreground"):
            _require(self, name, 0 < getattr(self, name) < math.inf, "above 0")
        for name in ("encoder_rate", "projection_rate", "weight_decay", "clip", "overlap"):
            _require(self, name, 0 <= getattr(self, name) < math.inf, "0 or more")
        for name in ("decay_at", "decay_factor", "warmup", "self_episodes", "absent"):
            _require(self, name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        _require(self, "balance", self.balance is None or 0 <= self.balance <= 1, "between 0 and 1, or null")
        _require(self, "protocol", self.protocol in ("paper", "reference"), "paper or reference")
        _require(self, "average", 0 <= self.average < 1, "0, or a decay below 1")
        _require(self, "schedule", self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}")
        _require(self, "projection", self.projection in PROJECTIONS, f"one of {', '.join(PROJECTIONS)}")
        _require(self, "precision", self.precision in PRECISIONS, f"one of {', '.join(PRECISIONS)}")
        _require(self, "shots", bool(self.shots) and min(self.shots) >= 1, "one or more whole numbers from 1 up")
        _require(self, "episodes", self.episodes % self.accumulate == 0, f"a multiple of accumulate, {self.accumulate}")
        steps = all(size >= 32 and size % 32 == 0 for size in self.sizes)
        _require(self, "sizes", steps, "multiples of 32, or nothing")
        least = self.network.size
        _require(
            self, "cache_size", self.cache_size == 0 or self.cache_size >= least, f"0, or {least} (the size) or more"
        )

    @property
    def stored_size(self) -> int:
        """Side at which photographs are stored."""
        return self.cache_size or self.network.size

    @property
    def plain_views(self) -> bool:
        """Whether all views of the side `stored_size` are whole photographs or their mirror images, as they are
        stored."""
        drawn = (self.augmentation, self.self_augmentation) if self.self_episodes else (self.augmentation,)
        return all(augmentation.plain for augmentation in drawn)

    @property
    def shapes(self) -> int:
        """How many different shapes a step may have."""
        return len(set(self.shots)) * max(1, len(set(self.sizes)))

    @property
    def principal(self) -> bool:
        """Whether projections start as principal components."""
        given = bool(self.encoder_weights) or self.network.encoder.startswith("hf:")
        return not self.start_from and (self.projection == "principal" or (self.projection == "auto" and given))

    def to_json(self) -> str:
        """The configuration as JSON text, one field a line."""
        return json.dumps(plain(self), indent=1)

    @staticmethod
    def from_json(text: str) -> TrainConfig:
        """The configuration that `to_json` wrote; an unknown field is an error, a missing one has its default."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise Error(f"The training configuration is not JSON ({error}): give what `to_json` wrote.") from error
        return _build(TrainConfig(), fields, "")


def recipe(name: str, dataset: str = "pascal") -> TrainConfig:
    """The recipe of that name for a dataset, without sources.

    "paper": as the paper says. "reference": as the authors' program does. "strong": ours, for classes never seen.
    """
    coco = dataset in FROM_COCO
    base = TrainConfig(
        network=PRESETS["paper"].but(size=512 if coco else 384),
        iterations=40_000 if coco else 20_000,
        decay_at=0.75 if coco else 0.5,
    )
    recipes = {
        "paper": base,
        "reference": dataclasses.replace(
            base,
            network=PRESETS["reference"].but(size=base.network.size),
            decay_at=0.775 if coco else 0.55,  # 9,000 steps remain
            protocol="reference",
        ),
        "strong": dataclasses.replace(  # what the models that ship were trained by: docs/results/default-model.md
            base,
            network=base.network.but(similarity=True),
            projection="principal",
            shots=(1, 1, 1, 3, 5),
            rate=1.5e-4,
            encoder_rate=5e-6,
            projection_rate=1e-5,
            schedule="cosine",
            decay_factor=0.01,
            warmup=0.03,
            foreground=2.0,
            overlap=0.5,
            self_episodes=0.2,
            sizes=tuple(32 * round(base.network.size * share / 32) for share in STRONG_SIZES),
            balance=0.5,
        ),
    }
    if name not in recipes:
        raise Error(f"The recipe {name!r} is unknown: choose one of {', '.join(recipes)}.")
    return recipes[name]


def with_settings(config: TrainConfig, settings: Sequence[str]) -> TrainConfig:
    """The configuration with `field=value` settings applied: `rate=1e-4`, `shots=[1,5]`, `network.kernel=linear`."""
    fields = plain(config)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise Error(f"The setting {setting!r} has no value: write field=value, for example rate=1e-4.")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        *parents, last = path.strip().split(".")
        place: Any = fields
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise Error(f"The setting {setting!r} names no field: {_guess('.'.join(parents), fields)}.")
        place[last] = value
    return _build(config, fields, "")


def plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def _build(default: T, fields: Any, where: str) -> T:
    """A dataclass like `default` with these JSON fields, each of the type that the default's value has."""
    if not isinstance(fields, Mapping):
        raise Error(f"{where or 'The training configuration'} is a JSON object of fields, not {fields!r}.")
    known: dict[str, Any] = {f.name: getattr(default, f.name) for f in dataclasses.fields(default)}  # type: ignore[arg-type]
    prefix = f"{where}." if where else ""
    for name in fields:
        if name not in known:
            raise Error(f"A training configuration has no field {prefix}{name}: {_guess(name, known)}.")
    return type(default)(**{name: _fit(prefix + name, value, known[name]) for name, value in fields.items()})


def _fit(name: str, value: Any, like: Any) -> Any:
    """`value` as the type of `like`, or an Error that names the field."""
    if name == "sources":
        return tuple(_build(Source(""), item, f"sources[{i}]") for i, item in enumerate(_items(value)))
    if dataclasses.is_dataclass(like):
        return _build(like, value, name)
    if isinstance(like, tuple):
        element = like[0] if like else _ELEMENTS.get(name.rpartition(".")[2], "")
        return tuple(_fit(name, item, element) for item in _items(value))
    if (last := name.rpartition(".")[2]) in _OR_NULL:
        if value is None:
            return None
        like = _OR_NULL[last]
    if isinstance(like, Mapping) and isinstance(value, Mapping):
        return dict(value)
    if isinstance(like, float) and type(value) in (int, float):
        return float(value)
    if type(value) is type(like):
        return value
    kinds = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    expected = kinds.get(type(like), "an object of fields")
    raise Error(f"The training setting {name} is {value!r} and should be {expected}.")


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _guess(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"perhaps {close[0]} is meant" if close else f"there are {', '.join(known)}"


def _require(config: TrainConfig, name: str, holds: bool, what: str) -> None:
    if not holds:
        raise Error(f"The training setting {name} is {getattr(config, name)!r} and should be {what}.")

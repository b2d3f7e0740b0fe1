"""What is told of a photograph in numbers. A new figure is a field here: summary, record and report follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from dgpnet.segmenter.calibration import PRESENT


def told(means: str, *, each: str | None = None, **options: Any) -> Any:
    """A figure and what it means, for the report's legend. each: what it is called where there is one a class ·
    options: of dataclasses' fields."""
    return field(metadata={"means": means, "each": each}, **options)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is told of a photograph. Tuples have a number for each class; they are empty where nothing was counted.

    A mask that a person painted or edited is taken to be right: its scores and likeness are 1.
    """

    width: int = told("Width of the photograph in pixels.")
    height: int = told("Height of the photograph in pixels.")
    painted: bool = told("You painted this photograph: its mask is the one that you painted.")
    edited: bool = told("You edited this mask among the results: it is kept as you left it.")
    white: bool = told("You saved this mask white on black: white is taken for the class.", default=False, kw_only=True)
    score: float = told("Expected IoU of the mask with the truth, 0 to 1: look at low ones first.")
    likeness: float = told(
        "How much what was found looks like what was painted, 0 to 1; a low one may be something else. "
        "1 where nothing was found."
    )
    presence: float = told("Probability that any of it is in the photograph, 0 to 1; 1 where the model cannot tell.")
    uncertainty: float = told("Share of pixels that is expected to have a wrong label.")
    novelty: float = told("How far the photograph is from all that was painted, 0 to 1.")
    areas: tuple[int, ...] = told("Pixels of the class.", each="area")
    shares: tuple[float, ...] = told("Share of the photograph that the class has, 0 to 1.", each="share")
    counts: tuple[int, ...] = told("Connected parts of the class, those under --min-area left out.", each="count")
    scores: tuple[float, ...] = told("The score of the class by itself.", each="score")
    likenesses: tuple[float, ...] = told(
        "The likeness of the class by itself; 1 where it was not found.", each="likeness"
    )
    presences: tuple[float, ...] = told(
        "Probability that the class is in the photograph; under one half it is left out.", each="presence"
    )
    seconds: float = told("Time that the photograph took, reading and writing included.")

    @staticmethod
    def of(record: Mapping[str, Any]) -> Figures:
        """The figures of a record, in which tuples are lists."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in record.items()}
        return Figures(**values)

    @property
    def by_hand(self) -> bool:
        """Whether a person made the mask."""
        return self.painted or self.edited

    @property
    def left_out(self) -> bool:
        """Whether a class was found and is probably not there."""
        found = (likeness < 1 for likeness in self.likenesses)  # 1 where nothing was
        return any(some and there < PRESENT for some, there in zip(found, self.presences, strict=True))

    def less_like(self, least: float) -> bool:
        """Whether a class was found that is less like what was painted."""
        return any(likeness < min(1.0, least) for likeness in self.likenesses)

    def nested(self, classes: Sequence[str]) -> dict[str, Any]:
        """Name -> value, and of figures with one for each class -> class -> value."""
        return {
            name: dict(zip(classes, value, strict=True)) if isinstance(value, tuple) else value
            for name, value in self._values()
            if value != ()
        }

    def flat(self, classes: Sequence[str]) -> dict[str, Any]:
        """Column -> value, with a column for each class ("area mug")."""
        row: dict[str, Any] = {}
        for name, value in self._values():
            if isinstance(value, tuple):
                row |= {f"{EACH[name]} {of}": one for of, one in zip(classes, value, strict=True)} if value else {}
            else:
                row[name] = value
        return row

    def values(self) -> list[Any]:
        """The values in the order of the fields."""
        return [value for _, value in self._values()]

    def _values(self) -> Iterator[tuple[str, Any]]:
        return ((one.name, _rounded(getattr(self, one.name))) for one in FIELDS)


FIELDS: tuple[Field[Any], ...] = fields(Figures)
#: What figures that have one for each class are called of one class.
EACH = {one.name: one.metadata["each"] for one in FIELDS if one.metadata["each"]}


def totals(figures: Iterable[Figures], classes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of each class: photographs that show it, its pixels and its share of all pixels, its parts where counted."""
    pixels, counted = 0, False
    shown, areas, counts = ([0] * len(classes) for _ in range(3))
    for one in figures:
        pixels += one.width * one.height
        counted |= bool(one.counts)
        for c, area in enumerate(one.areas):
            shown[c] += area > 0
            areas[c] += area
        for c, count in enumerate(one.counts):
            counts[c] += count
    found: dict[str, dict[str, Any]] = {}
    for c, name in enumerate(classes):
        found[name] = {"photographs": shown[c], "area": areas[c], "share": _rounded(areas[c] / max(1, pixels))}
        if counted:
            found[name]["count"] = counts[c]
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_rounded(one) for one in value)
    return round(value, 5) if isinstance(value, float) else value

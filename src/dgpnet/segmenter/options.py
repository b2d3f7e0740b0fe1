"""What a folder job is asked for, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from dgpnet.annotations import FORMATS
from dgpnet.errors import Error, shortened
from dgpnet.images import MAX_PIXELS
from dgpnet.segmenter.concept import check_threshold


def _afterwards(default: Any) -> Any:
    """An option that only files of all photographs together depend on."""
    return field(default=default, metadata={"afterwards": True})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


#: What options of each type are, in words, and how to tell.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": ("a number", _is_number),
    "float | None": ("a number or None", lambda value: value is None or _is_number(value)),
    "str": ("text", lambda value: isinstance(value, str)),
    "tuple[str, ...]": (
        "a list of names",
        lambda value: isinstance(value, list | tuple) and all(isinstance(one, str) for one in value),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a job writes and how; results of different options never share a folder.

    overlay       photographs with their masks drawn in
    uncertainty   8-bit PNGs, 255 where the label is surely wrong
    instances     connected parts of a class told apart and counted: 16-bit PNGs, and one object each in `formats`
    min_area      pixels that a part needs to be counted, numbered, or written in `formats`
    threshold     probability that a class needs; None: the most probable label wins
    tile          overlapping tiles for photographs larger than the network's size
    min_likeness  a class that is less like what was painted is taken out of a photograph's mask; all else that is said
                  of the photograph stays that of what was found
    max_pixels    photographs with more are refused before they are decoded
    formats       names of `annotations.FORMATS` to write besides the masks
    polygons      outlines in place of pixel masks, in formats that have both
    simplify      pixels that an outline may be off, for fewer points
    prefix        what photographs' names begin with where a format links to them (Label Studio)
    """

    overlay: bool = False
    uncertainty: bool = False
    instances: bool = False
    min_area: int = 0
    threshold: float | None = None
    tile: bool = False
    min_likeness: float = 0.0
    max_pixels: int = MAX_PIXELS
    formats: tuple[str, ...] = _afterwards(())
    polygons: bool = _afterwards(False)
    simplify: float = _afterwards(0.0)
    prefix: str = _afterwards("")

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """Options by their names; an Error for a name that is none."""
        known = [one.name for one in fields(Options)]
        strange = [name for name in given if name not in known]
        if strange:
            raise Error(f"There is no option {strange[0][:60]}; there are {', '.join(known)}.")
        formats = given.get("formats", ())
        return Options(**{**given, "formats": formats if isinstance(formats, str) else tuple(dict.fromkeys(formats))})

    def __post_init__(self) -> None:
        for one in fields(self):
            value, (what, fits) = getattr(self, one.name), KINDS[str(one.type)]
            if not fits(value):
                raise Error(f"{one.name.replace('_', '-')} is {what}; given {shortened(repr(value), 60)}.")
        check_threshold(self.threshold)
        if not 0 <= self.min_likeness <= 1:
            raise Error(f"min-likeness lies between 0 and 1; given {self.min_likeness}.")
        if self.max_pixels < 1:
            raise Error(f"max-pixels is a number of pixels, at least 1; given {self.max_pixels}.")
        if self.min_area < 0:
            raise Error(f"min-area is a number of pixels, at least 0; given {self.min_area}.")
        if not (math.isfinite(self.simplify) and self.simplify >= 0):
            raise Error(f"simplify is a number of pixels, at least 0; given {self.simplify}.")
        for name in self.formats:
            if name not in FORMATS:
                raise Error(f"There is no format {name[:60]!r}; formats are {', '.join(FORMATS)}.")

    def shaping(self) -> dict[str, Any]:
        """What the files of a photograph depend on; the limit of pixels changes none that is there."""
        return {name: value for name, value in self._told(afterwards=False).items() if name != "max_pixels"}

    def afterwards(self) -> dict[str, Any]:
        """What only files of all photographs depend on."""
        return self._told(afterwards=True)

    def _told(self, *, afterwards: bool) -> dict[str, Any]:
        values = asdict(self)
        return {
            one.name: values[one.name] for one in fields(self) if one.metadata.get("afterwards", False) == afterwards
        }

"""What a folder job is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from dgpnet import checks
from dgpnet.annotations import FORMATS, MOST_SIMPLIFIED
from dgpnet.checks import shown
from dgpnet.errors import Error
from dgpnet.images import MAX_PIXELS
from dgpnet.segmenter.concept import check_threshold


def _afterwards(default: Any) -> Any:
    """An option that only files of all photographs together depend on."""
    return field(default=default, metadata={"afterwards": True})


def _formats(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise Error(f"{name} is a list of names; given {shown(value)}.")
    return tuple(dict.fromkeys(checks.choice("format", one, FORMATS) for one in value))


#: How each option that is not True or False is checked.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "min_area": lambda name, value: checks.whole(name, value, 0, _LARGEST),
    "threshold": lambda name, value: check_threshold(value),
    "min_likeness": lambda name, value: checks.number(name, value, 0, 1),
    "max_pixels": lambda name, value: checks.whole(name, value, 1, _LARGEST),
    "formats": _formats,
    "simplify": lambda name, value: checks.number(name, value, 0, MOST_SIMPLIFIED),
    "prefix": lambda name, value: checks.kind(name, value, str),
}
#: Pixels that nothing has.
_LARGEST = 10**15


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
    keep_all      leave nothing out for being probably not there (`Segmentation.class_presence` below one half)
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
    keep_all: bool = False
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
        return Options(**given)

    def __post_init__(self) -> None:
        for one in fields(self):
            check = _CHECKS.get(one.name, checks.flag)
            value = check(one.name.replace("_", "-"), getattr(self, one.name))
            object.__setattr__(self, one.name, value)  # NumPy's numbers as Python's, which JSON can hold

    @property
    def plain(self) -> bool:
        """Whether masks are what the likeliest label says, and nothing else of the network's answer is written."""
        return not (self.uncertainty or self.tile or self.threshold is not None or self.min_likeness or self.keep_all)

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

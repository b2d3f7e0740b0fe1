"""What classes are called, and what stands for them in a mask: kept from what was painted to what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgpnet.colours import Colour, class_colour, from_hex, to_hex
from dgpnet.errors import Error

#: What the file is called that tells numbers and colours, beside annotations that have no place for them.
LEGEND_FILE = "legend.json"
#: The largest number that a mask file can hold (16 bits).
LARGEST = 0xFFFF


@dataclass(frozen=True)
class Legend:
    """C classes in the order of the numbers 1 … C that the program computes with.

    names      C names
    values     C different numbers 1 … 65535: what a mask file has for each class. In a format that numbers its classes
               they are its numbers (COCO's category ids; YOLO's, which begin with 0, plus 1)
    colours    C of (red, green, blue), 0 … 255: what each class is drawn in
    coded_by   "value", or "colour": masks that tell classes by their colours, in which values are palette entries
    unused     (value, name) of classes that the files name and that were not learned
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    colours: tuple[Colour, ...]
    coded_by: str = "value"
    unused: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.names or not len(self.names) == len(self.values) == len(self.colours):
            raise Error("A legend needs at least one class, and a name, a value and a colour for each.")
        for what, given in (("name", self.names), ("value", self.values)):
            if len(set(given)) < len(given):
                raise Error(f"A legend has each {what} once; given {', '.join(map(str, given[:20]))}.")
        if not all(1 <= value <= LARGEST for value in self.values):
            raise Error(f"A mask file has values 1 … {LARGEST} for classes; given {self.values[:20]}.")
        if not all(len(colour) == 3 and all(0 <= part <= 255 for part in colour) for colour in self.colours):
            raise Error(f"A colour is (red, green, blue), each 0 … 255; given {self.colours[:20]}.")
        if self.coded_by not in ("value", "colour"):
            raise Error(f"Masks are coded by value or by colour; given {self.coded_by!r}.")

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[int] | None = None) -> Legend:
        """Classes with the values 1 … C, or those given, in the palette's colours."""
        values = tuple(range(1, len(names) + 1)) if values is None else tuple(values)
        colours = tuple(map(class_colour, values))
        return cls(tuple(names), values, colours)

    def applied(self, mask: NDArray[np.uint8]) -> NDArray[Any]:
        """mask: (H, W) uint8 of 0, 1 … C and 255 (ignore) -> the same in the file's values, uint8, or uint16 where
        they need 16 bits; ignore is then 65535."""
        deep = max(self.values) > 0xFF
        table = np.zeros(256, np.uint16 if deep else np.uint8)
        table[1 : len(self.values) + 1] = self.values
        table[0xFF] = LARGEST if deep else 0xFF
        found: NDArray[Any] = table[mask]
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return {
            "names": list(self.names),
            "values": list(self.values),
            "colours": [to_hex(colour) for colour in self.colours],
            "coded_by": self.coded_by,
            "unused": [list(pair) for pair in self.unused],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Legend:
        """What `to_json` gave; anything else is an Error."""
        try:
            colours = tuple(from_hex(text) for text in fields["colours"])
            return cls(
                tuple(str(name) for name in fields["names"]),
                tuple(int(value) for value in fields["values"]),
                colours,  # type: ignore[arg-type]  # checked by __post_init__
                fields["coded_by"],
                tuple((int(value), str(name)) for value, name in fields["unused"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, Error):
                raise
            raise Error(
                f"The legend of classes cannot be read ({error!r:.100}); write it again, or remove it."
            ) from error

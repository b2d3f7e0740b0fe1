"""A sheet to draw plots on, and axes that place values on it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from dgpnet.colours import Colour
from dgpnet.errors import Error

Anchor = Literal["la", "ma", "lm", "rm", "ms"]

INK, FAINT_INK, RULE, PAPER = (36, 41, 47), (101, 109, 118), (229, 232, 236), (255, 255, 255)
_DRAWN, _SHOWN = 4, 2  # pixels per nominal unit while drawing, and in the result
_SPELLED = str.maketrans(
    {"–": "-", "—": "-", "−": "-", "×": "x", "→": "->", "σ": "sigma", "ℓ": "l", "≥": ">=", "≤": "<="}
)


class Canvas:
    """A sheet measured in nominal units; everything is drawn `_DRAWN` times larger and reduced at the end."""

    def __init__(self, size: tuple[float, float]) -> None:
        self.width, self.height = size
        self._image = Image.new("RGB", (round(size[0] * _DRAWN), round(size[1] * _DRAWN)), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def line(
        self, points: Sequence[tuple[float, float]], colour: Colour, width: float = 1.0, dashed: bool = False
    ) -> None:
        """A polyline with round joints; dashes run on over the corners."""
        for piece in _dashes(points, 5.0, 3.5) if dashed else [list(points)]:
            scaled = [(x * _DRAWN, y * _DRAWN) for x, y in piece]
            self._draw.line(scaled, fill=colour, width=max(1, round(width * _DRAWN)), joint="curve")

    def dot(self, x: float, y: float, radius: float, colour: Colour) -> None:
        box = [(v + d) * _DRAWN for d in (-radius, radius) for v in (x, y)]
        self._draw.ellipse(box, fill=colour, outline=PAPER, width=round(0.8 * _DRAWN))

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: Colour, radius: float = 0.0) -> None:
        corners = [round(v * _DRAWN) for v in (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))]
        self._draw.rounded_rectangle(corners, radius * _DRAWN, fill=colour)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        anchor: Anchor = "la",
        colour: Colour = INK,
        bold: bool = False,
    ) -> None:
        self._draw.text(
            (x * _DRAWN, y * _DRAWN),
            spell(text),
            colour,
            font(size * _DRAWN),
            anchor=anchor,
            stroke_width=0.022 * size * _DRAWN if bold else 0,
            stroke_fill=colour,
        )

    def upright_text(self, x: float, y: float, text: str, size: float, colour: Colour = FAINT_INK) -> None:
        """Text turned by 90°, centred at (x, y)."""
        lettering = font(size * _DRAWN)
        strip = Image.new("L", (int(lettering.getlength(spell(text))) + 8, round(1.6 * size * _DRAWN)))
        ImageDraw.Draw(strip).text((4, strip.height / 2), spell(text), 255, lettering, anchor="lm")
        turned = strip.transpose(Image.Transpose.ROTATE_90)
        place = (round(x * _DRAWN - turned.width / 2), round(y * _DRAWN - turned.height / 2))
        self._image.paste(Image.new("RGB", turned.size, colour), place, turned)

    def finish(self) -> Image.Image:
        return self._image.reduce(_DRAWN // _SHOWN)


@dataclass(frozen=True)
class Axis:
    """One direction of a plot: maps values between `low` and `high` to the stretch from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 7) -> list[float]:
        """Round values in the range: steps of 1, 2 or 5; powers of ten (with 2 and 5 where few) on a log axis."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1, 2, 5), (1,)):
                found = [d * 10.0**p for p in powers for d in digits if self.low <= d * 10.0**p <= self.high * 1.0001]
                if len(found) <= most:
                    break
            return found
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def axis_over(values: Sequence[float], start: float, end: float, log: bool, pad: bool) -> Axis:
    """An axis over all values; `pad` leaves a little air, without crossing zero."""
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite), max(finite)
    if log:
        if low <= 0:
            raise Error(f"A logarithmic axis cannot show {low:g}: give positive values or a linear axis.")
        low, high = (low, high) if high > low else (low / 2, high * 2)
        return Axis(low / 1.2, high * 1.2, start, end, True) if pad else Axis(low, high, start, end, True)
    room = (high - low) * 0.08 if high > low else abs(high) or 1.0
    if not pad and high > low:
        room = 0.0
    bottom = 0.0 if 0 <= low < room else low - room
    top = 0.0 if low < high <= 0 < high + room else high + room
    return Axis(bottom, top, start, end)


def _dashes(points: Sequence[tuple[float, float]], on: float, off: float) -> list[list[tuple[float, float]]]:
    """Cuts a polyline into dashes of length `on` with gaps of length `off`."""
    pieces: list[list[tuple[float, float]]] = []
    travelled = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        length = math.hypot(x1 - x0, y1 - y0)
        start = -(travelled % (on + off))
        while start < length:
            a, b = max(start, 0.0), min(start + on, length)
            if b > a:
                pieces.append([(x0 + t / length * (x1 - x0), y0 + t / length * (y1 - y0)) for t in (a, b)])
            start += on + off
        travelled += length
    return pieces


def number(value: float) -> str:
    """The shortest plain way to write a tick."""
    return f"{value:.6g}" if 1e-4 <= abs(value) < 1e6 or value == 0 else f"{value:.0e}"


def font(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font


def spell(text: str) -> str:
    """The text in the characters that Pillow's own font has: ASCII and a few more."""
    plain = unicodedata.normalize("NFKD", text.translate(_SPELLED))
    return "".join(c if c.isascii() or c in "±·°…" else "?" for c in plain if not unicodedata.combining(c))

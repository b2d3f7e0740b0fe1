"""Line, bar and reliability plots, drawn with Pillow alone.

Sizes are nominal (width, height): the picture has twice as many pixels, and lines are smooth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dgpnet.colours import Colour
from dgpnet.errors import Error
from dgpnet.pictures.canvas import FAINT_INK, INK, RULE, Axis, Canvas, axis_over, font, number, spell
from dgpnet.pictures.photographs import Picture

#: Distinct for colour-blind readers and in grey, in the order in which series are drawn.
COLOURS: tuple[Colour, ...] = (
    (0, 94, 168),
    (213, 84, 0),
    (0, 142, 105),
    (170, 60, 130),
    (222, 156, 0),
    (86, 170, 220),
    (110, 110, 118),
    (120, 74, 42),
)


@dataclass(frozen=True)
class Series:
    """One line or one colour of bars. `error` is the half length of the error bar of each point."""

    label: str
    y: Sequence[float]
    x: Sequence[float] = ()
    error: Sequence[float] | None = None
    dashed: bool = False
    emphasis: bool = False
    """Drawn heavier than the others: ours."""


def line_plot(
    series: Sequence[Series],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    size: tuple[int, int] = (640, 420),
    x_ticks: Sequence[float] | None = None,
    y_range: tuple[float, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> Picture:
    """Lines with dots and error bars, a legend above them, axes that can be logarithmic. size: nominal (w, h)."""
    points = [(x, y) for s in series for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
    if not points:
        raise Error("A plot needs at least one finite point: give a series with x and y.")
    canvas, left, top, right, bottom = _sheet(series, title, x_label, y_label, size)
    x_axis = axis_over([x for x, _ in points], left + 14, right - 14, log_x, pad=False)
    ends = [y for _, y in points] if log_y else [v for s in series for v in _ends(s)]
    reach = ends if y_range is None else list(y_range)
    y_axis = axis_over(reach, bottom, top, log_y, pad=y_range is None)
    _rules(canvas, y_axis, left, right)
    for value in x_ticks if x_ticks is not None else x_axis.ticks():
        canvas.line([(x_axis(value), bottom), (x_axis(value), bottom + 4)], FAINT_INK)
        canvas.text(x_axis(value), bottom + 8, number(value), 11, "ma", FAINT_INK)
    canvas.line([(left, bottom), (right, bottom)], FAINT_INK)
    for i in sorted(range(len(series)), key=lambda i: series[i].emphasis):
        one, colour = series[i], COLOURS[i % len(COLOURS)]
        drawn = [(x_axis(x), y_axis(y)) for x, y in zip(one.x, one.y, strict=True) if math.isfinite(y)]
        canvas.line(drawn, colour, 2.6 if one.emphasis else 1.6, one.dashed)
        errors = one.error if one.error is not None else [math.nan] * len(one.x)
        for x, y, error in zip(one.x, one.y, errors, strict=True):
            if math.isfinite(error) and math.isfinite(y):
                _error_bar(canvas, x_axis(x), y_axis(max(y - error, y_axis.low)), y_axis(y + error), colour)
        for x, y in drawn if len(drawn) <= 40 else []:
            canvas.dot(x, y, 4.0 if one.emphasis else 3.2, colour)
    return canvas.finish()


def bar_plot(
    groups: Sequence[str],
    series: Sequence[Series],
    *,
    title: str = "",
    y_label: str = "",
    size: tuple[int, int] = (640, 420),
    y_range: tuple[float, float] | None = None,
) -> Picture:
    """Groups of bars, one bar a series in each, with error bars and their values on top."""
    if not groups or not series or any(len(s.y) != len(groups) for s in series):
        raise Error(
            f"bars for {len(groups)} groups need as many values in each series"
            f" ({', '.join(str(len(s.y)) for s in series)} given)."
        )
    legend = series if len(series) > 1 else ()
    canvas, left, top, right, bottom = _sheet(legend, title, "", y_label, size)
    values = [v for s in series for v in _ends(s)]
    y_axis = axis_over([0.0, *values] if y_range is None else list(y_range), bottom, top, False, pad=y_range is None)
    base = y_axis(max(y_axis.low, min(0.0, y_axis.high)))
    _rules(canvas, y_axis, left, right)
    decimals = 1 if y_axis.high >= 10 else 3
    pitch = (right - left) / len(groups)
    width = min(0.74 * pitch / len(series), 46)
    for g, name in enumerate(groups):
        middle = left + (g + 0.5) * pitch
        canvas.text(middle, bottom + 8, name, 11, "ma")
        for i, one in enumerate(series):
            x, y = middle + (i - len(series) / 2) * width, one.y[g]
            if not math.isfinite(y):
                continue
            canvas.box(x + 1, base, x + width - 1, y_axis(y), COLOURS[i % len(COLOURS)], 1.5)
            error = one.error[g] if one.error is not None and math.isfinite(one.error[g]) else 0.0
            if error:
                _error_bar(canvas, x + width / 2, y_axis(y - error), y_axis(y + error), INK)
            if width >= 18:
                canvas.text(x + width / 2, y_axis(max(y + error, 0.0)) - 4, f"{y:.{decimals}f}", 10, "ms", FAINT_INK)
    canvas.line([(left, base), (right, base)], FAINT_INK)
    return canvas.finish()


def reliability_plot(
    predicted: Sequence[float], observed: Sequence[float], share: Sequence[float], *, title: str = "", note: str = ""
) -> Picture:
    """How often pixels were wrong against how often they were predicted to be; the diagonal is perfect.

    predicted, observed, share: (N,) in [0, 1], one entry a bin; `share` of all pixels, drawn as the dots' size.
    """
    canvas, left, top, right, bottom = _sheet(
        (), title, "predicted probability of an error", "observed error rate", (460, 460)
    )
    x_axis, y_axis = Axis(0.0, 1.0, left, right), Axis(0.0, 1.0, bottom, top)
    _rules(canvas, y_axis, left, right, most=5)
    for value in x_axis.ticks(5):
        canvas.text(x_axis(value), bottom + 8, number(value), 11, "ma", FAINT_INK)
    canvas.line([(left, bottom), (right, bottom)], FAINT_INK)
    canvas.line([(x_axis(0), y_axis(0)), (x_axis(1), y_axis(1))], FAINT_INK, 1.2, dashed=True)
    for p, o in zip(predicted, observed, strict=True):
        canvas.line([(x_axis(p), y_axis(p)), (x_axis(p), y_axis(o))], COLOURS[1], 1.4)
    canvas.line([(x_axis(p), y_axis(o)) for p, o in zip(predicted, observed, strict=True)], COLOURS[0], 1.8)
    for p, o, s in zip(predicted, observed, share, strict=True):
        canvas.dot(x_axis(p), y_axis(o), 3.0 + 8.0 * math.sqrt(s), COLOURS[0])
    if note:
        for i, text in enumerate(note.splitlines()):
            canvas.text(left + 14, top + 8 + 17 * i, text, 12, "la", FAINT_INK)
    return canvas.finish()


def _sheet(
    series: Iterable[Series], title: str, x_label: str, y_label: str, size: tuple[int, int]
) -> tuple[Canvas, float, float, float, float]:
    """An empty sheet with title, legend and axis labels, and the borders of what remains: left, top, right, bottom."""
    canvas = Canvas(size)
    left, top, right, bottom = 66.0, 18.0, size[0] - 20.0, size[1] - (54.0 if x_label else 36.0)
    if title:
        canvas.text(left - 46, top, title, 16, "la", bold=True)
        top += 32
    x, shown = left - 46, False
    for i, one in enumerate(series):
        width = 24 + font(12).getlength(spell(one.label)) + 18
        if x + width > right + 18 and shown:
            x, top = left - 46, top + 19
        canvas.line([(x, top + 7), (x + 18, top + 7)], COLOURS[i % len(COLOURS)], 3.0, one.dashed)
        canvas.text(x + 24, top + 7, one.label, 12, "lm")
        x, shown = x + width, True
    top += 30 if shown else 8
    if x_label:
        canvas.text((left + right) / 2, size[1] - 26, x_label, 12, "ma", FAINT_INK)
    if y_label:
        canvas.upright_text(22, (top + bottom) / 2, y_label, 12)
    return canvas, left, top, right, bottom


def _ends(one: Series) -> list[float]:
    """The values that a series reaches, error bars included."""
    errors = np.nan_to_num(np.asarray(one.error if one.error is not None else np.zeros(len(one.y)), dtype=float))
    reach = np.concatenate([np.asarray(one.y, dtype=float) - errors, np.asarray(one.y, dtype=float) + errors])
    return [float(value) for value in reach[np.isfinite(reach)]]


def _rules(canvas: Canvas, axis: Axis, left: float, right: float, most: int = 7) -> None:
    """A faint rule across the plot at each tick of the upright axis, with its number."""
    for value in axis.ticks(most):
        canvas.line([(left, axis(value)), (right, axis(value))], RULE)
        canvas.text(left - 8, axis(value), number(value), 11, "rm", FAINT_INK)


def _error_bar(canvas: Canvas, x: float, y0: float, y1: float, colour: Colour) -> None:
    canvas.line([(x, y0), (x, y1)], colour, 1.2)
    for y in (y0, y1):
        canvas.line([(x - 3.5, y), (x + 3.5, y)], colour, 1.2)

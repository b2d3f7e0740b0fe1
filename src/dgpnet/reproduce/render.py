"""Tables with the paper's figure beside ours: Markdown to read, CSV and JSON to compute with, pictures to look at."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dgpnet import pictures
from dgpnet.files import atomic
from dgpnet.markdown import made_by, table_lines
from dgpnet.pictures import Picture, Series
from dgpnet.reproduce import cells
from dgpnet.reproduce.archive import Archive
from dgpnet.reproduce.cells import Checked, Value
from dgpnet.reproduce.paper import MEAN_DELTA, Figure
from dgpnet.reproduce.plan import Planner
from dgpnet.reproduce.scales import FOLDS, Scale, Setup
from dgpnet.reproduce.tables import Column, Grid, Row, Table

PAPER, OURS = "paper", "ours"
#: Columns of figures that a page still holds.
WIDEST = 10


@dataclass(frozen=True)
class Filled:
    """A table with what is known of it so far."""

    table: Table
    scale: Scale
    values: dict[str, tuple[Value | None, ...]]
    checks: tuple[Checked, ...]

    @property
    def begun(self) -> bool:
        """Whether at least one of our cells is known."""
        return any(value is not None for row in self.values.values() for value in row)


def filled(table: Table, planner: Planner, archive: Archive) -> Filled:
    """The table with our figures."""
    values = cells.fill(table, planner, archive)
    checks = (cells.check(ordering, values) for ordering in table.orderings)
    return Filled(table, planner.scale, values, tuple(check for check in checks if check is not None))


def write(one: Filled, folder: Path, command: str) -> list[Path]:
    """`<name>.md`, `.csv`, `.json` and pictures in `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    name = one.table.name
    drawn = {f"{name}-{key}.png": picture for key, picture in plots(one)}
    for file, picture in drawn.items():
        pictures.save(picture, folder / file)
    texts = {
        f"{name}.md": markdown(one, command, list(drawn)),
        f"{name}.csv": comma_separated(one),
        f"{name}.json": json.dumps(plain(one, command), indent=1, ensure_ascii=False) + "\n",
    }
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in (*texts, *drawn)]


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# -- Markdown --------------------------------------------------------------------------------------------------------


def markdown(one: Filled, command: str, drawn: Sequence[str] = ()) -> str:
    """The table for a reader: each of our rows under the paper's."""
    table = one.table
    lines = [f"## {table.title}", "", f"In the paper: {table.source}. {describe(one.scale, table.columns)}"]
    for places in _panels(table):
        columns = [table.columns[i].title for i in places] + ([MEAN_DELTA] if table.delta_from else [])
        rows = (cells for row in table.rows for cells in _lines(one, row, places))
        lines += ["", *table_lines(["Method", "from", *columns], rows)]
    if one.checks:
        lines += ["", "The paper's ordering in our figures:", ""]
        lines += [f"- {check}" for check in one.checks]
    if table.note:
        lines += ["", table.note]
    lines += [text for file in drawn for text in ("", f"![{table.title}]({file})")]
    lines += made_by(command)
    return "\n".join(lines)


def _panels(table: Table) -> list[range]:
    """Places of the columns that stand side by side: all, or those of one benchmark where all would be too wide."""
    if len(table.columns) <= WIDEST:
        return [range(len(table.columns))]
    ends = [i for i in range(1, len(table.columns)) if table.columns[i].benchmark != table.columns[i - 1].benchmark]
    return [range(first, last) for first, last in pairwise([0, *ends, len(table.columns)])]


def _lines(one: Filled, row: Row, places: Sequence[int]) -> Iterable[list[str]]:
    """The paper's line and ours, each where it has a figure in these columns."""
    table = one.table
    label = f"{row.label} {row.venue}".strip()
    with_delta = bool(table.delta_from)
    figures = [row.figures[i] for i in places]
    if any(figure is not None for figure in figures):
        yield [label, PAPER, *map(_show, figures), *([_show(row.delta)] if with_delta else [])]
    values = [one.values[row.label][i] for i in places] if row.label in one.values else []
    if any(value is not None for value in values):
        delta = cells.mean_delta(one.values, row.label, table.delta_from) if with_delta else None
        shown = [f"**{value}**" if value is not None else "–" for value in values]
        yield [label, f"**{OURS}**", *shown, *([_show_delta(delta)] if with_delta else [])]


def grid_markdown(grid: Grid, setup: Setup, command: str) -> str:
    """The page of a qualitative figure."""
    lines = [
        f"## {grid.title}",
        "",
        f"In the paper: {grid.source}. Ours: {setup.title}, fold {setup.folds[0]}; the first test episodes "
        "with different classes, not chosen by how well they came out.",
        "",
        f"![{grid.title}]({grid.name}.png)",
        *made_by(command),
    ]
    return "\n".join(lines)


def describe(scale: Scale, columns: Sequence[Column]) -> str:
    """What our figures were measured on, in a sentence a benchmark."""
    names = dict.fromkeys(column.benchmark for column in columns)
    present = [scale.setups[name] for name in names if name in scale.setups]
    absent = [name for name in names if name not in scale.setups]
    parts = [_sentence(scale, setup) for setup in present]
    if absent:
        parts.append(f"Not part of this scale: {', '.join(absent)}.")
    if scale.name != "full":
        parts.append("Less data and shorter training than the paper's: compare orderings, not figures.")
    return " ".join(parts)


def _sentence(scale: Scale, setup: Setup) -> str:
    named = ", ".join(_fold(setup, fold) for fold in setup.folds)
    folds = "all folds" if len(setup.folds) == len(FOLDS) else f"fold{'s' if len(setup.folds) > 1 else ''} {named}"
    shots = "1 shot, and at 5 for tests with more" if scale.five_shot_models else "1 shot"
    trainings = "" if scale.trainings == 1 else f"{scale.trainings} trainings of each network, "
    seeds = "one draw" if scale.seeds == 1 else f"{scale.seeds} draws"
    return (
        f"Ours: {setup.title}, {folds}, {setup.iterations:,} iterations at {shots}, "
        f"{trainings}{setup.episodes:,} episodes, {seeds} of them."
    )


def _fold(setup: Setup, fold: int) -> str:
    """Its number, and the tested classes where they are not all."""
    return f"{fold} ({', '.join(setup.classes[fold])})" if setup.classes else str(fold)


def _show(figure: Figure | None) -> str:
    return "–" if figure is None else str(figure)


def _show_delta(delta: float | None) -> str:
    return "–" if delta is None else f"**{delta:.1f}**"


# -- CSV and JSON ----------------------------------------------------------------------------------------------------


def comma_separated(one: Filled) -> str:
    """One line a figure: table, row, column, from, value, spread, half_interval, training_spread."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "row", "column", "from", "value", "spread", "half_interval", "training_spread"])
    for row in one.table.rows:
        values = one.values.get(row.label, (None,) * len(one.table.columns))
        for column, figure, value in zip(one.table.columns, row.figures, values, strict=True):
            place = [one.table.name, row.label, column.title]
            if figure is not None:
                writer.writerow([*place, PAPER, figure.value, _blank(figure.spread), "", ""])
            if value is not None:
                numbers = (value.mean, value.spread, value.half_interval, value.training_spread)
                writer.writerow([*place, OURS, *map(_blank, numbers)])
    return text.getvalue()


def _blank(number: float | None) -> float | str:
    return "" if number is None else round(number, 3)


def plain(one: Filled, command: str) -> dict[str, Any]:
    """The table as JSON values."""
    table = one.table
    rows = [
        {
            "label": row.label,
            "columns": [
                {
                    "column": column.title,
                    PAPER: None if figure is None else asdict(figure),
                    OURS: None if value is None else asdict(value),
                }
                for column, figure, value in zip(
                    table.columns, row.figures, one.values.get(row.label, (None,) * len(table.columns)), strict=True
                )
            ],
            "mean_delta": {
                PAPER: None if row.delta is None else row.delta.value,
                OURS: cells.mean_delta(one.values, row.label, table.delta_from) if table.delta_from else None,
            },
        }
        for row in table.rows
    ]
    return {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "scale": one.scale.name,
        "measured_on": describe(one.scale, table.columns),
        "command": command,
        "rows": rows,
        "orderings": [
            {**asdict(check), "noise": check.noise, "noise_of": check.noise_of, "holds": check.holds}
            for check in one.checks
        ],
    }


# -- pictures --------------------------------------------------------------------------------------------------------


def plots(one: Filled) -> Iterable[tuple[str, Picture]]:
    """A picture for each benchmark that the table tests: curves over shots, or bars for our rows."""
    for name in dict.fromkeys(column.benchmark for column in one.table.columns):
        places = [i for i, column in enumerate(one.table.columns) if column.benchmark == name]
        measured = any(values[i] is not None for values in one.values.values() for i in places)
        if one.table.plot:
            yield name, _curves(one, name, places)
        elif measured:
            yield name, _bars(one, places)


def _curves(one: Filled, benchmark: str, places: Sequence[int]) -> Picture:
    """mIoU against shots: the paper's figures, and ours where there are any."""
    shots = [one.table.columns[i].shots for i in places]
    series = []
    for row in one.table.rows:
        values = one.values.get(row.label)
        if values is not None:
            ours = [(k, values[i]) for k, i in zip(shots, places, strict=True)]
            known = [(k, value) for k, value in ours if value is not None]
            if known:
                title = one.scale.setups[benchmark].title
                errors = [value.spread or value.half_interval for _, value in known]
                means = [value.mean for _, value in known]
                series.append(Series(f"{row.label}, {title}", means, [k for k, _ in known], errors, emphasis=True))
        printed = [(k, row.figures[i]) for k, i in zip(shots, places, strict=True)]
        figures = [(k, figure) for k, figure in printed if figure is not None]
        if values is not None or row.label in CURVES:
            label = f"{row.label}, paper" if values is not None else row.label
            spreads = [figure.spread or 0.0 for _, figure in figures] if values is not None else None
            points = [figure.value for _, figure in figures]
            if figures:
                series.append(Series(label, points, [k for k, _ in figures], spreads, dashed=True))
    name = {"pascal": "PASCAL-5i", "coco": "COCO-20i"}[benchmark]
    return pictures.line_plot(
        series, title=f"mIoU on {name}", x_label="shots", y_label="mIoU (%)", size=(760, 520), x_ticks=shots
    )


#: Other methods that the plot shows; all of them would hide each other, and the table has them.
CURVES = frozenset(
    f"{name} (ResNet-{depth})" for name, depth in (("HSNet", 101), ("RePri", 50), ("DENet", 50), ("PPNet", 50))
)


def _bars(one: Filled, places: Sequence[int]) -> Picture:
    """Our rows as groups; for each column the paper's figure beside ours."""
    rows = [row for row in one.table.rows if any(one.values.get(row.label, ())[i : i + 1] for i in places)]
    rows = [row for row in rows if row.changes is not None]
    series = []
    for i in places:
        title = one.table.columns[i].title
        ours = [one.values[row.label][i] for row in rows]
        if all(value is None for value in ours):
            continue
        printed = [figure.value if (figure := row.figures[i]) is not None else float("nan") for row in rows]
        series.append(Series(f"{title}, paper", printed))
        means = [float("nan") if value is None else value.mean for value in ours]
        errors = [0.0 if value is None else value.spread or value.half_interval for value in ours]
        series.append(Series(f"{title}, ours", means, error=errors))
    width = max(640, 150 * len(rows) + 40 * len(series))
    return pictures.bar_plot(
        [row.label for row in rows], series, title=one.table.title, y_label="mIoU (%)", size=(width, 420)
    )

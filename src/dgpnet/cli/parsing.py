"""Words that several commands take, read in one way."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dgpnet.checks import shown
from dgpnet.errors import Error

#: The largest number that a list such as 1-10 may name, and how many it may come to.
MOST = 10_000

Root = Annotated[Path | None, typer.Option(metavar="DIR", help="The dataset's folder.", show_default=False)]
ClassNames = Annotated[
    str | None,
    typer.Option("--classes", metavar="A,B", help="Only these classes, by name or number.", show_default=False),
]
DatasetOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the dataset. Repeatable.", show_default=False),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")]
Cache = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for decoded photographs.", show_default=False)]


def numbers(option: str, text: str, *, least: int = 1) -> tuple[int, ...]:
    """Whole numbers and ranges as a person writes them: `1`, `1,5`, `1-10`, `1..10`, `1-3,5`; in order, repeats kept.

    Raises an Error that names the option for anything else, numbers under `least` or over `MOST` included.
    """
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})\s*(?:(?:-|\.\.)\s*(\d{1,9})\s*)?", part, re.ASCII)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not least <= first <= last <= MOST or len(found) + last - first >= MOST:
            raise Error(
                f"The option {option} takes numbers from {least} to {MOST:,}, like 1, 1,5 or 1-10; got {shown(text)}."
            )
        found += range(first, last + 1)
    return tuple(found)


def pairs(option: str, texts: Sequence[str] | None) -> dict[str, Any]:
    """`NAME=VALUE` each, where a value that is JSON is read as such, for a dataset's own options."""
    from inspect import signature

    from dgpnet.data import build

    settled = signature(build).parameters.keys() - {"options", "workers"}
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or len(name) > 40:
            raise Error(f"The option {option} takes NAME=VALUE; got {shown(text)}.")
        if name in settled:
            raise Error(f"The option {option} is for what is the dataset's own; use --{name} where the command has it.")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def names(option: str, text: str | None) -> tuple[str, ...] | None:
    """`A,B` as ("A", "B"); None where the option is not given."""
    if text is None:
        return None
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise Error(f"The option {option} takes names like cat,dog; got {shown(text)}.")
    return found

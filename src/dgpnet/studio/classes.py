"""The classes of a project: a value in masks, a name and a colour each, in files that every command reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dgpnet.annotations.legend import LEGEND_FILE, Legend
from dgpnet.annotations.reading import BACKGROUND_LABELS, IGNORE_LABEL, class_name, read_json
from dgpnet.colours import Colour, class_colour, from_hex
from dgpnet.errors import Error
from dgpnet.files import atomic
from dgpnet.segmenter.masks import classes_json
from dgpnet.segmenter.support import MAX_CLASSES


@dataclass(frozen=True)
class Class:
    """value: 1 … 254, what stands for it in masks · name · colour: red, green, blue."""

    value: int
    name: str
    colour: Colour


@dataclass(frozen=True)
class Classes:
    """The classes, by rising values. Immutable: a change gives others."""

    every: tuple[Class, ...] = ()

    @property
    def values(self) -> frozenset[int]:
        """What stands for classes in masks."""
        return frozenset(one.value for one in self.every)

    def get(self, value: int) -> Class | None:
        """The class of a value."""
        return next((one for one in self.every if one.value == value), None)

    def named(self, name: str) -> Class | None:
        """The class of a name."""
        return next((one for one in self.every if one.name == name), None)

    def with_new(self, name: str, colour: Colour | None = None, *, value: int | None = None) -> tuple[Classes, Class]:
        """One more, by default with the lowest value that is free and its colour; an Error where that cannot be."""
        free = next((one for one in (value or 0, *range(1, MAX_CLASSES + 1)) if one and one not in self.values), None)
        if free is None or free > MAX_CLASSES:
            raise Error(f"There are {MAX_CLASSES} classes, as many as a mask has room for; remove one first.")
        new = Class(free, self._check(name), colour or class_colour(free))
        return self._sorted([*self.every, new]), new

    def changed(self, value: int, name: str | None = None, colour: Colour | None = None) -> Classes:
        """With another name or colour for one."""
        return self._sorted(
            replace(
                one,
                name=one.name if name is None or name == one.name else self._check(name),
                colour=colour or one.colour,
            )
            if one.value == value
            else one
            for one in self.every
        )

    def without(self, value: int) -> Classes:
        """Without one."""
        return self._sorted(one for one in self.every if one.value != value)

    def legend(self, shown: Iterable[int]) -> Legend:
        """What masks that show these values are learned with; the other classes are told as unused."""
        wanted = set(shown)
        used = [one for one in self.every if one.value in wanted]
        unused = tuple((one.value, one.name) for one in self.every if one.value not in wanted)
        return Legend(
            tuple(one.name for one in used),
            tuple(one.value for one in used),
            tuple(one.colour for one in used),
            unused=unused,
        )

    def write(self, folder: Path) -> None:
        """classes.json, which `read_support` reads, and legend.json, which has the colours too; none of these where
        there is no class."""
        paths = [folder / "classes.json", folder / LEGEND_FILE]
        if not self.every:
            for path in paths:
                path.unlink(missing_ok=True)
            return
        legend = self.legend(self.values)
        for path, content in zip(paths, (classes_json(legend), legend.to_json()), strict=True):
            with atomic(path, sync=True) as temporary:
                temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> Classes:
        """What `write` wrote; names and values as somebody may have edited them in classes.json."""
        path = folder / "classes.json"
        if not path.is_file():
            return Classes()
        named, colours = read_json(path), {}
        if (folder / LEGEND_FILE).is_file():
            legend = Legend.from_json(read_json(folder / LEGEND_FILE))
            colours = dict(zip(legend.values, legend.colours, strict=True))
        found = Classes()
        for name, value in named.items() if isinstance(named, dict) else []:
            if type(value) is not int or not 1 <= value <= MAX_CLASSES or value in found.values:
                raise Error(f'{path} is no list of classes; write {{"mug": 1, "spoon": 2}}.')
            found, _ = found.with_new(name, colours.get(value), value=value)
        return found

    def _check(self, name: str) -> str:
        """The name; an Error where it is none, or another class has it."""
        name = class_name(name.strip(), "The class")
        if name in BACKGROUND_LABELS or name == IGNORE_LABEL:
            raise Error(f"{name!r} means what is no class; choose another name.")
        if self.named(name) is not None:
            raise Error(f"There is a class {name!r} already; choose another name.")
        return name

    @staticmethod
    def _sorted(several: Iterable[Class]) -> Classes:
        return Classes(tuple(sorted(several, key=lambda one: one.value)))


def colour_of(text: str) -> Colour:
    """The colour of "#rrggbb"; an Error for any other text."""
    colour = from_hex(text)
    if colour is None:
        raise Error("A colour is written as #rrggbb.")
    return colour

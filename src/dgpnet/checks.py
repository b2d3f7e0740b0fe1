"""What callers hand over, checked in one place.

Each function takes the name of a parameter and what was given for it, and returns that in the one type that is used
from there on, or raises an Error. NumPy's numbers count as numbers, and truth values do not.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import islice
from numbers import Integral, Real
from typing import Any, TypeVar

from dgpnet.errors import Error

Item = TypeVar("Item")

#: Characters of a text that an Error repeats.
SHOWN = 60
#: Bytes of the longest path that is taken for one, and of the longest name in it: no system opens longer ones.
LONGEST_PATH = 4095
LONGEST_NAME = 255


def shown(value: object) -> str:
    """What was given, in few characters: a text or a number as written, of anything else its type."""
    if value is not None and not isinstance(value, str | bool | Integral | float):
        return f"{type(value).__name__:.{SHOWN}}"
    writer = reprlib.Repr()
    writer.maxstring = writer.maxlong = writer.maxother = SHOWN
    try:
        return " ".join(writer.repr(value).split())
    except ValueError:  # Python does not write numbers of more than some thousand digits
        return "a number of thousands of digits"


def number(name: str, value: object, low: float, high: float, *, inside: bool = False) -> float:
    """A number from low to high; `inside`: neither of these two themselves."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            found = float(value)
            if low < found < high or (not inside and low <= found <= high):
                return found
    except OverflowError:
        pass
    between = "between" if inside else "from"
    to = "and" if inside else "to"
    raise Error(f"{name} is a number {between} {low:g} {to} {high:g}; given {shown(value)}.")


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """A whole number from low to high, or with no limit above."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        found = int(value)
        if low <= found and (high is None or found <= high):
            return found
    limits = f"at least {low}" if high is None else f"from {low} to {high}"
    raise Error(f"{name} is a whole number, {limits}; given {shown(value)}.")


def flag(name: str, value: object) -> bool:
    """True or False."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # NumPy's, of any version
        return bool(value)
    raise Error(f"{name} is True or False; given {shown(value)}.")


def choice(name: str, value: object, options: Collection[str]) -> str:
    """One of a few words."""
    if isinstance(value, str) and value in options:
        return str(value)
    *others, last = map(repr, options)
    listed = f"{', '.join(others)} or {last}" if others else last
    raise Error(f"{name} is {listed}; given {shown(value)}.")


def kind(name: str, value: object, expected: type[Item], article: str = "a") -> Item:
    """Something of one class."""
    if isinstance(value, expected):
        return value
    raise Error(f"{name} is {article} {expected.__name__}; given {shown(value)}.")


def function(name: str, value: object, of: str) -> Callable[..., Any] | None:
    """Something to call, or None. of: what it is called with, in words."""
    if value is None or callable(value):
        return value
    raise Error(f"{name} is a function of {of}; given {shown(value)}.")


def path_of(what: str, value: object) -> str:
    """The path of a file or a folder, as text that the system takes; whether there is one is not asked."""
    if not isinstance(value, str | os.PathLike):
        raise Error(f"The path of a {what} is a text or a pathlib.Path; given {shown(value)}.")
    try:
        path = os.fsdecode(value)
        written = os.fsencode(path)
    except Exception as problem:  # a path-like of somebody else's may raise anything
        raise Error(f"{shown(value)} is no path that this system can write; rename the {what}.") from problem
    if not path or "\0" in path:
        raise Error(f"{shown(path)} is no path of a {what}; give the name of a file.")
    longest = max(map(len, written.replace(b"\\", b"/").split(b"/")))
    if len(written) > LONGEST_PATH or longest > LONGEST_NAME:
        raise Error(f"The path of the {what} has {len(path):,} characters, {shown(path)}; check it.")
    return path


def names(name: str, values: Iterable[str], most: int) -> tuple[str, ...]:
    """At least one name and at most so many, each once."""
    found = tuple(islice(each(name, values), most + 1))
    if not found or not all(isinstance(one, str) for one in found) or len(set(found)) < len(found):
        listed = ", ".join(map(shown, found[:4])) + " …" * (len(found) > 4)
        raise Error(f"{name} is a list of names, at least one and each name once; given {listed or 'none'}.")
    if len(found) > most:
        raise Error(f"{name} is a list of at most {most} names; given more.")
    return found


def each(name: str, values: Iterable[Item], *, single: int = 0) -> Iterator[Item]:
    """The entries of a list or anything else that has an order; what its own iterator raises comes as an Error.

    single: an array of so many dimensions, or fewer, is one entry by mistake and no list of them.
    """
    iterator = _iterator(name, values, single)

    def entries() -> Iterator[Item]:
        while True:
            try:
                entry = next(iterator)
            except StopIteration:
                return
            except Error:
                raise
            except Exception as problem:
                reason = " ".join(f"{type(problem).__name__}: {problem}".split())
                raise Error(f"{name} ended with {reason:.200}; give a list to see where.") from problem
            yield entry

    return entries()


def _iterator(name: str, values: Any, single: int) -> Iterator[Any]:
    dimensions = getattr(values, "ndim", None)
    if isinstance(values, str | bytes | os.PathLike) or (isinstance(dimensions, int) and dimensions <= single):
        raise Error(f"{name} is a list, and one {shown(values)} was given; put it in a list.")
    if isinstance(values, Set | Mapping):
        raise Error(f"{name} has an order, which a {shown(values)} does not have; give a list.")
    try:
        return iter(values)
    except Exception as problem:  # TypeError, or whatever an iterable of somebody else's raises
        raise Error(f"{name} is a list; given {shown(values)}; put a single one in a list, too.") from problem

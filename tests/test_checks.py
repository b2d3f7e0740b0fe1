"""What callers hand over comes back in one type, or as one short sentence."""

import fractions
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dgpnet import checks
from dgpnet.errors import Error


def test_numbers_of_any_library_are_numbers() -> None:
    for value in (0.5, np.float32(0.5), np.float64(0.5), fractions.Fraction(1, 2)):
        assert checks.number("threshold", value, 0, 1, inside=True) == 0.5
    assert checks.number("share", np.uint8(1), 0, 1) == 1.0
    assert [checks.whole("budget", value, 1) for value in (3, np.int64(3), np.uint8(3))] == [3, 3, 3]
    assert checks.flag("tile", np.bool_(True)) is True


@pytest.mark.parametrize(
    "value",
    [None, "0.5", True, 0, 1, 1j, np.nan, np.inf, 10**400, 10**5000, [], object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_such_number_is_named_in_few_words(value: object) -> None:
    with pytest.raises(Error, match="threshold is a number between 0 and 1; given ") as problem:
        checks.number("threshold", value, 0, 1, inside=True)
    assert len(str(problem.value)) < 200


@pytest.mark.parametrize(
    "value", [None, "2", 2.0, True, 0, -1, 10**5000 * -1, np.nan], ids=lambda value: type(value).__name__
)
def test_whole_numbers_are_whole(value: object) -> None:
    with pytest.raises(Error, match="budget is a whole number, at least 1; given "):
        checks.whole("budget", value, 1)


def test_paths_are_texts_that_the_system_takes() -> None:
    assert checks.path_of("photograph", Path("a/b.jpg")) == "a/b.jpg"
    assert (
        checks.path_of("photograph", "caf\udce9.jpg") == "caf\udce9.jpg"
    )  # bytes that are no UTF-8, as Python has them
    for wrong in ("", "a\0b", "\ud800", "a" * 5000, "a/" + "ü" * 200, None, 3, b"a.jpg"):
        with pytest.raises(Error) as problem:
            checks.path_of("photograph", wrong)
        assert len(str(problem.value)) < 200


def failing() -> Iterator[int]:
    yield 1
    raise KeyError("no such photograph")


@pytest.mark.parametrize(
    "values",
    [None, "abc", b"abc", Path("a"), 3, {1, 2}, {"a": 1}, np.zeros((4, 4, 3)), failing()],
    ids=lambda v: type(v).__name__,
)
def test_lists_are_lists(values: object) -> None:
    with pytest.raises(Error, match="photos"):
        list(checks.each("photos", values, single=3))  # type: ignore[call-overload]


def test_anything_with_an_order_is_a_list() -> None:
    stack = np.zeros((2, 4, 4, 3))
    for make in (list, tuple, iter):
        some: Callable[[object], object] = make
        assert len(list(checks.each("photos", some(stack), single=3))) == 2  # type: ignore[call-overload]
    assert len(list(checks.each("photos", stack, single=3))) == 2


def test_one_of_a_few_words() -> None:
    assert checks.choice("on_error", "raise", ("raise", "return")) == "raise"
    for wrong in (None, "skip" * 1000, [], 3):
        with pytest.raises(Error, match="on_error is 'raise' or 'return'; given ") as problem:
            checks.choice("on_error", wrong, ("raise", "return"))
        assert len(str(problem.value)) < 200

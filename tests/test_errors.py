"""Messages stay short and printable, whatever they were made from."""

import pytest

from dgpnet.errors import LISTED, LONGEST, Error, refusal


def test_a_short_message_stays_as_it_is() -> None:
    assert (
        str(Error("There is no photograph ü.jpg; check the path.")) == "There is no photograph ü.jpg; check the path."
    )


@pytest.mark.parametrize("length", [LONGEST + 1, 10_000])
def test_a_long_message_keeps_its_beginning_and_its_end(length: int) -> None:
    told = str(Error("begin " + "x" * length + " end."))
    assert len(told) == LONGEST and told.startswith("begin ") and told.endswith(" end.") and " … " in told


def test_what_cannot_be_printed_is_escaped() -> None:
    assert str(Error("\udce9.jpg")) == "\\udce9.jpg"
    assert str(Error("a\nb\x1b[2J.jpg is empty.")) == r"a\nb\x1b[2J.jpg is empty."


def test_several_problems_are_one_error_with_notes() -> None:
    assert str(refusal("found has 1 problems", ["a.png is empty."])) == "a.png is empty."
    many = refusal("found has 12 problems", [f"{n}.png is empty." for n in range(12)])
    assert str(many) == "found has 12 problems, the first: 0.png is empty."
    assert many.__notes__ == [*(f"{n}.png is empty." for n in range(1, LISTED)), "and 2 more"]

"""Messages stay short and printable, whatever they were made from."""

import pytest

from dgpnet.errors import LONGEST, Error


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

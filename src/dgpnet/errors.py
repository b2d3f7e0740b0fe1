"""What wrong use raises, and what is said without being wrong."""

from collections.abc import Sequence

#: Problems of which an Error tells each; of further ones how many there are.
LISTED = 10
#: Characters in one message; what a file says of itself may be long, and is not to fill the screen.
LONGEST = 500


class Error(ValueError):
    """Wrong use or unusable input: says what was given, what was expected and how to fix it, in one sentence.

    The sentence has at most LONGEST characters, all of which can be printed; further faults found at the same time
    are its notes (`__notes__`), one each.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class Notice(UserWarning):
    """What was decided, left out or taken for something else, in one sentence: nothing to fix, but good to know."""


def refusal(what: str, problems: Sequence[str]) -> Error:
    """One Error for all problems (sentences, at least one): the first is told in it, the others are its notes.

    what: whose problems they are, and how many ("found has 4 problems").
    """
    error = Error(f"{what}, the first: {problems[0]}" if len(problems) > 1 else problems[0])
    for problem in problems[1:LISTED]:
        error.add_note(shortened(problem))
    if len(problems) > LISTED:
        error.add_note(f"and {len(problems) - LISTED} more")
    return error


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text in one line, its middle left out where it has more than `longest` characters."""
    text = printable(text[: 2 * longest] + text[2 * longest :][-2 * longest :])
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 3]} … {text[-end:]}"


def printable(text: object) -> str:
    """The text in one line that any terminal can show: names of files may have any byte in them."""
    shown = str(text).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)

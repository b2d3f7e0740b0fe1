"""Pages for a reader: tables in Markdown, and how to get the same."""

from collections.abc import Iterable, Sequence


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; all columns but the first are set to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (header, rule, *rows)]


def made_by(command: str) -> list[str]:
    """The lines that end a page: the command that made it."""
    return ["", "Made by", "", "```", command, "```", ""]

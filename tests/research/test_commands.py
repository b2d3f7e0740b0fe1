"""What the pages say about research runs from a clone, with these options."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

REPOSITORY = Path(__file__).resolve().parents[2]


def commands() -> list[list[str]]:
    """The words of every `python -m research.… …` line of the pages, lines that end in a backslash joined."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8").replace("\\\n", " ") for page in pages]
    lines = [line for text in texts for line in re.findall(r"^python -m research\..*$", text, re.MULTILINE)]
    return [shlex.split(line, comments=True)[2:] for line in lines]


def application(module: str) -> typer.Typer:
    found = importlib.import_module(module)
    if hasattr(found, "app"):
        return found.app
    app = typer.Typer()
    app.command()(found.main)
    return app


def test_every_module_that_can_be_run_is_on_a_page() -> None:
    runnable = {path.stem for path in (REPOSITORY / "research").glob("*.py") if "__main__" in path.read_text()}
    assert {words[0] for words in commands()} == {f"research.{name}" for name in runnable}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_it_takes_these_options(words: list[str]) -> None:
    module, *rest = words
    command = typer.main.get_command(application(module))
    context = command.make_context(module, list(rest), resilient_parsing=True)
    if hasattr(command, "resolve_command"):
        _, command, rest = command.resolve_command(context, rest)
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known


def test_it_runs_from_the_clone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "research.default_model", "ship", "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "--encoders" in done.stdout

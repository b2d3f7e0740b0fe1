"""The command `dgpnet`: one thin file per command, imported only when that command is asked for.

`dgpnet --help` therefore imports neither torch nor any extra, and a missing extra breaks only its own command.
Exit codes: 0 done · 1 part or all of the work failed, the rest is done and listed · 2 refused before any work ·
130 interrupted.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from types import FrameType
from typing import Annotated, Any, TextIO

import typer

import dgpnet
from dgpnet.errors import Error, Notice, printable


@dataclass(frozen=True)
class Command:
    """One command: the line `dgpnet --help` shows, and the extra that brings what it imports."""

    summary: str
    extra: str | None = None


INTERRUPTED = 130

COMMANDS: dict[str, Command] = {
    "studio": Command("Paint a few masks in the browser, watch the rest fill in.", "studio"),
    "backend": Command("Label Studio and CVAT with a model behind them.", "labelstudio,cvat"),
    "segment": Command("Masks for a folder of photographs from a few painted ones."),
    "learn": Command("Learn from a few masks and keep the result in a .concept file."),
    "suggest": Command("Which photographs to annotate first."),
    "export": Command("A model for programs without Python: ONNX.", "onnx"),
    "train": Command("Train a network on episodes.", "train"),
    "evaluate": Command("Measure a checkpoint by the field's protocol."),
    "reproduce": Command("The paper's tables, ours beside theirs.", "train"),
    "benchmark": Command("Speed and memory, beside the paper's listing done naively."),
    "weights": Command("Convert, inspect and fetch weights."),
    "demo": Command("See it work on bundled photographs.", "demo"),
}

HELP = """Few-shot segmentation: a few painted masks in, masks for every other photograph out.

Example: dgpnet segment painted/ photos/ --out masks/ --overlay
"""


def run(arguments: Sequence[str]) -> int:
    """Run one command line, e.g. `["learn", "painted", "--out", "mug.concept"]`, and return its exit code."""
    words = _with_address(arguments)
    empty = [option for option, word in pairwise(["", *words]) if not word and option != "--prefix"]
    if empty:  # an unset variable of a script would be the folder that it runs in
        return _say("An argument is empty; give a name, or leave it out.", 2)
    name = next((word for word in words if not word.startswith("-")), None)
    previous = _interrupt_on_terminate()
    try:
        with _notices_told():
            application(name)(args=words, prog_name="dgpnet")
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            return _interrupted()
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return _interrupted()
    except Error as error:
        return _say(error, 2)
    except ModuleNotFoundError as error:
        return _say(_missing(name, error), 2)
    except OSError as error:
        return _say(f"{error.filename or 'The system'}: {error.strerror or error}.", 1)
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
    return 0


@contextmanager
def _notices_told() -> Iterator[None]:
    """What the package warns of as a note, in a line; other warnings as Python shows them."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, Notice):
                print(f"note: {printable(message)}", file=sys.stderr)
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _with_address(arguments: Sequence[str]) -> list[str]:
    """`--ray` may stand alone, which Typer knows no way to say."""
    words: list[str] = []
    for word, following in pairwise([*arguments, "-"]):
        words += [word, "auto"] if word == "--ray" and following.startswith("-") else [word]
    return words


def application(name: str | None) -> typer.Typer:
    """The Typer application in which command `name` is real and every other one is only its line of help."""
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command, entry in COMMANDS.items():
        if command != name:
            app.command(command, help=entry.summary)(_line_of_help)
            continue
        handler: Any = getattr(import_module(f"dgpnet.cli.{command}"), command)
        if isinstance(handler, typer.Typer):
            app.add_typer(handler, name=command, help=entry.summary)
        else:
            app.command(command)(handler)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(dgpnet.__version__)
        raise typer.Exit()


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


def _line_of_help() -> None: ...


def _missing(name: str | None, error: ModuleNotFoundError) -> str:
    """One sentence for a package that is not there, with the extra that brings it."""
    entry = COMMANDS.get(name or "")
    if error.name is None or error.name.split(".")[0] == "dgpnet" or entry is None:
        return str(error)
    extra = f"[{entry.extra}]" if entry.extra else ""
    return f"`dgpnet {name}` needs the package {error.name}; install it with: pip install 'dgpnet{extra}'"


def _interrupted() -> int:
    return _say("interrupted; nothing is half-written.", INTERRUPTED)


def _say(what: object, code: int) -> int:
    print(f"dgpnet: {what}", file=sys.stderr)
    for note in getattr(what, "__notes__", ()):
        print(f"  {note}", file=sys.stderr)
    return code


Handler = Callable[[int, FrameType | None], Any] | int | None


def _interrupt_on_terminate() -> Handler:
    """Let a polite kill end like Ctrl-C, so that open files are tidied away; returns the handler to put back."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, where signals cannot be caught
        return None

"""Every piece of Python in README.md and docs/ runs, and every command there exists with the options that it shows."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from dgpnet import weights
from dgpnet.cli import COMMANDS, application, run
from dgpnet.segmenter import fitting
from tests.tiny import CONFIG, tiny_checkpoint, write_photos, write_support

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [page for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))] if page.is_file()]
#: Pages that speak of painted/ and photos/. Their commands are run; those of others take a data set, and are parsed.
OF_FOLDERS = (
    "README.md", "first-steps.md", "choosing.md", "uncertainty.md", "fitting.md", "python-api.md", "fiftyone.md",
    "napari.md",
)  # fmt: skip
#: Pages whose Python takes a data set or weights from elsewhere: only its imports are run.
OF_DATA = ("datasets.md", "scale.md", "training.md", "weights.md")
#: Pages whose Python needs an extra, and a package that it brings.
OF_EXTRAS = {"export.md": "onnxscript", "fiftyone.md": "fiftyone", "napari.md": "napari"}


def name(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """(line, text) of the fenced blocks in these languages; one after the line `<!-- not run -->` is left out."""
    found = []
    pattern = re.compile(
        r"(?P<note><!-- not run -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
    )
    text = page.read_text(encoding="utf-8")
    for match in pattern.finditer(text):
        if match["language"] in languages and not match["note"]:
            found.append((text.count("\n", 0, match.start("text")), match["text"]))
    return found


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every `dgpnet …` command line, lines that end in a backslash joined."""
    for _, text in blocks(page, "console", "bash", "sh", ""):
        for line in text.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            if line.startswith("dgpnet ") and not re.search(r"[…\[\]|]|\.\.\.", line.split("#")[0]):
                yield shlex.split(line, comments=True)[1:]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory, with a tiny model under every name that pages use."""
    model = tiny_checkpoint(tmp_path / "model.safetensors", CONFIG.but(similarity=True))
    real = weights.checkpoint_path
    monkeypatch.setattr(weights, "checkpoint_path", lambda name: model if name in ("default", "small") else real(name))
    monkeypatch.setattr(fitting, "SECONDS", 0.0)  # readers wait a minute for --fit
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(folder: Path, page: Path) -> None:
    if page.name in OF_FOLDERS:
        write_support(folder / "painted", 2)
        write_photos(folder / "photos", 4)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_runs_from_top_to_bottom(folder, page):
    if page.name in OF_EXTRAS:
        pytest.importorskip(OF_EXTRAS[page.name])
    fill(folder, page)
    space: dict[str, object] = {"__name__": "__main__"}
    for line, text in blocks(page, "python"):
        tree = ast.parse("\n" * line + text, str(page))
        if page.name in OF_DATA:
            tree.body = [step for step in tree.body if isinstance(step, ast.Import | ast.ImportFrom)]
        exec(compile(tree, str(page), "exec"), space)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in OF_FOLDERS and list(commands(page))], ids=name)
def test_commands_run(folder, page):
    fill(folder, page)
    for number, words in enumerate(commands(page)):
        if words[0] in ("segment", "learn", "suggest"):
            # Each command of a page is one a reader may try first: a folder of its own keeps them from mixing.
            assert run([f"out{number}/" if word == "found/" else word for word in words]) == 0, words


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))], ids=name)
def test_commands_exist_with_these_options(page):
    for words in commands(page):
        if words[0].startswith("-"):
            continue
        assert words[0] in COMMANDS, words
        group = typer.main.get_command(application(words[0]))
        context = group.make_context("dgpnet", list(words), resilient_parsing=True)
        command, rest = group, list(words)
        while hasattr(command, "resolve_command") and rest:
            _, command, rest = command.resolve_command(context, rest)
            assert command is not None, words
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        asked = {word.split("=")[0] for word in rest if word.startswith("--")}
        assert asked <= {*known, "--help"}, words


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"

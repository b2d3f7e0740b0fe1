"""One voice: how errors speak, how constants are documented, and that every public name is explained by an example."""

import ast
import doctest
import inspect
import io
import os
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dgpnet
from tests.test_api import public
from tests.tiny import scene

SOURCE = Path(dgpnet.__file__).parent
#: Words that begin a sentence; anything else in small letters is the name of a parameter or a file.
BEGINNINGS = {"a", "an", "the", "there", "no", "none", "each", "every", "only", "this", "cannot", "unknown", "expected"}
BEGINNINGS |= {"several", "all", "some", "nothing", "neither", "more", "one", "at"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def sentences(tree: ast.AST) -> Iterator[ast.expr]:
    """What `Error` is called with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Error", "Notice"):
            yield from node.args[:1]


def end(sentence: ast.expr) -> str | None:
    """The last characters; None where another Error's sentence stands there, or something that is not written here."""
    if isinstance(sentence, ast.BinOp) and isinstance(sentence.op, ast.Add):
        return end(sentence.right)
    if isinstance(sentence, ast.JoinedStr):
        last = sentence.values[-1]
        told = isinstance(last, ast.FormattedValue) and isinstance(last.value, ast.Name) and last.value.id == "error"
        return None if told else end(last) if isinstance(last, ast.Constant) else ""
    return sentence.value if isinstance(sentence, ast.Constant) and isinstance(sentence.value, str) else None


def start(sentence: ast.expr) -> str | None:
    """The first characters, likewise."""
    if isinstance(sentence, ast.BinOp):
        return start(sentence.left)
    first = sentence.values[0] if isinstance(sentence, ast.JoinedStr) else sentence
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_errors_are_sentences(path: Path) -> None:
    wrong = []
    for sentence in sentences(ast.parse(path.read_text(encoding="utf-8"))):
        closing, opening = end(sentence), start(sentence)
        if closing is not None and not closing.endswith("."):
            wrong.append(f"{path.name}:{sentence.lineno} does not end with a full stop")
        if opening is not None and opening.split(" ")[0] in BEGINNINGS:
            wrong.append(f"{path.name}:{sentence.lineno} begins with a small letter")
    assert not wrong, "\n".join(wrong)


def comments(text: str) -> dict[int, str]:
    """Comments by the number of their line."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_constants_are_explained_above_them(path: Path) -> None:
    """By `#:` lines, and neither by a text below nor by a comment behind."""
    text = path.read_text(encoding="utf-8")
    body, said, wrong = ast.parse(text).body, comments(text), []
    lines = text.splitlines()
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if not any(isinstance(target, ast.Name) and not target.id.startswith("__") for target in targets):
            continue
        above = said.get(node.lineno - 1, "") if lines[node.lineno - 2].startswith("#") else ""
        behind = said.get(node.end_lineno or 0, "")
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            wrong.append(f"{path.name}:{node.lineno} is explained below")
        if (above and not above.startswith("#:")) or (
            behind and not behind.startswith(("# type:", "# noqa", "# fmt:"))
        ):
            wrong.append(f"{path.name}:{node.lineno} is explained by another comment than `#:` above")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_its_arguments_returns_and_an_example(name: str) -> None:
    function = public()[name]
    text = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters if parameter != "self"]
    assert not parameters or all(f"{one}" in text for one in [*parameters, "Arguments:"]), "arguments"
    assert isinstance(function, type) or signature.return_annotation == "None" or "Returns:" in text, "returns"
    assert ">>> " in text, "example"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What examples may speak of: a model, what it learned, a photograph, its mask, and files of these."""
    folder, before = tmp_path_factory.mktemp("examples"), Path.cwd()
    os.chdir(folder)
    photo, mask = scene(0)
    for name, array in {"mug.jpg": photo, "mug.png": mask, "other.jpg": scene(1)[0]}.items():
        Image.fromarray(array).save(name)
    segmenter = dgpnet.load("small", device="cpu")
    concept = segmenter.learn([photo], [mask], classes=["mug"])
    found = concept.segment(photo)
    yield {"segmenter": segmenter, "concept": concept, "photo": photo, "mask": mask, "found": found}
    os.chdir(before)


@pytest.mark.parametrize("name", [*public(), "Concept", "Segmentation"])
def test_examples_in_docstrings_run(name: str, names: dict[str, Any]) -> None:
    function: Callable[..., Any] = getattr(dgpnet, name) if name in dgpnet.__all__ else public()[name]
    text = inspect.getdoc(function) or ""
    example = doctest.DocTestParser().get_doctest(text, {**names, "dgpnet": dgpnet, "np": np}, name, None, None)
    assert example.examples, "there is no example"
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)

"""The documentation site lacks no page and no public name; `make docs` holds its links to the same."""

import inspect
import re
from functools import cached_property
from pathlib import Path

import pytest

import dgpnet

#: Pages that `tools/site.py` makes from files at the root.
FROM_ROOT = {"index.md", "changelog.md", "contributing.md"}


def members(kind: type) -> list[tuple[str, object]]:
    """Methods and properties that the class defines itself and that begin with no underscore."""
    kinds = (property, cached_property, staticmethod, classmethod)
    found = [(name, value) for name, value in vars(kind).items() if not name.startswith("_")]
    return [(name, value) for name, value in found if inspect.isfunction(value) or isinstance(value, kinds)]


def test_the_reference_has_every_public_name(repository: Path) -> None:
    page = (repository / "docs/reference.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: dgpnet\.(\w+)$", page, re.MULTILINE)) == sorted(dgpnet.__all__)


@pytest.mark.parametrize("name", sorted(set(dgpnet.__all__) - {"__version__"}))
def test_every_public_name_says_what_it_is(name: str) -> None:
    value = getattr(dgpnet, name)
    assert value.__doc__
    if inspect.isclass(value):
        assert not [member for member, one in members(value) if not inspect.getdoc(one)]


def test_the_site_has_every_page(repository: Path) -> None:
    yaml = pytest.importorskip("yaml")
    sections = yaml.safe_load((repository / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = re.findall(r"[\w/-]+\.md", str(sections))
    docs = repository / "docs"
    assert sorted(listed) == sorted({page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} | FROM_ROOT)


def test_nothing_is_asked_of_other_servers(repository: Path) -> None:
    yaml = pytest.importorskip("yaml")
    settings = yaml.safe_load((repository / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert "://" not in str(settings)

"""What MkDocs is told beside mkdocs.yml: pages from the files at the root, and a reference that lacks nothing.

In docstrings a parameter is a line `name: what it is`, a field one `name   what it is`: in the site they are lists.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocstrings import Inventory

ROOT = Path(__file__).resolve().parents[1]
#: Pages of the site that are files at the root, where people look for them.
AT_ROOT = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the root."""
    for name, page in AT_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The page with links as they are in the site; code stays as it is."""
    here = page.file.src_uri
    source = next((name for name, at in AT_ROOT.items() if at == here), join("docs", here))
    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    link = partial(moved, source=source, here=join("docs", here))
    parts[::2] = (re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, part) for part in parts[::2])
    return "".join(parts)


def moved(match: re.Match[str], *, source: str, here: str) -> str:
    """The link [words](target) of the file `source`, as it is from `here`; what is not in the site is only named."""
    words, target = match.groups()
    if "://" in target or target.startswith("#"):
        return match[0]
    path, hash_, anchor = target.partition("#")
    path = normpath(join(dirname(source), path))
    path = join("docs", AT_ROOT[path]) if path in AT_ROOT else path
    return f"[{words}]({relpath(path, dirname(here))}{hash_}{anchor})" if path.startswith("docs/") else words


def on_post_build(config: MkDocsConfig) -> None:
    """Fail where a public name or one of its methods has no place in the reference."""
    with (Path(config.site_dir) / "objects.inv").open("rb") as file:
        documented = set(Inventory.parse_sphinx(file))
    missing = [name for name in public_names() if name not in documented]
    if missing:
        raise Abort(f"Without a docstring, or not in docs/reference.md: {', '.join(missing)}")


def public_names() -> Iterator[str]:
    """What `dgpnet.__all__` names, and the methods and properties of its classes that begin with no underscore."""
    package = griffe.load("dgpnet", search_paths=[ROOT / "src"], resolve_aliases=True)
    for name in package.exports or ():
        yield f"dgpnet.{name}"
        for member in package[str(name)].members.values():
            if not member.name.startswith("_") and (member.is_function or "property" in member.labels):
                yield f"dgpnet.{name}.{member.name}"


class Lists(griffe.Extension):  # type: ignore[misc]  # of a library that is not there when types are checked
    """Docstrings as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(as_markdown(obj.docstring.value.splitlines()))


#: A parameter or a field, or several with one description.
NAMED = re.compile(r"(?P<names>[a-z_]\w*(?:, [a-z_]\w*)*)(?:: |\s{2,})(?P<what>.*)")


def as_markdown(lines: list[str]) -> Iterator[str]:
    """The lines with parameters and fields as items of a list; a sentence that begins after one ends the list."""
    listing, ended = False, True
    for line in lines:
        if match := NAMED.fullmatch(line):
            yield from () if listing else ("",)
            yield f"- `{match['names']}`: {match['what']}"
            listing = True
        elif listing and ended and line[:1].isupper():
            yield from ("", line)
            listing = False
        else:
            yield f"    {line.strip()}" if listing and line else line
            listing = listing and bool(line)
        ended = line.endswith(".")

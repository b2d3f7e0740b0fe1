"""A browser for the tests of the studio's page; they are skipped, with a word, where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dgpnet.cli import COMMANDS
from tests.studio.e2e.desk import ARGUMENTS, Desk, Server, browser_path, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Closed with each file of tests: as long as Playwright runs, no other test of this process may use asyncio."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    pytest.importorskip("fastapi", reason="the studio extra is not installed")
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def desk(browser: Any) -> Iterator[Callable[..., Desk]]:
    """Opens tabs: desk(address, **how the browser is set). At the end none of them may have had an error, or have
    asked anything of anybody but its own server."""
    desks: list[Desk] = []
    with ExitStack() as stack:

        def open_tab(address: str, context: Any = None, **settings: Any) -> Desk:
            if context is None:
                settings.setdefault("viewport", {"width": 1280, "height": 800})
                context = browser.new_context(**settings)
                stack.callback(context.close)
            one = Desk(context.new_page())
            desks.append(one)
            return one.open(address)

        yield open_tab
        errors = [error for one in desks for error in one.errors]
        foreign = [url for one in desks for url in one.foreign]
    assert not errors
    assert not foreign


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers: studio(folder, *options)."""
    if "studio" not in COMMANDS:
        pytest.skip("there is no command `dgpnet studio` yet")
    with ExitStack() as stack:
        yield lambda folder, *options: stack.enter_context(serving(folder, *options))


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a measurement although pytest captures."""

    def out(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}", file=sys.stderr, flush=True)

    return out

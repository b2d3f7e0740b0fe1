"""The documentation's pictures of Label Studio: `make backends PICTURES=1`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.backends.real import label_studio as real
from tests.studio.e2e.desk import ARGUMENTS, browser_path
from tests.studio.e2e.pictures import save


def log_in(page: Any, url: str) -> None:
    page.goto(f"{url}/user/login/")
    page.fill("input[name=email]", real.WHO["email"])
    page.fill("input[name=password]", real.WHO["password"])
    page.click("button[type=submit]")
    page.wait_for_url("**/")


def walk(page: Any, desk: real.Desk) -> None:
    page.goto(f"{desk.url}/projects/{desk.project}/settings/ml")
    page.wait_for_timeout(4000)
    save(page, "label-studio-connected")
    page.goto(f"{desk.url}/projects/{desk.project}/data")
    page.wait_for_timeout(6000)
    save(page, "label-studio-tasks")
    page.goto(f"{desk.url}/projects/{desk.project}/data?task={desk.tasks[9]}")
    page.wait_for_timeout(6000)
    save(page, "label-studio")
    # An empty annotation, the key point's label and tool, and a click on a coin; the page has no better names for them.
    page.set_viewport_size({"width": 1280, "height": 960})
    page.get_by_text("Auto-Annotation").click()
    for x, y in ((415, 69), (290, 897), (925, 438)):
        page.wait_for_timeout(1500)
        page.mouse.click(x, y)
    page.wait_for_timeout(1500)
    with page.expect_response("**/interactive-annotating"):
        page.mouse.click(545, 300)
    page.wait_for_timeout(3000)
    save(page, "label-studio-click")


def main() -> None:
    photos = real.photographs()
    with tempfile.TemporaryDirectory() as folder, real.label_studio(Path(folder) / "label-studio") as url:
        desk = real.Desk.open(url, real.personal_token(url), photos)
        with real.backend(url, desk.key, Path(folder) / "kept") as (address, _), sync_playwright() as playwright:
            desk.connect(address)
            for n in (0, 5):
                desk.paint(n, photos[n].mask)
            desk.retrieve()
            browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            log_in(page, url)
            walk(page, desk)
            browser.close()


if __name__ == "__main__":
    main()

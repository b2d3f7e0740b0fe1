"""The documentation's pictures of the studio: `make e2e PICTURES=1`.

The photographs are scikit-image's coins, cut into six and enlarged. Text is in whatever the system's font is.
"""

from __future__ import annotations

import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from dgpnet.demo import COINS
from tests.studio.e2e.desk import ARGUMENTS, Desk, browser_path, serving, write

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "pictures"
#: The coins are enlarged by this.
TIMES = 4
#: Upper left corners of the six photographs, row and column, and their size, before they are enlarged.
CORNERS = ((0, 0), (0, 122), (0, 244), (148, 0), (148, 122), (148, 244))
SIZE = (155, 140)
#: No picture is larger, in bytes.
MOST = 300_000


def photographs() -> dict[str, np.ndarray]:
    """Six parts of the photograph of coins."""
    from skimage import data

    coins = data.coins()
    parts = {}
    for number, (row, column) in enumerate(CORNERS, 1):
        part = Image.fromarray(coins[row : row + SIZE[0], column : column + SIZE[1]])
        large = part.resize((part.width * TIMES, part.height * TIMES), Image.Resampling.BICUBIC)
        parts[f"coins-{number}.jpg"] = np.asarray(large.convert("RGB"))
    return parts


def coins_of(number: int) -> list[tuple[float, float, float]]:
    """Middles and radii, x, y, r, of the coins that lie in a photograph."""
    row, column = CORNERS[number - 1]
    inside = []
    for y, x, radius in COINS:
        v, u = y - row, x - column
        if -radius < v < SIZE[0] + radius and -radius < u < SIZE[1] + radius:
            inside.append((u * TIMES, v * TIMES, radius * TIMES))
    return inside


def save(page: Any, name: str) -> None:
    """A screenshot with as few colours as keep it small."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:.0f} kB")
    if size > MOST:
        raise SystemExit(f"{path} has {size} bytes, more than {MOST}.")


def walk(browser: Any, address: str) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light").new_page()
    tab = Desk(page).open(address)
    page.wait_for_timeout(600)
    save(page, "studio-first")
    page.fill("#first-class", "coin")
    page.keyboard.press("Enter")
    tab.until("() => dgpnet.studio.classes.length === 1")

    tab.press("c")
    x, y, _ = coins_of(1)[1]
    tab.click((x, y))
    tab.until("() => dgpnet.studio.proposals.now && !dgpnet.studio.proposals.now.busy")
    page.wait_for_timeout(300)
    save(page, "studio-propose")
    tab.press("Escape")

    paint_coins(tab, 1)
    tab.learn()
    tab.quiet()
    tab.go("coins-5.jpg")
    tab.until("() => dgpnet.studio.current.source === 'found'")
    rest(tab)
    save(page, "studio-learned")
    tab.press("u")
    tab.until("() => dgpnet.stage.heat")
    rest(tab)
    save(page, "studio-uncertainty")
    tab.press("u")

    tab.go("coins-4.jpg")
    tab.until("() => dgpnet.studio.current.source === 'found'")
    page.click("#nothing")
    paint_coins(tab, 4)
    tab.until("() => !document.querySelector('.timing').hidden")
    page.wait_for_timeout(1500)
    tab.quiet()
    tab.go("coins-6.jpg")
    tab.until("() => dgpnet.studio.current.source === 'found'")
    tab.press("b")
    tab.ask("() => dgpnet.settings.set('size', 60)")
    page.mouse.move(*tab.screen((300, 330)))
    rest(tab, keep_pointer=True)
    save(page, "studio")

    page.click("#tab-files")
    for value in ("coco", "yolo"):
        page.check(f".choices input[value={value}]")
    page.click("#export")
    tab.until("() => document.querySelector('#download')")
    rest(tab)
    save(page, "studio-files")
    page.context.close()

    page = browser.new_context(viewport={"width": 1024, "height": 768}, color_scheme="dark", has_touch=True).new_page()
    tab = Desk(page).open(address)
    tab.go("coins-2.jpg")
    page.click("#tab-figures")
    tab.until("() => document.querySelectorAll('.figures .bars').length > 1")
    rest(tab)
    save(page, "studio-dark")
    page.context.close()


def paint_coins(tab: Desk, number: int) -> None:
    """Each coin of a photograph with the lasso."""
    tab.go(f"coins-{number}.jpg")
    tab.press("l")
    turn = np.linspace(0, 2 * np.pi, 48)
    for x, y, radius in coins_of(number):
        tab.drag([(x + radius * np.cos(a), y + radius * np.sin(a)) for a in turn], steps=1)
    tab.saved()


def rest(tab: Desk, keep_pointer: bool = False) -> None:
    """Until nothing moves any more, and no tooltip or notice is on show."""
    if not keep_pointer:
        tab.page.mouse.move(640, 5)
    tab.ask("() => document.querySelector('.notices').replaceChildren()")
    tab.ask("() => document.querySelectorAll('#side *').forEach((one) => (one.scrollTop = 0))")
    tab.page.wait_for_timeout(900)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=list(ARGUMENTS))
        write(Path(place) / "coins", photographs())
        with chdir(place), serving(Path("coins")) as server:  # paths in the pictures are nobody's
            walk(browser, server.address)
        browser.close()


if __name__ == "__main__":
    main()

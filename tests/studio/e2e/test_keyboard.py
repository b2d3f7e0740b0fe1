"""Everything but painting by keyboard alone, and nothing serious that axe finds."""

from pathlib import Path

import numpy as np
import pytest

from tests.studio.e2e.desk import shapes, write

pytestmark = pytest.mark.e2e

#: Fetched by `make e2e`; not part of the repository.
AXE = Path(__file__).resolve().parents[3] / ".e2e" / "package" / "axe.min.js"


@pytest.fixture
def folder(tmp_path):
    scenes = shapes(5, side=192)
    return write(tmp_path / "photos", {f"scene-{i}.png": photo for i, (photo, _) in enumerate(scenes)})


def focused(tab):
    """What the keyboard acts on: its id, role or class."""
    return tab.ask(
        """() => {
          const e = document.activeElement;
          return e.id || e.dataset.tool || e.dataset.value || e.getAttribute("role") || e.className || e.tagName;
        }"""
    )


def test_everything_but_painting_by_keyboard(folder, studio, desk):
    server = studio(folder)
    tab = desk(server.address)
    # Name the first class, from the page's first field on by Tab alone.
    for _ in range(60):
        if focused(tab) == "first-class":
            break
        tab.press("Tab")
    tab.page.keyboard.type("star")
    tab.press("Enter")
    tab.until("() => dgpnet.studio.classes.length === 1")
    # Another one by its shortcut; then choose by number.
    tab.press("a")
    assert focused(tab) == "new-class"
    tab.page.keyboard.type("moon")
    tab.press("Enter")
    tab.until("() => dgpnet.studio.classes.length === 2")
    tab.page.locator(".stage-surface").focus()
    tab.press("1")
    assert tab.ask("() => dgpnet.studio.value") == 1
    # Photographs: the arrows turn, the strip is a list.
    tab.press("ArrowRight")
    tab.until("() => dgpnet.studio.current.ready && dgpnet.studio.current.photograph.name === 'scene-1.png'")
    tab.press("End")
    tab.page.locator(".strip-list").focus()
    tab.press("End")
    tab.until("() => dgpnet.studio.current.ready && dgpnet.studio.current.photograph.name === 'scene-4.png'")
    tab.press("Home")
    tab.until("() => dgpnet.studio.current.ready && dgpnet.studio.current.photograph.name === 'scene-0.png'")
    # An example without painting, learn, and what was found is judged.
    tab.page.locator(".stage-surface").focus()
    tab.press("p", "l", "g", "e", "h", "c", "b")
    assert tab.ask("() => dgpnet.settings.get('tool')") == "brush"
    tab.paint([(60, 60), (100, 100)], size=40)  # painting is the one thing that needs a pointer
    tab.saved()
    tab.press("Control+Enter")
    tab.until("() => dgpnet.studio.concept && !dgpnet.studio.learning")
    tab.quiet()
    tab.press("ArrowRight")
    tab.until("() => dgpnet.studio.current.source === 'found'")
    tab.press("u", "u", "m", "m", "+", "-", "0", "Shift+ArrowLeft")
    tab.press("Enter")
    tab.until("() => dgpnet.studio.current.photograph.name === 'scene-2.png' && dgpnet.studio.current.ready")
    tab.press("x")
    tab.saved()
    assert tab.ask("() => dgpnet.studio.current.photograph.review") == "rejected"
    # Shortcuts, tabs of the panel, export.
    tab.press("?")
    assert tab.page.locator("#shortcuts").is_visible()
    tab.press("Escape")
    assert not tab.page.locator("#shortcuts").is_visible()
    tab.page.locator("#tab-classes").focus()
    tab.press("ArrowRight", "ArrowRight")
    assert tab.page.locator("#panel-files").is_visible()
    for _ in range(40):
        if focused(tab) == "export":
            break
        tab.press("Tab")
    tab.press("Enter")
    tab.until("() => document.querySelector('#download')")
    # The search, and back.
    tab.page.locator(".stage-surface").focus()
    tab.press("/")
    assert focused(tab) == "strip-search"
    tab.page.keyboard.type("scene-3")
    tab.until("() => dgpnet.strip.total === 1")


def test_the_order_of_focus_is_the_order_of_the_page_and_it_is_always_seen(folder, studio, desk):
    tab = desk(studio(folder).address)
    seen, regions = [], []
    for _ in range(70):
        tab.press("Tab")
        state = tab.ask(
            """() => {
              const e = document.activeElement;
              if (!e || e === document.body) return null;
              const style = getComputedStyle(e);
              const inner = e.type === "file" ? getComputedStyle(e.nextElementSibling) : style;
              const region = e.closest("#top, #rail, #main, #side, #strip")?.id ?? "";
              const words = [e.getAttribute("aria-label"), e.textContent, e.title, e.labels?.[0]?.textContent];
              const outline = inner.outlineStyle !== "none" && inner.outlineWidth !== "0px";
              return { region, name: words.find((word) => word?.trim()) ?? "", outline };
            }"""
        )
        if state is None:
            break
        seen.append(state)
        if not regions or regions[-1] != state["region"]:
            regions.append(state["region"])
    assert regions == ["top", "rail", "main", "side", "strip"]
    assert all(one["outline"] for one in seen), [one for one in seen if not one["outline"]]
    assert all(one["name"] for one in seen)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(folder, studio, desk, scheme, say):
    if not AXE.is_file():
        pytest.skip("axe-core is not there: `make e2e` fetches it")
    (folder / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a photograph")
    tab = desk(studio(folder).address, viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    tab.ask(AXE.read_text(encoding="utf-8"))
    found = []

    def look(where):
        tab.page.wait_for_timeout(400)
        answer = tab.ask("() => axe.run(document, { resultTypes: ['violations'] })")
        for one in answer["violations"]:
            found.append((where, one["impact"], one["id"], [node["html"][:160] for node in one["nodes"][:3]]))

    look("first visit")
    tab.go("scene-0.png")
    tab.add_class("star")
    tab.add_class("a rather long name of a class that does not fit")
    tab.paint([(60, 60), (100, 100)], size=40)
    look("painted")
    tab.press("c")
    tab.click((140, 60))
    tab.until("() => !dgpnet.studio.proposals.now?.busy")
    look("proposed")
    tab.press("Escape")
    tab.learn()
    look("learning")
    tab.quiet()
    tab.press("ArrowRight")
    tab.until("() => dgpnet.studio.current.ready")
    tab.press("u")
    look("found, with uncertainty")
    tab.press("u", "x", "?")
    look("shortcuts")
    tab.press("?")
    for name in ("figures", "files"):
        tab.page.click(f"#tab-{name}")
        tab.page.wait_for_timeout(900)
        look(name)
    tab.page.locator(".cell:not([hidden])", has_text="bad.jpg").click()
    look("broken")
    serious = [one for one in found if one[1] in ("serious", "critical")]
    say(f"axe, {scheme}: {len(serious)} serious or critical of {len(found)} remarks")
    assert not serious, serious


def test_reduced_motion_is_respected(folder, studio, desk):
    tab = desk(studio(folder).address, reduced_motion="reduce")
    times = tab.ask(
        """() => [...document.querySelectorAll("button, .cell, .notice, .thumb img")].map((e) => {
             const style = getComputedStyle(e);
             const all = `${style.transitionDuration},${style.animationDuration}`;
             return Math.max(...all.split(",").map(parseFloat));
           })"""
    )
    assert np.max(times) <= 0.001

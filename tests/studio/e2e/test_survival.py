"""Nothing is lost: reloads, a killed server, a closed browser, two tabs."""

import numpy as np
import pytest

from tests.studio.e2e.desk import write

pytestmark = pytest.mark.e2e


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    photo = {f"{name}.png": rng.integers(60, 200, (200, 300, 3), dtype=np.uint8) for name in ("a", "b", "c")}
    return write(tmp_path / "photos", photo)


def test_a_reload_shows_the_same_photograph_and_mask(folder, studio, desk):
    tab = desk(studio(folder).address)
    tab.add_class("mug")
    tab.go("b.png")
    tab.paint([(50, 50), (200, 120)], size=30)
    before = tab.labels()
    tab.saved()
    tab.page.reload()
    tab.until("() => window.dgpnet?.studio.current?.ready")
    assert tab.name == "b.png"
    assert (tab.labels() == before).all()
    assert [one["name"] for one in tab.ask("() => dgpnet.studio.classes")] == ["mug"]


def test_a_server_killed_in_mid_stroke_is_resumed_with_nothing_lost(folder, studio, desk):
    server = studio(folder)
    tab = desk(server.address)
    tab.add_class("mug")
    tab.paint([(40, 40), (120, 40)], size=14)
    tab.saved()
    mouse = tab.page.mouse
    mouse.move(*tab.screen((40, 90)))
    mouse.down()
    mouse.move(*tab.screen((120, 90)), steps=6)
    server.kill()
    mouse.move(*tab.screen((220, 90)), steps=6)
    mouse.up()
    tab.paint([(40, 140), (220, 140)], size=14)
    tab.press("Control+z")
    tab.paint([(40, 160), (220, 160)], size=14)
    painted = tab.labels()
    assert tab.ask("() => dgpnet.studio.masks.unsent") == 4
    tab.until("() => !document.querySelector('.banner').hidden")
    assert "does not answer" in tab.page.locator(".banner").inner_text()
    server.start()
    tab.saved()
    tab.until("() => document.querySelector('.banner').hidden")
    assert (tab.labels() == painted).all()
    tab.page.reload()
    tab.until("() => window.dgpnet?.studio.current?.ready")
    assert (tab.labels() == painted).all()


def test_a_browser_that_is_closed_with_unsent_strokes_sends_them_when_it_is_opened_again(folder, studio, browser, desk):
    server = studio(folder)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        tab = desk(server.address, context)
        tab.add_class("mug")
        tab.paint([(40, 40), (120, 40)], size=14)
        tab.saved()
        server.kill()
        tab.paint([(40, 100), (220, 100)], size=14)
        painted = tab.labels()
        tab.page.wait_for_timeout(300)
        tab.page.close()
        server.start()
        again = desk(server.address, context)
        again.saved()
        again.until("() => dgpnet.studio.current.labels.at(100, 100) === 1")
        assert (again.labels() == painted).all()
    finally:
        context.close()


def test_two_tabs_agree_and_the_later_stroke_wins(folder, studio, browser, desk):
    server = studio(folder)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        one, two = desk(server.address, context), desk(server.address, context)
        one.add_class("mug")
        two.until("() => dgpnet.studio.classes.length === 1")
        one.page.bring_to_front()
        one.paint([(40, 60), (220, 60)], size=30)
        two.until("() => dgpnet.studio.current.labels.at(100, 60) === 1")
        two.page.bring_to_front()
        two.paint([(120, 30), (120, 150)], size=20, tool="e")
        two.saved()
        one.until("() => dgpnet.studio.current.labels.at(120, 60) === 0")
        one.page.bring_to_front()
        one.paint([(118, 60), (122, 60)], size=6)
        one.saved()
        two.until("() => dgpnet.studio.current.labels.at(120, 60) === 1")
        assert (one.labels() == two.labels()).all()
        # One tab's undo takes back its own stroke, not the other's.
        two.page.bring_to_front()
        two.press("Control+z")
        two.saved()
        one.until("() => dgpnet.studio.current.labels.at(120, 50) === 1")
        assert (one.labels() == two.labels()).all()
        # Strokes at the same time on both sides.
        for i in range(5):
            one.page.bring_to_front()
            one.paint([(30 + 10 * i, 170), (35 + 10 * i, 175)], size=6)
            two.page.bring_to_front()
            two.paint([(200 + 10 * i, 170), (205 + 10 * i, 175)], size=6)
        one.saved()
        two.saved()
        one.until("() => dgpnet.studio.current.labels.at(242, 172) === 1")
        two.until("() => dgpnet.studio.current.labels.at(72, 172) === 1")
        one.page.wait_for_timeout(300)
        assert (one.labels() == two.labels()).all()
    finally:
        context.close()


def test_an_empty_folder_and_a_broken_photograph_explain_themselves(tmp_path, folder, studio, desk):
    empty = tmp_path / "empty"
    empty.mkdir()
    tab = desk(studio(empty).address)
    card = tab.page.locator(".card")
    assert "no photographs here yet" in card.inner_text()
    write(empty, {"late.png": np.full((40, 60, 3), 90, np.uint8)})
    card.get_by_role("button", name="Look again").click()
    tab.until("() => dgpnet.studio.project.photographs.total === 1")

    (folder / "bad.jpg").write_bytes((folder / "a.png").read_bytes()[:900])
    tab = desk(studio(folder).address)
    tab.until("() => [...dgpnet.studio.photographs.values()].some((one) => one.name === 'bad.jpg')")
    tab.page.locator(".cell:not([hidden])", has_text="bad.jpg").click()
    tab.until("() => !document.querySelector('.card').hidden")
    assert "cannot be read" in card_text(tab)
    tab.page.locator(".card").get_by_role("button", name="Next photograph").click()
    tab.until("() => dgpnet.studio.current.ready && document.querySelector('.card').hidden")


def card_text(tab):
    return tab.page.locator(".card").inner_text()

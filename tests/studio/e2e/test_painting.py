"""Painting with a real pointer: every tool, undo and redo, what reaches the disk."""

import json
import urllib.request

import numpy as np
import pytest
from PIL import Image

from tests.studio.e2e.desk import write

pytestmark = pytest.mark.e2e


@pytest.fixture
def tab(tmp_path, studio, desk):
    rng = np.random.default_rng(0)
    folder = write(
        tmp_path / "photos",
        {f"{name}.png": rng.integers(60, 200, (240, 320, 3), dtype=np.uint8) for name in ("a", "b")},
    )
    server = studio(folder)
    one = desk(server.address)
    one.server = server
    one.add_class("mug")
    return one


def on_server(tab, part="mask"):
    """The mask as any other program gets it."""
    identity = tab.ask("() => dgpnet.studio.current.id")
    address = f"{tab.server.address}api/v1/photographs/{identity}/{part}"
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": "image/png"})) as answer:
        return np.asarray(Image.open(answer))


def described(tab):
    identity = tab.ask("() => dgpnet.studio.current.id")
    with urllib.request.urlopen(f"{tab.server.address}api/v1/photographs/{identity}") as answer:
        return json.load(answer)


def disc(x, y, radius, shape=(240, 320)):
    v, u = np.ogrid[: shape[0], : shape[1]]
    return (u + 0.5 - x) ** 2 + (v + 0.5 - y) ** 2 <= radius**2


def test_a_stroke_is_what_the_brush_covered_and_is_on_the_disk(tab):
    tab.paint([(60, 120), (200, 120)], size=20)
    tab.saved()
    labels = tab.labels()
    v, u = np.mgrid[:240, :320] + 0.5
    along = np.clip(u, 60, 200)
    away = np.hypot(u - along, v - 120)
    assert (labels[away < 9] == 1).all()
    assert (labels[away > 11] == 0).all()
    assert set(np.unique(labels)) == {0, 1}
    assert (on_server(tab) == labels).all()
    files = list(tab.server.folder.joinpath(".dgpnet").rglob("*"))
    assert files, "the project's folder is beside the photographs"


def test_strokes_travel_as_changed_rectangles(tab):
    sent = []
    tab.page.on("request", lambda request: sent.append(request) if request.method == "PATCH" else None)
    for i in range(6):
        tab.paint([(40 + 40 * i, 60), (50 + 40 * i, 70)], size=12)
    tab.saved()
    sizes = [len(request.post_data) for request in sent]
    assert len(sizes) == 6
    assert max(sizes) < 1500 and max(sizes) < 2 * min(sizes), sizes
    body = json.loads(sent[-1].post_data)
    assert body["width"] < 40 and body["height"] < 40


def test_the_eraser_and_ctrl_erase(tab):
    tab.paint([(100, 100), (160, 100)], size=40)
    tab.paint([(100, 100), (100, 100)], size=20, tool="e")
    assert tab.labels()[100, 100] == 0
    assert tab.labels()[100, 130] == 1
    tab.press("b")
    tab.page.keyboard.down("Control")
    tab.drag([(130, 100), (131, 100)])
    tab.page.keyboard.up("Control")
    assert tab.labels()[100, 130] == 0
    tab.saved()
    assert (on_server(tab) == tab.labels()).all()


def test_the_ring_has_the_brush_s_size(tab):
    tab.press("b")
    for key, larger in (("]", True), ("[", False)):
        before = tab.ask("() => dgpnet.settings.get('size')")
        tab.press(key, key)
        after = tab.ask("() => dgpnet.settings.get('size')")
        assert (after > before) is larger
    tab.page.mouse.move(*tab.screen((150, 100)))
    ring = tab.page.locator(".ring").bounding_box()
    size, scale, ratio = tab.ask(
        "() => [dgpnet.settings.get('size'), dgpnet.stage.view.scale, dgpnet.stage.pixelRatio]"
    )
    assert ring["width"] == pytest.approx(size * scale / ratio, abs=1.5)
    x, y = tab.screen((150, 100))
    assert ring["x"] + ring["width"] / 2 == pytest.approx(x, abs=1.5)
    assert ring["y"] + ring["height"] / 2 == pytest.approx(y, abs=1.5)


def test_a_polygon_is_closed_by_enter_and_by_its_first_corner(tab):
    tab.press("p")
    for corner in ((40, 40), (120, 40), (120, 100), (40, 100)):
        tab.click(corner)
    tab.press("Backspace")
    tab.click((60, 120))
    tab.press("Enter")
    labels = tab.labels()
    assert labels[60, 80] == 1 and labels[60, 30] == 0 and labels[110, 110] == 0
    for corner in ((200, 40), (280, 40), (280, 120), (200, 120), (201, 41)):
        tab.click(corner)
    assert tab.labels()[80, 240] == 1
    tab.click((10, 200))
    tab.press("Escape")
    assert tab.ask("() => dgpnet.stage.tool.points.length") == 0


def test_a_lasso_takes_what_it_goes_round(tab):
    turn = np.linspace(0, 2 * np.pi, 40)
    around = [(160 + 60 * np.cos(a), 120 + 60 * np.sin(a)) for a in turn]
    tab.press("l")
    tab.drag(around, steps=2)
    inside = disc(160, 120, 60)
    assert (tab.labels()[disc(160, 120, 56)] == 1).all()
    assert (tab.labels()[~disc(160, 120, 62)] == 0).all()
    tab.page.keyboard.down("Control")
    tab.drag([(160 + 20 * np.cos(a), 120 + 20 * np.sin(a)) for a in turn], steps=2)
    tab.page.keyboard.up("Control")
    assert (tab.labels()[disc(160, 120, 18)] == 0).all()
    assert tab.labels()[inside].mean() > 0.7


def test_fill_closes_an_outline(tab):
    around = [(160 + 50 * np.cos(a), 120 + 50 * np.sin(a)) for a in np.linspace(0, 2 * np.pi, 60)]
    tab.paint(around, size=8)
    tab.press("g")
    tab.click((160, 120))
    tab.until("() => dgpnet.studio.current.labels.at(160, 120) === 1")
    assert (tab.labels()[disc(160, 120, 50)] == 1).all()
    assert tab.labels()[20, 20] == 0


def test_undo_and_redo_have_no_end(tab):
    states = [tab.labels()]
    for i in range(25):
        tab.paint([(20 + 10 * i, 40 + 5 * i), (30 + 10 * i, 60 + 5 * i)], size=9)
        states.append(tab.labels())
    for state in reversed(states[:-1]):
        tab.press("Control+z")
        assert (tab.labels() == state).all()
    assert tab.page.locator("#undo").is_disabled()
    for state in states[1:]:
        tab.press("Control+Shift+z")
        assert (tab.labels() == state).all()
    tab.saved()
    assert (on_server(tab) == states[-1]).all()
    # Another photograph has a history of its own, and the first one's is still there afterwards.
    tab.go("b.png")
    assert tab.page.locator("#undo").is_disabled()
    tab.go("a.png")
    tab.press("Control+z")
    assert (tab.labels() == states[-2]).all()


def test_a_photograph_whose_only_stroke_is_undone_is_no_example(tab):
    tab.paint([(60, 60), (90, 90)])
    tab.saved()
    assert described(tab)["state"] == "painted"
    tab.press("Control+z")
    tab.saved()
    assert described(tab)["state"] == "untouched"
    tab.press("Control+Shift+z")
    tab.saved()
    assert described(tab)["state"] == "painted"
    assert (on_server(tab) == tab.labels()).all()


def test_start_over_can_be_undone(tab):
    tab.paint([(60, 60), (90, 90)])
    tab.paint([(160, 60), (190, 90)])
    before = tab.labels()
    tab.saved()
    tab.page.click("#reset")
    tab.until("() => dgpnet.studio.current.source === 'empty'")
    tab.saved()
    assert described(tab)["state"] == "untouched"
    tab.page.locator(".stage-surface").focus()
    tab.press("Control+z")
    tab.saved()
    assert (tab.labels() == before).all()
    assert (on_server(tab) == before).all()


def test_nothing_here_is_an_example_too(tab):
    tab.page.click("#nothing")
    tab.saved()
    assert described(tab)["state"] == "painted"
    assert not on_server(tab).any()


def test_a_second_class_and_ignored_pixels(tab):
    tab.paint([(60, 60), (90, 60)], size=20)
    tab.add_class("spoon")
    tab.paint([(160, 60), (190, 60)], size=20)
    tab.press("1")
    tab.paint([(160, 160), (190, 160)], size=20)
    tab.press("i")
    tab.paint([(60, 160), (90, 160)], size=20)
    labels = tab.labels()
    assert [labels[y, x] for y, x in ((60, 70), (60, 170), (160, 170), (160, 70))] == [1, 2, 1, 255]
    tab.saved()
    assert (on_server(tab) == labels).all()
    assert [one["name"] for one in tab.ask("() => dgpnet.studio.classes")] == ["mug", "spoon"]


def test_zoom_and_pan_show_where_the_pointer_paints(tab):
    tab.page.mouse.move(*tab.screen((160, 120)))
    before = tab.ask("() => dgpnet.stage.view.scale")
    for _ in range(6):
        tab.page.mouse.wheel(0, -120)
    tab.until("(before) => dgpnet.stage.view.scale > 1.5 * before", before)
    tab.page.keyboard.down("Space")
    tab.drag([(160, 120), (175, 130)])
    tab.page.keyboard.up("Space")
    assert not tab.labels().any(), "moving the view paints nothing"
    tab.paint([(150, 110), (150, 110)], size=6)
    assert tab.labels()[110, 150] == 1
    assert tab.labels().sum() < 60
    tab.press("0")
    assert tab.ask("() => dgpnet.stage.whole")


def test_a_finger_paints_two_fingers_zoom_and_beside_a_pen_fingers_only_move(tmp_path, studio, desk):
    photo = np.full((240, 320, 3), 128, np.uint8)
    server = studio(write(tmp_path / "photos", {"a.png": photo}))
    tab = desk(server.address, viewport={"width": 1024, "height": 768}, has_touch=True)
    tab.add_class("mug")
    tab.press("b")
    session = tab.page.context.new_cdp_session(tab.page)

    def touch(kind, *points):
        places = [dict(zip("xy", tab.screen(point), strict=True), id=i) for i, point in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    touch("touchStart", (100, 100))
    for i in range(1, 10):
        touch("touchMove", (100 + 5 * i, 100))
    touch("touchEnd")
    tab.until("() => dgpnet.studio.current.labels.at(120, 100) === 1")
    painted, scale = tab.labels(), tab.ask("() => dgpnet.stage.view.scale")
    touch("touchStart", (100, 150), (200, 150))
    for i in range(1, 10):
        at = [(100 - 3 * i, 150), (200 + 3 * i, 150)]
        places = [dict(zip("xy", tab.screen(point), strict=True), id=k) for k, point in enumerate(at)]
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": places})
    touch("touchEnd")
    assert tab.ask("() => dgpnet.stage.view.scale") > 1.2 * scale
    assert (tab.labels() == painted).all(), "a pinch paints nothing"
    tab.press("0")
    # A pen comes, and a hand that rests paints no more.
    tab.ask(
        """([x, y]) => {
          const surface = document.querySelector(".stage-surface");
          const send = (type, at, buttons) => surface.dispatchEvent(new PointerEvent(type, {
            pointerId: 77, pointerType: "pen", button: type === "pointermove" ? -1 : 0, buttons,
            clientX: at, clientY: y, bubbles: true, cancelable: true }));
          surface.setPointerCapture = () => {};
          send("pointerdown", x, 1); send("pointermove", x + 30, 1); send("pointerup", x + 30, 0);
        }""",
        list(tab.screen((60, 200))),
    )
    tab.until("() => dgpnet.studio.current.labels.at(62, 200) === 1")
    painted = tab.labels()
    touch("touchStart", (200, 60))
    for i in range(1, 10):
        touch("touchMove", (200 + 5 * i, 60))
    touch("touchEnd")
    assert (tab.labels() == painted).all()


def test_everything_that_is_pressed_has_room_for_a_finger(tmp_path, studio, desk):
    server = studio(write(tmp_path / "photos", {"a.png": np.full((240, 320, 3), 128, np.uint8)}))
    tab = desk(server.address, viewport={"width": 1024, "height": 768}, has_touch=True)
    tab.add_class("mug")
    for name in ("classes", "figures", "files"):
        tab.page.click(f"#tab-{name}")
        tab.page.wait_for_timeout(400)
        small = tab.ask(
            """() => [...document.querySelectorAll("button, .field, .check, [type=color]")].filter((e) => {
                 const { width, height } = e.getBoundingClientRect();
                 return e.checkVisibility() && width && (height < 39.5 || width < 39.5);
               }).map((e) => e.outerHTML)"""
        )
        assert not small, small

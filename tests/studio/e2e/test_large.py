"""Many photographs and large ones: frames are measured and printed."""

import math
import statistics

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.studio.e2e.desk import write

pytestmark = pytest.mark.e2e

#: Milliseconds of one frame at 60 a second, and what is let pass as one: a browser's clock is not exact.
FRAME = 1000 / 60
ON_TIME = 1.2 * FRAME


def test_three_thousand_photographs_scroll_smoothly(tmp_path, studio, desk, say):
    rng = np.random.default_rng(0)
    few = [
        np.asarray(Image.fromarray(rng.integers(0, 255, (6, 9, 3), dtype=np.uint8)).resize((192, 128)))
        for _ in range(20)
    ]
    folder = write(tmp_path / "photos", {f"{'abc'[i // 1000]}/photo-{i:04}.jpg": few[i % 20] for i in range(3000)})
    tab = desk(studio(folder).address)
    assert tab.ask("() => dgpnet.strip.total") == 3000
    cells = "() => document.querySelectorAll('.cell').length"
    box = tab.page.locator(".strip-list").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    tab.record()
    for _ in range(60):
        tab.page.mouse.wheel(0, 300)
    wheel = tab.recorded()
    say(f"3,000 photographs, by wheel: {wheel}")
    tab.record()
    tab.ask(
        """async () => {
          const list = document.querySelector(".strip-list");
          for (let i = 0; i <= 180; i++) {
            list.scrollLeft = (i / 180) * (list.scrollWidth - list.clientWidth);
            await new Promise((next) => requestAnimationFrame(next));
          }
        }"""
    )
    through = tab.recorded()
    say(f"3,000 photographs, from end to end in 180 steps: {through}")
    assert tab.ask(cells) < 60, "a few dozen elements stand for all of them"
    names = "[...document.querySelectorAll('.cell:not([hidden]) .cell-name')]"
    tab.until(f"() => {names}.some((one) => one.textContent.includes('2999'))")
    tab.until("() => document.querySelectorAll('.cell:not([hidden]) img.loaded').length >= 5")
    for frames in (wheel, through):
        assert frames.share(0.5) <= ON_TIME
        assert frames.per_second >= 40
    # From the last to the first by key, and into a subfolder.
    tab.page.locator(".strip-list").focus()
    tab.press("End")
    tab.until("() => dgpnet.studio.current.photograph.name.endsWith('photo-2999.jpg') && dgpnet.studio.current.ready")
    tab.page.select_option("#strip-folder", "b")
    tab.until("() => dgpnet.strip.total === 1000")


@pytest.fixture
def large(tmp_path):
    """24 megapixels, and a hundred regions of five classes, as a support of files."""
    rng = np.random.default_rng(0)
    photo = np.asarray(
        Image.fromarray(rng.integers(40, 220, (40, 60, 3), dtype=np.uint8)).resize(
            (6000, 4000), Image.Resampling.BICUBIC
        )
    )
    photo = np.clip(photo.astype(np.int16) + rng.integers(-12, 13, (4000, 6000, 1)), 0, 255).astype(np.uint8)
    mask = Image.new("L", (6000, 4000))
    draw = ImageDraw.Draw(mask)
    for i in range(100):
        x, y, r = rng.integers(0, 6000), rng.integers(0, 4000), rng.integers(60, 350)
        turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        reach = r * (1 + 0.25 * rng.standard_normal(40))
        draw.polygon(list(zip(x + reach * np.cos(turn), y + reach * np.sin(turn), strict=True)), fill=1 + i % 5)
    support = tmp_path / "support"
    write(support / "images", {"large.jpg": photo})
    (support / "masks").mkdir()
    mask.save(support / "masks" / "large.png")
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "large.jpg").write_bytes((support / "images" / "large.jpg").read_bytes())
    return photos, support


def test_a_photograph_of_24_megapixels_pans_and_paints_at_60_frames_a_second(large, studio, desk, say):
    photos, support = large
    tab = desk(studio(photos, "--model", "small", "--support", str(support)).address)
    tab.until("() => dgpnet.studio.current.source === 'painted'")
    assert tab.labels().max() == 5
    box = tab.page.locator("#stage canvas").bounding_box()
    cx, cy = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = tab.page.mouse

    def wander(count=80, size=(200, 90)):
        for i in range(count):
            mouse.move(cx + size[0] * math.sin(i / 11), cy + size[1] * math.sin(i / 7))

    def painting(size):
        tab.press("b")
        tab.ask("(size) => dgpnet.settings.set('size', size)", size)
        mouse.move(cx, cy)
        mouse.down()
        tab.record()
        wander()
        frames = tab.recorded()
        mouse.up()
        return frames

    def panning():
        tab.page.keyboard.down("Space")
        mouse.move(cx, cy)
        mouse.down()
        tab.record()
        wander()
        frames = tab.recorded()
        mouse.up()
        tab.page.keyboard.up("Space")
        return frames

    measured = {"paint, all in sight, 200 px": painting(200), "pan, all in sight": panning()}
    tab.ask("() => dgpnet.stage.actualSize()")
    tab.page.wait_for_timeout(300)
    measured |= {
        "paint at 100 %, 80 px": painting(80),
        "pan at 100 %": panning(),
        "paint at 100 %, 400 px": painting(400),
    }
    tab.ask("() => dgpnet.stage.zoomBy(4)")
    tab.page.wait_for_timeout(300)
    measured |= {"paint at 400 %, 30 px": painting(30), "pan at 400 %": panning()}
    for what, frames in measured.items():
        say(f"24 megapixels, {what}: {frames}")
    assert all(frames.share(0.5) <= ON_TIME for frames in measured.values())
    assert statistics.mean(frames.per_second for frames in measured.values()) >= 50
    tab.saved()


def test_what_a_stroke_costs_does_not_grow_with_regions_and_strokes(large, studio, desk, say):
    """The work of the page for one stroke: from letting go to the request, on 24 megapixels."""
    photos, support = large
    tab = desk(studio(photos, "--model", "small", "--support", str(support)).address)
    tab.until("() => dgpnet.studio.current.source === 'painted'")
    tab.ask("() => dgpnet.stage.actualSize()")
    tab.press("b")
    stroke = """(count) => {
      const { studio } = dgpnet;
      const times = [];
      for (let i = 0; i < count; i++) {
        const x = 400 + 37 * (i % 140), y = 500 + 29 * (i % 90);
        const begun = performance.now();
        const runs = [];
        for (let row = 0; row < 60; row++) runs.push(row ? 20 : 0, 40, 1 + (i % 5));
        studio.current.paint({ x, y, width: 60, height: 60, runs });
        times.push(performance.now() - begun);
      }
      return times;
    }"""
    first = statistics.median(tab.ask(stroke, 40))
    tab.saved()
    tab.ask(stroke, 400)
    tab.saved()
    last = statistics.median(tab.ask(stroke, 40))
    say(f"one stroke costs the page {first:.2f} ms at first, {last:.2f} ms after 440 strokes")
    assert last < 3 * first + 1
    assert last < 8
    tab.saved()

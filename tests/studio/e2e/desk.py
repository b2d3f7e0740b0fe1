"""What the tests of the studio's page share: a server as a person starts it, and a browser as a person uses it."""

from __future__ import annotations

import base64
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.data.dataset import class_id_of, label_of
from dgpnet.data.synthetic import Synthetic
from tests.children import environment

Mask = NDArray[np.uint8]
Point = tuple[float, float]
#: Debian's, and where others have it.
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
#: Software rendering and nothing that talks to anybody.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
#: Seconds after which something that should happen counts as not happening.
PATIENCE = 60.0


def browser_path() -> str | None:
    """The browser that is installed here; None where there is none."""
    return next((path for path in BROWSERS if Path(path).is_file()), None)


def free_port() -> int:
    """A port for a server that may be started again: below those that systems give to whoever asks for any."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Server:
    """`dgpnet studio FOLDER`, which can be killed and started again on its port."""

    folder: Path
    options: Sequence[str] = ("--model", "small")
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> Server:
        words = [sys.executable, "-m", "dgpnet", "studio", str(self.folder), "--port", str(self.port), "--no-browser"]
        log = self.folder.parent / f"{self.folder.name}.log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*words, *self.options], env=environment(OMP_NUM_THREADS="2"), stdout=out, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"The server ended by itself: {log.read_text(errors='replace')[-2000:]}")
            try:
                with urllib.request.urlopen(f"{self.address}api/v1/project", timeout=5):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise AssertionError(f"The server did not answer: {log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """As a power cut does."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, options or ("--model", "small"))
    try:
        yield server.start()
    finally:
        server.stop()


# -- photographs --


def shapes(count: int, side: int = 320, kinds: Sequence[int] = (1, 5, 9, 14), seed: int = 2) -> list[tuple[Mask, Mask]]:
    """Rendered photographs (side, side, 3) and masks in which the first two kinds are 1 and 2."""
    rendered = Synthetic(list(kinds), photographs=count, side=side, objects=3, seed=seed)
    numbers = np.zeros(256, np.uint8)
    for value, kind in enumerate(kinds[:2], 1):
        numbers[label_of(class_id_of(kind))] = value
    return [(photo, numbers[mask]) for photo, mask in map(rendered.render, range(count))]


def write(folder: Path, photographs: dict[str, NDArray[np.uint8]]) -> Path:
    for name, photo in photographs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path, **({"quality": 95} if path.suffix == ".jpg" else {}))
    return folder


def iou(found: Mask, truth: Mask, value: int = 1) -> float:
    a, b = found == value, truth == value
    return float((a & b).sum() / max(1, (a | b).sum()))


# -- the page --


class Desk:
    """One tab, in terms of what a person does. Points are pixels of the photograph."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self._said(line))
        self.foreign: list[str] = []
        page.on("request", lambda request: self._asked(request.url))

    def _said(self, line: Any) -> None:
        lost = re.search(r"ERR_(CONNECTION|EMPTY|INCOMPLETE|NETWORK|ABORTED)|Failed to load resource", line.text)
        if line.type == "error" and not lost:
            self.errors.append(line.text)

    def _asked(self, url: str) -> None:
        if not re.match(r"(http://127\.0\.0\.1:\d+/|blob:|data:)", url):
            self.foreign.append(url)

    def open(self, address: str) -> Desk:
        self.page.goto(address)
        self.until("() => Boolean(window.dgpnet?.studio.project)")
        self.until(
            """() => {
              const { project, current } = dgpnet.studio;
              return !project.photographs.total || Boolean(current?.ready || current?.problem);
            }"""
        )
        return self

    def ask(self, script: str, given: Any = None) -> Any:
        return self.page.evaluate(script, given)

    def until(self, script: str, given: Any = None, seconds: float = PATIENCE) -> Any:
        """Waits until the script gives something. (The page's policy forbids what Playwright's own waiting uses.)"""
        end = time.monotonic() + seconds
        while True:
            answer = self.page.evaluate(script, given)
            if answer:
                return answer
            if time.monotonic() > end:
                state = self.page.evaluate("() => document.body.innerText.slice(0, 1500)")
                raise AssertionError(f"It did not happen within {seconds:.0f} s: {script}\n{state}")
            self.page.wait_for_timeout(30)

    # -- photographs

    def go(self, name: str) -> None:
        """To the photograph of this name, as the strip does."""
        self.page.fill("#strip-search", name.rsplit("/", 1)[-1])
        self.until("(name) => [...dgpnet.studio.photographs.values()].some((one) => one.name === name)", name)
        cell = self.page.locator(".cell:not([hidden])", has_text=name.rsplit("/", 1)[-1]).first
        shown = "(name) => dgpnet.studio.current?.photograph.name === name && dgpnet.studio.current.ready"
        cell.click()
        try:
            self.until(shown, name, PATIENCE / 6)
        except AssertionError:  # clicked in the moment in which the strip was searched: another cell was there
            cell.click()
            self.until(shown, name)
        self.page.fill("#strip-search", "")
        self.until("() => dgpnet.strip.query.query === null")
        self.page.locator(".stage-surface").focus()

    @property
    def name(self) -> str:
        return str(self.ask("() => dgpnet.studio.current.photograph.name"))

    def labels(self) -> Mask:
        """The mask as the page has it, (H, W)."""
        width, height, text = self.ask(
            """() => {
              const { width, height, data } = dgpnet.studio.current.labels;
              let text = "";
              for (let i = 0; i < data.length; i += 32768) text += String.fromCharCode(...data.subarray(i, i + 32768));
              return [width, height, btoa(text)];
            }"""
        )
        return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width)

    def saved(self) -> None:
        """Waits until everything is on the server's disk."""
        self.until("() => dgpnet.studio.masks.unsent === 0")

    # -- the pointer

    def screen(self, point: Point) -> Point:
        """Where a pixel of the photograph is in the window."""
        x, y = self.ask(
            """([x, y]) => {
              const { view, pixelRatio, canvas } = dgpnet.stage;
              const box = canvas.getBoundingClientRect();
              const place = (offset, at, scale, shift) => offset + (at * scale + shift) / pixelRatio;
              return [place(box.left, x, view.scale, view.left), place(box.top, y, view.scale, view.top)];
            }""",
            list(point),
        )
        return x, y

    def drag(self, points: Sequence[Point], steps: int = 4) -> None:
        """Presses at the first point, moves through the others and lets go."""
        mouse = self.page.mouse
        mouse.move(*self.screen(points[0]))
        mouse.down()
        for point in points[1:]:
            mouse.move(*self.screen(point), steps=steps)
        mouse.up()

    def paint(self, points: Sequence[Point], size: int | None = None, tool: str = "b") -> None:
        self.page.keyboard.press(tool)
        if size is not None:
            self.ask("(size) => dgpnet.settings.set('size', size)", size)
        self.drag(points)

    def click(self, point: Point, **options: Any) -> None:
        self.page.mouse.click(*self.screen(point), **options)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def paint_region(self, region: NDArray[np.bool_], tool: str = "l") -> None:
        """Draws around every part of a region with the lasso."""
        self.page.keyboard.press(tool)
        for outline in outlines(region):
            self.drag(outline, steps=1)

    # -- the rest

    def add_class(self, name: str) -> None:
        self.page.fill("#new-class", name)
        self.page.press("#new-class", "Enter")
        self.until("(name) => dgpnet.studio.classes.some((one) => one.name === name)", name)
        self.page.locator(".stage-surface").focus()

    def learn(self) -> None:
        self.page.click("#learn")
        self.until("() => dgpnet.studio.concept && !dgpnet.studio.learning")

    def found(self, name: str) -> Mask:
        """What the model finds in a photograph, as soon as there is something."""
        self.go(name)
        self.until("() => dgpnet.studio.current.source === 'found'")
        return self.labels()

    def quiet(self, seconds: float = PATIENCE) -> None:
        """Waits until nothing runs in the background any more."""
        self.until(
            "() => ![...dgpnet.studio.jobs.values()].some((job) => ['queued', 'running'].includes(job.state))",
            seconds=seconds,
        )

    # -- frames

    def record(self) -> None:
        """Begins to measure the time between frames."""
        self.ask(
            """() => {
              const frames = (window.frames_ = []);
              window.recording_ = true;
              let last = 0;
              const tick = (now) => {
                if (!window.recording_) return;
                if (last) frames.push(now - last);
                last = now;
                requestAnimationFrame(tick);
              };
              requestAnimationFrame(tick);
            }"""
        )

    def recorded(self) -> Frames:
        return Frames(sorted(self.ask("() => { window.recording_ = false; return window.frames_; }")))


@dataclass(frozen=True)
class Frames:
    """Milliseconds between frames, sorted."""

    times: list[float]

    def share(self, part: float) -> float:
        return self.times[min(len(self.times) - 1, int(part * len(self.times)))]

    @property
    def per_second(self) -> float:
        return 1000 * len(self.times) / sum(self.times)

    def __str__(self) -> str:
        return (
            f"{len(self.times)} frames, {self.per_second:.0f} a second, "
            f"median {self.share(0.5):.1f} ms, 95 % within {self.share(0.95):.1f} ms, longest {self.times[-1]:.0f} ms"
        )


def outlines(region: NDArray[np.bool_], corners: int = 60) -> Iterable[list[Point]]:
    """An outline around each connected part, as seen from its middle; good for parts that are about round."""
    from skimage.measure import label, regionprops

    for part in regionprops(label(region)):
        if part.area < 30:
            continue
        cy, cx = part.centroid
        ys, xs = np.nonzero(part.image)
        ys, xs = ys + part.bbox[0] + 0.5 - cy, xs + part.bbox[1] + 0.5 - cx
        angle = np.arctan2(ys, xs)
        bins = ((angle + math.pi) / (2 * math.pi) * corners).astype(int) % corners
        reach = [float(np.hypot(xs[bins == i], ys[bins == i]).max(initial=0)) + 0.5 for i in range(corners)]
        turn = [(i + 0.5) / corners * 2 * math.pi - math.pi for i in range(corners)]
        yield [(cx + r * math.cos(a), cy + r * math.sin(a)) for r, a in zip(reach, turn, strict=True) if r > 0.6]

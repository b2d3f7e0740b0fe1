"""The models that ship, exported, and the examples in other languages on them. All slow."""

import http.server
import os
import shutil
import subprocess
import sysconfig
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import dgpnet
from dgpnet.export.to_onnx import export_onnx
from dgpnet.images import resize_photo

pytestmark = pytest.mark.slow
skimage = pytest.importorskip("skimage")

#: Where Debian's libonnxruntime-dev has its headers; $ONNXRUNTIME_INCLUDE is asked first.
HEADERS = "/usr/include/onnxruntime"
PAGE = """<script type="importmap">{"imports": {"onnxruntime-web": "/ort/ort.wasm.min.mjs"}}</script>
<script type="module">
import * as ort from "onnxruntime-web";
import { segment } from "/segment.mjs";
ort.env.wasm.numThreads = 1;
let found;
try { found = await segment("/model", "/painted.png", "/mask.png", "/photo.png"); }
catch (error) { found = `${error}`; }
await fetch("/found", { method: "POST", body: found });
</script>"""


def bundled(name: str, side: int) -> NDArray[np.uint8]:
    """A photograph out of scikit-image, (side, side, 3)."""
    with Image.open(Path(skimage.__file__).parent / "data" / name) as image:
        return resize_photo(image.convert("RGB"), (side, side))


def disc(side: int) -> NDArray[np.uint8]:
    y, x = np.ogrid[:side, :side]
    return ((y - side // 2) ** 2 + (x - side // 2) ** 2 < (side // 4) ** 2).astype(np.uint8)


@pytest.fixture(scope="module")
def small() -> dgpnet.Segmenter:
    return dgpnet.load("small", device="cpu").using(torch.float32)


@pytest.mark.parametrize("name", ["small", "default"])
def test_the_models_that_ship(name: str, tmp_path: Path) -> None:
    about = export_onnx(dgpnet.load(name, device="cpu"), tmp_path / name)
    assert [(one.height, one.width) for one in about.parity] == [(384, 384), (448, 416)]
    assert all(one.log_odds < 1e-3 and one.labels > 0.999 for one in about.parity)


def test_javascript_in_chromium(small: dgpnet.Segmenter, tmp_path: Path, repository: Path) -> None:
    chromium, npm = shutil.which("chromium"), shutil.which("npm")
    if chromium is None or npm is None:
        pytest.skip("needs chromium and npm")
    installed = subprocess.run([npm, "install", "--prefix", tmp_path / "npm", "onnxruntime-web"], capture_output=True)
    if installed.returncode:
        pytest.skip("onnxruntime-web cannot be fetched")
    site = tmp_path / "site"
    export_onnx(small, site / "model")
    shutil.copytree(tmp_path / "npm" / "node_modules" / "onnxruntime-web" / "dist", site / "ort")
    shutil.copy(repository / "examples" / "onnx" / "segment.mjs", site)
    (site / "index.html").write_text(PAGE)
    painted, photo = bundled("motorcycle_left.png", 384), bundled("motorcycle_right.png", 384)
    for name, array in (("painted", painted), ("mask", disc(384)), ("photo", photo)):
        Image.fromarray(array).save(site / f"{name}.png")
    answer = browsed(chromium, site, tmp_path / "profile")
    assert len(answer) == 384 * 384, answer.decode(errors="replace")[:500]
    found = np.frombuffer(answer, np.uint8).reshape(384, 384)
    expected = small.learn([painted], [disc(384)]).segment(photo).mask
    assert 0 < found.mean() < 1 and np.mean(found == expected) > 0.999


def browsed(chromium: str, site: Path, profile: Path) -> bytes:
    """What the page index.html of a site posts to /found."""
    answers: list[bytes] = []
    arrived = threading.Event()

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

        def do_POST(self) -> None:
            answers.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        how = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        browser = subprocess.Popen([chromium, *how, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert arrived.wait(240), "the page did not answer"
        finally:
            browser.kill()
            browser.wait()
            server.shutdown()
    return answers[0]


def test_cpp(small: dgpnet.Segmenter, tmp_path: Path, repository: Path) -> None:
    headers = Path(os.environ.get("ONNXRUNTIME_INCLUDE", HEADERS))
    library = next(Path(sysconfig.get_path("purelib")).glob("onnxruntime/capi/libonnxruntime.so.*"), None)
    compiler = shutil.which("g++")
    if compiler is None or library is None or not (headers / "onnxruntime_cxx_api.h").is_file():
        pytest.skip("needs g++, libonnxruntime and its headers (set ONNXRUNTIME_INCLUDE)")
    source = repository / "examples" / "onnx" / "segment.cpp"
    (tmp_path / "libonnxruntime.so.1").symlink_to(library)  # by the name that it has in itself
    how = ["-std=c++17", f"-I{headers}", library, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "segment"]
    subprocess.run([compiler, source, *how], check=True)
    concept = small.learn([bundled("motorcycle_left.png", 384)], [disc(384)])
    export_onnx(small, tmp_path / "model", concept=concept)
    photo = bundled("motorcycle_right.png", 384)
    Image.fromarray(photo).save(tmp_path / "photo.ppm")
    words = [tmp_path / "segment", tmp_path / "model" / "query.onnx", tmp_path / "photo.ppm", tmp_path / "found.pgm"]
    subprocess.run(words, check=True)
    found = np.asarray(Image.open(tmp_path / "found.pgm"))
    assert 0 < found.mean() < 1 and np.mean(found == concept.segment(photo).mask) > 0.999

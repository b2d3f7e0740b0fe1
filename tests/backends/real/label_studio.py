"""Label Studio itself on this machine, with what it takes to speak to it; and our back end as a process."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from label_studio_sdk import LabelStudio as Client
from label_studio_sdk.converter.brush import decode_rle, mask2rle
from numpy.typing import NDArray
from PIL import Image

from dgpnet.demo import COINS
from tests.children import environment

#: What `make backends` installs, or another program of the kind.
PROGRAM = os.environ.get("LABEL_STUDIO", "")
WHO = {"email": "painter@example.com", "password": "not-a-secret-at-all"}
CONFIG = """<View>
  <Image name="image" value="$image" zoom="true"/>
  <BrushLabels name="label" toName="image" smart="false">
    <Label value="coin" background="#1f9e89"/>
  </BrushLabels>
  <KeyPointLabels name="click" toName="image" smart="true" smartOnly="true">
    <Label value="coin" background="#1f9e89" smart="true"/>
  </KeyPointLabels>
</View>"""
#: Networks that Label Studio is to stay out of: all private ones but this machine.
BANNED = "10.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.168.0.0/16"
#: Upper left corners of twelve parts of scikit-image's coins, row and column, their size, and by how much they grow.
CORNERS = [(row, column) for row in (0, 74, 148) for column in (0, 81, 162, 243)]
SIZE, TIMES = (155, 140), 3


@dataclass(frozen=True)
class Photograph:
    """name · content: a JPEG, every third of them lying on its side with EXIF data that says so · mask: of its coins,
    as viewers show it."""

    name: str
    content: bytes
    mask: NDArray[np.uint8]


def photographs() -> list[Photograph]:
    """Twelve parts of the photograph of coins."""
    from skimage import data

    found = []
    for number, (row, column) in enumerate(CORNERS):
        part = Image.fromarray(data.coins()[row : row + SIZE[0], column : column + SIZE[1]]).convert("RGB")
        part = part.resize((part.width * TIMES, part.height * TIMES), Image.Resampling.BICUBIC)
        y, x = np.mgrid[: part.height, : part.width] / TIMES
        mask = np.zeros((part.height, part.width), np.uint8)
        for top, left, radius in COINS:
            mask[np.hypot(y + row - top, x + column - left) <= radius] = 1
        exif = Image.Exif()
        if number % 3 == 2:
            part, exif[0x0112] = part.transpose(Image.Transpose.ROTATE_90), 6
        file = io.BytesIO()
        part.save(file, "JPEG", quality=92, exif=exif)
        found.append(Photograph(f"coins-{number + 1:02}.jpg", file.getvalue(), mask))
    return found


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@contextmanager
def label_studio(folder: Path) -> Iterator[str]:
    """The real one on SQLite, which asks nothing of other servers; its address. Its first start takes two minutes."""
    port = free_port()
    quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
    # docs/label-studio.md says why: by itself it speaks to no back end on this machine.
    local = {"USE_DEFAULT_BANNED_SUBNETS": "false", "USER_ADDITIONAL_BANNED_SUBNETS": BANNED}
    local |= {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "DEBUG": "false"}
    place = ["--internal-host", "127.0.0.1", "--port", str(port), "--host", f"http://127.0.0.1:{port}"]
    words = [PROGRAM, "start", "--no-browser", *place, "--username", WHO["email"], "--password", WHO["password"]]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("wb") as log:
        env = {**os.environ, **quiet, **local}
        env.pop("PYTHONPATH", None)
        child = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        end = time.monotonic() + 400
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert child.poll() is None and time.monotonic() < end, (folder / "log.txt").read_text()[-2000:]
            time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait(20)


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def personal_token(url: str) -> str:
    """What "Account & Settings, Personal Access Token" gives, once."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=30) as page:
        page.get("/user/login/")
        form = {**WHO, "csrfmiddlewaretoken": page.cookies["csrftoken"], "persist_session": "on"}
        page.post("/user/login/", data=form, headers={"referer": url})
        answer = page.post("/api/token/", headers={"x-csrftoken": page.cookies["csrftoken"], "referer": url})
        answer.raise_for_status()
        return str(answer.json()["token"])


@dataclass
class Desk:
    """A project of twelve photographs in Label Studio, as an annotator's programs see it.

    tasks: their numbers, in the order of the photographs
    """

    url: str
    key: str
    client: Client
    project: int
    tasks: list[int]

    @staticmethod
    def open(url: str, key: str, photos: list[Photograph], title: str = "Coins") -> Desk:
        client = Client(base_url=url, api_key=key)
        project = client.projects.create(title=title, label_config=CONFIG)
        assert project.id is not None
        desk = Desk(url, key, client, project.id, [])
        for photo in photos:
            answer = desk.post(f"/api/projects/{project.id}/import", files={photo.name: (photo.name, photo.content)})
            assert answer["task_count"] == 1
        desk.tasks = sorted(task.id for task in client.tasks.list(project=project.id))
        return desk

    def ask(self, method: str, path: str, **more: Any) -> Any:
        access = httpx.post(f"{self.url}/api/token/refresh/", json={"refresh": self.key}).json()["access"]
        headers = {"authorization": f"Bearer {access}"}
        answer = httpx.request(method, f"{self.url}{path}", headers=headers, timeout=200, **more)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, **more: Any) -> Any:
        return self.ask("POST", path, **more)

    def export(self) -> Any:
        """What "Export, JSON" gives."""
        return self.ask("GET", f"/api/projects/{self.project}/export?exportType=JSON")

    def connect(self, address: str) -> int:
        backend = self.client.ml.create(url=address, project=self.project, title="dgpnet", is_interactive=True)
        assert backend.id is not None
        return backend.id

    def paint(self, number: int, mask: NDArray[np.uint8]) -> int:
        """An annotation with a brush, of photograph `number`."""
        made = self.client.annotations.create(id=self.tasks[number], result=[stroke(mask)])
        assert made.id is not None
        return made.id

    def repaint(self, annotation: int, mask: NDArray[np.uint8]) -> None:
        self.client.annotations.update(id=annotation, result=[stroke(mask)])

    def retrieve(self) -> None:
        """What "Retrieve predictions" does in the data manager, for all tasks."""
        asked = {"selectedItems": {"all": True, "excluded": []}, "project": str(self.project)}
        self.post(f"/api/dm/actions?id=retrieve_tasks_predictions&project={self.project}", json=asked)

    def predictions(self, number: int) -> dict[str, Any]:
        """Version -> prediction of a photograph."""
        several = self.client.predictions.list(task=self.tasks[number], project=self.project)
        return {one.model_version: one for one in several}


def stroke(mask: NDArray[np.uint8]) -> dict[str, Any]:
    """A region as Label Studio's own library writes it."""
    value = {"format": "rle", "rle": mask2rle(255 * mask), "brushlabels": ["coin"]}
    about = {"original_width": mask.shape[1], "original_height": mask.shape[0], "image_rotation": 0}
    return {"id": "painted", "type": "brushlabels", "from_name": "label", "to_name": "image", "value": value, **about}


def mask_of(regions: list[dict[str, Any]], size: tuple[int, int]) -> NDArray[np.bool_]:
    """What regions cover, as Label Studio's own library reads them."""
    covered = np.zeros(size, bool)
    for region in regions:
        assert (region["original_height"], region["original_width"]) == size
        covered |= np.reshape(decode_rle(region["value"]["rle"]), (*size, 4))[:, :, 3] > 127
    return covered


@contextmanager
def backend(url: str, key: str, folder: Path, port: int = 0, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`dgpnet backend label-studio` as a process: the address that it prints, and the process."""
    words = ["backend", "label-studio", "--label-studio", url, "--project", str(folder), "--port", str(port)]
    words += ["--model", "small", "--device", "cpu", "--fit-seconds", "5", *more]
    child = subprocess.Popen(
        [sys.executable, "-m", "dgpnet", *words],
        env=environment(LABEL_STUDIO_API_KEY=key),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        address = re.search(r"http://\S+", next(line for line in child.stderr if "is at" in line))
        assert address is not None
        yield address[0], child
    finally:
        child.kill()
        child.wait()
        child.stderr.close()

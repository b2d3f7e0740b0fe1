"""Small files that ask for a lot get a sentence, in little memory and time."""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.errors import LONGEST, Error

pytestmark = pytest.mark.fuzz

SIDE = 4000
#: Bytes that reading may take, and bytes of the largest file that is tried.
MEMORY, LARGE = 256 << 20, 5_000_000
#: Seconds of a processor; twice what is promised, since machines differ.
SECONDS = 2.0
#: How often the time is taken at most: a core that is shared with others counts their time, too.
ATTEMPTS = 3

ZIGZAG = [[n % SIDE, n % 2 * (SIDE - 1)] for n in range(100_000)]
FLAT = [number for pair in ZIGZAG for number in pair]


def coco(*segmentations: Any, categories: int = 1) -> Any:
    return {
        "images": [{"id": 1, "file_name": "a.png", "height": SIDE, "width": SIDE}],
        "categories": [{"id": n, "name": f"c{n}"} for n in range(categories)],
        "annotations": [{"image_id": 1, "category_id": 0, "segmentation": each} for each in segmentations],
    }


def labelme(*shapes: Any) -> Any:
    return {"imagePath": "a.png", "shapes": [{"label": "mug", "shape_type": "polygon", **shape} for shape in shapes]}


def labelstudio(**value: Any) -> Any:
    return [{"data": {"image": "a.png"}, "annotations": [{"result": [{"value": {**value, "brushlabels": ["mug"]}}]}]}]


def via(**shape: Any) -> Any:
    return {"a": {"filename": "a.png", "regions": [{"shape_attributes": shape, "region_attributes": {"label": "mug"}}]}}


def run_lengths(counts: Any) -> dict[str, Any]:
    return {"size": [SIDE, SIDE], "counts": counts}


HOSTILE: dict[str, Callable[[], Any]] = {
    "a zigzag in COCO": lambda: coco([FLAT]),
    "a zigzag in COCO, not in whole numbers": lambda: coco([[0.5, *FLAT[1:]]]),
    "a zigzag in labelme": lambda: labelme({"points": ZIGZAG}),
    "a zigzag in Label Studio": lambda: labelstudio(points=[[x / 40, y / 40] for x, y in ZIGZAG]),
    "a zigzag in VIA": lambda: via(name="polygon", all_points_x=FLAT[::2], all_points_y=FLAT[1::2]),
    "600 masks of everything": lambda: coco(*[run_lengths([0, SIDE**2])] * 600),
    "thousands of circles": lambda: labelme(*[{"shape_type": "circle", "points": [[2000, 2000], [0, 0]]}] * 20_000),
    "thousands of triangles": lambda: coco(*[[[0, 0, 9, 0, 0, 9]]] * 60_000),
    "thousands of nothings": lambda: coco(*[[]] * 60_000),
    "millions of counts": lambda: coco(run_lengths([1] * 2_400_000)),
    "millions of compressed counts": lambda: coco(run_lengths("1" * 4_900_000)),
    "a long stroke": lambda: labelstudio(rle=[3, 208, 144, 0, 58, 0, 0, 0] + [128, 0] * 800_000),
    "an empty list, a million times": lambda: coco(*[[[]] * 1_200_000]),
    "objects that hold nothing": lambda: {"images": [{}] * 1_000_000, "categories": []},
    "a name without end": lambda: labelme({"label": "a" * 4_900_000, "points": []}),
    "a hundred thousand classes": lambda: coco([[1, 1, 9, 1, 9, 9]], categories=100_000),
}


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What earlier tests left is not walked through again and again while a million lists are made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bounds")
    Image.new("L", (SIDE, SIDE)).save(folder / "a.png")
    (folder / "images").mkdir()
    Image.new("L", (SIDE, SIDE)).save(folder / "images/a.png")
    (folder / "labels").mkdir()
    return folder


def answered(path: Path) -> None:
    """In a set or a sentence, in time."""
    assert any(_seconds(path) < SECONDS for _ in range(ATTEMPTS))


def _seconds(path: Path) -> float:
    start = time.process_time()
    try:
        read_support(path)
    except Error as error:
        assert len(str(error)) <= LONGEST
    return time.process_time() - start


@pytest.mark.parametrize("what", HOSTILE)
def test_a_json_file_is_answered_within_bounds(folder: Path, what: str) -> None:
    text = json.dumps(HOSTILE[what](), separators=(",", ":"))
    assert len(text) <= LARGE
    (folder / "hostile.json").write_text(text)
    answered(folder / "hostile.json")


@pytest.mark.parametrize(
    "text", ["[" * LARGE, "[]," * (LARGE // 3), '{"a":' * 1_000_000, f'{{"images":{"9" * LARGE}}}']
)
def test_json_that_is_no_annotation_is_answered_within_bounds(folder: Path, text: str) -> None:
    (folder / "hostile.json").write_text(text[:LARGE])
    answered(folder / "hostile.json")


@pytest.mark.parametrize(
    ("listing", "labels"),
    [
        ("names: [mug]", "0 " + " ".join(f"{x / SIDE} {y / SIDE}" for x, y in ZIGZAG)),
        ("names: [mug]", "0 0 0 1 0 1 1\n" * 300_000),
        ("names: [mug]", "00\n" * 1_600_000),
        ("names: [" + "a," * 2_000_000 + "]", "0 0 0 1 0 1 1"),
        ("names: [" + "a," * 400_000 + "]", "0 0 0 1 0 1 1"),
        ("names: '" + "a" * 900_000, "0 0 0 1 0 1 1"),
    ],
)
def test_a_yolo_folder_is_answered_within_bounds(folder: Path, listing: str, labels: str) -> None:
    (folder / "data.yaml").write_text(listing)
    (folder / "labels/a.txt").write_text(labels)
    answered(folder / "data.yaml")


def test_all_of_them_together_take_little_memory(folder: Path) -> None:
    """One after another in a process of its own, whose peak is that of the worst."""
    files = folder / "all"
    files.mkdir()
    Image.new("L", (SIDE, SIDE)).save(files / "a.png")
    for number, make in enumerate(HOSTILE.values()):
        (files / f"{number}.json").write_text(json.dumps(make(), separators=(",", ":")))
    program = """
import resource, sys
from pathlib import Path
from dgpnet.annotations import read_support
from dgpnet.errors import Error

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
for path in sorted(Path(sys.argv[1]).glob("*.json")):
    try:
        read_support(path)
    except Error:
        pass
    print(path.name, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "all")], capture_output=True, text=True, check=True
    )
    most = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert max(most.values()) < MEMORY, most

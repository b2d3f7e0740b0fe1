"""Whatever a caller does wrong is one short Error: every kind of wrong value, for every public parameter.

Callables and parameters are found by inspection, so that new ones are tried by themselves.
"""

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dgpnet
from dgpnet.annotations import Item, export, read_support
from dgpnet.errors import LONGEST
from dgpnet.images import write_mask
from dgpnet.segmenter.folder import segment_folder
from dgpnet.segmenter.options import Options
from tests.tiny import scene, tiny_checkpoint, tiny_network, tiny_segmenter

PHOTO, MASK = scene(0)


class Strange:
    """Raises whatever it is asked for."""

    def __iter__(self) -> Iterator[int]:
        raise KeyError("strange")

    def __fspath__(self) -> str:
        raise OverflowError("strange")

    def __repr__(self) -> str:
        raise AttributeError("strange")


def failing() -> Iterator[Any]:
    yield PHOTO
    raise RuntimeError("the camera is gone " * 100)


def wrong() -> dict[str, Callable[[], Any]]:
    """Values that hardly any parameter takes, made anew for each call: an iterator is used up by the first."""
    same = {
        "None": None,
        "empty text": "",
        "text": "0.5",
        "bytes": b"\x89PNG\r\n\x1a\n",
        "long bytes": bytes(10**6),
        "minus one": -1,
        "zero": 0,
        "half": 0.5,
        "true": True,
        "nan": float("nan"),
        "inf": float("inf"),
        "large": 10**400,
        "larger": 10**5000,
        "complex": 1j,
        "object": object(),
        "type": int,
        "function": len,
        "list": [],
        "tuple": (),
        "dict": {},
        "set": {1},
        "list of none": [None],
        "list of lists": [[[]]],
        "mixed list": [PHOTO, "gone.jpg", None, 3, b"", [1]],
        "texts": ["a", "b"],
        "scalar": np.float64("nan"),
        "integer": np.int64(-1),
        "string array": np.array(["a", "b"]),
        "object array": np.array([None, 1], dtype=object),
        "structured array": np.zeros((4, 4), [("a", "u1")]),
        "date": np.datetime64("2020-01-01"),
        "empty array": np.zeros((0, 3)),
        "five dimensions": np.zeros((1, 1, 1, 1, 1)),
        "photo": PHOTO,
        "photos of nothing": [np.zeros((0, 0, 3), np.uint8)],
        "nan photo": [np.full((4, 4, 3), np.nan)],
        "sparse": torch.zeros(3, 4, 4).to_sparse(),
        "list of sparse": [torch.zeros(3, 4, 4).to_sparse()],
        "list of meta": [torch.zeros(3, 4, 4, device="meta")],
        "list of complex": [torch.zeros(3, 4, 4, dtype=torch.complex64)],
        "scalar tensor": torch.tensor(0.5),
        "dtype": torch.int8,
        "NUL": "a\0b",
        "surrogate": "\ud800",
        "long name": "a" * 300,
        "long path": "a/" * 2500,
        "long text": "x" * 100_000,
        "path": Path("/nonexistent/place"),
        "folder": Path("."),
        "closed image": _closed(),
        "strange": Strange(),
        "list of strange": [Strange()],
    }
    return {name: (lambda value=value: value) for name, value in same.items()} | {
        "failing generator": failing,
        "used generator": lambda: iter(()),
    }


def _closed() -> Image.Image:
    image = Image.new("L", (3, 3))
    image.close()
    return image


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """For each public callable, arguments with which it succeeds; what is written goes to a folder of its own."""
    folder, before = tmp_path_factory.mktemp("api"), Path.cwd()
    os.chdir(folder)
    segmenter = tiny_segmenter()
    concept = segmenter.learn([PHOTO, PHOTO], [MASK, MASK])
    concept.save(folder / "it.concept")
    found = concept.segment(PHOTO)
    photos, masks = [PHOTO], [MASK]
    yield {
        "load": {"name": tiny_checkpoint(folder / "net.safetensors"), "device": "cpu"},
        "Segmenter": {"network": tiny_network()},
        "Segmenter.learn": {"self": segmenter, "photos": photos, "masks": masks},
        "Segmenter.suggest": {"self": segmenter, "photos": photos},
        "Segmenter.save_pretrained": {"self": segmenter, "folder": folder / "model"},
        "Concept.segment": {"self": concept, "photo": PHOTO},
        "Concept.segment_all": {"self": concept, "photos": photos},
        "Concept.extend": {"self": concept, "photos": photos, "masks": masks},
        "Concept.without": {"self": concept, "example": 0},
        "Concept.suggest": {"self": concept, "photos": photos},
        "Concept.save": {"self": concept, "path": folder / "other.concept"},
        "Concept.load": {"path": folder / "it.concept", "segmenter": segmenter},
        "Segmentation.overlay": {"self": found},
        "Segmentation.shares": {"self": found},
        "read_support": {"path": _painted(folder / "painted")},
        "export": {"format": "coco", "out": folder / "exported", "classes": ["mug"], "items": [Item("a.png", MASK)]},
        "segment_folder": {"concept": concept, "photographs": folder / "painted" / "images", "out": folder / "found"},
    }
    os.chdir(before)


def _painted(folder: Path) -> Path:
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    Image.fromarray(PHOTO).save(folder / "images" / "a.png")
    write_mask(folder / "masks" / "a.png", MASK)
    return folder


#: Public though `dgpnet` itself does not show them: docs/python-api.md does.
FURTHER = (read_support, export, segment_folder)
#: Public for the program's own rooms, which call them rightly; and values, which only the program makes.
OURS = {"Segmenter.using", "Segmenter.batch", "Concept.prepare", "Concept.maps", "Concept.maps_of_tiles"}
OURS |= {"Concept.on", "Segmenter.on"}
OURS |= {"Concept.using", "Concept.judge", "Segmenter.tuned", "Segmenter.voters", "Concept", "Segmentation"}
#: Ask a server, for which tests/weights/test_hub.py has one, and a cluster, which tests/cluster/test_datasets.py has.
ASKING = {"Segmenter.push_to_hub", "Concept.map"}


def public() -> dict[str, Callable[..., Any]]:
    """Every callable that `dgpnet` shows, and the public methods of its classes."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dgpnet.__all__:
        value = getattr(dgpnet, name)
        if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
            continue
        found[name] = value
        if isinstance(value, type):
            methods = {f"{name}.{key}": getattr(value, key) for key in vars(value) if not key.startswith("_")}
            found |= {key: method for key, method in methods.items() if inspect.isfunction(method)}
    return {name: value for name, value in found.items() if name not in OURS}


def tried() -> dict[str, Callable[..., Any]]:
    """What is called with wrong values here."""
    shown = {name: value for name, value in public().items() if name not in ASKING}
    return shown | {function.__name__: function for function in FURTHER}


def parameters(function: Callable[..., Any]) -> list[str]:
    """What a caller can give by name; the options of a folder job are those of `Options`."""
    listed = [name for name in inspect.signature(function).parameters if name not in ("self", "options")]
    return listed + [option.name for option in fields(Options)] if function is segment_folder else listed


PARAMETERS = [(name, parameter) for name, function in tried().items() for parameter in parameters(function)]


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = function(**arguments)
        return list(answer) if isinstance(answer, Iterator) else answer


def test_every_public_callable_is_tried(right: dict[str, dict[str, Any]]) -> None:
    assert set(right) == set(tried())
    for name, function in tried().items():
        call(function, right[name])


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_wrong_value_is_one_short_error(name: str, parameter: str, right: dict[str, dict[str, Any]]) -> None:
    refused = 0
    for what, make in wrong().items():
        try:
            call(tried()[name], {**right[name], parameter: make()})
        except dgpnet.Error as error:
            refused += 1
            message = str(error)
            assert len(message) <= LONGEST, (what, message)
            assert message.endswith(".") and "\n" not in message, (what, message)
        except Exception as error:
            pytest.fail(f"{name}({parameter}={what}) raises {type(error).__name__}: {str(error)[:200]}")
    assert refused > len(wrong()) // 2


def test_numbers_and_paths_of_other_libraries_are_taken(right: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    concept = right["Concept.segment"]["self"]
    plain = concept.segment(PHOTO, threshold=0.25, max_pixels=10**6)
    same = concept.segment(PHOTO, threshold=np.float32(0.25), max_pixels=np.int64(10**6), tile=np.bool_(False))
    assert np.array_equal(plain.mask, same.mask)
    assert concept.without(np.uint8(1)).examples == 1
    assert concept.suggest(iter([PHOTO]), budget=np.int32(3)) == [0]

    class Place:
        def __fspath__(self) -> str:
            return str(tmp_path / "a.concept")

    concept.save(Place())
    assert dgpnet.Concept.load(Place(), concept.segmenter).fingerprint == concept.fingerprint

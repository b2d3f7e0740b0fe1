"""Panoptic COCO: segments in the colours of a PNG."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import read_support
from dgpnet.errors import Error

SIZE = (6, 8)
IDS = np.zeros(SIZE, np.int64)
IDS[:, 2:4], IDS[:, 4:6], IDS[:, 6:] = 7, 70_000, 3_000_000


def document(**more: Any) -> dict[str, Any]:
    segments = [
        {"id": 7, "category_id": 3, "iscrowd": 0},
        {"id": 70_000, "category_id": 200},
        {"id": 3_000_000, "category_id": 3, "iscrowd": 1},
    ]
    return {
        "images": [{"id": 1, "file_name": "a.jpg", "height": SIZE[0], "width": SIZE[1]}],
        "categories": [{"id": 3, "name": "cup", "isthing": 1}, {"id": 200, "name": "sky", "isthing": 0}],
        "annotations": [{"image_id": 1, "file_name": "a.png", "segments_info": segments, **more}],
    }


@pytest.fixture
def written(tmp_path: Path, photo: Callable[..., Path]) -> Callable[..., Path]:
    photo("val2017/a.jpg", SIZE)

    def write(data: Any, ids: np.ndarray = IDS) -> Path:
        path = tmp_path / "annotations/panoptic_val2017.json"
        (tmp_path / "annotations/panoptic_val2017").mkdir(parents=True, exist_ok=True)
        colours = np.stack([ids % 256, ids // 256 % 256, ids // 65536], 2).astype(np.uint8)
        Image.fromarray(colours).save(path.with_suffix("") / "a.png")
        path.write_text(json.dumps(data))
        return path

    return write


def test_segments_are_classes_and_what_has_none_is_ignore(written: Callable[..., Path], tmp_path: Path) -> None:
    path = written(document())
    for where in (path, tmp_path):
        support = read_support(where)
        assert support.format == "panoptic"
        assert (support.classes, support.legend.values) == (("cup", "sky"), (3, 200))
        assert support.examples[0].photo == tmp_path / "val2017/a.jpg"
        np.testing.assert_array_equal(support.examples[0].mask[0], [255, 255, 1, 1, 2, 2, 255, 255])
        told = " ".join(support.notes)
        assert "1 photographs have pixels without a segment, which are taken as ignore" in told
        assert "1 crowds (iscrowd: 1) are taken as ignore" in told


def test_a_picture_that_shows_another_segment_is_refused(written: Callable[..., Path]) -> None:
    other = IDS.copy()
    other[2, 2] = 8
    with pytest.raises(Error, match=r"a\.png shows segment 8"):
        read_support(written(document(), other))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"file_name": "b.png"}, "there is no photograph 'b.png'"),
        ({"file_name": "../../../x.png"}, "leads outside"),
        ({"image_id": 2}, "none of the file's images"),
        ({"segments_info": [{"id": 7, "category_id": 9}]}, "category_id 9"),
        ({"segments_info": [{"id": 7, "category_id": 3}] * 2}, "or that of two segments"),
        ({"segments_info": [{"id": 2**40, "category_id": 3}]}, "is no id"),
    ],
)
def test_a_broken_file_is_refused(written: Callable[..., Path], more: dict[str, Any], reason: str) -> None:
    with pytest.raises(Error, match=reason):
        read_support(written(document(**more)))

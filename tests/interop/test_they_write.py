"""What other programs write is read here: masks exactly, outlines to an IoU of 0.97, with the names of classes.

Whole corners are centres of pixels, run lengths are objects where a file has no other objects than crowds, and so on:
what readers have to know of each program.
"""

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import cvat, outlines, read_support
from dgpnet.annotations.reading import IGNORED, Request
from tests.interop.conftest import LEGEND, Mask, Table
from tests.interop.test_they_read import BY_NAME, OUTLINE

#: Holds when readers take a file's crowds for objects where it has no other, and know VOC's layout.


def read(path: Path, photos: Path, **options: str) -> dict[str, Mask]:
    """Masks by the photographs' names, with the numbers of `LEGEND`'s names, whatever theirs are."""
    support = read_support(path, photos=photos, **options)
    table = np.zeros(256, np.uint8)
    table[1 : len(support.classes) + 1] = [BY_NAME[name] for name in support.classes]
    table[255] = 255
    return {example.photo.name: table[example.mask] for example in support.examples}


def parts(mask: Mask) -> list[tuple[int, np.ndarray]]:
    """(class, (H, W) bool) of each connected part."""
    found = []
    for value in range(1, len(LEGEND.names) + 1):
        for top, left, pixels in outlines.parts(mask == value):
            whole = np.zeros(mask.shape, bool)
            whole[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
            found.append((value, whole))
    return found


def without_empty(masks: dict[str, Mask]) -> dict[str, Mask]:
    return {name: mask for name, mask in masks.items() if mask.any()}


@pytest.mark.parametrize("compressed", [True, False])
def test_pycocotools_writes_run_lengths(
    tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table, compressed: bool
) -> None:
    pycoco = pytest.importorskip("pycocotools.mask")
    annotations: list[Any] = []
    for number, mask in enumerate(masks.values()):
        for value, pixels in parts(mask):
            rle = pycoco.encode(np.asfortranarray(pixels))
            rle["counts"] = rle["counts"].decode()
            if not compressed:
                columns = np.concatenate([[False], pixels.T.ravel(), [not pixels.T.ravel()[-1]]])
                edges = np.flatnonzero(columns[1:] != columns[:-1])
                rle["counts"] = np.diff(edges, prepend=0).tolist()
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": value,
                    "iscrowd": 0,
                    "segmentation": rle,
                }
            )
    document = {
        "images": [
            {"id": number, "file_name": name, "height": mask.shape[0], "width": mask.shape[1]}
            for number, (name, mask) in enumerate(masks.items())
        ],
        "categories": [{"id": number, "name": name} for name, number in BY_NAME.items()],
        "annotations": annotations,
    }
    (tmp_path / "coco.json").write_text(json.dumps(document))
    kind = f"COCO RLE, {'compressed' if compressed else 'counts'}"
    assert table.add("pycocotools", kind, "writes", read(tmp_path / "coco.json", photos), masks) == 1


def supervised(photos: Path, masks: dict[str, Mask]) -> Any:
    """A dataset of supervision's with a detection for each part."""
    supervision = pytest.importorskip("supervision")
    annotations = {}
    for name, mask in masks.items():
        pieces = parts(mask)
        pixels = np.array([piece for _, piece in pieces]).reshape(-1, *mask.shape)
        annotations[str(photos / name)] = supervision.Detections(
            xyxy=supervision.mask_to_xyxy(pixels).astype(np.float32).reshape(-1, 4),
            mask=pixels,
            class_id=np.array([value - 1 for value, _ in pieces], int),
        )
    return supervision.DetectionDataset(list(LEGEND.names), list(annotations), annotations)


def test_supervision_writes_coco(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    """Parts without holes as polygons, parts with holes as crowds: that these are objects has to be said."""
    masks = without_empty(masks)
    supervised(photos, masks).as_coco(annotations_path=str(tmp_path / "coco.json"))
    found = read(tmp_path / "coco.json", photos, crowds="objects")
    assert table.add("supervision", "COCO", "writes", found, masks) >= OUTLINE


def test_supervision_writes_yolo(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    masks = without_empty(masks)
    supervised(photos, masks).as_yolo(
        annotations_directory_path=str(tmp_path / "labels"), data_yaml_path=str(tmp_path / "data.yaml")
    )
    assert table.add("supervision", "YOLO", "writes", read(tmp_path, photos), masks) >= OUTLINE


def test_supervision_writes_labelme(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    masks = without_empty(masks)
    supervised(photos, masks).as_labelme(annotations_directory_path=str(tmp_path / "labelme"))
    least = table.add("supervision", "labelme", "writes", read(tmp_path / "labelme", photos), masks)
    assert least >= OUTLINE


def datumaroed(photos: Path, masks: dict[str, Mask]) -> Any:
    """A dataset of datumaro's with a mask for each part."""
    datumaro = pytest.importorskip("datumaro")
    from datumaro.components.annotation import Mask as Piece
    from datumaro.components.media import Image as Photo

    ids = count(1)
    items = [
        datumaro.DatasetItem(
            id=Path(name).stem,
            subset="train",
            media=Photo.from_file(path=str(photos / name), size=mask.shape),
            annotations=[
                Piece(pixels.astype(np.uint8), label=value - 1, id=next(ids), group=number)
                for number, (value, pixels) in enumerate(parts(mask), 1)
            ],
        )
        for name, mask in masks.items()
    ]
    return datumaro.Dataset.from_iterable(items, categories=list(LEGEND.names))


def test_datumaro_writes_coco(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    """Run lengths, all of them marked as crowds."""
    datumaroed(photos, masks).export(str(tmp_path / "set"), "coco_instances")
    path = tmp_path / "set/annotations/instances_train.json"
    assert table.add("datumaro", "COCO", "writes", read(path, photos), masks) == 1


def test_datumaro_writes_cvat(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    """It writes outlines for masks, with whole corners, without holes and somewhat simplified."""
    masks = {name: _filled(mask) for name, mask in masks.items()}
    datumaroed(photos, masks).transform("masks_to_polygons").export(str(tmp_path / "set"), "cvat")
    found = cvat.read(Request(tmp_path / "set/train.xml", photos))
    assert found.names == LEGEND.names[:1]  # the spoons lay in holes, and a label without shapes is left out
    drawn = dict(draw() for draw in found.drawings)
    read = {path.name: np.where(labels == IGNORED, 255, labels).astype(np.uint8) for path, labels in drawn.items()}
    # Its simplification alone costs small parts up to a tenth.
    assert table.add("datumaro", "CVAT XML", "writes", read, masks) >= 0.9


def test_datumaro_writes_voc(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    """It writes no mask for a photograph that shows nothing."""
    masks = without_empty(masks)
    datumaroed(photos, masks).export(str(tmp_path / "set"), "voc_segmentation", save_media=True)
    assert table.add("datumaro", "VOC", "writes", read(tmp_path / "set", tmp_path / "set/JPEGImages"), masks) == 1


def save_labelme(folder: Path, name: str, size: tuple[int, ...], shapes: list[dict[str, Any]]) -> Path:
    """By labelme itself, beside the photograph."""
    labelme = pytest.importorskip("labelme._label_file")
    path = folder / f"{Path(name).stem}.json"
    blank = {"group_id": None, "description": "", "flags": {}, "mask": None}
    shapes = [blank | shape for shape in shapes]
    labelme.LabelFile().save(
        filename=str(path), shapes=shapes, image_path=name, image_height=size[0], image_width=size[1]
    )
    return path


def test_labelme_writes_masks(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    utils = pytest.importorskip("labelme.utils")
    masks = without_empty(masks)
    for name, mask in masks.items():
        shutil.copy(photos / name, tmp_path)
        shapes = []
        for value, pixels in parts(mask):
            (top, left), (bottom, right) = np.argwhere(pixels).min(0).tolist(), np.argwhere(pixels).max(0).tolist()
            text = utils.img_arr_to_b64(pixels[top : bottom + 1, left : right + 1].astype(np.uint8))
            points = [[left, top], [right, bottom]]
            shapes.append({"label": LEGEND.names[value - 1], "shape_type": "mask", "points": points, "mask": text})
        save_labelme(tmp_path, name, mask.shape, shapes)
    assert table.add("labelme", "labelme masks", "writes", read(tmp_path, tmp_path), masks) == 1


def test_labelme_writes_polygons_with_whole_corners(
    tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table
) -> None:
    """They are read as labelme itself draws them."""
    measure = pytest.importorskip("skimage.measure")
    labelme, drawing = pytest.importorskip("labelme._label_file"), pytest.importorskip("labelme.utils.shape")
    drawn = {}
    for name, mask in without_empty(masks).items():
        shutil.copy(photos / name, tmp_path)
        shapes = []
        for value, pixels in parts(mask):
            outline = max(measure.find_contours(np.pad(pixels, 1), 0.5), key=len)
            points = np.rint(measure.approximate_polygon(outline[:-1, ::-1] - 1, 0.7)).clip(0).tolist()
            shapes.append({"label": LEGEND.names[value - 1], "shape_type": "polygon", "points": points})
        path = save_labelme(tmp_path, name, mask.shape, shapes)
        drawn[name] = drawing.shapes_to_label(mask.shape, labelme.LabelFile(str(path)).shapes, BY_NAME)[0]
    # Pillow, which labelme draws with, takes fewer pixels on slanting sides than OpenCV does; this is between them.
    assert table.add("labelme", "labelme polygons", "writes", read(tmp_path, tmp_path), drawn) >= 0.95


def test_label_studio_writes_brush_strokes(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    brush = pytest.importorskip("label_studio_sdk.converter.brush")
    masks = without_empty(masks)
    tasks = []
    for name, mask in masks.items():
        regions = [
            {
                "type": "brushlabels",
                "original_height": mask.shape[0],
                "original_width": mask.shape[1],
                "value": {
                    "format": "rle",
                    "rle": brush.mask2rle(pixels.astype(np.uint8) * 255),
                    "brushlabels": [LEGEND.names[value - 1]],
                },
            }
            for value, pixels in parts(mask)
        ]
        tasks.append({"data": {"image": f"/data/upload/1/0a1b2c3d-{name}"}, "annotations": [{"result": regions}]})
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = read(tmp_path / "export.json", photos)
    assert table.add("label-studio-sdk", "Label Studio brush", "writes", found, masks) == 1


def test_cvat_writes_masks(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    encode = pytest.importorskip("cvat_sdk.masks").encode_mask
    lines = []
    for number, (name, mask) in enumerate(masks.items()):
        lines.append(f'<image id="{number}" name="{name}" width="{mask.shape[1]}" height="{mask.shape[0]}">')
        for value, pixels in parts(mask):
            *counts, left, top, right, bottom = encode(pixels)
            lines.append(
                f'<mask label="{LEGEND.names[value - 1]}" rle="{", ".join(map(str, counts))}" left="{left}" '
                f'top="{top}" width="{right - left + 1}" height="{bottom - top + 1}" z_order="0"/>'
            )
        lines.append("</image>")
    (tmp_path / "annotations.xml").write_text("<annotations><version>1.1</version>" + "".join(lines) + "</annotations>")
    found = cvat.read(Request(tmp_path / "annotations.xml", photos))
    drawn = dict(draw() for draw in found.drawings)
    assert found.names == LEGEND.names
    read = {path.name: labels.astype(np.uint8) for path, labels in drawn.items()}
    assert table.add("cvat-sdk", "CVAT XML masks", "writes", read, masks) == 1


def test_ultralytics_converts_masks_to_yolo(tmp_path: Path, photos: Path, masks: dict[str, Mask], table: Table) -> None:
    """It fills holes and cannot have parts of one or two pixels."""
    converter = pytest.importorskip("ultralytics.data.converter")
    masks = {name: _filled(mask) for name, mask in without_empty(masks).items()}
    (tmp_path / "theirs").mkdir()
    for name, mask in masks.items():
        Image.fromarray(mask).save(tmp_path / "theirs" / name)
    converter.convert_segment_masks_to_yolo_seg(str(tmp_path / "theirs"), str(tmp_path / "set/labels"), classes=1)
    (tmp_path / "set/data.yaml").write_text(f"names: {[LEGEND.names[0]]}\n")
    assert table.add("ultralytics", "YOLO", "writes", read(tmp_path / "set", photos), masks) >= OUTLINE


def _filled(mask: Mask) -> Mask:
    """Class 1 alone, its holes filled, so that nothing lies on anything."""
    from scipy import ndimage

    return np.asarray(ndimage.binary_fill_holes(mask == 1), np.uint8)

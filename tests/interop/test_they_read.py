"""Other programs read what is written here: masks exactly, outlines to an IoU of 0.97, names, sizes and ids whole.

Each test asks one program by its own reader. Known misses have a bound of their own, and say why.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from dgpnet.annotations import Item, export
from tests.interop.conftest import LEGEND, Mask, Table

OUTLINE = 0.97
BOTH = pytest.mark.parametrize("polygons", [False, True], ids=["masks", "polygons"])
#: Class 1 … C by name, and by the number that files know it by.
BY_NAME = {name: number for number, name in enumerate(LEGEND.names, 1)}
BY_VALUE = {value: number for number, value in enumerate(LEGEND.values, 1)}


def painted(size: tuple[int, int], pieces: Iterable[tuple[int, np.ndarray]]) -> Mask:
    """(class, (H, W) mask) pieces on background."""
    canvas = np.zeros(size, np.uint8)
    for value, pixels in pieces:
        canvas[np.asarray(pixels, bool)] = value
    return canvas


def required(polygons: bool) -> float:
    return OUTLINE if polygons else 1.0


@BOTH
@pytest.mark.parametrize("instances", [False, True], ids=["", "instances"])
def test_pycocotools_reads_coco(
    tmp_path: Path, items: list[Item], masks: dict[str, Mask], table: Table, polygons: bool, instances: bool
) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    path = export("coco", tmp_path, LEGEND, items, polygons=polygons, instances=instances)
    data = coco.COCO(str(path))
    assert [(c["id"], c["name"]) for c in data.loadCats(data.getCatIds())] == [
        *zip(LEGEND.values, LEGEND.names, strict=True),
        *LEGEND.unused,
    ]
    found = {}
    for image in data.loadImgs(data.getImgIds()):
        pieces = [
            (BY_VALUE[annotation["category_id"]], data.annToMask(annotation))
            for annotation in data.loadAnns(data.getAnnIds(image["id"]))
        ]
        found[image["file_name"]] = painted((image["height"], image["width"]), pieces)
    kind = ("COCO polygons" if polygons else "COCO RLE") + (", instances" if instances else "")
    assert table.add("pycocotools", kind, "reads ours", found, masks) == 1


def supervised(dataset: Any) -> dict[str, Mask]:
    """The masks of a supervision dataset, by the photographs' names."""
    found = {}
    for path, photo, detections in dataset:
        number = [BY_NAME.get(name, 0) for name in dataset.classes]
        pieces = zip(detections.class_id, detections.mask, strict=True) if len(detections) else ()
        found[Path(path).name] = painted(photo.shape[:2], [(number[value], mask) for value, mask in pieces])
    return found


@BOTH
def test_supervision_reads_coco(
    tmp_path: Path, photos: Path, items: list[Item], masks: dict[str, Mask], table: Table, polygons: bool
) -> None:
    supervision = pytest.importorskip("supervision")
    path = export("coco", tmp_path, LEGEND, items, polygons=polygons)
    dataset = supervision.DetectionDataset.from_coco(str(photos), str(path), force_masks=True)
    kind = "COCO polygons" if polygons else "COCO RLE"
    least = table.add("supervision", kind, "reads ours", supervised(dataset), masks)
    # It rounds corners to pixels and draws the outline too, so that what COCO's own tools fill exactly is up to a pixel
    # larger on the right and below. No outline suits both; COCO's own tools have the word.
    assert least >= (0.75 if polygons else 1)


def test_supervision_reads_yolo(
    tmp_path: Path, photos: Path, items: list[Item], masks: dict[str, Mask], table: Table
) -> None:
    supervision = pytest.importorskip("supervision")
    path = export("yolo", tmp_path, LEGEND, items)
    dataset = supervision.DetectionDataset.from_yolo(
        str(photos), str(path / "labels/train"), str(path / "data.yaml"), force_masks=True
    )
    assert dataset.classes == ["tea spoon", "fork", "mug"]
    assert table.add("supervision", "YOLO", "reads ours", supervised(dataset), masks) == 1


def test_supervision_reads_labelme(
    tmp_path: Path, photos: Path, items: list[Item], masks: dict[str, Mask], table: Table
) -> None:
    supervision = pytest.importorskip("supervision")
    path = export("labelme", tmp_path, LEGEND, items, polygons=True)
    dataset = supervision.DetectionDataset.from_labelme(str(photos), str(path), force_masks=True)
    assert table.add("supervision", "labelme polygons", "reads ours", supervised(dataset), masks) == 1


def datumaroed(dataset: Any, masks: dict[str, Mask]) -> dict[str, Mask]:
    """The masks of a datumaro dataset, by the photographs' names; polygons as it draws them itself."""
    from datumaro.components.annotation import AnnotationType

    names = [label.name for label in dataset.categories()[AnnotationType.label]]
    found = {}
    for item in dataset.transform("polygons_to_masks"):
        shapes = [shape for shape in item.annotations if shape.type == AnnotationType.mask]
        pieces = [(BY_NAME.get(names[shape.label], 0), shape.image) for shape in shapes]
        found[f"{item.id}.png"] = painted(masks[f"{item.id}.png"].shape, pieces)
    return found


@BOTH
@pytest.mark.parametrize("format_", ["coco", "cvat"])
def test_datumaro_reads_coco_and_cvat(
    tmp_path: Path,
    photos: Path,
    items: list[Item],
    masks: dict[str, Mask],
    table: Table,
    polygons: bool,
    format_: str,
) -> None:
    datumaro = pytest.importorskip("datumaro")
    path = export(format_, tmp_path, LEGEND, items, polygons=polygons)
    if format_ == "coco":  # its own layout
        target = tmp_path / "set/annotations/instances_train.json"
        pictures, kind = tmp_path / "set/images/train", "coco_instances"
    else:
        target, pictures, kind = tmp_path / "set/train.xml", tmp_path / "set/images", "cvat"
    target.parent.mkdir(parents=True)
    shutil.copy(path, target)
    shutil.copytree(photos, pictures)
    dataset = datumaro.Dataset.import_from(str(tmp_path / "set"), kind)
    named = f"{'COCO' if format_ == 'coco' else 'CVAT XML'} {'polygons' if polygons else 'masks'}"
    assert table.add("datumaro", named, "reads ours", datumaroed(dataset, masks), masks) >= required(polygons)


def test_datumaro_reads_voc(
    tmp_path: Path, photos: Path, items: list[Item], masks: dict[str, Mask], table: Table
) -> None:
    datumaro = pytest.importorskip("datumaro")
    path = export("voc", tmp_path, LEGEND, items)
    shutil.copytree(photos, path / "JPEGImages")
    dataset = datumaro.Dataset.import_from(str(path), "voc_segmentation")
    assert table.add("datumaro", "VOC", "reads ours", datumaroed(dataset, masks), masks) == 1


@BOTH
def test_labelme_reads_labelme(
    tmp_path: Path, photos: Path, items: list[Item], masks: dict[str, Mask], table: Table, polygons: bool
) -> None:
    labelme = pytest.importorskip("labelme._label_file")
    shape = pytest.importorskip("labelme.utils.shape")
    path = export("labelme", tmp_path, LEGEND, items, polygons=polygons)
    found = {}
    for file in sorted(path.glob("*.json")):
        shutil.copy(photos / f"{file.stem}.png", path)
        read = labelme.LabelFile(str(file))
        found[read.image_path] = shape.shapes_to_label(masks[read.image_path].shape, read.shapes, BY_NAME)[0]
    kind = f"labelme {'polygons' if polygons else 'masks'}"
    assert table.add("labelme", kind, "reads ours", found, masks) == 1


def test_label_studio_reads_brush_strokes(
    tmp_path: Path, items: list[Item], masks: dict[str, Mask], table: Table
) -> None:
    brush = pytest.importorskip("label_studio_sdk.converter.brush")
    path = export("labelstudio", tmp_path, LEGEND, items)
    found = {}
    for task in json.loads(path.read_text()):
        name = task["data"]["image"].rpartition("=")[2]
        size = masks[name].shape
        values = [region["value"] for region in task["predictions"][0]["result"]]
        pieces = [
            (BY_NAME[value["brushlabels"][0]], np.reshape(brush.decode_rle(value["rle"]), (*size, 4))[..., 3])
            for value in values
        ]
        found[name] = painted(size, pieces)
    assert table.add("label-studio-sdk", "Label Studio brush", "reads ours", found, masks) == 1


def test_label_studio_converts_polygons_to_coco(
    tmp_path: Path, items: list[Item], masks: dict[str, Mask], table: Table
) -> None:
    """It has no rasteriser of its own for polygons: its converter makes COCO of them."""
    converter = pytest.importorskip("label_studio_sdk.converter")
    coco = pytest.importorskip("pycocotools.coco")
    path = export("labelstudio", tmp_path, LEGEND, items, polygons=True)
    tasks = json.loads(path.read_text())
    for number, task in enumerate(tasks, 1):  # as an export of the same project, all predictions accepted
        task |= {"id": number, "annotations": [{"id": number, "result": task.pop("predictions")[0]["result"]}]}
        task["data"]["image"] = task["data"]["image"].rpartition("=")[2]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    config = (tmp_path / "labelstudio.xml").read_text()
    converter.Converter(config, str(tmp_path)).convert_to_coco(
        str(tmp_path / "tasks.json"), str(tmp_path / "coco"), str(tmp_path / "images"), is_dir=False
    )
    data = coco.COCO(str(tmp_path / "coco/result.json"))
    names = {category["id"]: category["name"] for category in data.loadCats(data.getCatIds())}
    found = {name: np.zeros(mask.shape, np.uint8) for name, mask in masks.items()}
    for image in data.loadImgs(data.getImgIds()):
        for annotation in data.loadAnns(data.getAnnIds(image["id"])):
            pixels = data.annToMask(annotation) > 0
            found[Path(image["file_name"]).name][pixels] = BY_NAME[names[annotation["category_id"]]]
    assert table.add("label-studio-sdk", "Label Studio polygons", "reads ours", found, masks) >= OUTLINE


def test_label_studio_takes_the_labelling_interface(tmp_path: Path, items: list[Item]) -> None:
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    path = export("labelstudio", tmp_path, LEGEND, items)
    read = interface.LabelInterface((tmp_path / "labelstudio.xml").read_text())
    read.validate()
    for task in json.loads(path.read_text()):
        assert read.validate_prediction(task["predictions"][0] | {"score": 0.5})


def test_cvat_decodes_masks(tmp_path: Path, items: list[Item], masks: dict[str, Mask], table: Table) -> None:
    cvat = pytest.importorskip("cvat_sdk.masks")
    root = ElementTree.parse(export("cvat", tmp_path, LEGEND, items)).getroot()
    colours = {label.findtext("name"): label.findtext("color") for label in root.iter("label")}
    assert colours["mug"] == "#0ac81e" and list(colours) == ["mug", "tea spoon", "fork"]
    found = {}
    for image in root.iter("image"):
        height, width = int(image.get("height", 0)), int(image.get("width", 0))
        pieces = []
        for mask in image.iter("mask"):
            left, top, across, down = (int(mask.get(key, 0)) for key in ("left", "top", "width", "height"))
            points = [int(count) for count in mask.get("rle", "").split(",")]
            points += [left, top, left + across - 1, top + down - 1]
            pixels = cvat.decode_mask(points, image_width=width, image_height=height)
            pieces.append((BY_NAME[mask.get("label", "")], pixels))
        found[image.get("name", "")] = painted((height, width), pieces)
    assert table.add("cvat-sdk", "CVAT XML masks", "reads ours", found, masks) == 1


@pytest.mark.parametrize("training", [False, True], ids=["", "training"])
def test_ultralytics_reads_yolo(
    tmp_path: Path,
    photos: Path,
    items: list[Item],
    masks: dict[str, Mask],
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    training: bool,
) -> None:
    utils, ops = pytest.importorskip("ultralytics.data.utils"), pytest.importorskip("ultralytics.utils.ops")
    path = export("yolo", tmp_path, LEGEND, items)
    shutil.copytree(photos, path / "images/train")
    monkeypatch.chdir(tmp_path)  # anywhere but beside the file
    data = utils.check_det_dataset(str(path / "data.yaml"))
    assert data["names"] == {0: "tea spoon", 1: "fork", 2: "mug"}
    pictures = sorted(Path(data["train"]).iterdir())
    labels = utils.img2label_paths([str(picture) for picture in pictures])
    found = {}
    for picture, label in zip(pictures, labels, strict=True):
        _, boxes, size, segments, *_, corrupt, message = utils.verify_image_label(
            (str(picture), label, "", False, 3, 0, 0, False)
        )
        assert not corrupt and not message
        if training and segments:
            segments = ops.resample_segments(segments, n=max(1000, 1 + max(map(len, segments))))
        drawn = utils.polygons2masks(size, [xy * size[::-1] for xy in segments], color=1) if len(segments) else ()
        pieces = zip([BY_VALUE[int(number) + 1] for number in boxes[:, 0]], drawn, strict=True)
        found[picture.name] = painted(size, pieces)
    least = table.add("ultralytics", "YOLO, in training" if training else "YOLO", "reads ours", found, masks)
    # For training it puts 1,000 points on an outline and cuts off their fractions, which takes a bit of every slope.
    assert least >= (0.94 if training else 1)

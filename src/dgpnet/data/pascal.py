"""PASCAL VOC 2012 with the SBD masks, its four folds, and the COCO to PASCAL class lists.

Layout: JPEGImages/*.jpg, SegmentationClassAug/*.png (0 background, 1..20, 255 ignore), and either the field's pair
lists splits/pascal-5i/{train,val}/fold{0..3}.txt (`2007_000033__01`) or ImageSets/Segmentation/val.txt, from which
pairs are made by counting pixels.
"""

import re
from pathlib import Path

from dgpnet.data.dataset import Dataset, Files, Pair, check_fold, in_fold
from dgpnet.data.scan import MIN_PIXELS, count_pixels, pairs_of
from dgpnet.errors import Error

NAMES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle"),
    *("bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person"),
    *("pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
CLASSES = dict(enumerate(NAMES, 1))
FOLDS = 4
PER_FOLD = 5

#: The paper's appendix: PASCAL classes that no training class of COCO-20i fold i names.
COCO_TO_PASCAL = (
    ("aeroplane", "boat", "chair", "diningtable", "dog", "person"),
    ("bicycle", "bus", "horse", "sofa"),
    ("bird", "car", "pottedplant", "sheep", "train", "tvmonitor"),
    ("bottle", "cat", "cow", "motorbike"),
)

_LISTED = re.compile(r"([\w.-]+?)__(\d{1,2})")


def pascal(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "train",
    lists: str | Path | None = None,
    min_pixels: int = MIN_PIXELS,
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Dataset:
    """PASCAL-5i: fold i tests classes 5i+1..5i+5 on val and trains the others on train; no fold is all classes.

    lists: folder with {train,val}/fold*.txt; found below root by itself. Without any, pairs have `min_pixels` pixels.
    """
    check_fold("pascal", fold, split, FOLDS)
    numbers = [c for c in CLASSES if in_fold(c - 1, fold, split, FOLDS, blocks_of=PER_FOLD)]
    return _voc("pascal", root, numbers, split, lists, min_pixels, cache, workers)


def coco2pascal(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "test",
    lists: str | Path | None = None,
    min_pixels: int = MIN_PIXELS,
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Dataset:
    """PASCAL val with the classes that fold i of COCO-20i does not train on; root is PASCAL's."""
    check_fold("coco2pascal", fold, split, FOLDS)
    if split != "test":
        raise Error("coco2pascal is for testing; train on coco and test with split 'test'.")
    names = set(COCO_TO_PASCAL[fold]) if fold is not None else set(NAMES)
    numbers = [c for c, name in CLASSES.items() if name in names]
    return _voc("coco2pascal", root, numbers, split, lists, min_pixels, cache, workers)


def _voc(
    name: str,
    root: str | Path,
    numbers: list[int],
    split: str,
    lists: str | Path | None,
    min_pixels: int,
    cache: str | Path | None,
    workers: int | None,
) -> Dataset:
    base = _base(Path(root))
    part = "train" if split == "train" else "val"
    found = _lists(base, part, lists)
    classes = {c: CLASSES[c] for c in numbers}
    if found is not None:
        listed = [entry for path in found for entry in _read_list(path)]
        photos = sorted({photo for photo, _ in listed})
        number = {photo: i for i, photo in enumerate(photos)}
        # A pair may stand in the lists of several folds; once is enough.
        pairs: list[Pair] = list(dict.fromkeys((number[photo], c) for photo, c in listed if c in classes))
        return Files(name, base, _files(photos), classes, pairs, class_first=False)
    photos = _own_split(base, part)
    dataset = Files(name, base, _files(photos), classes, [], class_first=False)
    return dataset.with_pairs(classes, pairs_of(count_pixels(dataset, cache, workers), classes, min_pixels))


def _base(root: Path) -> Path:
    """The folder with JPEGImages: root, root/VOC2012 or root/VOCdevkit/VOC2012."""
    for base in (root, root / "VOC2012", root / "VOCdevkit" / "VOC2012"):
        if (base / "JPEGImages").is_dir() and (base / "SegmentationClassAug").is_dir():
            return base
    raise Error(
        f"{root} has no JPEGImages and SegmentationClassAug, nor has a VOC2012 in it; give the folder of VOC 2012."
    )


def _lists(base: Path, part: str, lists: str | Path | None) -> list[Path] | None:
    """The four pair lists of one part, or None if there are none."""
    homes = [Path(lists)] if lists else [base / "splits" / "pascal-5i", base / "splits" / "pascal", base / "splits"]
    parts = ("train", "trn") if part == "train" else ("val", "test")
    for home in homes:
        for folder in (home / p for p in parts):
            paths = [folder / f"fold{i}.txt" for i in range(FOLDS)]
            if all(path.is_file() for path in paths):
                return paths
    if lists:
        raise Error(f"{lists} has no {part}/fold0.txt to fold{FOLDS - 1}.txt; give the folder of the pair lists.")
    return None


def _read_list(path: Path) -> list[tuple[str, int]]:
    entries = []
    for line in path.read_text().split():
        match = _LISTED.fullmatch(line)
        if not match or int(match[2]) not in CLASSES:
            raise Error(f"{path} has the line {line!r}; expected a photograph and a class such as 2007_000033__01.")
        entries.append((match[1], int(match[2])))
    return entries


def _own_split(base: Path, part: str) -> list[str]:
    """val is what ImageSets says, train everything else that has a mask."""
    listed = base / "ImageSets" / "Segmentation" / "val.txt"
    if not listed.is_file():
        raise Error(
            f"{base} has neither splits/pascal-5i/{part}/fold*.txt nor {listed.relative_to(base)}; add one of them."
        )
    val = set(listed.read_text().split())
    if part == "val":
        return sorted(val)
    return sorted(path.stem for path in (base / "SegmentationClassAug").glob("*.png") if path.stem not in val)


def _files(photos: list[str]) -> list[tuple[str, str]]:
    return [(f"JPEGImages/{photo}.jpg", f"SegmentationClassAug/{photo}.png") for photo in photos]

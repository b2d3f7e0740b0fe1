"""Where photographs and masks lie: two folders side by side, splits of them, or one folder with both.

A mask belongs to the photograph of its own name, the first of these that there is:

1. the photograph's whole name and a further suffix:   trip/a.jpg.png -> trip/a.jpg
2. the same name but for the suffix:                   trip/a.png -> trip/a.jpg
3. the same with one of ENDINGS taken off:             trip/a_mask.png -> trip/a.jpg
4. 1 to 3 but for upper and lower case, and for how accents are written.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dgpnet.annotations.reading import ABSENT, PHOTO_SUFFIXES, Notes, files_in
from dgpnet.errors import Error

#: Names of folders, in lower case.
IMAGES: Final = ("images", "image", "imgs", "img", "photos", "photo", "pictures", "jpegimages", "inputs", "input")
MASKS: Final = (
    *("masks", "mask", "segmentationclass", "labels", "label", "targets", "target"),
    *("annotations", "annotation", "segmentations", "segmentation", "groundtruth", "ground_truth", "gt"),
)
#: Of PASCAL VOC, whose masks of single objects are not read.
OBJECTS: Final = "SegmentationObject"
#: Those that are no other format's.
_SURE: Final = MASKS[:3]
SPLITS: Final = ("train", "training", "val", "valid", "validation", "test", "testing")
#: What a mask's name may have after the photograph's.
ENDINGS: Final = tuple(
    mark + word
    for word in ("masks", "mask", "labels", "label", "segmentation", "seg", "groundtruth", "gt", "target")
    for mark in "_-. "
)
#: In a folder with both, of two pictures of one name the one of these is the photograph.
_CAMERA: Final = frozenset({".jpg", ".jpeg", ".heic", ".heif", ".avif", ".jp2", ".webp"})
#: Files of other formats: a folder that has them is not one of photographs and masks mixed.
_OTHERS: Final = frozenset({".json", ".yaml", ".yml", ".xml", ".txt"})
_OURS: Final = frozenset({"classes.json", "labelmap.txt"})


@dataclass(frozen=True)
class Place:
    """A folder of photographs and one of masks; the same one for both where they lie mixed."""

    photos: Path
    masks: Path


@dataclass(frozen=True)
class Layout:
    """pairs: (mask, its photograph). problems: what does not go together, a sentence each. bare: how many photographs
    have no mask. masks: the files, or folders, that hold masks and no photographs."""

    pairs: list[tuple[Path, Path]]
    problems: list[str]
    bare: int
    masks: list[Path]


def recognises(root: Path) -> bool:
    """Whether a folder holds masks as pictures."""
    return bool(_mask_folders(root) or _splits(root) or _is_mixed(root))


def find(root: Path, photos: Path | None, notes: Notes, *, partial: bool = False) -> Layout:
    """Every mask below root with its photograph. photos: where those lie, if not beside the masks. partial: whether
    masks without a photograph are left out; otherwise they are problems."""
    places = _places(root, photos)
    if len(places) > 1:
        notes.add("{n} folders are read together", str(root), len(places))
    if any((place.masks.parent / OBJECTS).is_dir() for place in places):
        notes.add(f"{OBJECTS}/ is not read, SegmentationClass/ is", str(root))
    parts = [_paired(place, notes, partial) for place in places]
    layout = Layout(
        [pair for part in parts for pair in part.pairs],
        [problem for part in parts for problem in part.problems],
        sum(part.bare for part in parts),
        [mask for part in parts for mask in part.masks],
    )
    if not layout.pairs and not layout.problems:
        where = " and ".join(dict.fromkeys(str(place.masks) for place in places[:3]))
        raise Error(f"{where} holds no masks; put a PNG there for each photograph that you painted.")
    return layout


def _places(root: Path, photos: Path | None) -> list[Place]:
    folders = _mask_folders(root)
    if len(folders) > 1:
        listed = " and ".join(folder.name for folder in folders[:5])
        raise Error(f"{root} has masks in {listed}; keep one of these folders there.")
    if folders:
        beside = photos or _only(root, [f for f in _folders(root) if f.name.lower() in IMAGES])
        if beside is None:
            raise Error(
                f"{root} has {folders[0].name}/ and no images/; put the photographs in {root / 'images'}, or say where "
                "they are with --images (photos= in Python)."
            )
        return [Place(beside, folders[0])]
    if splits := _splits(root):
        return [place for split in splits for place in _places(split, photos)]
    return [Place(photos or root, root)]


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _mask_folders(root: Path) -> list[Path]:
    """Folders that are called as masks are, those with pictures in them; masks/ counts even when it is empty."""
    named = [folder for folder in _folders(root) if folder.name.lower() in MASKS]
    full = [f for f in named if next(_pictures(f), None) and (f.name.lower() in _SURE or not _has_others(f))]
    return full or [folder for folder in named if folder.name.lower() == "masks"]


def _has_others(folder: Path) -> bool:
    """Whether files of another format lie here."""
    return any(path.suffix.lower() in _OTHERS and path.name not in _OURS for path in folder.iterdir())


def _only(root: Path, found: list[Path]) -> Path | None:
    if len(found) > 1:
        listed = " and ".join(folder.name for folder in found[:5])
        raise Error(f"{root} has photographs in {listed}; keep one of these folders there.")
    return found[0] if found else None


def _splits(root: Path) -> list[Path]:
    return [folder for folder in _folders(root) if folder.name.lower() in SPLITS and _mask_folders(folder)]


def _pictures(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.suffix.lower() in PHOTO_SUFFIXES and not path.name.startswith(".") and path.is_file():
            yield path


def _is_mixed(root: Path) -> bool:
    """Whether photographs and masks lie together, and nothing of another format with them."""
    if _has_others(root):
        return False
    return any(_is_mask(file, group) for group in _groups(root, list(_pictures(root))).values() for file in group)


def _paired(place: Place, notes: Notes, partial: bool) -> Layout:
    photos = _files(place.photos, notes)
    if place.photos == place.masks:
        groups = _groups(place.masks, photos)
        masks = sorted(file for group in groups.values() for file in group if _is_mask(file, group) or _is_lone(group))
    else:
        masks = _files(place.masks, notes)
    owned = set(masks)
    photos = [photo for photo in photos if photo not in owned]
    known = _Names(place.photos, photos)
    problems: list[str] = []
    owners: dict[Path, list[Path]] = defaultdict(list)
    for mask in masks:
        found = known.of(mask.relative_to(place.masks))
        if len(found) == 1:
            owners[found[0]].append(mask)
        elif partial and not found:
            notes.add(ABSENT, str(mask))
        else:
            problems.append(_unclear(mask, found, place))
    for photo, several in owners.items():
        if len(several) > 1:
            listed = " and ".join(str(mask.relative_to(place.masks)) for mask in several[:5])
            problems.append(f"{photo} has {len(several)} masks, {listed}; keep one of them.")
    pairs = [(several[0], photo) for photo, several in owners.items() if len(several) == 1]
    apart = [place.masks, place.masks.parent / OBJECTS]
    return Layout(sorted(pairs), problems, len(photos) - len(owners), masks if place.photos == place.masks else apart)


def _unclear(mask: Path, found: list[Path], place: Place) -> str:
    if not found:
        expected = place.photos / mask.relative_to(place.masks).with_suffix("")
        return f"{mask}: there is no photograph {expected}.*; put it there or take this file away."
    listed = ", ".join(photo.name for photo in found[:5])
    return f"{mask}: {listed} all have its name in {found[0].parent}; keep one of them."


def _files(folder: Path, notes: Notes) -> list[Path]:
    """The pictures below a folder, but for files of no bytes."""
    found = files_in(folder, PHOTO_SUFFIXES)
    full = [path for path in found if path.stat().st_size]
    for path in found:
        if path not in full:
            notes.add("{n} empty files are left out", str(path))
    return full


def _groups(root: Path, files: list[Path]) -> dict[Path, list[Path]]:
    """Pictures that have one name but for suffix and ending."""
    groups: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        groups[_folded(without_ending(file.relative_to(root).with_suffix("")))].append(file)
    return groups


def _is_mask(file: Path, group: list[Path]) -> bool:
    """In a folder with both: it has an ending, or stands beside a photograph as only cameras make them."""
    if len(group) < 2 or file.suffix.lower() in _CAMERA:
        return len(group) > 1 and _has_ending(file) and not all(_has_ending(other) for other in group)
    others = [other for other in group if other != file and not _has_ending(other)]
    return bool(others) and (_has_ending(file) or any(other.suffix.lower() in _CAMERA for other in others))


def _is_lone(group: list[Path]) -> bool:
    """A mask by its ending, whose photograph is missing."""
    return len(group) == 1 and _has_ending(group[0]) and group[0].suffix.lower() not in _CAMERA


def _has_ending(file: Path) -> bool:
    return without_ending(file.with_suffix("")) != file.with_suffix("")


def without_ending(name: Path) -> Path:
    """A mask's name (without suffix) as its photograph is called: kitchen for kitchen_mask and kitchen-label."""
    ending = next((end for end in ENDINGS if name.name.lower().endswith(end) and len(name.name) > len(end)), "")
    return name.with_name(name.name[: len(name.name) - len(ending)]) if ending else name


def alike(name: str) -> str:
    """A name but for upper and lower case, and for how accents are written: what is the same then is the same name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _folded(name: Path) -> Path:
    return Path(alike(str(name)))


class _Names:
    """Photographs by the names that masks may have for them, as they are and as `_folded`."""

    def __init__(self, root: Path, photos: list[Path]) -> None:
        self._whole: dict[Path, list[Path]] = defaultdict(list)
        self._short: dict[Path, list[Path]] = defaultdict(list)
        self._folded: dict[Path, list[Path]] = defaultdict(list)
        for photo in photos:
            name = photo.relative_to(root)
            self._whole[name].append(photo)
            self._short[name.with_suffix("")].append(photo)
            for form in {_folded(name), _folded(name.with_suffix(""))}:
                self._folded[form].append(photo)

    def of(self, mask: Path) -> list[Path]:
        """The photographs that a mask may belong to: one, if all is well."""
        name = mask.with_suffix("")
        for form in (name, without_ending(name)):
            if found := self._whole.get(form) or self._short.get(form):
                return found
        return self._folded.get(_folded(name)) or self._folded.get(_folded(without_ending(name))) or []

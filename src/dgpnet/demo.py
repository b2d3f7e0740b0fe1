"""The whole thing on photographs that come with scikit-image and on rendered ones: paint a few, find the rest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from dgpnet import weights
from dgpnet.annotations import read_support
from dgpnet.data.dataset import class_id_of, label_of
from dgpnet.data.synthetic import Synthetic
from dgpnet.images import IGNORE, read_mask, read_photo, write_mask
from dgpnet.pictures import grid, heat_map, overlay, save
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.folder import segment_folder

Photo = NDArray[np.uint8]
Mask = NDArray[np.uint8]
Say = Callable[[str], None]

#: The coins of `skimage.data.coins`, painted by hand as circles: row, column, radius.
COINS = (
    (44, 335, 30), (51, 155, 23), (51, 215, 23), (52, 276, 20), (54, 44, 22), (56, 100, 19), (119, 271, 25),
    (124, 45, 20), (124, 205, 20), (124, 336, 19), (126, 102, 19), (127, 154, 19), (187, 347, 32), (193, 212, 24),
    (194, 274, 22), (196, 102, 22), (197, 44, 19), (198, 154, 19), (260, 46, 28), (261, 172, 28), (263, 301, 26),
    (263, 244, 24), (266, 114, 21), (268, 358, 22),
)  # fmt: skip
#: Rows and columns of the corner whose coins are shown.
CORNER = (160, 184)
#: Outlines painted by hand: x, y.
MOTORCYCLE = (
    (94, 202), (131, 198), (146, 190), (140, 156), (146, 146), (162, 150), (167, 162), (223, 170), (246, 169),
    (268, 193), (296, 199), (354, 190), (388, 174), (357, 170), (391, 142), (402, 126), (424, 126), (452, 148),
    (466, 145), (474, 123), (502, 114), (505, 89), (522, 89), (544, 100), (536, 112), (558, 131), (564, 124),
    (580, 121), (582, 140), (564, 145), (561, 167), (550, 187), (552, 204), (580, 262), (608, 273), (642, 301),
    (642, 313), (664, 335), (684, 385), (682, 419), (664, 444), (636, 449), (597, 438), (558, 410), (527, 368),
    (513, 329), (505, 329), (508, 301), (530, 279), (497, 223), (474, 229), (480, 257), (477, 312), (458, 346),
    (435, 371), (407, 381), (346, 373), (352, 405), (339, 407), (339, 432), (324, 434), (328, 385), (321, 368),
    (279, 357), (268, 379), (240, 395), (206, 400), (173, 391), (145, 371), (127, 340), (122, 307), (128, 273),
    (148, 248), (148, 240), (114, 246), (103, 240), (112, 223), (94, 215),
)  # fmt: skip
ROCKET = (
    (323, 127), (332, 139), (334, 175), (332, 179), (332, 406), (312, 406), (314, 179), (312, 175), (312, 139),
    (319, 130),
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """Painted photographs, photographs to find things in, and where they are if that is known."""

    name: str
    told: str
    classes: tuple[str, ...]
    painted: list[tuple[Photo, Mask]]
    photos: dict[str, Photo]
    truth: dict[str, Mask] = field(default_factory=dict)
    tile: bool = False


def run(out: Path, *, model: str, device: str | None, say: Say) -> Path:
    """Paint, learn, segment and report each scene below `out`; returns the picture that shows them all."""
    segmenter = load(model, device=device)
    megabytes = weights.checkpoint_path(model).stat().st_size / 1e6
    say(f"Model: {model} ({segmenter.network.config.encoder}, {megabytes:.0f} MB) on {segmenter.device}.")
    rows: list[list[Image.Image | None]] = []
    labels: list[str] = []
    for scene in scenes():
        say(f"\n{scene.name}: {scene.told}")
        folder = _segment(segmenter, scene, out / scene.name)
        say(f"  masks   {folder / 'masks'}\n  report  {folder / 'report' / 'index.html'}")
        for name, mask in scene.truth.items():
            iou = _iou(read_mask(folder / "masks" / f"{name}.png"), mask)
            say(f"  {name}: {100 * iou:.1f} % IoU")
        rows += list(_rows(scene, folder))
        labels += [scene.name] + [""] * (len(rows) - len(labels) - 1)
    picture = out / "demo.png"
    save(grid(rows, columns=["painted", "photograph", "found", "uncertainty"], labels=labels), picture)
    return picture


def write_photographs(folder: Path) -> Path:
    """All photographs of the demo, each scene's in a folder of its own, with nothing painted."""
    for scene in scenes():
        (folder / scene.name).mkdir(parents=True, exist_ok=True)
        named = {f"{scene.name}-{i}": photo for i, (photo, _) in enumerate(scene.painted, 1)} | scene.photos
        for name, photo in named.items():
            save(Image.fromarray(photo), folder / scene.name / f"{name}.png")
    return folder


def scenes() -> list[Scene]:
    """What the demo shows."""
    return [_coins(), _motorcycle(), _rocket(), _shapes()]


def _coins() -> Scene:
    photo = _bundled("coins")
    height, width = photo.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    y, x = np.ogrid[:height, :width]
    for row, column, radius in COINS:
        mask[(y - row) ** 2 + (x - column) ** 2 <= radius**2] = 1
    rows, columns = CORNER
    corner, rest = mask[:rows, :columns].copy(), mask
    rest[:rows, :columns] = IGNORE  # shown already: does not count as found
    return Scene(
        "coins",
        "six coins in a corner are painted; find the other eighteen",
        ("coin",),
        [(photo[:rows, :columns], corner)],
        {"coins": photo},
        {"coins": rest},
        tile=True,
    )


def _motorcycle() -> Scene:
    left, right = _bundled("motorcycle_left"), _bundled("motorcycle_right")
    mask = _outlined(MOTORCYCLE, left)
    return Scene(
        "motorcycle",
        "the left eye's view is painted; find it in the right eye's",
        ("motorcycle",),
        [(left, mask)],
        {"right": right},
    )


def _rocket() -> Scene:
    photo = _bundled("rocket")
    return Scene(
        "rocket",
        "one rocket at night is painted; find the shuttle behind the astronaut",
        ("rocket",),
        [(photo, _outlined(ROCKET, photo))],
        {"astronaut": _bundled("astronaut")},
    )


def _shapes() -> Scene:
    kinds = (1, 5, 9, 14)
    rendered = Synthetic(list(kinds), photographs=9, side=384, objects=3, seed=2)
    wanted = [label_of(class_id_of(kind)) for kind in kinds[:2]]
    scenes = [(photo, _numbered(mask, wanted)) for photo, mask in map(rendered.render, range(len(rendered)))]
    painted = [scene for scene in scenes if {1, 2} <= set(scene[1].flat)][:3]
    others = [scene for scene in scenes if all(scene is not one for one in painted)][:3]
    return Scene(
        "shapes",
        "two of four kinds of rendered shapes are painted in three pictures; find them among the others",
        ("first", "second"),
        painted,
        {f"scene-{i}": photo for i, (photo, _) in enumerate(others)},
        {f"scene-{i}": mask for i, (_, mask) in enumerate(others)},
    )


def _segment(segmenter: Segmenter, scene: Scene, folder: Path) -> Path:
    """What `dgpnet segment folder/painted folder/photos --out folder/found` does."""
    found = folder / "found"
    if (found / ".dgpnet").is_dir():
        shutil.rmtree(folder)  # an earlier demo's, maybe with another model
    _write(scene, folder)
    support = read_support(folder / "painted")
    photos, masks = zip(*((example.photo, example.mask) for example in support.examples), strict=True)
    concept = segmenter.learn(photos, masks, classes=support.legend)
    photographs = [folder / "photos"]
    segment_folder(concept, photographs, found, painted=support, overlay=True, uncertainty=True, tile=scene.tile)
    return found


def _write(scene: Scene, folder: Path) -> None:
    for part in ("painted/images", "painted/masks", "photos"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for i, (photo, mask) in enumerate(scene.painted):
        save(Image.fromarray(photo), folder / "painted" / "images" / f"{i}.png")
        write_mask(folder / "painted" / "masks" / f"{i}.png", mask)
    (folder / "painted" / "classes.json").write_text(
        "{" + ", ".join(f'"{i}": "{name}"' for i, name in enumerate(scene.classes, 1)) + "}"
    )
    for name, photo in scene.photos.items():
        save(Image.fromarray(photo), folder / "photos" / f"{name}.png")


def _rows(scene: Scene, found: Path) -> Iterator[list[Image.Image | None]]:
    """Pictures of each photograph: an example beside it, what was found, and where that may be wrong."""
    for i, (name, photo) in enumerate(scene.photos.items()):
        example = overlay(*scene.painted[i]) if i < len(scene.painted) else None
        uncertainty = np.asarray(Image.open(found / "uncertainty" / f"{name}.png")) / 255
        yield [
            example,
            Image.fromarray(photo),
            Image.open(found / "overlays" / f"{name}.jpg"),
            heat_map(uncertainty, photo=photo, high=0.5),
        ]


def _bundled(name: str) -> Photo:
    """A photograph out of scikit-image's own package; nothing is downloaded."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    return read_photo(next(path for path in folder.glob(f"{name}.*") if path.suffix in (".png", ".jpg")))


def _outlined(outline: tuple[tuple[int, int], ...], photo: Photo) -> Mask:
    picture = Image.new("L", (photo.shape[1], photo.shape[0]))
    ImageDraw.Draw(picture).polygon(outline, fill=1)
    return np.asarray(picture)


def _numbered(mask: Mask, values: list[int]) -> Mask:
    numbers = np.zeros(256, np.uint8)
    numbers[values] = range(1, len(values) + 1)
    return numbers[mask]


def _iou(found: Mask, truth: Mask) -> float:
    """Of all classes together: pixels with the right class over pixels with any, ignored ones left out."""
    either = ((found > 0) | (truth > 0)) & (truth != IGNORE)
    return float(((found == truth) & either).sum() / max(1, either.sum()))

"""Cut-outs pasted on backgrounds: exact masks of many kinds for the price of a few photographs of each.

Layout: objects/<kind>/* (or fruit/<kind>/*), photographs on white ground; backgrounds/*, photographs of anything else.
The objects of another dataset serve as cut-outs, too.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from dgpnet.annotations.reading import PHOTO_SUFFIXES
from dgpnet.data import draws
from dgpnet.data.dataset import Dataset, Rendered, check_fold, class_id_of, files_fingerprint, in_fold, label_of
from dgpnet.errors import Error
from dgpnet.images import read_photo, resize_mask, resize_photo

#: At most so many cut-outs in one photograph.
OBJECTS = 8
#: Of the photograph that the wanted kind covers at least.
MIN_SHARE = 0.002
SMALLEST, LARGEST = 0.12, 0.65  # longer side of a cut-out over that of the photograph


class Cutouts(Protocol):
    """Objects of kinds 0..len(names)-1, so many of each, to be pasted."""

    names: list[str]
    counts: list[int]

    def read(self, kind: int, n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Colours (H, W, 3) and alpha (H, W) of the n-th object of a kind."""
        ...

    def fingerprint(self) -> str: ...


class OnWhite:
    """Photographs of single objects on white ground. files: paths below root, for each kind."""

    def __init__(self, root: Path, names: list[str], files: list[list[str]]) -> None:
        self.root, self.names, self.files = root, names, files
        self.counts = [len(kind) for kind in files]

    def read(self, kind: int, n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        path = self.root / self.files[kind][n]
        photo = read_photo(path)
        alpha = cut_out(photo)
        if not (alpha > 127).any():
            raise Error(f"{path} is all white; a cut-out is an object on white ground.")
        return photo, alpha

    def fingerprint(self) -> str:
        return files_fingerprint(self.root, [name for kind in self.files for name in kind], *self.names)


class FromPairs:
    """The objects of a dataset, one for each of its pairs; every class is a kind."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.photos = {c: p for c, p in dataset.by_class().items() if len(p)}
        self.class_ids = list(self.photos)
        self.names = [dataset.classes[c] for c in self.class_ids]
        self.counts = [len(self.photos[c]) for c in self.class_ids]

    def read(self, kind: int, n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        class_id = self.class_ids[kind]
        i = int(self.photos[class_id][n])
        photo = self.dataset.photo(i)
        found = resize_mask(self.dataset.mask(i), photo.shape[:2]) == label_of(class_id)
        if not found.any():
            raise Error(f"{self.dataset.path(i)} does not show {self.names[kind]} any more; check its mask.")
        rows, columns = (np.flatnonzero(found.any(axis=axis)) for axis in (1, 0))
        # With a margin for the soft edge; the rest of a large photograph need not be worked on.
        here = np.s_[max(rows[0] - 2, 0) : rows[-1] + 3, max(columns[0] - 2, 0) : columns[-1] + 3]
        return photo[here], _feathered(found[here])

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.dataset.fingerprint(), self.dataset.pairs)).encode()).hexdigest()


@dataclass(frozen=True)
class Recipe:
    """One wanted kind one to `targets` times, and up to `distractors` cut-outs of other kinds, in any order."""

    targets: int = 3
    distractors: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.targets < 1 or self.distractors < 0 or self.targets + self.distractors > OBJECTS:
            given = f"{self.targets} targets and {self.distractors} distractors"
            raise Error(f"A composite has 1 to {OBJECTS} cut-outs, at least one of them wanted; given {given}.")


class Composites(Rendered):
    """numbers: the kinds that occur; photograph i is about kind numbers[i mod len(numbers)]."""

    def __init__(
        self,
        cutouts: Cutouts,
        numbers: Sequence[int],
        root: Path,
        backgrounds: Sequence[str],
        photographs: int,
        side: int,
        recipe: Recipe,
    ) -> None:
        self.cutouts, self.numbers, self.root, self.backgrounds = cutouts, list(numbers), root, list(backgrounds)
        self.recipe = recipe
        classes = {class_id_of(n): cutouts.names[n] for n in numbers}
        pairs = [(i, class_id_of(self.numbers[i % len(self.numbers)])) for i in range(photographs)]
        super().__init__("composites", classes, pairs, photographs, side)

    def fingerprint(self) -> str:
        options = repr((self.cutouts.fingerprint(), self.numbers, self.photographs, self.side, self.recipe, "1"))
        return self.once("fingerprint", lambda: files_fingerprint(self.root, self.backgrounds, options))

    def render(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        u = draws.uniform(self.recipe.seed, draws.COMPOSITE, i * (OBJECTS + 1) + np.arange(OBJECTS + 1), 12)
        wanted = self.numbers[i % len(self.numbers)]
        label = label_of(class_id_of(wanted))
        others = [n for n in self.numbers if label_of(class_id_of(n)) != label]
        targets = 1 + int(u[0, 0] * self.recipe.targets)
        strangers = int(u[0, 1] * (self.recipe.distractors + 1)) if others else 0
        kinds = [wanted] * targets + [others[int(v * len(others))] for v in u[1 + targets :, 0][:strangers]]
        layers = [self._layer(kind, row) for kind, row in zip(kinds, u[1:], strict=False)]
        photo = self._background(u[0, 2:7])
        mask = np.zeros((self.side, self.side), np.uint8)
        for k in np.argsort(u[1 : 1 + len(layers), 1]):
            layers[k].paste(photo, mask)
        if np.count_nonzero(mask == label) < MIN_SHARE * mask.size:
            layers[0].paste(photo, mask)  # others hide it: once more, on top
        return np.round(photo).astype(np.uint8), mask

    def _background(self, u: NDArray[np.float64]) -> NDArray[np.float32]:
        """(side, side, 3): a random part of a random background, or its mirror image."""
        photo = read_photo(self.root / self.backgrounds[int(u[0] * len(self.backgrounds))])
        height, width = (max(1, int(n * (0.6 + 0.4 * u[1]))) for n in photo.shape[:2])
        top, left = int(u[2] * (photo.shape[0] - height + 1)), int(u[3] * (photo.shape[1] - width + 1))
        part = photo[top : top + height, left : left + width]
        part = np.ascontiguousarray(part[:, ::-1] if u[4] < 0.5 else part)
        return resize_photo(part, (self.side, self.side)).astype(np.float32)

    def _layer(self, kind: int, u: NDArray[np.float64]) -> "Layer":
        """A cut-out of the kind, scaled, turned, lit and placed by chance; its middle lies in the photograph."""
        photo, alpha = _cropped(*self.cutouts.read(kind, int(u[2] * self.cutouts.counts[kind])))
        mean = photo[alpha > 127].mean(axis=0)
        # What is see-through takes the object's mean colour, so that no ground bleeds in when it is scaled.
        image = Image.fromarray(np.dstack([np.where((alpha > 127)[..., None], photo, mean).astype(np.uint8), alpha]))
        scale = self.side * SMALLEST * (LARGEST / SMALLEST) ** u[3] / max(image.size)
        stretch = np.exp(0.2 * (u[4] - 0.5))
        width, height = (max(4, round(n)) for n in (image.width * scale * stretch, image.height * scale / stretch))
        image = image.resize((width, height), Image.Resampling.BICUBIC)
        if u[5] < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        outside = (*mean.astype(int).tolist(), 0)
        image = image.rotate(360 * u[6], Image.Resampling.BICUBIC, expand=True, fillcolor=outside)
        pixels = np.asarray(image, np.float32)
        colour = np.clip(pixels[..., :3] * np.float32(0.7 + 0.5 * u[7]), 0, 255)
        y, x = (int(v * self.side) - n // 2 for v, n in zip(u[8:10], pixels.shape[:2], strict=True))
        return Layer(colour, pixels[..., 3] / np.float32(255), y, x, label_of(class_id_of(kind)))


@dataclass(frozen=True)
class Layer:
    """A cut-out in its place: colour (h, w, 3), alpha (h, w) in [0, 1], the row and column of its corner, its label."""

    colour: NDArray[np.float32]
    alpha: NDArray[np.float32]
    y: int
    x: int
    label: int

    def paste(self, photo: NDArray[np.float32], mask: NDArray[np.uint8]) -> None:
        """Lay it over photo and mask in place; what sticks out of the frame is cut off."""
        top, left = max(self.y, 0), max(self.x, 0)
        bottom, right = (min(a + b, n) for a, b, n in zip((self.y, self.x), self.alpha.shape, mask.shape, strict=True))
        if top >= bottom or left >= right:
            return
        source = np.s_[top - self.y : bottom - self.y, left - self.x : right - self.x]
        target = np.s_[top:bottom, left:right]
        cover = self.alpha[source][..., None]
        photo[target] = cover * self.colour[source] + (1 - cover) * photo[target]
        mask[target][self.alpha[source] > 0.5] = self.label


def cut_out(photo: NDArray[np.uint8], white: int = 235) -> NDArray[np.uint8]:
    """Alpha (H, W) uint8 of an object on white: white that reaches the border is see-through, light spots are not."""
    ground = photo.min(axis=2) >= white
    reached = np.zeros_like(ground)
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        reached[edge] = ground[edge]
    while True:
        wider = reached.copy()
        wider[1:] |= reached[:-1]
        wider[:-1] |= reached[1:]
        wider[:, 1:] |= reached[:, :-1]
        wider[:, :-1] |= reached[:, 1:]
        wider &= ground
        if np.array_equal(wider, reached):
            return _feathered(~reached)
        reached = wider


def composites(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "train",
    folds: int = 4,
    objects: Dataset | None = None,
    photographs: int = 2000,
    side: int = 384,
    targets: int = Recipe.targets,
    distractors: int = Recipe.distractors,
    seed: int = Recipe.seed,
) -> Dataset:
    """Composites of the cut-outs and backgrounds below root; fold i tests kinds i, i + folds, ...

    objects: take the objects of this dataset's pairs for cut-outs, and only the backgrounds from root. Its own fold
    says which of its classes are there; the fold here counts kinds as above.
    """
    root = Path(root)
    check_fold("composites", fold, split, folds)
    backgrounds = _photos(root / "backgrounds", root)
    if not backgrounds:
        raise Error(f"{root} has no backgrounds/ with photographs; add it.")
    if not isinstance(objects, Dataset | None):
        raise Error(f'Objects of composites are a dataset, or described as {{"name": "pascal", …}}; given {objects!r}.')
    cutouts: Cutouts = _on_white(root) if objects is None else FromPairs(objects)
    numbers = [n for n in range(len(cutouts.names)) if in_fold(n, fold, split, folds)]
    if not numbers:
        raise Error(f"Fold {fold} of {root} has no kinds for {split}; it has {len(cutouts.names)} kinds in all.")
    # Other photographs for testing than for training, also of the same kinds.
    recipe = Recipe(targets, distractors, 2 * seed + (split == "test"))
    return Composites(cutouts, numbers, root, backgrounds, photographs, side, recipe)


def _on_white(root: Path) -> OnWhite:
    home = next((root / n for n in ("objects", "fruit") if (root / n).is_dir()), None)
    if home is None:
        raise Error(f"{root} has no objects/<kind>/ (or fruit/<kind>/) with photographs on white; add it.")
    folders = [p for p in sorted(home.iterdir()) if p.is_dir()]
    files = [_photos(p, root) for p in folders]
    if empty := [p.name for p, found in zip(folders, files, strict=True) if not found]:
        raise Error(f"{home} has no photographs of {', '.join(empty)}; add some or remove the folders.")
    return OnWhite(root, [p.name.replace("_", " ") for p in folders], files)


def _photos(folder: Path, root: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [str(p.relative_to(root)) for p in sorted(folder.iterdir()) if p.suffix.lower() in PHOTO_SUFFIXES]


def _feathered(found: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Alpha (H, W) uint8 with a soft edge. Compression leaves a pale rim, so one pixel goes."""
    alpha = Image.fromarray(np.where(found, 255, 0).astype(np.uint8))
    slim = alpha.filter(ImageFilter.MinFilter(3))
    soft = np.asarray(slim.filter(ImageFilter.GaussianBlur(0.7))).copy()
    # Too thin for that: as it is.
    return soft if (soft > 127).any() else np.asarray(alpha).copy()


def _cropped(photo: NDArray[np.uint8], alpha: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Both without the margins where nothing is seen."""
    rows, columns = (np.flatnonzero((alpha > 0).any(axis=axis)) for axis in (1, 0))
    here = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return photo[here], alpha[here]

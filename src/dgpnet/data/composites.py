"""Cut-outs pasted on backgrounds: exact masks of many kinds for the price of a few photographs of each on white.

Layout: objects/<kind>/* (or fruit/<kind>/*), photographs on white ground; backgrounds/*, photographs of anything else.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from dgpnet.data import draws
from dgpnet.data.dataset import LABELS, Dataset, Pair, check_fold, files_fingerprint, in_fold
from dgpnet.data.folder import PHOTOS
from dgpnet.errors import Error
from dgpnet.images import read_photo, resize_photo

OBJECTS = 8  # at most so many cut-outs in one photograph
MIN_SHARE = 0.002  # of the photograph that the wanted kind covers at least


class Composites(Dataset):
    """Photographs 0..photographs-1 as a pure function of (seed, number).

    Each shows one wanted kind, one to `targets` times, and up to `distractors` cut-outs of other kinds, in any order.
    """

    def __init__(
        self,
        root: Path,
        kinds: dict[int, str],
        cutouts: dict[int, list[str]],
        backgrounds: Sequence[str],
        *,
        photographs: int,
        side: int,
        targets: int,
        distractors: int,
        seed: int,
    ) -> None:
        self.root, self.cutouts, self.backgrounds = root, cutouts, list(backgrounds)
        self.photographs, self.targets, self.distractors, self.seed = photographs, targets, distractors, seed
        self.kinds = list(kinds)
        pairs: list[Pair] = [(i, self.kinds[i % len(self.kinds)]) for i in range(photographs)]
        super().__init__("composites", kinds, pairs)
        self.side: int = side

    def __len__(self) -> int:
        return self.photographs

    def photo(self, i: int) -> NDArray[np.uint8]:
        return self._render(i)[0]

    def mask(self, i: int) -> NDArray[np.uint8]:
        return self._render(i)[1]

    def path(self, i: int) -> str:
        return f"composite-{self.seed}-{i}"

    def size(self, i: int) -> tuple[int, int]:
        return self.side, self.side

    def fingerprint(self) -> str:
        if "fingerprint" not in self._memo:
            names = [*self.backgrounds, *(name for k in self.kinds for name in self.cutouts[k])]
            options = repr((self.kinds, self.photographs, self.side, self.targets, self.distractors, self.seed, "1"))
            self._memo["fingerprint"] = files_fingerprint(self.root, names, options)
        return self._memo["fingerprint"]

    def _render(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        # Photograph and mask are asked for one after the other; the last one is kept.
        if self._memo.get("last", (-1,))[0] != i:
            self._memo["last"] = (i, *self._composed(i))
        return self._memo["last"][1], self._memo["last"][2]

    def _composed(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        u = draws.uniform(self.seed, draws.COMPOSITE, i * (OBJECTS + 1) + np.arange(OBJECTS + 1), 12)
        wanted = self.kinds[i % len(self.kinds)]
        others = [kind for kind in self.kinds if kind != wanted]
        count = 1 + int(u[0, 0] * self.targets)
        strange = int(u[0, 1] * (self.distractors + 1)) if others else 0
        kinds = [wanted] * count + [others[int(v * len(others))] for v in u[1 + count : 1 + count + strange, 0]]
        photo = self._background(u[0, 2:6])
        mask = np.zeros((self.side, self.side), np.uint8)
        layers = [(kind, *self._placed(kind, row)) for kind, row in zip(kinds, u[1:], strict=False)]
        order = np.argsort(u[1 : 1 + len(layers), 1])
        for kind, colour, alpha, y, x in (layers[k] for k in order):
            _paste(photo, mask, colour, alpha, y, x, kind)
        if np.count_nonzero(mask == wanted) < MIN_SHARE * mask.size:
            kind, colour, alpha, y, x = layers[0]
            _paste(photo, mask, colour, alpha, y, x, kind)
        return np.round(photo).astype(np.uint8), mask

    def _background(self, u: NDArray[np.float64]) -> NDArray[np.float32]:
        """(side, side, 3): a random part of a random background, or its mirror image."""
        photo = read_photo(self.root / self.backgrounds[int(u[0] * len(self.backgrounds))])
        height, width = (int(n * (0.6 + 0.4 * u[1])) for n in photo.shape[:2])
        top, left = int(u[2] * (photo.shape[0] - height + 1)), int(u[3] * (photo.shape[1] - width + 1))
        part = np.ascontiguousarray(photo[top : top + height, left : left + width])
        part = part[:, ::-1] if u[1] * 997 % 1 < 0.5 else part
        return resize_photo(np.ascontiguousarray(part), (self.side, self.side)).astype(np.float32)

    def _placed(self, kind: int, u: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32], int, int]:
        """A cut-out of the kind scaled, turned and lit by chance: colours, alpha, and the place of its corner."""
        names = self.cutouts[kind]
        photo = read_photo(self.root / names[int(u[2] * len(names))])
        alpha = cut_out(photo)
        rows, columns = (np.flatnonzero(alpha.any(axis=axis)) for axis in (1, 0))
        here = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        photo, alpha = photo[here], alpha[here]
        # What is see-through takes the object's mean colour, so that no white bleeds in when it is scaled.
        mean = photo[alpha > 127].mean(axis=0)
        photo = np.where((alpha > 127)[..., None], photo, mean).astype(np.uint8)
        layer = Image.fromarray(np.dstack([photo, alpha]))
        scale = self.side * np.exp(np.log(0.12) + u[3] * np.log(0.65 / 0.12)) / max(layer.size)
        stretch = np.exp(0.2 * (u[4] - 0.5))
        width, height = (max(4, round(n)) for n in (layer.width * scale * stretch, layer.height * scale / stretch))
        layer = layer.resize((width, height), Image.Resampling.BICUBIC)
        if u[5] < 0.5:
            layer = layer.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        layer = layer.rotate(
            360 * u[6], Image.Resampling.BICUBIC, expand=True, fillcolor=(*mean.astype(int).tolist(), 0)
        )
        pixels = np.asarray(layer, np.float32)
        colour = np.clip(pixels[..., :3] * np.float32(0.7 + 0.5 * u[7]), 0, 255)
        # The middle of the object lies in the photograph.
        y, x = (int(v * self.side) - n // 2 for v, n in zip(u[8:10], pixels.shape[:2], strict=True))
        return colour, pixels[..., 3] / np.float32(255), y, x


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
            break
        reached = wider
    if reached.all():
        raise Error("a cut-out is an object on white ground; this photograph is all white.")
    # JPEG leaves a pale rim: one pixel goes, the next is half see-through.
    alpha = Image.fromarray(np.where(reached, 0, 255).astype(np.uint8))
    slim = alpha.filter(ImageFilter.MinFilter(3))
    return np.asarray((slim if np.asarray(slim).any() else alpha).filter(ImageFilter.GaussianBlur(0.7))).copy()


def _paste(
    photo: NDArray[np.float32],
    mask: NDArray[np.uint8],
    colour: NDArray[np.float32],
    alpha: NDArray[np.float32],
    y: int,
    x: int,
    label: int,
) -> None:
    """Lay a cut-out over photo and mask in place; what sticks out of the frame is cut off."""
    top, left = max(y, 0), max(x, 0)
    bottom, right = min(y + alpha.shape[0], mask.shape[0]), min(x + alpha.shape[1], mask.shape[1])
    if top >= bottom or left >= right:
        return
    source, target = np.s_[top - y : bottom - y, left - x : right - x], np.s_[top:bottom, left:right]
    cover = alpha[source][..., None]
    photo[target] = cover * colour[source] + (1 - cover) * photo[target]
    mask[target][alpha[source] > 0.5] = label


def composites(
    root: str | Path,
    *,
    fold: int | None = None,
    split: str = "train",
    folds: int = 4,
    photographs: int = 2000,
    side: int = 384,
    targets: int = 3,
    distractors: int = 4,
    seed: int = 0,
) -> Dataset:
    """Composites of the cut-outs and backgrounds below root; fold i tests kinds i, i + folds, ..."""
    root = Path(root)
    check_fold("composites", fold, split, folds)
    home = next((root / n for n in ("objects", "fruit") if (root / n).is_dir()), None)
    backgrounds = _photos(root / "backgrounds", root)
    if home is None or not backgrounds:
        raise Error(
            f"{root} has no objects/<kind>/ (or fruit/<kind>/) with photographs on white and backgrounds/; add them."
        )
    names = [p for p in sorted(home.iterdir()) if p.is_dir()]
    if len(names) > LABELS or targets < 1 or targets + distractors > OBJECTS:
        raise Error(
            f"composites have at most {LABELS} kinds and {OBJECTS} cut-outs in a photograph; "
            f"given {len(names)} kinds, {targets} + {distractors} cut-outs."
        )
    kinds = {n + 1: p.name.replace("_", " ") for n, p in enumerate(names) if in_fold(n, fold, split, folds)}
    cutouts = {kind: _photos(names[kind - 1], root) for kind in kinds}
    if empty := [kinds[k] for k, found in cutouts.items() if not found]:
        raise Error(f"{home} has no photographs of {', '.join(empty)}; add some or remove the folders.")
    return Composites(
        root,
        kinds,
        cutouts,
        backgrounds,
        photographs=photographs,
        side=side,
        targets=targets,
        distractors=distractors,
        seed=2 * seed + (split == "test"),
    )


def _photos(folder: Path, root: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [str(p.relative_to(root)) for p in sorted(folder.iterdir()) if p.suffix.lower() in PHOTOS]

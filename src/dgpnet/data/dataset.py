"""What every source of episodes looks like: photographs, label masks, and (photograph, class) pairs.

The low byte of a class id is the class's value in the uint8 masks (1..254; 0 background, 255 ignore); the rest of it
tells apart classes of different sets, so that a mixture of hundreds of classes keeps its masks as they are.
"""

import copy
import hashlib
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dgpnet.errors import Error
from dgpnet.images import IGNORE, photo_size, read_mask, read_photo

if TYPE_CHECKING:
    import torch

#: How many classes one uint8 mask can tell apart.
LABELS = 254
#: Class ids of one set of classes: number of the set × IDS_OF_A_SET + value in the masks.
IDS_OF_A_SET = 256
#: Photograph and class id.
Pair = tuple[int, int]
#: Foreground pixels remembered of each pair, see `Dataset.anchors`.
ANCHORS = 8

T = TypeVar("T")


def label_of(class_id: int) -> int:
    """The value of a class in the masks."""
    return class_id % IDS_OF_A_SET


def class_id_of(number: int) -> int:
    """Class id of the `number`-th class (from 0) of a set with any number of classes."""
    return IDS_OF_A_SET * (number // LABELS) + number % LABELS + 1


class Dataset:
    """Photographs 0..len-1 with masks, and the pairs that may be a query or a support.

    name: what it is called in messages. classes: id -> name, those with pairs and those without.
    pairs: (photograph, class id), in the order of the list they came from.
    class_first: whether a query is drawn as a class and then a photograph of it (COCO) or as a pair (PASCAL).
    notes: what was left out and why, for a log.
    """

    def __init__(
        self,
        name: str,
        classes: dict[int, str],
        pairs: Sequence[Pair],
        *,
        class_first: bool = True,
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.classes = dict(classes)
        self.pairs = list(pairs)
        self.class_first = class_first
        self.notes = list(notes)
        self.side: int | None = None  # of every photograph, where they are all square and of one size
        self._memo: dict[Any, Any] = {}

    def __len__(self) -> int:
        """How many photographs."""
        raise NotImplementedError

    def photo(self, i: int) -> NDArray[np.uint8]:
        """Photograph i, (H, W, 3) uint8."""
        raise NotImplementedError

    def mask(self, i: int) -> NDArray[np.uint8]:
        """Labels of photograph i, (H, W) uint8: 0 background, 255 ignore, else the low byte of a class id."""
        raise NotImplementedError

    def path(self, i: int) -> str:
        """Name of photograph i, for messages and lists."""
        raise NotImplementedError

    def size(self, i: int) -> tuple[int, int]:
        """(H, W) of photograph i."""
        height, width = self.mask(i).shape
        return height, width

    def fingerprint(self) -> str:
        """Hex digest of what the photographs and masks are; the same for all folds that share them."""
        raise NotImplementedError

    def by_class(self) -> dict[int, NDArray[np.int64]]:
        """Class id -> its photographs, in the order of `pairs`."""
        return self.once("by_class", self._by_class)

    def _by_class(self) -> dict[int, NDArray[np.int64]]:
        found: dict[int, list[int]] = {c: [] for c in self.classes}
        for photo, class_id in self.pairs:
            found[class_id].append(photo)
        return {c: np.array(photos, np.int64) for c, photos in found.items()}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, kept with the dataset: made again only for other pairs."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast(T, self._memo[key])

    def with_pairs(self, classes: dict[int, str], pairs: Sequence[Pair], notes: Sequence[str] = ()) -> Self:
        """The same photographs with other classes and pairs."""
        other = copy.copy(self)
        other.classes, other.pairs, other.notes, other._memo = dict(classes), list(pairs), [*self.notes, *notes], {}
        return other

    def shares(self, ids: NDArray[np.int64], counts: NDArray[np.int64], power: float) -> NDArray[np.float64]:
        """Probability of each class `ids` (C,) with `counts` (C,) photographs; sums to 1.

        power: 0 uniform over pairs, 1 uniform over classes, 0.5 by the square root of the count.
        """
        weights = counts.astype(np.float64) ** (1 - power)
        return np.asarray(weights / weights.sum())

    def anchors(self) -> NDArray[np.float32] | None:
        """Some foreground pixels of each pair, (len(pairs), ANCHORS, 2), as x, y in [-1, 1]; None where not known.

        They let a random crop keep a piece of the object in view. `Cache` knows them.
        """
        return None

    def tensors(self, device: "str | torch.device" = "cpu") -> "tuple[torch.Tensor, torch.Tensor]":
        """Photographs (N, 3, s, s) and label masks (N, s, s), uint8, on a device; caches have them."""
        raise Error(f"{self.name} is not cached at one size; use `cached(dataset, size)` first.")


def narrow(dataset: Dataset, classes: Sequence[int | str]) -> Dataset:
    """The dataset with only these classes, given by id or by name."""
    by_name: dict[str, list[int]] = {}
    for class_id, name in dataset.classes.items():
        by_name.setdefault(name.lower(), []).append(class_id)
    chosen: list[int] = []
    unknown: list[str] = []
    for wanted in classes:
        if wanted in dataset.classes or (str(wanted).isdecimal() and int(wanted) in dataset.classes):
            chosen.append(int(wanted))
        elif str(wanted).lower() in by_name:
            chosen += by_name[str(wanted).lower()]
        else:
            unknown.append(str(wanted))
    if unknown:
        known = ", ".join(f"{i} {name}" for i, name in sorted(dataset.classes.items())[:100])
        raise Error(f"{dataset.name} has no class {', '.join(unknown)}; its classes are: {known}.")
    keep = set(chosen)
    return dataset.with_pairs(
        {c: n for c, n in dataset.classes.items() if c in keep}, [p for p in dataset.pairs if p[1] in keep]
    )


def in_fold(number: int, fold: int | None, split: str, folds: int, *, blocks_of: int | None = None) -> bool:
    """Whether the `number`-th class (from 0) belongs to this split of this fold.

    The fold's classes are tested and the others trained on; without a fold, all are both.
    blocks_of: fold i has classes i·b .. i·b + b - 1 (PASCAL) and not i, i + folds, ... (COCO).
    """
    if fold is None:
        return True
    tested = number // blocks_of == fold if blocks_of else number % folds == fold
    return tested == (split == "test")


def check_fold(name: str, fold: int | None, split: str, folds: int) -> None:
    """Refuse an unknown fold or split."""
    if split not in ("train", "test"):
        raise Error(f"The split of {name} is 'train' or 'test', not {split!r}.")
    if fold is not None and not (isinstance(fold, int) and 0 <= fold < folds):
        raise Error(f"{name} has folds 0 to {folds - 1}, or none for all classes; got fold {fold!r}.")


class Files(Dataset):
    """Photographs and index masks that are files under one folder.

    files: (photograph, mask) paths relative to `root`. binary: masks where anything above the middle is label 1 and
    255 is not ignore.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        files: Sequence[tuple[str, str]],
        classes: dict[int, str],
        pairs: Sequence[Pair],
        *,
        class_first: bool = True,
        binary: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(name, classes, pairs, class_first=class_first, notes=notes)
        self.root = root
        self.files = list(files)
        self.binary = binary

    def __len__(self) -> int:
        return len(self.files)

    def photo(self, i: int) -> NDArray[np.uint8]:
        return read_photo(self.root / self.files[i][0])

    def mask(self, i: int) -> NDArray[np.uint8]:
        photo, mask = (self.root / name for name in self.files[i])
        raw = read_mask(mask, size=photo_size(photo), photo=photo)
        if self.binary:
            return (raw > int(raw.max(initial=0)) // 2).astype(np.uint8)
        if raw.max(initial=0) > IGNORE:
            raise Error(f"{mask} has the value {raw.max()}; a label mask has values 0 to 255.")
        return raw.astype(np.uint8)

    def path(self, i: int) -> str:
        return self.files[i][0]

    def size(self, i: int) -> tuple[int, int]:
        return photo_size(self.root / self.files[i][0])

    def fingerprint(self) -> str:
        names = [name for pair in self.files for name in pair]
        return self.once("fingerprint", lambda: files_fingerprint(self.root, names, str(self.binary)))


def files_fingerprint(root: Path, names: Sequence[str], *more: str) -> str:
    """Hex digest over names, sizes and times (seconds) of files; a missing file counts as such."""
    digest = hashlib.sha256("\0".join(more).encode())
    for name in names:
        try:
            state = (root / name).stat()
            entry = f"{name}\0{state.st_size}\0{int(state.st_mtime)}\n"
        except OSError:
            entry = f"{name}\0missing\n"
        digest.update(entry.encode())
    return digest.hexdigest()


class Rendered(Dataset):
    """Square photographs made on the fly, each a pure function of its number."""

    def __init__(self, name: str, classes: dict[int, str], pairs: Sequence[Pair], photographs: int, side: int) -> None:
        super().__init__(name, classes, pairs)
        self.photographs = photographs
        self.side: int = side

    def render(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Photograph (side, side, 3) and labels (side, side)."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.photographs

    def photo(self, i: int) -> NDArray[np.uint8]:
        return self._last(i)[0]

    def mask(self, i: int) -> NDArray[np.uint8]:
        return self._last(i)[1]

    def path(self, i: int) -> str:
        return f"{self.name}-{i}"

    def size(self, i: int) -> tuple[int, int]:
        return self.side, self.side

    def _last(self, i: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        # Photograph and mask are asked for one after the other: the last rendered ones are kept.
        rendered: tuple[NDArray[np.uint8], NDArray[np.uint8]]
        number, rendered = self._memo.get("last", (None, None))
        if number != i:
            rendered = self.render(i)
            self._memo["last"] = (i, rendered)
        return rendered


class Mixture(Dataset):
    """Several datasets as one: photographs and sets of class ids are numbered on.

    members: (dataset, weight); a member gives the share weight / sum of weights of the training episodes.
    """

    def __init__(self, members: Sequence[tuple[Dataset, float]], name: str = "mixture") -> None:
        if not members or any(weight <= 0 for _, weight in members):
            given = [(d.name, w) for d, w in members]
            raise Error(f"A mixture needs at least one dataset, each with a weight above 0; given {given}.")
        self.members = [dataset for dataset, _ in members]
        self.weights = np.array([weight for _, weight in members], np.float64)
        self.first_photo = np.cumsum([0] + [len(d) for d in self.members])
        sets = [max(d.classes, default=0) // IDS_OF_A_SET + 1 for d in self.members]
        self.first_class = IDS_OF_A_SET * np.cumsum([0, *sets])
        classes: dict[int, str] = {}
        pairs: list[Pair] = []
        for dataset, photo, first in zip(
            self.members, self.first_photo.tolist(), self.first_class.tolist(), strict=False
        ):
            classes.update({first + c: f"{dataset.name}/{n}" for c, n in dataset.classes.items()})
            pairs += [(photo + p, first + c) for p, c in dataset.pairs]
        notes = [note for d in self.members for note in d.notes]
        super().__init__(name, classes, pairs, notes=notes)
        sides = {d.side for d in self.members}
        self.side = sides.pop() if len(sides) == 1 else None

    def member_of(self, i: int) -> tuple[Dataset, int]:
        """The dataset of photograph i, and its number there."""
        member = int(np.searchsorted(self.first_photo, i, side="right")) - 1
        return self.members[member], i - int(self.first_photo[member])

    def __len__(self) -> int:
        return int(self.first_photo[-1])

    def photo(self, i: int) -> NDArray[np.uint8]:
        dataset, j = self.member_of(i)
        return dataset.photo(j)

    def mask(self, i: int) -> NDArray[np.uint8]:
        dataset, j = self.member_of(i)
        return dataset.mask(j)

    def path(self, i: int) -> str:
        dataset, j = self.member_of(i)
        return f"{dataset.name}/{dataset.path(j)}"

    def size(self, i: int) -> tuple[int, int]:
        dataset, j = self.member_of(i)
        return dataset.size(j)

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(d.fingerprint() for d in self.members).encode()).hexdigest()

    def shares(self, ids: NDArray[np.int64], counts: NDArray[np.int64], power: float) -> NDArray[np.float64]:
        member = np.searchsorted(self.first_class, ids, side="right") - 1
        result = np.zeros(len(ids))
        for m in np.unique(member):
            here = member == m
            inner = self.members[m].shares(ids[here] - self.first_class[m], counts[here], power)
            result[here] = self.weights[m] * inner
        return np.asarray(result / result.sum())

    def anchors(self) -> NDArray[np.float32] | None:
        found: dict[Pair, NDArray[np.float32]] = {}
        for dataset, photo, first in zip(
            self.members, self.first_photo.tolist(), self.first_class.tolist(), strict=False
        ):
            points = dataset.anchors()
            if points is None:
                return None
            found.update({(photo + p, first + c): row for (p, c), row in zip(dataset.pairs, points, strict=True)})
        return np.stack([found[pair] for pair in self.pairs]) if self.pairs else np.zeros((0, ANCHORS, 2), np.float32)

    def tensors(self, device: "str | torch.device" = "cpu") -> "tuple[torch.Tensor, torch.Tensor]":
        import torch

        parts = [dataset.tensors("cpu") for dataset in self.members]
        sizes = sorted({photos.shape[-1] for photos, _ in parts})
        if len(sizes) > 1:
            raise Error(f"The members of {self.name} are cached at the sizes {sizes}; cache them all at one size.")
        # Filled piece by piece: joining them on the device would take twice the memory there.
        whole = [torch.empty((len(self), *part.shape[1:]), dtype=part.dtype, device=device) for part in parts[0]]
        for first, part in zip(self.first_photo.tolist(), parts, strict=False):
            for target, source in zip(whole, part, strict=True):
                target[first : first + len(source)] = source
        return whole[0], whole[1]

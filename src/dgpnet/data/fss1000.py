"""FSS-1000: ten photographs of each of a thousand classes.

Layout: <class>/<n>.jpg with <class>/<n>.png, white where the object is; and the field's lists of class names
splits/fss/{trn,val,test}.txt (or {train,val,test}.txt). Without lists every fourth class by name is for testing.
"""

from pathlib import Path

from dgpnet.data.dataset import IDS_OF_A_SET, Dataset, Files, Pair, check_fold
from dgpnet.errors import Error

#: One class in so many is for testing.
EVERY = 4


def fss1000(
    root: str | Path, *, fold: int | None = None, split: str = "train", lists: str | Path | None = None
) -> Dataset:
    """Classes of the split; FSS-1000 has no folds. Every photograph shows its class."""
    root = Path(root)
    check_fold("fss1000", None, split, 0)
    if fold is not None:
        raise Error(f"fss1000 has no folds; leave the fold out (given {fold}) and choose the split.")
    names = _names(root, split, Path(lists) if lists else None)
    files: list[tuple[str, str]] = []
    classes: dict[int, str] = {}
    pairs: list[Pair] = []
    missing: list[str] = []
    for n, name in enumerate(names):
        photos = sorted((root / name).glob("*.jpg"), key=lambda p: (len(p.stem), p.stem))
        if not photos:
            missing.append(name)
        classes[IDS_OF_A_SET * n + 1] = name  # one class in each photograph: label 1, told apart by the set
        for photo in photos:
            pairs.append((len(files), IDS_OF_A_SET * n + 1))
            files.append((f"{name}/{photo.name}", f"{name}/{photo.stem}.png"))
    if missing:
        raise Error(
            f"{root} has no photographs of {', '.join(missing[:20])}; give the folder with one folder per class."
        )
    return Files("fss1000", root, files, classes, pairs, binary=True)


def _names(root: Path, split: str, lists: Path | None) -> list[str]:
    homes = [lists] if lists else [root / "splits" / "fss", root / "splits", root]
    for home in homes:
        for part in ("trn", "train") if split == "train" else ("test",):
            if (home / f"{part}.txt").is_file():
                return (home / f"{part}.txt").read_text().split()
    if lists:
        raise Error(f"{lists} has no {split}.txt; give the folder of the class lists.")
    names = sorted(p.name for p in root.iterdir() if p.is_dir() and p.name != "splits" and any(p.glob("*.jpg")))
    if not names:
        raise Error(f"{root} has no folder with photographs; give the folder with one folder per class.")
    return [name for n, name in enumerate(names) if (n % EVERY == EVERY - 1) == (split == "test")]

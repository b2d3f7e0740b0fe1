"""Episodes and where they come from.

train = data.build("pascal", root, fold=1, split="train", size=384)      # a Cache: decoded and resized once
batch = data.sample_batch(train, seed=0, step=0, batch=8, shots=1)       # a pure function of its arguments
photos, masks = data.render(*train.tensors("cuda"), *batch.to("cuda").flat())
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dgpnet.augment import PAPER, STRONG, Augmentation, normalise, render
from dgpnet.data.cache import Cache, cached, verify
from dgpnet.data.coco import coco
from dgpnet.data.composites import composites
from dgpnet.data.dataset import Dataset, Files, Mixture, label_of, narrow
from dgpnet.data.episodes import (
    Batch,
    Episode,
    absent_episodes,
    check,
    episode,
    episodes,
    episodes_from_file,
    mixed_shots,
    sample,
    sample_batch,
    trainable,
)
from dgpnet.data.folder import folder
from dgpnet.data.fss1000 import fss1000
from dgpnet.data.parallel import Progress
from dgpnet.data.pascal import coco2pascal, pascal
from dgpnet.data.synthetic import synthetic
from dgpnet.errors import Error

__all__ = [
    "DATASETS",
    "PAPER",
    "STRONG",
    "Augmentation",
    "Batch",
    "Cache",
    "Dataset",
    "Episode",
    "Files",
    "Mixture",
    "absent_episodes",
    "build",
    "cached",
    "check",
    "episode",
    "episodes",
    "episodes_from_file",
    "label_of",
    "mixed_shots",
    "narrow",
    "normalise",
    "render",
    "sample",
    "sample_batch",
    "trainable",
    "verify",
]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "pascal": pascal,
    "coco": coco,
    "coco2pascal": coco2pascal,
    "fss1000": fss1000,
    "folder": folder,
    "synthetic": synthetic,
    "composites": composites,
}


def build(
    name: str,
    root: str | Path | None = None,
    *,
    fold: int | None = None,
    split: str = "train",
    classes: Sequence[int | str] | None = None,
    size: int | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """The dataset `name` (one of DATASETS) below `root`.

    fold, split: the fold's classes are for split "test", the others for "train"; no fold is all classes.
    classes: only these, by id or name. size: cached at size × size (photographs decoded now, broken ones all named);
    None leaves files where they are. cache: folder of caches. options: those of the dataset's own function; `objects`
    of composites may be what this function takes for them, {"name": "pascal", "root": ...}, as a configuration has it.
    """
    if name not in DATASETS:
        raise Error(f"There is no dataset {name!r}; choose one of {', '.join(DATASETS)}.")
    maker = DATASETS[name]
    accepted = inspect.signature(maker).parameters
    if root is None and accepted["root"].default is inspect.Parameter.empty:
        raise Error(f"The dataset {name} needs a root; give the folder that holds it.")
    if root is not None and not Path(root).exists():
        raise Error(f"There is no {root}; give the folder that holds {name}.")
    if unknown := [option for option in options if option not in accepted]:
        possible = ", ".join(sorted(set(accepted) - {"root", "fold", "split", "cache", "workers"}))
        raise Error(f"{name} has no option {', '.join(unknown)}; it has {possible}.")
    if isinstance(described := options.get("objects"), Mapping):
        if "name" not in described or "size" in described:  # cut-outs are taken from photographs as they are
            raise Error(f"Objects of {name} are described by name, root, fold …, without a size; given {described}.")
        options["objects"] = build(**{"split": split, "cache": cache, "workers": workers, **described})
    shared = {"cache": cache, "workers": workers, "side": size}
    for key, value in shared.items():
        if key in accepted and value is not None:
            options.setdefault(key, value)
    dataset = maker(root, fold=fold, split=split, **options)
    if classes is not None:
        dataset = narrow(dataset, classes)
    return dataset if size is None else cached(dataset, size, cache, workers=workers, progress=progress)

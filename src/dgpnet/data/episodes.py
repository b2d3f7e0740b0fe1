"""Episodes: a query and an ordered list of supports of one class, as pure functions of (dataset, seed, index).

An episode does not depend on shots (K shots use the first K supports), batch size, workers or processes.
Protocols: `paper` draws distinct supports; `reference` (the authors' program) lets supports repeat, runs through the
PASCAL pairs in order for evaluation, and draws COCO training pairs uniformly and not the class first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dgpnet.augment import DRAWS, PAPER, Augmentation, draw_parameters
from dgpnet.data import draws
from dgpnet.data.dataset import IDS_OF_A_SET, Dataset
from dgpnet.errors import Error

ProtocolName = Literal["paper", "reference"]

#: The authors' program starts over after this many PASCAL queries.
REFERENCE_CYCLE = 1000
#: Of views, where neither the caller nor the dataset says.
DEFAULT_SIDE = 384
#: Places kept for views of one episode in the augmentation stream.
MAX_SUPPORTS = 64


@dataclass(frozen=True)
class Episode:
    """Photograph numbers of a query and its supports, in order, and the id of the class to find."""

    query: int
    supports: tuple[int, ...]
    class_id: int


@dataclass(frozen=True)
class Batch:
    """B training episodes of K shots. index: (B, K+1) long, supports first and the query last; class_id: (B,) long;
    parameters: (B, K+1, 18) float32, the view of each photograph for `render`."""

    index: torch.Tensor
    class_id: torch.Tensor
    parameters: torch.Tensor

    def __len__(self) -> int:
        return len(self.class_id)

    def __getitem__(self, rows: slice) -> "Batch":
        """Some of the episodes, as for one of several processes."""
        return Batch(self.index[rows], self.class_id[rows], self.parameters[rows])

    def to(self, device: str | torch.device) -> "Batch":
        """The batch on a device; from pinned memory the copy does not wait."""
        return Batch(*(t.to(device, non_blocking=True) for t in (self.index, self.class_id, self.parameters)))

    def flat(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """index, class_id (B·(K+1),) and parameters (B·(K+1), 18): what `render` takes."""
        class_id = self.class_id[:, None].expand_as(self.index).reshape(-1)
        return self.index.reshape(-1), class_id, self.parameters.flatten(0, 1)

    def episodes(self) -> list[Episode]:
        """The same as Episodes, for messages and logs."""
        rows = zip(self.index.tolist(), self.class_id.tolist(), strict=True)
        return [Episode(photos[-1], tuple(photos[:-1]), class_id) for photos, class_id in rows]


@dataclass(frozen=True)
class _PairsByClass:
    """The pairs of a dataset, those of a class together: class c has photos[first[c] : first[c] + count[c]]; `upto` is
    the cumulative share."""

    ids: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    photos: NDArray[np.int64]
    rows: NDArray[np.int64]  # of the same entries in dataset.pairs
    upto: NDArray[np.float64]

    def without(self, c: NDArray[np.int64], u: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each class c (M,) an entry whose mask would label it, chosen by u (M,), and whether it lacks it."""
        of_set = self.ids // IDS_OF_A_SET
        start, stop = np.searchsorted(of_set, of_set[c], "left"), np.searchsorted(of_set, of_set[c], "right")
        ends = np.append(self.first, self.count.sum())
        entries = ends[start] + (u * (ends[stop] - ends[start])).astype(np.int64)
        mine = np.repeat(np.arange(len(self.ids)), self.count)
        return entries, ~np.isin(self.photos[entries] * len(self.ids) + c, self.photos * len(self.ids) + mine)


def check_protocol(protocol: str) -> None:
    if protocol not in ("paper", "reference"):
        raise Error(f"The protocol is 'paper' or 'reference', not {protocol!r}.")


def needed(shots: int, protocol: ProtocolName) -> int:
    """How many photographs of a class an episode takes."""
    return 2 if protocol == "reference" else shots + 1


def too_small(dataset: Dataset, shots: int, protocol: ProtocolName = "paper") -> dict[int, int]:
    """Classes with too few photographs for episodes of these shots: id -> how many there are."""
    least = needed(shots, protocol)
    return {c: len(photos) for c, photos in dataset.by_class().items() if len(photos) < least}


def check(dataset: Dataset, shots: int, protocol: ProtocolName = "paper") -> None:
    """Refuse a dataset to be evaluated in which a class has too few photographs, and name the class."""
    check_protocol(protocol)
    if small := too_small(dataset, shots, protocol):
        named = ", ".join(f"{dataset.classes[c]} ({c}) has {n}" for c, n in sorted(small.items()))
        fine = [f"{dataset.classes[c]}" for c in sorted(dataset.classes) if c not in small]
        fix = f"test with --classes {','.join(fine)} or with fewer shots" if fine else "give more photographs"
        raise Error(
            f"{dataset.name}: {shots} shots take {needed(shots, protocol)} photographs of a class, but {named}; {fix}."
        )


def trainable(dataset: Dataset, shots: int, protocol: ProtocolName = "paper") -> tuple[Dataset, list[str]]:
    """The dataset without the classes that are too small for training episodes of these shots, and a note for each."""
    check_protocol(protocol)
    small = too_small(dataset, shots, protocol)
    least = needed(shots, protocol)
    notes = [
        f"{dataset.name}: {dataset.classes[c]} drops out, {n} of the {least} photographs that {shots} shots take"
        for c, n in sorted(small.items())
    ]
    classes = {c: name for c, name in dataset.classes.items() if c not in small}
    if not classes:
        raise Error(
            f"{dataset.name}: no class has the {least} photographs that {shots} shots take; give more photographs."
        )
    return dataset.with_pairs(classes, [p for p in dataset.pairs if p[1] in classes]), notes


def episode(
    dataset: Dataset, *, seed: int, index: int, max_shots: int = 10, protocol: ProtocolName = "paper"
) -> Episode:
    """Evaluation episode number `index`: `max_shots` supports, of which the first ones do not depend on `max_shots`."""
    return episodes(dataset, seed=seed, indices=[index], max_shots=max_shots, protocol=protocol)[0]


def episodes(
    dataset: Dataset, *, seed: int, indices: Sequence[int], max_shots: int = 10, protocol: ProtocolName = "paper"
) -> list[Episode]:
    """Evaluation episodes of these numbers."""
    dataset.once(("checked", max_shots, protocol), lambda: check(dataset, max_shots, protocol))
    numbers = np.asarray(indices, np.int64)
    u = draws.uniform(seed, draws.EVALUATION, numbers, 2 + max_shots)
    grouped = _pairs_by_class(dataset, 2, 1.0 if dataset.class_first else 0.0)
    if protocol == "reference" and not dataset.class_first:
        pairs = dataset.pairs
        row_of = np.empty(len(pairs), np.int64)
        row_of[grouped.rows] = np.arange(len(pairs))
        position = row_of[numbers % REFERENCE_CYCLE % len(pairs)]
        c = np.searchsorted(grouped.first, position, side="right") - 1
        query = position - grouped.first[c]
    else:
        c, query = _queries(grouped, u)
    supports = _supports(u[:, 2:], grouped.count[c], query, protocol)
    photos = grouped.photos[grouped.first[c, None] + np.column_stack([supports, query])]
    rows = zip(photos.tolist(), grouped.ids[c].tolist(), strict=True)
    return [Episode(row[-1], tuple(row[:-1]), class_id) for row, class_id in rows]


def sample_batch(source: Dataset, seed: int, step: int, batch: int, shots: int, **options: object) -> Batch:
    """Training step `step`: the episodes step·batch .. step·batch + batch - 1; options as for `sample`."""
    return sample(source, seed, range(step * batch, (step + 1) * batch), shots, **options)  # type: ignore[arg-type]


def sample(
    source: Dataset,
    seed: int,
    indices: Sequence[int],
    shots: int,
    *,
    augmentation: Augmentation = PAPER,
    self_augmentation: Augmentation | None = None,
    self_episodes: float = 0.0,
    absent: float = 0.0,
    power: float | None = None,
    protocol: ProtocolName = "paper",
    size: int | None = None,
) -> Batch:
    """Training episodes of these numbers. Classes too small for `shots` drop out (`trainable` says which).

    power: 0 draws pairs uniformly, 1 classes, between is between; None is what the protocol does for this dataset.
    self_episodes: probability that all supports are the query's photograph itself in other views, drawn (as the query's
    is then) by `self_augmentation`, by default `augmentation`. size: side of the views, for crops that keep the object.
    absent: probability that the query is any photograph whose mask would label the class: most will lack it.
    """
    numbers = np.asarray(indices, np.int64)
    if shots < 1 or shots >= MAX_SUPPORTS:
        raise Error(f"An episode has 1 to {MAX_SUPPORTS - 1} shots; given {shots}.")
    if power is None:
        power = 1.0 if source.class_first and protocol == "paper" else 0.0
    grouped = _pairs_by_class(source, needed(shots, protocol), power)
    u = draws.uniform(seed, draws.TRAINING, numbers, 3 + shots)
    c, query = _queries(grouped, u)
    chosen = np.column_stack([_supports(u[:, 3:], grouped.count[c], query, protocol), query])
    alone = u[:, 2] < self_episodes
    chosen[alone] = query[alone, None]
    entries = grouped.first[c, None] + chosen
    if absent:
        lot = draws.uniform(seed, draws.ABSENT, numbers, 2)
        elsewhere, lacks = grouped.without(c, lot[:, 1])
        entries[:, -1] = np.where(lacks & ~alone & (lot[:, 0] < absent), elsewhere, entries[:, -1])

    # Views are numbered by episode and place, the query's first, so that they do not depend on the shots.
    places = np.roll(np.arange(shots + 1), -1)
    views = draws.uniform(seed, draws.AUGMENTATION, numbers[:, None] * MAX_SUPPORTS + places, DRAWS + 1)
    views = views.reshape(-1, DRAWS + 1)
    anchors = _anchors(source, grouped.rows[entries].reshape(-1), views[:, DRAWS])
    size = size or source.side or DEFAULT_SIDE
    parameters = draw_parameters(augmentation, views, anchors, size)
    if self_augmentation is not None and alone.any():
        other = draw_parameters(self_augmentation, views, anchors, size)
        parameters = np.where(np.repeat(alone, shots + 1)[:, None], other, parameters)
    return Batch(
        torch.from_numpy(grouped.photos[entries]),
        torch.from_numpy(grouped.ids[c]),
        torch.from_numpy(parameters).reshape(len(numbers), shots + 1, -1),
    )


def absent_episodes(dataset: Dataset, episodes: Sequence[Episode], *, seed: int) -> list[Episode]:
    """The same supports, each with a query that lacks their class (or shows less of it than the dataset counts), though
    its mask would label it. Episodes for whose class there is no such photograph are left out."""
    showing = {c: set(photos) for c, photos in dataset.by_class().items()}
    labelling: dict[int, set[int]] = {}
    for c, photos in showing.items():
        labelling.setdefault(c // IDS_OF_A_SET, set()).update(photos)
    lacking = {c: sorted(labelling[c // IDS_OF_A_SET] - photos) for c, photos in showing.items()}
    u = draws.uniform(seed, draws.ABSENT, np.arange(len(episodes)), 1)[:, 0]
    drawn = [(e, lacking[e.class_id], lot) for e, lot in zip(episodes, u.tolist(), strict=True)]
    return [Episode(free[int(lot * len(free))], e.supports, e.class_id) for e, free, lot in drawn if free]


def mixed_shots(seed: int, step: int, low: int, high: int) -> int:
    """Shots of training step `step`, uniform in low..high."""
    return low + int(draws.uniform(seed, draws.SHOTS, step, 1)[0] * (high - low + 1))


def episodes_from_file(path: Path, dataset: Dataset) -> list[Episode]:
    """Episodes listed in a JSON file: [{"category_id", "query", "support": [...]}], photographs named without suffix.

    The dataset (COCO-mini, or a cache of it) numbers its classes by COCO's category ids.
    """
    try:
        listed = json.loads(Path(path).read_text())
        entries = [(int(e["category_id"]), str(e["query"]), [str(s) for s in e["support"]]) for e in listed]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Error(
            f'{path} is no list of episodes ({problem}); write [{{"category_id": 1, "query": "a", "support": ["b"]}}].'
        ) from problem
    number = {Path(dataset.path(i)).stem: i for i in range(len(dataset))}
    pairs = set(dataset.pairs)
    wrong = [
        name for c, query, supports in entries for name in (query, *supports) if (number.get(name, -1), c) not in pairs
    ]
    if wrong:
        raise Error(
            f"{path} names photographs that {dataset.name} does not have with that class: "
            f"{', '.join(sorted(set(wrong))[:20])}; if their objects are small, build it with min_pixels=1."
        )
    return [Episode(number[query], tuple(number[s] for s in supports), c) for c, query, supports in entries]


def _pairs_by_class(dataset: Dataset, least: int, power: float) -> _PairsByClass:
    """The classes with at least `least` photographs; kept with the dataset, since sampling must be quick."""
    return dataset.once(("pairs by class", least, power), lambda: _grouped(dataset, least, power))


def _grouped(dataset: Dataset, least: int, power: float) -> _PairsByClass:
    rows: dict[int, list[int]] = {}
    for row, (_, class_id) in enumerate(dataset.pairs):
        rows.setdefault(class_id, []).append(row)
    ids = np.array(sorted(c for c in rows if len(rows[c]) >= least), np.int64)
    if not len(ids):
        raise Error(
            f"{dataset.name}: no class has the {least} photographs that an episode takes; give more photographs."
        )
    count = np.array([len(rows[c]) for c in ids.tolist()], np.int64)
    order = np.concatenate([rows[c] for c in ids.tolist()])
    photos = np.array([photo for photo, _ in dataset.pairs], np.int64)[order]
    upto = np.cumsum(dataset.shares(ids, count, power))
    return _PairsByClass(ids, np.cumsum(count) - count, count, photos, order, upto)


def _queries(grouped: _PairsByClass, u: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Class (its row) and photograph (number within the class), (M,) each, from draws u (M, 2 or more)."""
    c = np.minimum(np.searchsorted(grouped.upto, u[:, 0] * grouped.upto[-1], side="right"), len(grouped.ids) - 1)
    return c, (u[:, 1] * grouped.count[c]).astype(np.int64)


def _supports(
    u: NDArray[np.float64], count: NDArray[np.int64], query: NDArray[np.int64], protocol: ProtocolName
) -> NDArray[np.int64]:
    """(M, K) numbers within the class, never the query."""
    if protocol == "paper":
        return draws.distinct(u, count, query)
    others = (u * (count - 1)[:, None]).astype(np.int64)
    return others + (others >= query[:, None])


def _anchors(source: Dataset, rows: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """(M, 2): one of the remembered foreground pixels of each of the pairs `rows` (M,)."""
    points = source.once("anchors", source.anchors)
    return None if points is None else points[rows, (u * points.shape[1]).astype(np.int64)]

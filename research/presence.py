"""Whether the thing is there at all, and how good its mask is: fitted on classes that a model never saw.

    python -m research.presence --model small --tried RUNS/sized-small-2500-0-fold1/model.safetensors --data DATA \
        --out small.json --measure

The models that ship were trained on all classes. So evidence is gathered with one of the same recipe that was trained
without the classes and sets that `research.default_model try` holds out, and the calibration of the one that ships.
DATA is laid out as there. Evidence is gathered with the segmenter's own code, of photographs with and without the
class, with one example and with five. COCO-mini is only ever measured, with the model that ships.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from dgpnet import data
from dgpnet.data.dataset import Dataset, label_of
from dgpnet.data.episodes import Episode
from dgpnet.images import IGNORE
from dgpnet.segmenter import Segmenter, load
from dgpnet.segmenter.calibration import PRESENT, Belief
from dgpnet.segmenter.engine import Encoded
from dgpnet.segmenter.kinship import kinship
from dgpnet.segmenter.segmentation import enlarge, weigh
from dgpnet.segmenter.support import prepare
from research.absence import auroc_of
from research.default_model import test_sets

SHOTS = (1, 5)
#: Photographs with the class for one without it, in the folder that scores are calibrated for.
ODDS = 5.0
#: The same for presence, to choose among.
CHOICES = (5.0, 4.0, 3.0, 2.5, 2.0, 1.6, 1.3, 1.0)
#: Strength of the quadratic penalty on weights, in standard deviations of the evidence.
PENALTY = 1.0
#: Part of the photographs with the object that may be lost to be rid of some without it.
LOST = 0.05


@dataclass(frozen=True)
class Sample:
    """One query: where it is from, its evidence relative to the concept, and the truth."""

    source: str
    group: str
    shots: int
    there: bool
    evidence: tuple[float, ...]
    iou: float
    shift: float


def gather(segmenter: Segmenter, source: str, dataset: Dataset, episodes: Sequence[Episode]) -> Iterator[Sample]:
    """What is seen in the query of each episode, and in a photograph without the class."""
    lacking = {(e.class_id, e.supports): e.query for e in data.absent_episodes(dataset, episodes, seed=0)}
    for episode in episodes:
        photos = [dataset.photo(i) for i in episode.supports[: max(SHOTS)]]
        masks = [(dataset.mask(i) == label_of(episode.class_id)) for i in episode.supports[: max(SHOTS)]]
        asked = [(episode.query, True)]
        if (other := lacking.get((episode.class_id, episode.supports))) is not None:
            asked.append((other, False))
        seen = {query: _look_once(segmenter, dataset.photo(query)) for query, _ in asked}
        concept = segmenter.learn(photos[:1], masks[:1], classes=["it"])
        for shots in SHOTS:
            if shots > concept.examples:
                concept = concept.extend(photos[concept.examples : shots], masks[concept.examples : shots])
            kin = kinship(concept.memory, segmenter.calibration.presence)
            assert kin is not None
            if shots > 1 and kin.known[0] < 1:
                continue  # some of them are almost one photograph: what is fitted here counts in part for such
            for query, there in asked:
                maps = segmenter.engine.look_at(concept.memory, seen[query])
                evidence = weigh([maps], segmenter.calibration).evidence
                relative = evidence._replace(likeness=evidence.likeness - kin.own)
                mask = dataset.mask(query)
                size = (mask.shape[0], mask.shape[1])
                found = enlarge(maps, size, segmenter.calibration, keep=["mask"])["mask"].cpu().numpy() > 0
                iou = _iou(found, mask, label_of(episode.class_id)) if there else 0.0
                figures = tuple(float(one[0, 0]) for one in relative)
                group = f"{source} {dataset.classes[episode.class_id]}"
                yield Sample(source, group, shots, there, figures, iou, float(kin.shift[0]))


def _look_once(segmenter: Segmenter, photo: NDArray[np.uint8]) -> Encoded:
    """A photograph through the encoder, to be asked about by several concepts."""
    return segmenter.engine.encode(prepare(photo, segmenter.network.config).photo)


def _iou(found: NDArray[np.bool_], mask: NDArray[np.uint8], label: int) -> float:
    said = mask != IGNORE
    truth = (mask == label) & said
    either = ((found & said) | truth).sum()
    return float((found & truth).sum() / either) if either else 1.0


def regressed(samples: Sequence[Sample], targets: Sequence[float], odds: float) -> tuple[float, ...]:
    """Bias and weights of a logistic regression; sources count alike, and `odds` with the class for one without."""
    x = np.array([sample.evidence for sample in samples])
    middle, spread = x.mean(0), x.std(0) + 1e-9
    design = np.column_stack([np.ones(len(x)), (x - middle) / spread])
    weight = np.zeros(len(x))
    for source in {sample.source for sample in samples}:
        for there in (True, False):
            rows = [i for i, s in enumerate(samples) if s.source == source and s.there == there]
            weight[rows] = (odds if there else 1.0) / max(1, len(rows))
    weight *= len(x) / weight.sum()
    y, b = np.array(targets), np.zeros(design.shape[1])
    penalty = np.diag([1e-6, *[PENALTY] * (len(b) - 1)])
    for _ in range(60):
        p = 1 / (1 + np.exp(-design @ b))
        step = np.linalg.solve(
            (design * (weight * p * (1 - p))[:, None]).T @ design + penalty,
            design.T @ (weight * (y - p)) - penalty @ b,
        )
        b += step
    slopes = b[1:] / spread
    return tuple(float(v) for v in (b[0] - slopes @ middle, *slopes))


def predicted(samples: Sequence[Sample], beliefs: dict[str, Belief]) -> dict[str, NDArray[np.float64]]:
    """Presence and quality of each sample."""
    found = {}
    for name, belief in beliefs.items():
        numbers = [belief.one if sample.shots == 1 else belief.several for sample in samples]
        sums = [n[0] + np.dot(n[1:], sample.evidence) for n, sample in zip(numbers, samples, strict=True)]
        shifts = [sample.shift if name == "presence" else 0.0 for sample in samples]
        found[name] = np.asarray(1 / (1 + np.exp(-np.array(sums) - np.array(shifts))))
    return found


def chosen(samples: Sequence[Sample]) -> tuple[float, ...]:
    """For each of SHOTS the least of CHOICES with which at most the part LOST of the photographs that show the class
    are left out, in the mean of the sources, each class by what was fitted to the others: so that most of those that
    lack it are."""
    best = [max(CHOICES)] * len(SHOTS)
    for odds in sorted(CHOICES, reverse=True):
        presence = left_out(samples, odds=(odds,) * len(SHOTS))["presence"]
        for i, shots in enumerate(SHOTS):
            lost = [
                np.mean([p < PRESENT for p, s in zip(presence, samples, strict=True) if _is(s, source, shots)])
                for source in {s.source for s in samples}
            ]
            if float(np.mean(lost)) <= LOST:
                best[i] = odds
    return tuple(best)


def _is(sample: Sample, source: str, shots: int) -> bool:
    return sample.there and (sample.source, sample.shots) == (source, shots)


def left_out(
    samples: Sequence[Sample], folds: int = 8, *, odds: Sequence[float] = (ODDS, ODDS)
) -> dict[str, NDArray[np.float64]]:
    """The same, each class by what was fitted to the others."""
    groups = sorted({sample.group for sample in samples})
    fold = dict(zip(groups, np.random.default_rng(0).integers(0, folds, len(groups)).tolist(), strict=True))
    found = {name: np.zeros(len(samples)) for name in ("presence", "quality")}
    for i in range(folds):
        test = [n for n, sample in enumerate(samples) if fold[sample.group] == i]
        beliefs = fitted([sample for sample in samples if fold[sample.group] != i], odds)
        for name, values in predicted([samples[n] for n in test], beliefs).items():
            found[name][test] = values
    return found


def fitted(samples: Sequence[Sample], odds: Sequence[float] = (ODDS, ODDS)) -> dict[str, Belief]:
    """Presence, for folders with those odds of showing the class, with one example and with several; and quality."""
    by_shots = {k: [s for s in samples if s.shots == k] for k in SHOTS}
    found: dict[str, Belief] = {}
    for name, target in (("presence", lambda s: float(s.there)), ("quality", lambda s: s.iou)):
        shares = odds if name == "presence" else (ODDS, ODDS)
        one, several = (
            regressed(some, [target(s) for s in some], share)
            for some, share in zip(by_shots.values(), shares, strict=True)
        )
        there = [s for s in by_shots[SHOTS[-1]] if s.there]
        usual = float(np.mean([several[0] + np.dot(several[1:], s.evidence) for s in there]))
        found[name] = Belief(_short(one), _short(several), round(usual, 3))
    return found


def _short(numbers: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(number, 4) for number in numbers)


def report(samples: Sequence[Sample], told: dict[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """How well they tell, by source and shots."""
    table: dict[str, dict[str, float]] = {}
    for source in sorted({s.source for s in samples}):
        for shots in SHOTS:
            rows = [i for i, s in enumerate(samples) if s.source == source and s.shots == shots]
            some = [samples[i] for i in rows]
            presence, quality = told["presence"][rows], told["quality"][rows]
            there, iou = np.array([s.there for s in some]), np.array([s.iou for s in some])
            likeness = np.array([s.evidence[0] for s in some])
            ranks = np.stack([np.argsort(np.argsort(v)) for v in (quality[there], iou[there])])
            row = {
                "photographs": len(some),
                "AUROC of presence": auroc_of(list(presence[there]), list(presence[~there])),
                "AUROC of likeness": auroc_of(list(likeness[there]), list(likeness[~there])),
                "empty where 5 % are lost": float((presence[~there] < np.quantile(presence[there], LOST)).mean()),
                "empty": float((presence[~there] < PRESENT).mean()),
                "lost": float((presence[there] < PRESENT).mean()),
                "lost of masks over 0.5": float((presence[there & (iou > 0.5)] < PRESENT).mean()),
                "score, rank": float(np.asarray(np.corrcoef(ranks))[0, 1]),
                "score, error": float(np.abs(quality[there] - iou[there]).mean()),
            }
            table[f"{source}, {shots} shots"] = {key: round(value, 3) for key, value in row.items()}
    return table


def main(
    root: Annotated[Path, typer.Option("--data", help="Folder of the unpacked shards.")],
    tried: Annotated[
        Path, typer.Option(help="A model of the same recipe, trained without the classes that are held out.")
    ],
    out: Annotated[Path | None, typer.Option(help="Where presence and quality go, as JSON.")] = None,
    model: Annotated[str, typer.Option(help="What ships: default, small, or the path of a checkpoint.")] = "small",
    episodes: Annotated[int, typer.Option(help="Of each source.")] = 300,
    measure: Annotated[bool, typer.Option(help="Measure on COCO-mini, too.")] = False,
    cache: Path | None = None,
) -> None:
    """Gather evidence, fit, cross-validate over classes, and print."""
    segmenter = load(model)
    unseen = Segmenter(load(tried).network, calibration=segmenter.calibration)
    built = test_sets(root, None, cache)
    samples = [sample for name, dataset in built.items() for sample in _gathered(unseen, name, dataset, episodes)]
    odds = chosen(samples)
    print(json.dumps({"odds": odds}))
    beliefs = fitted(samples, odds)
    if out is not None:
        out.write_text(json.dumps({name: asdict(belief) for name, belief in beliefs.items()}, indent=1) + "\n")
    print(json.dumps({name: asdict(belief) for name, belief in beliefs.items()}))
    print(json.dumps(report(samples, left_out(samples, odds=odds)), indent=1))
    if measure:
        coco = data.build("coco", root / "coco", split="test", cache=cache, min_pixels=1)
        listed = data.episodes_from_file(root / "coco-mini-episodes.json", coco)[:episodes]
        # With what was fitted, so that each concept shifts its own presence by what its examples say of each other.
        with_beliefs = replace(segmenter.calibration, presence=beliefs["presence"], quality=beliefs["quality"])
        adapted = Segmenter(segmenter.network, calibration=with_beliefs)
        measured = list(gather(adapted, "COCO-mini", coco, listed))
        print(json.dumps(report(measured, predicted(measured, beliefs)), indent=1))


def _gathered(segmenter: Segmenter, name: str, dataset: Dataset, episodes: int) -> list[Sample]:
    listed = data.episodes(dataset, seed=0, indices=range(episodes), max_shots=max(SHOTS))
    return list(gather(segmenter, name, dataset, listed))


if __name__ == "__main__":
    typer.run(main)

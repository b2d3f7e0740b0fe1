"""What there is, in the words of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dgpnet
from dgpnet.annotations import FORMATS
from dgpnet.colours import to_hex
from dgpnet.studio import counting, models
from dgpnet.studio.project import Project, Record

if TYPE_CHECKING:
    from dgpnet.studio.jobs import Job
    from dgpnet.studio.studio import Studio

#: What people call formats.
TITLES = {
    "coco": "COCO",
    "labelme": "labelme",
    "yolo": "YOLO",
    "labelstudio": "Label Studio",
    "cvat": "CVAT XML",
    "voc": "PASCAL VOC",
}

Statuses = list[tuple[Record, counting.Status]]


def statuses(project: Project) -> Statuses:
    """Of all photographs."""
    return [(record, counting.status(project, record)) for record in project.records()]


def photograph(project: Project, record: Record) -> models.Photograph:
    """A photograph."""
    told = counting.status(project, record)
    areas = [
        models.ClassArea(value=value, area=area, count=told.parts.get(value, 0) if told.parts is not None else None)
        for value, area in sorted(told.areas.items())
    ]
    height, width = record.size or (None, None)
    return models.Photograph.model_validate(
        {
            "id": record.id,
            "name": record.name,
            "revision": record.revision,
            "width": width,
            "height": height,
            "state": told.state,
            "review": record.review,
            "problem": record.problem,
            "mask": {"source": told.source, "etag": told.etag},
            "score": _share(told.score),
            "presence": _share(told.presence),
            "likeness": _share(told.likeness),
            "novelty": _share(told.novelty),
            "classes": areas,
        }
    )


def _share(number: float | None) -> float | None:
    return None if number is None else min(1.0, max(0.0, number))


def classes(project: Project, every: Statuses) -> list[models.Class]:
    """All classes."""
    found = []
    for one in project.classes.every:
        shown = [told.source for _, told in every if told.areas.get(one.value)]
        found.append(
            models.Class(
                value=one.value,
                name=one.name,
                colour=to_hex(one.colour),
                photographs=len(shown),
                examples=shown.count("painted"),
            )
        )
    return found


def concept(studio: Studio) -> models.Concept | None:
    """What is learned; None where nothing is."""
    learned, project = studio.mind.learned, studio.project
    if learned is None:
        return None
    return models.Concept(
        fingerprint=learned.fingerprint,
        examples=len(learned.keys),
        classes=list(learned.legend.names),
        seconds=learned.seconds,
        fitted=learned.concept.fitted is not None,
        stale=dict(learned.snapshots) != project.snapshots(),
        estimate=_estimate(studio),
    )


def _estimate(studio: Studio) -> models.Estimate | None:
    told, project = studio.mind.told, studio.project
    if told is None:
        return None
    named: dict[str, list[Record]] = {}
    for known in filter(None, map(project.of_key, told.keys)):
        named.setdefault(known.name.rsplit("/", 1)[-1], []).append(known)
    examples = []
    for one in told.estimate.examples:
        same = named.get(one.name, [])
        record = same.pop(0) if same else None
        examples.append(
            models.EstimateExample(
                photograph=record.id if record is not None else None,
                name=record.name if record is not None else one.name,
                iou=one.iou,
                doubtful=one.doubtful,
            )
        )
    return models.Estimate(mean=told.estimate.mean, low=told.estimate.low, high=told.estimate.high, examples=examples)


def job(one: Job) -> models.Job:
    """A job."""
    return models.Job.model_validate(
        {
            "id": one.id,
            "kind": one.kind,
            "state": one.state,
            "done": one.done,
            "total": one.total,
            "seconds_left": one.seconds_left,
            "detail": one.detail,
            "result": one.result,
        }
    )


def project(studio: Studio) -> models.Project:
    """Everything but the photographs themselves."""
    own = studio.project
    every, running = statuses(own), studio.jobs.running()
    return models.Project(
        id=own.id,
        name=own.folder.resolve().name,
        folder=str(own.folder),
        revision=own.revision,
        version=dgpnet.__version__,
        photographs=models.Counts(**counting.counts(own, every)),
        folders=[models.Folder(name=name, photographs=count) for name, count in counting.folders(own).items()],
        classes=classes(own, every),
        concept=concept(studio),
        job=None if running is None else job(running),
        formats=[models.Format(name=name, title=TITLES.get(name, name)) for name in FORMATS],
        model=models.Model(name=studio.segmenter.name, device=str(studio.segmenter.device)),
        can=models.Can(propose=True, fit=True, presence=studio.mind.knows_presence, suggest=studio.mind.suggests),
        notes=own.notes[-10:],
    )


def summary(studio: Studio) -> models.Summary:
    """Counts and areas."""
    own = studio.project
    every = statuses(own)
    scores = [told.score for _, told in every if told.source == "found" and told.score is not None]
    several = []
    for one in own.classes.every:
        of = counting.totals(one.value, every)
        several.append(
            models.ClassSummary(
                value=one.value,
                name=one.name,
                photographs=of.photographs,
                count=of.count,
                area=of.area,
                share=of.share,
                areas=models.Histogram(bins=of.shares[0], most=of.shares[1]),
                counts=models.Histogram(bins=of.counted[0], most=of.counted[1]),
            )
        )
    return models.Summary(
        photographs=models.Counts(**counting.counts(own, every)),
        scores=counting.histogram(scores, counting.SCORES),
        classes=several,
    )

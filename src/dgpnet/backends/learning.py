"""A model that learns from what annotators paint in Label Studio, and finds it in the other photographs."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dgpnet import checks
from dgpnet.annotations import labelstudio, shapes
from dgpnet.annotations.legend import Legend
from dgpnet.annotations.reading import IGNORED, Notes, Photos, numbers
from dgpnet.annotations.writing import Item, Style
from dgpnet.backends.interface import Interface
from dgpnet.backends.projects import Annotation, Learned, Project
from dgpnet.backends.server import Server
from dgpnet.errors import Error
from dgpnet.files import remove_leftovers
from dgpnet.images import IGNORE, MAX_PIXELS
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.segmenter.propose import Seen, look, propose
from dgpnet.serving import Worker

#: Annotations that may have changed for what was learned to be changed, and not learned anew.
FEW = 5
#: Photographs that are held as the model sees them, for further clicks.
SEEN = 8
#: Seconds between two looks at what is being learned.
LOOK = 0.1
#: Pixels by which polygons may leave the outline that was found: with every stair of it they cannot be edited.
SIMPLIFY = 1.0
#: What is done first: an annotator waits for a click, and everything else for what is learned.
CLICK, LEARN, PREDICT = 0, 1, 2

_log = logging.getLogger("dgpnet.backends")


class Example(NamedTuple):
    """What is learned from: key of the annotation, photograph, mask (H, W) of 0, the interface's classes, ignore."""

    key: str
    photo: Path
    mask: NDArray[np.uint8]


class Mind:
    """One model for all projects. Work of the model is done one piece after the other, the most urgent first.

    root: a folder for each project goes there · server: where photographs come from · fit_seconds: how long fitting
    may take · tell: what people at the terminal may want to know
    """

    def __init__(
        self,
        segmenter: Segmenter,
        root: Path,
        server: Server,
        *,
        fit_seconds: float,
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.segmenter = segmenter
        self.root = root
        self.server = server
        self.fit_seconds = fit_seconds
        self.tell = tell
        self.projects: dict[str, Project] = {}
        self._model, self._learning, self._fitting = Worker("model"), Worker("learning"), Worker("fitting")
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        remove_leftovers(root)

    def close(self) -> None:
        """End what is under way; everything that was told is on the disk."""
        for worker in (self._fitting, self._learning, self._model):
            worker.close()

    def project(self, number: int, created: int) -> Project:
        """One of Label Studio's projects. created: when, in seconds, since another one may get its number later."""
        name = f"{number}-{created}"
        if name not in self.projects:  # asked for on the event loop alone
            self.projects[name] = Project(self.root / name, number, self.segmenter)
        return self.projects[name]

    # -- learning ------------------------------------------------------------------------------------------------------

    def follow(self, project: Project) -> None:
        """Learn what has changed, soon."""
        project.pending = self._learning.put(lambda: self._learn(project), key=project)

    def settled(self, project: Project, seconds: float) -> bool:
        """Wait until what was told is learned, or for so long; whether it is."""
        end = time.monotonic() + seconds
        while (pending := project.pending) is not None and not pending.done():
            if time.monotonic() >= end:
                return False
            wait([pending], LOOK)  # it may be dropped for a newer one, of which nobody is told
        return True

    def fit(self, project: Project) -> None:
        """Learn anew, and fit the model to what is painted, in the background."""
        self._fitting.put(lambda: self._fit(project), key=project)

    def _ask(self, project: Project) -> None:
        """What Label Studio has in place of what is known. What comes while it is asked stays."""
        if self.server.has_key:
            before, interface, there = project.known, project.interface, set()
            for task, annotation in annotations_of(self.server.annotations(project.number)):
                try:
                    record = record_of(task, annotation, interface)
                except Error as error:
                    self._complain(error)
                    continue
                if record is not None:
                    there.add(record["id"])
                    if record["id"] in project.known or record["id"] not in before:  # otherwise deleted meanwhile
                        project.keep(record)
            project.drop(before - there)
        project.missed = False

    def _learn(self, project: Project) -> None:
        """Bring what is learned up to what is painted."""
        try:
            if project.missed:
                self._ask(project)
        except Error as error:
            self._complain(error)
        try:
            before, wanted, interface = project.learned, project.examples(), project.interface
            after = before and self._changed(project, interface, before, wanted)
            after = after or self._anew(project, interface, wanted)
            if after is before:
                return
            project.became(after)
        except Error as error:
            self._complain(error)
            return
        if after is not None:
            examples = f"{len(after.keys)} photograph{'s' if len(after.keys) > 1 else ''}"
            self.tell(f"Project {project.number}: learned {', '.join(after.concept.classes)} from {examples}.")

    def _changed(
        self, project: Project, interface: Interface, before: Learned, wanted: Mapping[str, Annotation]
    ) -> Learned | None:
        """What was learned, with what has changed since; None where it has to be learned anew."""
        new = [one for key, one in wanted.items() if key not in before.keys]
        old = [i for i, key in enumerate(before.keys) if key not in wanted]
        concept, table = before.concept, table_of(interface, before.concept.classes)
        if table is None or (concept.fitted is None and max(len(new), len(old)) > FEW):
            return None
        examples = self._examples(project, interface, new)
        if not examples and not old:
            return before
        strange = [value for value, name in enumerate(interface.classes, 1) if name not in concept.classes]
        if any(np.isin(one.mask, strange).any() for one in examples):
            return None

        def change() -> Concept:
            changed = concept
            if examples:
                changed = changed.extend([one.photo for one in examples], [table[one.mask] for one in examples])
            for i in reversed(old):
                changed = changed.without(i)
            return changed

        try:
            changed = self._model.put(change, priority=LEARN).result()
        except Error:  # the last example of a class is gone
            return None
        kept = [key for i, key in enumerate(before.keys) if i not in old]
        return Learned(lasting(changed), (*kept, *(one.key for one in examples)))

    def _anew(
        self, project: Project, interface: Interface, wanted: Mapping[str, Annotation], *, fit: bool = False
    ) -> Learned | None:
        """What is painted, learned from the beginning; None where no class is."""
        examples = self._examples(project, interface, wanted.values())
        values = {value for one in examples for value in np.unique(one.mask).tolist()} - {0, IGNORE}
        if not values:
            return None
        classes = [name for value, name in enumerate(interface.classes, 1) if value in values]
        table = table_of(interface, classes)
        assert table is not None

        def learn() -> Concept:
            return self.segmenter.learn(
                [one.photo for one in examples],
                [table[one.mask] for one in examples],
                classes=Legend.of(classes),
                fit=fit,
                fit_seconds=self.fit_seconds,
            )

        # Fitting takes a minute, for which clicks and photographs cannot wait: it is done beside them.
        concept = learn() if fit else self._model.put(learn, priority=LEARN).result()
        return Learned(lasting(concept), tuple(one.key for one in examples))

    def _fit(self, project: Project) -> None:
        try:
            self._ask(project)
            fitted = self._anew(project, project.interface, project.examples(), fit=True)
            if fitted is not None:
                # After whatever is being learned now, which would take its place.
                self._learning.put(lambda: project.became(fitted)).result()
                self.tell(f"Project {project.number}: fitted to {len(fitted.keys)} photographs.")
            self.follow(project)  # what was painted meanwhile
        except Error as error:
            self._complain(error)

    def _examples(self, project: Project, interface: Interface, annotations: Iterable[Annotation]) -> list[Example]:
        """What can be learned from; of the rest it is told why not."""
        examples = []
        for one in annotations:
            try:
                examples.append(self._example(project, interface, one))
            except Error as error:
                self._complain(error)
        return examples

    def _example(self, project: Project, interface: Interface, annotation: Annotation) -> Example:
        photo = project.photograph(annotation)
        if not photo.is_file():
            photo = project.keep_photograph(annotation, self.server.photograph(annotation.address))
        where = f"Project {project.number}, task {annotation.task}"
        every, notes = project.result(annotation), Notes()
        regions = [region for region in every if interface.takes(region)]
        if every and not regions:  # not an example of nothing
            raise Error(
                f"{where}: no region has a brush or polygon label of the interface, and it is not learned from."
            )
        if len(regions) < len(every):
            left = len(every) - len(regions)
            notes.add("{n} regions have no brush or polygon of the interface and are left out", where, left)
        values, photos = numbers(interface.classes), Photos(photo.parent, (photo.parent,), MAX_PIXELS)
        labels = labelstudio.drawn(regions, photo, photos, values, where, notes)
        for line in notes.lines():
            self.tell(line)
        return Example(annotation.key, photo, np.where(labels == IGNORED, IGNORE, labels).astype(np.uint8))

    def _complain(self, error: Error) -> None:
        _log.warning("%s", error)

    # -- finding -------------------------------------------------------------------------------------------------------

    def predict(self, learned: Learned, interface: Interface, task: int, photo: bytes) -> Future[dict[str, Any]]:
        """The prediction of one photograph: {result, score, model_version}."""

        def find() -> dict[str, Any]:
            found = learned.concept.segment(photo)
            item = Item("", found.mask, found.score, found.class_scores)
            regions = regions_of(item, learned.concept.legend, interface, f"{task}-{learned.version[-6:]}")
            return {"result": regions, "score": found.score, "model_version": learned.version}

        return self._model.put(find, priority=PREDICT)

    def propose(
        self, learned: Learned | None, interface: Interface, task: int, photo: bytes, drawn: Sequence[Any]
    ) -> Future[dict[str, Any]]:
        """The region that clicks or strokes point at: {result, score, model_version}. drawn: regions."""

        def find() -> dict[str, Any]:
            key = hashlib.blake2b(photo, digest_size=16).hexdigest()
            seen = self._seen.pop(key, None) or look(self.segmenter, photo)
            self._seen[key] = seen
            while len(self._seen) > SEEN:
                self._seen.popitem(last=False)
            label, points, stroke = pointed_at(drawn, seen.size, f"Task {task}")
            if interface.tool(label) is None:
                raise Error(f"No BrushLabels or PolygonLabels have the label {checks.shown(label)}; add it to them.")
            concept = None if learned is None else others(learned, task)
            concept = concept if concept is not None and label in concept.classes else None
            number = 1 if concept is None else concept.classes.index(label) + 1
            mask = propose(self.segmenter, seen, points, stroke, concept, label=number)
            item = Item("", mask.astype(np.uint8), 1.0)
            regions = regions_of(item, Legend.of([label]), interface, f"{task}-click")
            return {"result": regions, "score": 1.0, "model_version": "" if learned is None else learned.version}

        return self._model.put(find, priority=CLICK)


def others(learned: Learned, task: int) -> Concept | None:
    """What other tasks say, if any: what is not finished says that the rest of its photograph is nothing."""
    own = [i for i, key in enumerate(learned.keys) if key.startswith(f"{task}:")]
    concept = learned.concept
    try:
        for i in reversed(own):
            concept = concept.without(i)
    except Error:  # there is no other, or none that shows one of the classes
        return None
    return concept


def annotations_of(tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Each annotation of an export, with its task."""
    for task in tasks:
        annotations = task.get("annotations") if isinstance(task, dict) else None
        for one in annotations if isinstance(annotations, list) else []:
            yield task, one


def record_of(task: Any, annotation: Any, interface: Interface) -> dict[str, Any] | None:
    """What is kept of an annotation; None of one that was cancelled. An Error where it is none."""
    try:
        number, own, result = annotation["id"], task["id"], annotation["result"]
        when, address = str(annotation.get("updated_at") or ""), task["data"].get(interface.variable)
    except (KeyError, TypeError, AttributeError):
        raise Error("An annotation of Label Studio has an id, a task and a result; this one has not.") from None
    if annotation.get("was_cancelled"):
        return None
    whole = all(type(one) is int and 0 <= one < 1 << 63 for one in (number, own))
    if not whole or not isinstance(result, list) or not isinstance(address, str):
        raise Error(
            f"Task {checks.shown(own)} has no photograph in its {interface.variable!r}, or no regions; look at it."
        )
    return {"id": number, "task": own, "when": when[:40], "address": address, "result": result}


def table_of(interface: Interface, classes: Sequence[str]) -> NDArray[np.uint8] | None:
    """(256,): from the numbers of the interface's classes to those of a concept's, 0 for those that it has not; None
    where it has some that the interface has not."""
    if not set(classes) <= set(interface.classes):
        return None
    table = np.zeros(256, np.uint8)
    table[IGNORE] = IGNORE
    for value, name in enumerate(interface.classes, 1):
        table[value] = classes.index(name) + 1 if name in classes else 0
    return table


def lasting(concept: Concept) -> Concept:
    """Without the examples themselves, which are on the disk: saving it then costs no estimate."""
    return replace(concept, shots=None)


def regions_of(item: Item, legend: Legend, interface: Interface, name: str) -> list[dict[str, Any]]:
    """The regions of a mask, each with the tool that has its label. name: what their ids begin with."""
    regions: list[dict[str, Any]] = []
    for tool in interface.tools:
        own = [value for value, label in enumerate(legend.names, 1) if interface.tool(label) is tool]
        mask = np.where(np.isin(item.mask, own), item.mask, 0).astype(np.uint8)
        style = Style(polygons=tool.kind == "polygonlabels", simplify=SIMPLIFY)
        some = replace(item, mask=mask)
        regions += labelstudio.regions_of(some, legend, style, from_name=tool.name, to_name=interface.image)
    return [{"id": f"{name}-{number}", **region} for number, region in enumerate(regions, 1)]


def pointed_at(
    drawn: Sequence[Any], size: tuple[int, int], where: str
) -> tuple[str, list[tuple[float, float, bool]], NDArray[np.bool_] | None]:
    """What an annotator clicked and stroked on a (H, W) photograph: label, points (x, y, positive), stroke (H, W)."""
    height, width = size
    points: list[tuple[float, float, bool]] = []
    strokes = np.zeros(size, bool)
    label = ""
    for region in drawn:
        value = region.get("value") if isinstance(region, dict) else None
        kind = region.get("type") if isinstance(region, dict) else None
        labels = value.get(kind) if isinstance(value, dict) and isinstance(kind, str) else None
        if not isinstance(value, dict) or not isinstance(labels, list) or not labels or not isinstance(labels[0], str):
            raise Error(f"{where}: a click or a stroke has a label; choose one, then click again.")
        label = labels[0]
        positive = region.get("is_positive", value.get("is_positive", True)) is not False
        if kind == "keypointlabels":
            x, y = (checks.number(f"{where}: a click's {key}", value.get(key), 0, 100) / 100 for key in ("x", "y"))
            points.append((x * width, y * height, positive))
        elif "rle" in value and positive:
            if (region.get("original_height"), region.get("original_width")) != size:
                raise Error(
                    f"{where}: the stroke is not of the photograph's size, {width} × {height}; reload the page."
                )
            strokes |= shapes.paint(size, [(1, labelstudio.shape(value, size, where, shapes.Work(where)))]) == 1
        else:
            raise Error(f"{where}: a region is proposed for clicks (KeyPointLabels) and strokes (BrushLabels) alone.")
    return label, points, strokes if strokes.any() else None

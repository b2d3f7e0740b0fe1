"""What drives a folder job: hands out the photographs, records what is done, and writes what needs all of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dgpnet.annotations import Item, SupportSet
from dgpnet.errors import Error
from dgpnet.images import FAINT
from dgpnet.segmenter import masks
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.entries import RoundEntries
from dgpnet.segmenter.ledger import Ledger, mask_of
from dgpnet.segmenter.options import Options
from dgpnet.segmenter.outputs import without_small, write_annotations
from dgpnet.segmenter.photographs import RECORD, Photograph
from dgpnet.segmenter.report import write_report, write_summary
from dgpnet.segmenter.stages import Crew, Done, Failed, Known, Plan, Stages, Task, Unwritable, told


class Job:
    """One run of a job on an output folder, whose ledger is open.

    known: what need not be found again, in this process · crew: who does the work, if not this process.
    """

    def __init__(
        self,
        concept: Concept,
        ledger: Ledger,
        options: Options,
        painted: SupportSet | None,
        known: Known | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.concept = concept
        self.ledger = ledger
        self.options = options
        self.out = ledger.out
        self.failures: dict[str, str] = {}
        self.notes: list[str] = []
        self.annotations: dict[str, Path | str] = {}
        self._painted = () if painted is None else painted.examples
        self._known = known
        self._crew = crew
        self._faint: tuple[int, str] = (0, "")
        self._lock = threading.Lock()

    def segment(self, photographs: Iterable[Photograph], total: int, advance: Callable[[int], object]) -> None:
        """All of these; total: how many they are. What cannot be read goes to `failures`."""
        tasks = map(self._task, photographs)
        try:
            if self._crew is None or not total:
                self._stages().run(tasks, done=self._done, failed=self._failed, advance=advance)
            else:
                self._share(self._crew, tasks, total, advance)
            self.ledger.settle()
        except OSError as error:
            raise Unwritable(told(error, self.out)) from error
        finally:
            self._tell_of_faint()
        self.failures = dict(sorted(self.failures.items()))

    def _stages(self) -> Stages:
        made_with = self.ledger.now.made_with
        return Stages(
            self.concept, self.out, self.options, made_with=made_with, painted=self._painted, known=self._known
        )

    def _share(self, crew: Crew, tasks: Iterator[Task], total: int, advance: Callable[[int], object]) -> None:
        """Have others do it. What one of them left half-written when it was killed is removed."""
        assert self.ledger.precision is not None, "it is chosen before work begins"
        plan = Plan(
            self.concept, self.ledger.precision, self.out, self.options, self.ledger.now.made_with, self._painted
        )
        mended: list[str] = []
        whole = False
        try:
            crew.run(plan, tasks, total, done=self._done, failed=self._failed, advance=advance, note=mended.append)
            whole = not mended
        finally:
            self.notes += mended
            if not whole:
                self.ledger.tidy()

    def _task(self, photo: Photograph) -> Task:
        before = self.ledger.entries.get(photo.key)
        return Task(photo, before.digest if before is not None and not before.figures.edited else None)

    def _done(self, done: Done) -> None:
        try:
            self.ledger.add(done.entry, done.files)
        except (Error, OSError) as error:
            raise Unwritable(told(error, self.out)) from error
        self.notes += done.notes
        if done.faint:
            with self._lock:  # threads tell of what is done
                count, first = self._faint
                self._faint = count + 1, min(first or done.entry.name, done.entry.name)

    def _tell_of_faint(self) -> None:
        """One note for all such photographs of this run."""
        count, first = self._faint
        if count:
            which = f"{first[:100]} has" if count == 1 else f"{count} photographs (first: {first[:100]}) have"
            self.notes.append(f"{which} {FAINT}.")

    def _failed(self, failed: Failed) -> None:
        self.failures[failed.name] = failed.why
        self.notes += failed.notes

    def finish(self) -> None:
        """Summary, annotations and report of all that is done in this round."""
        entries, legend = self.ledger.current(), self.concept.legend
        try:
            self.out.put({"classes.json": json.dumps(masks.classes_json(legend)).encode()})
            write_summary(self.out, self.ledger.now, legend.names, entries, self.failures, self.concept.estimate)
            write_report(self.out, legend, entries, self.failures, self.concept.estimate)
        except (Error, OSError) as error:
            raise Unwritable(told(error, self.out)) from error
        problems = [problem for format in self.options.formats if (problem := self._annotate(format, entries))]
        if problems:
            raise Unwritable(" ".join(problems))

    def _annotate(self, format: str, entries: RoundEntries) -> str | None:
        """Write one of the formats; what went wrong, in a sentence."""
        legend, items = self.concept.legend, self._items(entries)
        with self.out.stage(f"{RECORD}/stage") as stage:
            try:
                written, notes = write_annotations(self.out, stage, legend, items, format, self.options)
            except (Error, OSError) as error:
                # Said of where it would have been, not of where it was made ready.
                problem = f"{format}: {told(error, self.out)}"
                return problem.replace(str(stage), str(self.out.at("annotations")))
        self.annotations[format] = self.out.at(written)
        self.notes += [note for note in notes if note not in self.notes]  # the legend is of all formats
        return None

    def _items(self, entries: RoundEntries) -> Iterator[Item]:
        """The masks once more, read back one at a time, in the way that was decided."""
        legend = self.concept.legend
        for entry in entries.by_name():
            with self.out.reading(mask_of(entry.key)) as path:
                there = path or Path(str(self.out.at(mask_of(entry.key))))
                if entry.figures.white:
                    mask, _ = masks.read_edited(there, legend, ignores=lambda: False)
                else:
                    mask = masks.read(there, legend)
            if self.options.min_area:
                mask = without_small(mask, self.options.min_area)
            yield Item(entry.name, mask, entry.figures.score, entry.figures.scores)

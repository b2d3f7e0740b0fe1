"""A folder of photographs in one call: masks for any number of them, in constant memory, resumable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dgpnet import checks
from dgpnet.annotations import SupportSet
from dgpnet.errors import Error
from dgpnet.places import Place, place_of
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.estimate import Estimate
from dgpnet.segmenter.figures import Figures, totals
from dgpnet.segmenter.fitting import Fitted
from dgpnet.segmenter.job import Job
from dgpnet.segmenter.kept import keep
from dgpnet.segmenter.ledger import Ledger
from dgpnet.segmenter.options import Options
from dgpnet.segmenter.photographs import Listing, Photograph, list_photographs
from dgpnet.segmenter.rounds import Round
from dgpnet.segmenter.stages import Crew, Known, Unwritable
from dgpnet.segmenter.streams import ahead

Advance = Callable[[int, int], None]
#: What a job can be given.
Given = str | os.PathLike[str] | Sequence[Photograph | str | os.PathLike[str]] | Listing
#: A likeness that few photographs with the thing have less of; `--min-likeness` names it, too.
UNLIKE = 0.25


@dataclass(frozen=True)
class Outcome:
    """What a job did.

    done         photographs that are done in all · before: how many of them were before
    painted      how many are as they were painted · edited: as they were edited by hand among the results
    white        how many of the edited ones were saved white on black, which is taken for the one class
    failures     name -> what went wrong
    unlike       photographs in which something was found with a likeness below UNLIKE; 0 where that is left out anyway
    left_out     photographs in which something was found and left out for being probably not there
    less_like    photographs in which something was found and left out for being less like than `min_likeness`
    totals       class -> photographs that show it, area, share of all pixels, and count where parts are counted
    estimate     what was to be expected, from the examples alone; None where they could not tell
    fitted       what fitting chose; None where it was not fitted
    annotations  format -> where it is: a path, or an address of object storage
    notes        what was decided, kept or put aside, a sentence each
    stopped      why the job ended before its end (a full disk), in a sentence
    """

    done: int
    before: int
    painted: int = 0
    edited: int = 0
    white: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    unlike: int = 0
    left_out: int = 0
    less_like: int = 0
    totals: dict[str, dict[str, Any]] = field(default_factory=dict)
    estimate: Estimate | None = None
    fitted: Fitted | None = None
    annotations: dict[str, Path | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stopped: str | None = None


def segment_folder(
    concept: Concept,
    photographs: Given,
    out: str | os.PathLike[str] | Place,
    *,
    painted: SupportSet | None = None,
    again: bool = False,
    advance: Advance | None = None,
    known: Known | None = None,
    crew: Crew | None = None,
    **options: Any,
) -> Outcome:
    """Segment photographs into the folder `out`, of a disk or of object storage ("s3://bucket/found"); what is done
    there already is skipped.

    photographs: a folder, files and folders, or what `find_photographs` or `list_photographs` gave.
    painted: what the concept was learned from. A photograph that is among it keeps the mask that was painted.
    again: where `out` holds an earlier round (other examples, other options), segment anew into it. Masks that were
    painted or edited by hand are kept. Otherwise another round is an Error, before any work.
    advance: called with how many are done and how many there are.
    known: what this concept found in a photograph before, where that is at hand; a crew does not ask.
    crew: who does the work, of `dgpnet.cluster`; by default this process. The folder comes out the same.
    options: those of `Options`, by name: overlay=True, formats=["coco"], …
    """
    asked = Options.of(options)
    checks.kind("concept", concept, Concept)
    again, place = checks.flag("again", again), place_of(out)
    painted = None if painted is None else checks.kind("painted", painted, SupportSet)
    checks.function("advance", advance, "two numbers")
    checks.function("known", known, "a photograph")
    if crew is not None and not callable(getattr(crew, "run", None)):
        raise Error(f"crew is one of dgpnet.cluster, like Processes([...]); given {checks.shown(crew)}.")
    if asked.min_likeness and not concept.segmenter.network.config.similarity:
        raise Error("This model has no plain similarity to tell likeness by; leave min_likeness out.")
    found = _listed(photographs, place)
    ledger = Ledger(place, Round.now(concept, asked.shaping(), asked.afterwards()), again=again)
    stopped = None
    try:
        with ledger:
            if painted is not None and concept.fitted is not None:
                keep(concept, place, begun=ledger.precision is not None)
            found.give_keys(ledger.entries.names())
            looked = ahead(found, ledger.is_done, cost=lambda photo: 0)
            before = found.set_done(photo.name for photo, done in looked if done.result())
            total = len(found)  # once: it is counted
            todo = total - before
            job = Job(_in_the_same_precision(concept, ledger) if todo else concept, ledger, asked, painted, known, crew)
            job.segment(found.to_do(), todo, lambda n: advance and advance(before + n, total))
            job.finish()
    except Unwritable as error:  # out here: what was already told of the disk is told again when the record is closed
        stopped = f"{error} What is done stays; once that is mended, run the same command again."
    return _outcome(job, found, before, stopped)


def _listed(photographs: Given, out: Place) -> Listing:
    """What was given, as a listing."""
    if isinstance(photographs, Listing):
        return photographs
    listed = [photographs] if isinstance(photographs, str | os.PathLike) else photographs
    given = list(checks.each("photographs", listed, single=3))
    paths = [checks.path_of("photograph", one) for one in given if not isinstance(one, Photograph)]
    photos = [one for one in given if isinstance(one, Photograph)]
    listing = list_photographs(paths, out=str(out)) if paths or not photos else Listing()
    listing.add((one.name, one.path, one.stored) for one in photos)
    return listing


def _in_the_same_precision(concept: Concept, ledger: Ledger) -> Concept:
    """The concept in the precision that the job began with, though another may be quicker here and now."""
    if ledger.precision is not None:
        return concept.using(getattr(torch, ledger.precision))
    ledger.precision = str(concept.segmenter.engine.predictor.dtype).removeprefix("torch.")
    ledger.write_job()
    return concept


def _outcome(job: Job, found: Listing, before: int, stopped: str | None) -> Outcome:
    entries, concept, options = job.ledger.current(), job.concept, job.options
    similar = concept.segmenter.network.config.similarity and options.min_likeness < UNLIKE
    counted: Counter[str] = Counter()

    def figures() -> Iterator[Figures]:
        for one in (entry.figures for entry in entries):
            is_so = {
                "painted": one.painted,
                "edited": one.edited,
                "white": one.white,
                "unlike": similar and _is_unlike(one),
                "left_out": not options.keep_all and one.left_out,
                "less_like": one.less_like(options.min_likeness),
            }
            counted.update(name for name, so in is_so.items() if so)
            yield one

    of_all = totals(figures(), concept.classes)
    return Outcome(
        done=len(entries),
        before=before,
        painted=counted["painted"],
        edited=counted["edited"],
        white=counted["white"],
        failures=job.failures,
        unlike=counted["unlike"],
        totals=of_all,
        left_out=counted["left_out"],
        less_like=counted["less_like"],
        estimate=concept.estimate,
        fitted=concept.fitted,
        annotations=job.annotations,
        notes=(*job.ledger.notes, *job.notes, *_left_behind(job.ledger, found)),
        stopped=stopped,
    )


def _is_unlike(figures: Figures) -> bool:
    return any(figures.areas) and figures.likeness < UNLIKE


def _left_behind(ledger: Ledger, found: Listing) -> list[str]:
    """A sentence about photographs of an earlier round that were not given this time."""
    others = ledger.entries.of_others(ledger.now.made_with).by_name()
    left = (entry.name for entry in others if not found.has_key(entry.key))
    first = next(left, None)
    if first is None:
        return []
    return [
        f"{1 + sum(1 for _ in left)} of the photographs of the earlier round were not given this time (first: "
        f"{first[:100]}): their files stay as they were, and are not in summary and report."
    ]

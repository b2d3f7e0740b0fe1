"""What was fitted for a job, kept beside its record: the job goes on with it, and nothing is fitted anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dgpnet.errors import Error
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.photographs import JOURNALS, RECORD

#: The concept's file, in the folder of the record.
NAME = "fitted.concept"


def keep(concept: Concept, out: Path, *, begun: bool) -> None:
    """Write what was fitted for the job in that folder, unless the job was begun with it. The folder is the caller's
    alone."""
    path = out / RECORD / NAME
    if not (begun and path.is_file()):
        concept.save(path)


def fitted_before(out: Path, learned: Callable[[], Concept], *, again: bool) -> Concept | None:
    """What the job in that folder was fitted to, if that are the same examples; None where nothing was.

    learned: what is learned from the examples without fitting · again: results of other examples may be there, which is
    an Error otherwise: nobody should wait for a fit to be refused after it.
    """
    path, done = out / RECORD / NAME, out / RECORD / JOURNALS[1]
    if path.is_file():
        plain = learned()
        try:
            concept = Concept.load(path, plain.segmenter)
            if concept.origins == plain.origins and concept.legend == plain.legend:
                return concept
        except (Error, OSError):
            pass  # of another model, or damaged
    if not again and done.is_file() and done.stat().st_size:
        raise Error(
            f"{out} holds an earlier round, which was not fitted to these examples; add --again to segment anew into "
            "it (what you painted or edited by hand is kept), or choose another --out."
        )
    return None

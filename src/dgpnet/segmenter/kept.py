"""What was fitted for a job, kept beside its record: the job goes on with it, and nothing is fitted anew."""

from __future__ import annotations

from collections.abc import Callable

from dgpnet.errors import Error
from dgpnet.places import Place
from dgpnet.segmenter.concept import Concept
from dgpnet.segmenter.photographs import JOURNALS, RECORD

#: The concept's file, beside the record.
NAME = f"{RECORD}/fitted.concept"


def keep(concept: Concept, out: Place, *, begun: bool) -> None:
    """Write what was fitted for the job in that folder, unless the job was begun with it. The folder is the caller's
    alone."""
    if not (begun and out.read(NAME) is not None):
        with out.writing(NAME) as path:
            concept.save(path)


def fitted_before(out: Place, learned: Callable[[], Concept], *, again: bool) -> Concept | None:
    """What the job in that folder was fitted to, if that are the same examples; None where nothing was.

    learned: what is learned from the examples without fitting · again: results of other examples may be there, which is
    an Error otherwise: nobody should wait for a fit to be refused after it.
    """
    with out.reading(NAME) as path:
        if path is not None:
            plain = learned()
            try:
                concept = Concept.load(path, plain.segmenter)
                if concept.origins == plain.origins and concept.legend == plain.legend:
                    return concept
            except (Error, OSError):
                pass  # of another model, or damaged
    if not again and next(out.journal(f"{RECORD}/{JOURNALS[1]}").records(), None) is not None:
        raise Error(
            f"{out} holds an earlier round, which was not fitted to these examples; add --again to segment anew into "
            "it (what you painted or edited by hand is kept), or choose another --out."
        )
    return None

"""What the commands that learn from a support set share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgpnet.cli.parsing import names as listed
from dgpnet.cli.progress import progress
from dgpnet.errors import printable

if TYPE_CHECKING:
    from dgpnet.annotations import SupportSet
    from dgpnet.segmenter import Concept, Segmenter
    from dgpnet.segmenter.stages import Crew

Support = Annotated[
    Path,
    typer.Argument(
        metavar="SUPPORT",
        help="A folder of painted photographs, an annotation file (docs/formats.md), or a .concept.",
        show_default=False,
    ),
]
Photos = Annotated[
    list[str],
    typer.Argument(
        metavar="PHOTO", help="Photographs, folders of them (s3:// … too), or @list.txt.", show_default=False
    ),
]
Model = Annotated[str, typer.Option("--model", help="default, small, or the path of a checkpoint.")]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, …; by default the GPU if there is one.", show_default=False)
]
Classes = Annotated[
    str | None,
    typer.Option("--classes", metavar="A,B", help="Classes to take from SUPPORT; by default all.", show_default=False),
]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images", metavar="DIR", help="Where SUPPORT's photographs are, if not beside it.", show_default=False
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="A,B",
        help="Names for the values of SUPPORT's masks, in order, where no file has them.",
        show_default=False,
    ),
]
Crowds = Annotated[
    str | None,
    typer.Option(
        "--crowds",
        metavar="ignore|objects",
        help="What COCO's crowds are; by default objects where a file has nothing else.",
        show_default=False,
    ),
]
Fit = Annotated[
    bool,
    typer.Option("--fit", help="Fit sizes, models and decoder to SUPPORT: takes a minute, and longer a photograph."),
]
FitSeconds = Annotated[
    float | None,
    typer.Option(
        "--fit-seconds", metavar="SECONDS", help="How long fitting may take; by default 60.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def read_painted(
    support: Path, *, classes: str | None, names: str | None, images: Path | None, crowds: str | None
) -> SupportSet | None:
    """What was painted; None where SUPPORT is a .concept, which is learned already."""
    from dgpnet.annotations import read_support
    from dgpnet.errors import Error

    if _is_learned(support):
        given = {"--classes": classes, "--names": names, "--images": images, "--crowds": crowds}
        for option, value in given.items():
            if value is not None:
                raise Error(f"{support} is learned already; {option} is for what is still to be learned.")
        return None
    if crowds not in (None, "ignore", "objects"):
        raise Error(f"The option --crowds takes ignore or objects; got {crowds[:60]!r}.")
    return read_support(
        support, classes=listed("--classes", classes), names=listed("--names", names), photos=images, crowds=crowds
    )


def _is_learned(support: Path) -> bool:
    return support.is_file() and support.suffix == ".concept"


def time_to_fit(support: Path, *, fit: bool, seconds: float | None) -> float | None:
    """Seconds that fitting may take; None where nothing is to be fitted."""
    from dgpnet import checks
    from dgpnet.errors import Error
    from dgpnet.segmenter.fitting import LONGEST, SECONDS

    if not fit:
        if seconds is not None:
            raise Error("The option --fit-seconds says how long --fit may take; add --fit, or leave both out.")
        return None
    if _is_learned(support):
        raise Error(f"{support} is learned already; --fit is for what is still to be learned.")
    return SECONDS if seconds is None else checks.number("--fit-seconds", seconds, 0, LONGEST)


def learned(
    support: Path, painted: SupportSet | None, segmenter: Segmenter, *, seconds: float | None = None
) -> Concept:
    """The concept of what was painted, or of the .concept file. seconds: to fit it in."""
    from dgpnet.segmenter import Concept

    if painted is None:
        return Concept.load(support, segmenter)
    photos, masks = [one.photo for one in painted.examples], (one.mask for one in painted.examples)
    if seconds is None:
        return segmenter.learn(photos, masks, classes=painted.legend)
    with progress("Fitting, seconds", rate=False) as advance:
        return segmenter.learn(photos, masks, classes=painted.legend, fit=True, fit_seconds=seconds, advance=advance)


def crew_of(devices: str | None, ray: str | None) -> Crew | None:
    """Who does the work, where it is not this process."""
    from dgpnet.errors import Error

    if devices is not None and ray is not None:
        raise Error("The work is shared by either --devices or --ray; leave one of them out.")
    if devices is not None:
        from dgpnet.cluster import Processes

        return Processes([one.strip() for one in devices.split(",")])
    if ray is not None:
        from dgpnet.cluster import Actors

        return Actors(ray)
    return None


def tell(notes: Sequence[str]) -> None:
    """What was decided, left out or kept, on stderr, a line each."""
    for note in notes:
        typer.echo(f"note: {printable(note)}", err=True)


def describe(concept: Concept, *, before: bool = False) -> str:
    """One line about what was learned, and what to expect of it. before: an earlier run fitted it."""
    line = (
        f"Learned {', '.join(concept.classes)} from {concept.examples} photograph{'s' if concept.examples > 1 else ''}"
    )
    if concept.budgeted:
        line += f"; so many that {concept.inducing_points} points a level stand for all"
    if concept.fitted is not None:
        line += f"; {concept.fitted}" + (" (by an earlier run, and kept; another --out fits anew)" if before else "")
    return f"{line}; {concept.estimate}." if concept.estimate is not None else f"{line}."


def doubts(concept: Concept) -> tuple[str, ...]:
    """A sentence about each example that the others contradict."""
    names = () if concept.estimate is None else concept.estimate.doubtful
    return tuple(
        f"{name}: the other examples say something else than is painted there; look at its mask." for name in names
    )

"""What the commands that learn from a support set share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dgpnet.segmenter import Concept, Segmenter

Support = Annotated[
    Path,
    typer.Argument(
        metavar="SUPPORT",
        help="A folder with images/ and masks/, a COCO, labelme or Label Studio file, a YOLO folder, or a .concept.",
        show_default=False,
    ),
]
Photos = Annotated[
    list[Path], typer.Argument(metavar="PHOTO", help="Photographs, or folders of them.", show_default=False)
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
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def read_concept(
    support: Path, segmenter: Segmenter, *, classes: str | None, images: Path | None
) -> tuple[str, Callable[[], Concept]]:
    """A fingerprint of the support, and how to learn it: separate, so that a job can be refused before any work."""
    from dgpnet.annotations import read_support
    from dgpnet.errors import Error
    from dgpnet.segmenter import Concept
    from dgpnet.segmenter.folder import support_fingerprint

    if support.is_file() and support.suffix == ".concept":
        if classes is not None or images is not None:
            raise Error(f"{support} is learned already; --classes and --images are for what is still to be learned.")
        concept = Concept.load(support, segmenter)
        return hashlib.sha256(support.read_bytes()).hexdigest(), lambda: concept
    names = [name.strip() for name in classes.split(",")] if classes is not None else None
    found = read_support(support, classes=names, photos=images)

    def learn() -> Concept:
        photos = [example.photo for example in found.examples]
        return segmenter.learn(photos, (example.mask for example in found.examples), classes=found.legend)

    return support_fingerprint(found), learn


def describe(concept: Concept) -> str:
    """One line about what was learned."""
    line = (
        f"Learned {', '.join(concept.classes)} from {concept.examples} photograph{'s' if concept.examples > 1 else ''}"
    )
    return (
        f"{line}; so many that {concept.inducing_points} points a level stand for all."
        if concept.budgeted
        else f"{line}."
    )

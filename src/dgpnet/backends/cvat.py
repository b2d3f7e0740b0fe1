"""What was learned, as a function of CVAT's auto-annotation: its own command line fetches photographs and sends shapes.

    cvat-cli task auto-annotate 12 --function-module dgpnet.backends.cvat -p concept=str:mug.concept

The same module serves an agent (`cvat-cli function create-native`, `run-agent`). Without a concept it is a function of
clicks, which proposes the region of what is clicked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dgpnet import checks
from dgpnet.annotations.outlines import polygons
from dgpnet.segmenter import Concept, Segmentation, Segmenter, load
from dgpnet.segmenter.propose import Seen, look, propose

if TYPE_CHECKING:
    from PIL.Image import Image

#: Pixels by which polygons may leave the outline that was found: with every stair of it they cannot be edited.
SIMPLIFY = 1.0


class Asked(Protocol):
    """What CVAT's context says of how shapes are wanted."""

    @property
    def conf_threshold(self) -> float | None:
        """What the score of a class has to reach, 0 to 1."""

    @property
    def conv_mask_to_poly(self) -> bool:
        """Whether polygons are wanted in place of masks."""


class Prompts(Protocol):
    """What was clicked at, (x, y) in pixels."""

    @property
    def pos_points(self) -> list[tuple[float, float]]: ...

    @property
    def neg_points(self) -> list[tuple[float, float]]: ...


def create(
    concept: str | None = None,
    *,
    model: str = "default",
    device: str | None = None,
    threshold: float | None = None,
    min_likeness: float = 0.0,
    tile: bool = False,
) -> Finding | Clicking:
    """What cvat-cli calls with its -p options.

    concept: the file that `dgpnet learn` wrote; without one, regions are proposed for clicks · model: that it was
    learned with · threshold, min_likeness, tile: as for `Concept.segment`
    """
    segmenter = load(model, device=device)
    if concept is None:
        return Clicking(segmenter)
    how = {"threshold": threshold, "min_likeness": min_likeness, "tile": checks.flag("tile", tile)}
    return Finding(Concept.load(concept, segmenter), how)


class Finding:
    """A detection function: masks, or polygons, of the classes of a concept."""

    def __init__(self, concept: Concept, how: dict[str, Any] | None = None) -> None:
        self.concept = concept
        self.how = how or {}

    @property
    def spec(self) -> Any:
        """The classes, which CVAT finds by their names among a task's labels."""
        from cvat_sdk import auto_annotation

        labels = [auto_annotation.label_spec(name, number) for number, name in enumerate(self.concept.classes, 1)]
        return auto_annotation.DetectionFunctionSpec(labels=labels)

    def detect(self, context: Asked, image: Image) -> list[Any]:
        """The shapes in a photograph; classes that are not there have none."""
        from cvat_sdk import auto_annotation, masks

        found = self.concept.segment(image, **self.how)
        if context.conv_mask_to_poly:
            return [
                auto_annotation.polygon(label, points)
                for label, mask in classes_of(found, context.conf_threshold)
                for points in outlines_of(mask)
            ]
        return [
            auto_annotation.mask(label, masks.encode_mask(mask))
            for label, mask in classes_of(found, context.conf_threshold)
        ]


class Clicking:
    """An interaction function: the region of what is clicked at. A photograph is looked at once."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter = segmenter

    @property
    def spec(self) -> Any:
        """One click on the thing at least, and any number beside it."""
        from cvat_sdk import auto_annotation

        return auto_annotation.InteractionFunctionSpec(min_pos_points=1, min_neg_points=0)

    def preprocess_image(self, context: object, image: Image) -> Seen:
        """What all clicks at a photograph need."""
        return look(self.segmenter, image)

    def detect(self, context: object, pp_image: Seen, prompts: Prompts) -> list[Any]:
        """The region as a mask."""
        from cvat_sdk import auto_annotation, masks

        clicks = [(x, y, True) for x, y in prompts.pos_points] + [(x, y, False) for x, y in prompts.neg_points]
        mask = propose(self.segmenter, pp_image, clicks)
        return [auto_annotation.InteractionResultShape(type="mask", points=masks.encode_mask(mask))]


def classes_of(found: Segmentation, least: float | None) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Number and mask (H, W) of each class that was found with at least that score."""
    for number, score in enumerate(found.class_scores, 1):
        mask = found.mask == number
        if mask.any() and (least is None or score >= least):
            yield number, mask


def outlines_of(mask: NDArray[np.bool_]) -> list[list[float]]:
    """x, y, x, y, … of each part of a mask (H, W)."""
    return [outline.ravel().tolist() for outline in polygons(mask, simplify=SIMPLIFY)]

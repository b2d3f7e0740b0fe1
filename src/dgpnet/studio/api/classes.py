"""Classes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from dgpnet.colours import Colour
from dgpnet.serving import Problem
from dgpnet.studio import describe, models
from dgpnet.studio.api.common import Here
from dgpnet.studio.classes import colour_of
from dgpnet.studio.studio import Studio

router = APIRouter(prefix="/classes", tags=["classes"])
Value = Annotated[int, Path(ge=1, le=254, description="What stands for the class in masks.")]


@router.get("")
def classes(studio: Here) -> list[models.Class]:
    """All of them."""
    return describe.classes(studio.project, describe.statuses(studio.project))


@router.post("", status_code=201)
def add(studio: Here, body: models.ClassBody) -> models.Class:
    """A new class."""
    new = studio.project.add_class(body.name, _colour(body.colour))
    studio.classes_changed()
    return _one(studio, new.value)


@router.get("/{value}")
def one(studio: Here, value: Value) -> models.Class:
    """One of them."""
    return _one(studio, value)


@router.patch("/{value}")
def change(studio: Here, value: Value, body: models.ClassChange) -> models.Class:
    """Another name or colour."""
    studio.project.change_class(value, body.name, _colour(body.colour))
    studio.classes_changed()
    return _one(studio, value)


@router.delete("/{value}", status_code=204)
def remove(
    studio: Here, value: Value, erase: Annotated[bool, Query(description="Take it out of painted masks, too.")] = False
) -> None:
    """Remove a class; 409 where it is painted and not to be erased."""
    studio.project.remove_class(value, erase=erase)
    studio.classes_changed()


def _colour(text: str | None) -> Colour | None:
    return None if text is None else colour_of(text)


def _one(studio: Studio, value: int) -> models.Class:
    found = [one for one in classes(studio) if one.value == value]
    if not found:
        raise Problem(404, f"There is no class {value}.")
    return found[0]

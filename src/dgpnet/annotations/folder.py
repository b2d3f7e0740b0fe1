"""A folder of photographs and masks that are pictures: found by `layouts`, understood by `codes`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dgpnet import images
from dgpnet.annotations import codes, layouts, painted
from dgpnet.annotations.codes import Decision, Meaning
from dgpnet.annotations.painted import Shown
from dgpnet.annotations.reading import Found, Photos, Request, within
from dgpnet.annotations.shapes import Labels
from dgpnet.annotations.stated import read_stated
from dgpnet.errors import Error

#: What masks show, or the sentence why one cannot be read, in the order of the paths.
Look = Callable[[list[Path]], Iterable[Shown | str]]


@dataclass(frozen=True)
class Masks:
    """The masks of a folder: of each its photograph and what it means, and what is wrong with others.

    bare: photographs without a mask. files: as `Layout.masks`.
    """

    photos: dict[Path, Path]
    decision: Decision
    problems: list[str]
    bare: int
    files: tuple[Path, ...]


def recognises(path: Path) -> bool:
    """Whether it is a folder that holds masks as pictures."""
    return path.is_dir() and layouts.recognises(path)


def read(request: Request) -> Found:
    """Every mask with its photograph; a photograph without a mask is no example."""
    masks = read_masks(request)
    place = Photos(request.photos or request.path, (), request.max_pixels)
    decided = masks.decision
    drawings = [partial(_drawn, mask, masks.photos[mask], meaning, place) for mask, meaning in decided.meanings.items()]
    return Found(
        decided.names, drawings, masks.problems, decided.values, decided.colours, decided.coded_by, masks.files
    )


def read_masks(request: Request, look: Look | None = None, *, links: bool = False) -> Masks:
    """What the masks below a folder are.

    look: looks at files, where it is not to be done one after the other. links: whether pictures may be links to
    elsewhere, as they are where a data set is put together from others.
    """
    root = request.path
    layout = layouts.find(root, request.photos, request.notes, partial=request.partial)
    problems = list(layout.problems)
    photos: dict[Path, Path] = {}
    for mask, photo in layout.pairs:
        try:
            if not links:
                _guarded(mask, photo, request)
            photos[mask] = photo
        except Error as error:
            problems.append(str(error))
    seen: dict[Path, Shown] = {}
    looked = look(list(photos)) if look else (look_at(mask, request.max_pixels) for mask in photos)
    for mask, shown in zip(photos, looked, strict=True):
        if isinstance(shown, str):
            problems.append(shown)
        else:
            seen[mask] = shown
    decision = codes.decide(seen, read_stated(root, request.notes), request.names, request.notes)
    return Masks(photos, decision, [*problems, *decision.problems], layout.bare, tuple(layout.masks))


def _guarded(mask: Path, photo: Path, request: Request) -> None:
    home = request.photos or request.path
    within(request.path, mask.relative_to(request.path), str(mask))
    within(home, photo.relative_to(home), str(mask))


def look_at(mask: Path, max_pixels: int = images.MAX_PIXELS) -> Shown | str:
    """What a mask shows, or why it cannot be read."""
    try:
        return painted.look(mask, max_pixels)
    except Error as error:
        return str(error)


def draw(mask: Path, photo: Path, meaning: Meaning, place: Photos) -> Labels:
    """A mask as it lies on its photograph: (H, W) int32 of 0, 1 … N and IGNORED."""
    read = painted.read(mask, place.max_pixels)
    height, width = read.pixels.shape
    turn = place.turn((height, width), photo, str(mask))
    return images.orient(meaning.applied(read, str(mask)), turn)


def _drawn(mask: Path, photo: Path, meaning: Meaning, place: Photos) -> tuple[Path, Labels]:
    return photo, draw(mask, photo, meaning, place)

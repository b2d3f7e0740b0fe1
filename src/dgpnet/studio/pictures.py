"""Photographs and masks as pictures for a browser: small ones, which are kept as files, and whole ones."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet.colours import Colour
from dgpnet.errors import Error
from dgpnet.files import atomic, make_folder
from dgpnet.images import COMPRESSION, open_photo
from dgpnet.segmenter.entries import Stamp
from dgpnet.segmenter.stages import LONGEST_JPEG
from dgpnet.studio.paintings import Mask

#: Longest sides that small pictures have.
SIZES = (160, 320, 640)
#: How well JPEGs are kept: small ones, and whole photographs that browsers cannot read as they are.
SMALL, WHOLE = 80, 92
#: Formats that every browser shows, and what to call them.
SHOWN = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp"}
#: Modes of these in which a browser shows what we see.
MODES = ("L", "RGB", "P", "1")
#: How much of the photograph a mask in a small picture lets through.
OPACITY = 150


def size_for(asked: int) -> int:
    """The smallest size that is enough."""
    return next((size for size in SIZES if size >= asked), SIZES[-1])


class Thumbnails:
    """Small pictures of photographs, made once and kept as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, stamp: Stamp, size: int) -> Path:
        """Of the picture of the photograph with this id, as it was at that time."""
        return self.folder / f"{name}-{stamp[0]:x}-{stamp[1]:x}-{size}.jpg"

    def get(self, photo: Path, name: str, stamp: Stamp, size: int) -> bytes:
        """A JPEG; an Error where the photograph cannot be read."""
        path = self.path(name, stamp, size)
        try:
            return path.read_bytes()
        except OSError:
            pass
        picture = smaller(open_photo(photo), size)
        data = _saved(picture, "JPEG", quality=SMALL)
        try:
            make_folder(self.folder)
            for old in self.folder.glob(f"{name}-*-{size}.jpg"):
                old.unlink(missing_ok=True)
            with atomic(path) as temporary:
                temporary.write_bytes(data)
        except (Error, OSError):
            pass  # a full disk: it is made again the next time
        return data


def smaller(photo: Image.Image, longest: int) -> Image.Image:
    """With no side longer than that."""
    if max(photo.size) <= longest:
        return photo
    width, height = (max(1, round(side * longest / max(photo.size))) for side in photo.size)
    return photo.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)


def overlaid(mask: Mask, colours: dict[int, Colour], longest: int) -> bytes:
    """A mask (H, W) in its classes' colours, see-through elsewhere: a PNG with no side longer than that."""
    height, width = mask.shape
    scale = min(1.0, longest / max(height, width))
    size = max(1, round(height * scale)), max(1, round(width * scale))
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.intp) for new, old in zip(size, (height, width), strict=True)
    )
    small = mask[rows[:, None], columns]
    table = np.zeros((256, 4), np.uint8)
    for value, colour in colours.items():
        table[value] = (*colour, OPACITY)
    return _saved(Image.fromarray(table[small], "RGBA"), "PNG", compress_level=COMPRESSION)


def grey(levels: NDArray[np.uint8]) -> bytes:
    """A map (h, w) as a PNG."""
    return _saved(Image.fromarray(levels), "PNG", compress_level=COMPRESSION)


def viewable(path: Path) -> str | None:
    """What to call a photograph that a browser shows as it is; None where it has to be made over."""
    try:
        with Image.open(path) as image:
            shown = SHOWN.get(image.format or "")
            still = getattr(image, "n_frames", 1) == 1
            return shown if image.mode in MODES and still and "transparency" not in image.info else None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def made_over(path: Path) -> tuple[bytes, str]:
    """A photograph as a browser can show it, and what that is; an Error where it cannot be read."""
    photo = open_photo(path)
    if max(photo.size) > LONGEST_JPEG:
        return _saved(photo, "PNG", compress_level=COMPRESSION), "image/png"
    return _saved(photo, "JPEG", quality=WHOLE), "image/jpeg"


def _saved(picture: Image.Image, format: str, **how: int) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, format, **how)
    return stream.getvalue()

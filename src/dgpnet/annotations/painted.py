"""One mask file as it was painted: grey values, places in a palette, or colours, and what can be seen of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dgpnet import images
from dgpnet.annotations import edges
from dgpnet.annotations.edges import Channels, Places
from dgpnet.errors import Error

#: White in 8 and in 16 bits of grey, and as a colour.
WHITE: Final = 0xFF
DEEP_WHITE: Final = 0xFFFF
WHITE_COLOUR: Final = 0xFFFFFF
#: More colours than that are a photograph.
_MOST_COLOURS: Final = 0x8000
#: Formats that change values, and where a WebP file says whether it does.
_LOSSY: Final = frozenset({"JPEG", "MPO", "AVIF", "HEIF"})
_HEADER: Final = 1 << 16
#: How far from black and white that may lead.
_LOSS: Final = 48
#: A picture with more values than this that are nowhere thick is no mask of hard classes.
MANY: Final = 32


@dataclass(frozen=True)
class RawMask:
    """A mask file, decoded.

    kind    "grey", "palette", "colours"; "greys": RGB that shows no other colours; or "cut-out": nothing but the object
            is opaque, and pixels are 0 and 255
    pixels  (H, W): grey values, or places in `table`
    table   (U,) the colours 0xRRGGBB of a palette or of the picture; None for values
    soft    some pixels were half transparent. lossy: the file's compression may have changed some
    """

    kind: str
    pixels: Places
    table: NDArray[np.int64] | None = None
    soft: bool = False
    lossy: bool = False

    @property
    def size(self) -> int:
        """How many different places there can be."""
        return np.iinfo(self.pixels.dtype).max + 1 if self.table is None else len(self.table)

    @property
    def channels(self) -> Channels:
        """(U, 1) values or (U, 3) red, green, blue."""
        if self.table is None:
            return np.arange(self.size, dtype=np.int32)[:, None]
        return np.stack([self.table >> 16, self.table >> 8 & 0xFF, self.table & 0xFF], 1).astype(np.int32)

    @property
    def colours(self) -> list[int]:
        """The colour of each place, where it has one."""
        return [] if self.table is None else self.table.tolist()

    def with_colours(self, colours: Iterable[int]) -> "RawMask":
        """The same with further colours in its table, which no pixel has yet; of values all are there."""
        if self.table is None:
            return self
        there = set(self.table.tolist())
        table = np.append(self.table, [colour for colour in colours if colour not in there]).astype(np.int64)
        pixels = self.pixels if len(table) <= 256 else self.pixels.astype(np.uint16)
        return replace(self, pixels=pixels, table=table)


@dataclass(frozen=True)
class Shown:
    """What a mask shows, in a few numbers.

    places, counts  the values (or places in `RawMask.table`) that occur, ascending, and their pixels
    colours         the colour of each, where they have any
    thick           those that fill a 3 × 3 block somewhere; ramps: those that are steps between two others
    core, stray     share of the picture that is in such blocks, and that is far from any
    white_border    share of the picture's border that is white
    """

    kind: str
    places: tuple[int, ...]
    counts: tuple[int, ...]
    colours: tuple[int, ...]
    thick: tuple[int, ...]
    ramps: tuple[int, ...]
    core: float
    stray: float
    white_border: float
    soft: bool
    lossy: bool


def read(path: Path, max_pixels: int) -> RawMask:
    """A mask file decoded; a photograph, fractions and numbers beyond 16 bits are refused."""
    image = images.open_mask(path, max_pixels=max_pixels)
    if _is_lossy(image, path):
        return _of_lossy(image, path)
    if image.mode == "1":
        return RawMask("grey", np.asarray(image).astype(np.uint8) * np.uint8(WHITE))
    if image.mode == "L":
        return RawMask("grey", np.asarray(image))
    if image.mode == "F" or image.mode.startswith("I"):
        return RawMask("grey", _deep(image, path))
    if image.mode == "P":
        return _of_palette(image, path)
    if image.has_transparency_data:
        return _of_layers(image if image.mode == "RGBA" else image.convert("RGBA"), path)
    return _of_colours(image if image.mode == "RGB" else image.convert("RGB"), None, path)


def look(path: Path, max_pixels: int) -> Shown:
    """What a mask file shows."""
    painted = read(path, max_pixels)
    pixels, channels = painted.pixels, painted.channels
    counts = edges.histogram(pixels, painted.size)
    places = np.flatnonzero(counts)
    thick, ramps, share, far = places.tolist(), [], 1.0, 0.0
    if len(places) > 2:
        inside = edges.core(pixels)
        thick = np.flatnonzero(edges.histogram(pixels, painted.size, inside)).tolist()
        thin = counts > 0
        thin[thick] = False
        if thin.any():
            ramps, share = edges.ramps(pixels, channels, thin), float(inside.mean())
            far = edges.stray(inside) if thin.sum() > MANY else 0.0
    white = np.flatnonzero(_is_white(painted, places))
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    return Shown(
        painted.kind,
        tuple(places.tolist()),
        tuple(counts[places].tolist()),
        () if painted.table is None else tuple(painted.table[places].tolist()),
        tuple(thick),
        tuple(ramps),
        share,
        far,
        float(np.isin(border, places[white]).mean()),
        painted.soft,
        painted.lossy,
    )


def _is_white(painted: RawMask, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    if painted.table is not None:
        white: NDArray[np.bool_] = painted.table[places] == WHITE_COLOUR
    else:
        white = places == (DEEP_WHITE if places.max(initial=0) > WHITE else WHITE)
    return white


def _deep(image: Image.Image, path: Path) -> Places:
    """Grey of more than 8 bits as uint16."""
    values: NDArray[Any] = np.asarray(image)
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= DEEP_WHITE):
        raise Error(f"{path} has the values {low} to {high}; a mask has 0 to {DEEP_WHITE}, save it with other numbers.")
    whole = values.astype(np.uint16)
    if values.dtype.kind == "f" and not np.array_equal(whole, values):
        raise Error(f"{path} has fractions for values; save the mask with whole numbers.")
    return whole


def _of_palette(image: Image.Image, path: Path) -> RawMask:
    """By the places in the palette, unless what is shown can only be meant by its colours."""
    pixels = np.asarray(image)
    used = np.flatnonzero(edges.histogram(pixels, 256))
    palette = np.zeros(768, np.int64)
    given = (image.getpalette("RGB") or [])[:768]
    palette[: len(given)] = given
    red, green, blue = palette.reshape(256, 3).T
    table: NDArray[np.int64] = red << 16 | green << 8 | blue
    clear = [place for place in used if place and _alpha(image, int(place)) == 0]
    if clear:
        return _of_layers(image.convert("RGBA"), path)
    black = used[table[used] == 0]
    # Programs that choose the palette by themselves put any colour first, the object's too; for a GIF all of them do.
    moved = image.format == "GIF" or (len(black) == 1 and black[0] != 0)
    inverted = used[0] == 0 and table[0] not in (0, WHITE_COLOUR) and (table[used] == WHITE_COLOUR).any()
    if (moved or inverted) and ((table[used] & 0xFF) * 0x010101 == table[used]).all():
        return RawMask("greys", (table & 0xFF).astype(np.uint8)[pixels])
    return RawMask("colours" if moved or inverted else "palette", pixels, table)


def _alpha(image: Image.Image, place: int) -> int:
    """How opaque a place of the palette is, 0 … 255."""
    told = image.info.get("transparency")
    if isinstance(told, bytes):
        return told[place] if place < len(told) else 255
    return 0 if told == place else 255


def _is_lossy(image: Image.Image, path: Path) -> bool:
    """Whether compression may have changed values. WebP has both kinds, told apart by the name of a chunk."""
    if image.format != "WEBP":
        return image.format in _LOSSY
    with path.open("rb") as file:
        return b"VP8L" not in file.read(_HEADER)


def _of_lossy(image: Image.Image, path: Path) -> RawMask:
    """Black and white, up to what the compression did to it."""
    white, between = np.zeros((2, image.height, image.width), np.uint8)
    for rows, colours in _strips(image.convert("RGB")):
        low, high = colours.min(2), colours.max(2)
        white[rows] = np.where(low > WHITE // 2, WHITE, 0)
        between[rows] = (low < WHITE - _LOSS) & (high > _LOSS)
    if (edges.core(between) & (between > 0)).any():
        raise Error(
            f"{path} is a {image.format} file, whose compression changes a mask's values; only masks in plain black "
            "and white survive that, save others as PNG."
        )
    return RawMask("grey", white, lossy=True)


def _of_layers(image: Image.Image, path: Path) -> RawMask:
    """RGBA: what is transparent is background."""
    layer = image.getchannel("A").histogram()
    low, top = (int(value) for value in np.flatnonzero(layer)[[0, -1]])
    if 2 * low > top:
        return _of_colours(image, None, path)
    if top == 0 and image.convert("RGB").getbbox():
        raise Error(f"{path} is wholly transparent; save the mask without transparency.")
    opaque = np.asarray(image.getchannel("A")) > top // 2
    soft = any(layer[1:top])
    cut = RawMask("cut-out", opaque.astype(np.uint8) * np.uint8(WHITE), soft=soft)
    try:
        painted = _of_colours(image, opaque, path)
    except Error:
        return cut  # of a photograph
    shown = edges.histogram(painted.pixels, painted.size)
    if np.count_nonzero(shown) <= 1:
        return cut  # in black
    many = np.count_nonzero(shown) > MANY and 2 * int((edges.core(painted.pixels) & opaque).sum()) < int(opaque.sum())
    return cut if many else RawMask(painted.kind, painted.pixels, painted.table, soft)


def _of_colours(image: Image.Image, opaque: NDArray[np.bool_] | None, path: Path) -> RawMask:
    """RGB or RGBA by colours, or by values where all is grey. opaque: (H, W), what is not becomes black."""
    seen = np.zeros(1 << 24, bool)
    for _, colours in _packed(image, opaque):
        seen[colours] = True
    table = np.flatnonzero(seen)
    if len(table) > _MOST_COLOURS:
        raise Error(
            f"{path} has {len(table)} different colours, which is no mask; "
            "save it as PNG, painted without smooth edges."
        )
    grey = bool(((table & 0xFF) * 0x010101 == table).all())
    place = np.zeros(1 << 24, np.uint16)
    place[table] = table & 0xFF if grey else np.arange(len(table))
    pixels = np.zeros((image.height, image.width), np.uint8 if grey or len(table) <= 256 else np.uint16)
    for rows, colours in _packed(image, opaque):
        pixels[rows] = place[colours]
    return RawMask("greys", pixels) if grey else RawMask("colours", pixels, table)


def _packed(image: Image.Image, opaque: NDArray[np.bool_] | None) -> Iterator[tuple[slice, NDArray[np.uint32]]]:
    """Rows and their colours as 0xRRGGBB, piece by piece: a large picture is never held twice."""
    for rows, colours in _strips(image):
        packed = images.pack_colours(colours)
        if opaque is not None:
            packed *= opaque[rows]
        yield rows, packed


def _strips(image: Image.Image) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    for rows in edges.bands(image.height, image.width):
        yield rows, np.asarray(image.crop((0, rows.start, image.width, rows.stop)))

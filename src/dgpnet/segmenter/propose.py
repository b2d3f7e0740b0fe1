"""A click or a stroke on a thing proposes its region: paint with what the network sees.

The photograph is looked at once, `look`, and clicked at many times, `propose`. From what was clicked, regions of
several sizes are grown: where the network's features and the colours are like those at the click, and no edge lies
between. Each is given to the network as if a person had painted it, in a batch, and the one is kept that the network
draws again with most certainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet import checks
from dgpnet.annotations.outlines import parts
from dgpnet.errors import Error
from dgpnet.images import MAX_PIXELS, read_photo, resize_photo
from dgpnet.segmenter.segmentation import resample
from dgpnet.segmenter.support import prepare

if TYPE_CHECKING:
    from dgpnet.images import ImageSource
    from dgpnet.segmenter.concept import Concept
    from dgpnet.segmenter.model import Segmenter

#: Regions are grown on a grid of this many cells a side.
GRID = 96
#: Parts of the photograph that the grown regions cover.
SHARES = (0.003, 0.01, 0.03, 0.08, 0.18, 0.4)
#: What each kind of nearness weighs: colour, features at strides 16 and 32, place, and the way there through colours.
WEIGHTS = (0.62, 1.52, 2.27, -0.92, 2.05)
#: Distances are logarithms of this plus their share of the photograph's mean.
FLOOR = 0.05
#: What a step of the way costs besides the change of colour on it.
STEP = 0.02
#: Radius around each click that belongs to the thing in any case, in parts of the photograph's side.
TOUCH = 0.013
#: At most so many points of a stroke are grown from.
SEEDS = 24

Points = Iterable[tuple[float, float] | tuple[float, float, bool]]


@dataclass(frozen=True, eq=False)
class Seen:
    """A photograph that was looked at once, to be clicked at many times.

    photo      uint8 (H, W, 3)
    features   {stride: (1, D, h, w)} of the encoder
    inside     (h, w) that the photograph has in the network, before padding
    kinds      what nearness is told by, each (D, GRID, GRID)
    ways       change of colour between neighbouring cells: down, right, and the two diagonals
    segmenter  whose features these are
    """

    photo: NDArray[np.uint8]
    features: Mapping[int, Tensor]
    inside: tuple[int, int]
    kinds: tuple[Tensor, ...]
    ways: tuple[NDArray[np.float32], ...]
    segmenter: Segmenter

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.photo.shape[0], self.photo.shape[1]


class _Click(NamedTuple):
    """A place in parts of the photograph's sides, and whether the thing is there."""

    x: float
    y: float
    positive: bool

    def cell(self, height: int, width: int) -> tuple[int, int]:
        """Row and column in a grid of that size."""
        return min(height - 1, int(self.y * height)), min(width - 1, int(self.x * width))


@torch.no_grad()
def look(segmenter: Segmenter, photo: ImageSource, *, max_pixels: int = MAX_PIXELS) -> Seen:
    """Look at a photograph once: what every click on it needs.

    Arguments:
        segmenter: the model.
        photo: as `Segmenter.learn` takes it.
        max_pixels: a photograph with more is an Error before it is decoded.

    Returns:
        what `propose` takes in place of the photograph.
    """
    pixels = read_photo(photo, max_pixels=max_pixels)
    engine = segmenter.engine
    small = prepare(pixels, engine.config, device=engine.device).photo
    inside = (small.shape[0], small.shape[1])
    features = engine.predictor.encode(engine.as_input([small]))
    colours = torch.from_numpy(_lab(resize_photo(pixels, (GRID, GRID)))).permute(2, 0, 1)
    deep = [_spread(features[stride], inside, stride) for stride in (16, 32) if stride in features]
    ways = tuple(_lengths(colours, *step).numpy() for step in ((1, 0), (0, 1), (1, 1), (1, -1)))
    return Seen(pixels, features, inside, (colours, *deep), ways, segmenter)


def propose(
    segmenter: Segmenter,
    photo: ImageSource | Seen,
    points: Points = (),
    stroke: NDArray[np.bool_] | None = None,
    concept: Concept | None = None,
    *,
    label: int = 1,
) -> NDArray[np.bool_]:
    """The region that clicks, or a stroke, point at.

    Arguments:
        segmenter: the model.
        photo: as `Segmenter.learn` takes it, or what `look` saw of it, which makes each further click quick.
        points: (x, y), or (x, y, positive), where False says "not this". In pixels of the photograph as viewers show
            it: the first pixel is from 0 to 1.
        stroke: boolean (H, W): many positive points.
        concept: what was learned already: its own probabilities then take part.
        label: which of the concept's classes is pointed at, 1 … C.

    Returns:
        boolean (H, W): parts that each contain a positive click, and no negative one.
    """
    seen = photo if isinstance(photo, Seen) else look(segmenter, photo)
    if seen.segmenter is not segmenter:
        raise Error("The photograph was looked at with another model; look at it again with this one.")
    clicks = _clicks(points, stroke, seen.size)
    if concept is not None:
        label = checks.whole("label", label, 1, len(concept.classes))
        if concept.segmenter.fingerprint != segmenter.fingerprint:
            raise Error("The concept was learned with another model; propose with that one.")
    known = None if concept is None else _known(seen, concept, label)
    odds = _drawn(seen, clicks, known)
    found = _touched((_resized(odds, seen.size) > 0).numpy(), clicks)
    return found if stroke is None else found | stroke


# -- what was asked ----------------------------------------------------------------------------------------------------


def _clicks(points: Points, stroke: NDArray[np.bool_] | None, size: tuple[int, int]) -> list[_Click]:
    """What was clicked and stroked, checked, in parts of the photograph's sides."""
    height, width = size
    clicks = []
    for point in checks.each("points", points, single=1):
        if not isinstance(point, Sequence) or len(point) not in (2, 3):
            raise Error(f"A point is (x, y) or (x, y, positive); given {checks.shown(point)}.")
        x, y = checks.number("x", point[0], 0, width), checks.number("y", point[1], 0, height)
        positive = checks.flag("positive", point[2]) if len(point) == 3 else True
        clicks.append(_Click(x / width, y / height, positive))
    if stroke is not None:
        if not isinstance(stroke, np.ndarray) or stroke.dtype != bool or stroke.shape != size:
            raise Error(f"A stroke is a boolean array of the photograph's size, {height} × {width} (height × width).")
        places = np.argwhere(stroke)
        places = places[np.linspace(0, len(places) - 1, min(SEEDS, len(places))).astype(int)] if len(places) else places
        clicks += [_Click((x + 0.5) / width, (y + 0.5) / height, True) for y, x in places.tolist()]
    if not any(click.positive for click in clicks):
        raise Error("Nothing is pointed at: give at least one positive point, or a stroke.")
    return clicks


# -- growing -----------------------------------------------------------------------------------------------------------


def _spread(features: Tensor, inside: tuple[int, int], stride: int) -> Tensor:
    """Features (1, D, h, w) as directions at each cell of the grid, (D, GRID, GRID); without what pads them."""
    height, width = (-(-side // stride) for side in inside)
    grid = F.interpolate(features[..., :height, :width].float(), (GRID, GRID), mode="bilinear", align_corners=False)
    return F.normalize(grid[0], dim=0)


def _lab(photo: NDArray[np.uint8]) -> NDArray[np.float32]:
    """sRGB (..., 3) as CIELAB, in which equal distances look equal."""
    x = photo.astype(np.float32) / 255
    linear = np.where(x > 0.04045, ((x + 0.055) / 1.055) ** 2.4, x / 12.92)
    to_xyz = np.array([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]], np.float32)
    f = np.cbrt(linear @ to_xyz.T)  # of the white point's share; without the straight part near black
    lab = np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)
    return (lab / 25).astype(np.float32)


def _lengths(field: Tensor, down: int, right: int) -> Tensor:
    """Distance between each cell of a field (D, H, W) and its neighbour in that direction."""
    height, width = field.shape[1:]
    first = field[:, : height - down, max(0, -right) : width - max(0, right)]
    second = field[:, down:, max(0, right) : width + min(0, right)]
    lengths: Tensor = (second - first).norm(dim=0)
    return lengths


def _distance(seen: Seen, click: _Click) -> NDArray[np.float32]:
    """(GRID, GRID): how far each cell is from the click, low where it seems to be the same thing."""
    row, column = click.cell(GRID, GRID)
    there = [(kind - kind[:, row, column, None, None]).norm(dim=0).numpy() for kind in seen.kinds]
    rows, columns = np.mgrid[:GRID, :GRID]
    place = np.hypot(rows - row, columns - column).astype(np.float32)
    every = [*there, place, _way(seen.ways, row, column)]
    weights = WEIGHTS if len(every) == len(WEIGHTS) else (1.0,) * len(every)
    logs = [w * np.log(FLOOR + one / max(float(one.mean()), 1e-6)) for w, one in zip(weights, every, strict=True)]
    total: NDArray[np.float32] = np.sum(logs, 0, dtype=np.float32)
    return total


def _way(ways: tuple[NDArray[np.float32], ...], row: int, column: int) -> NDArray[np.float32]:
    """(GRID, GRID): length of the shortest way from a cell to every other, by sweeps over rows and columns."""
    down, right, falling, rising = (way + np.float32(STEP) for way in ways)
    length = np.full((GRID, GRID), np.inf, np.float32)
    length[row, column] = 0
    for _ in range(8):
        before = length.copy()
        for y in range(1, GRID):
            _shorten(length[y], length[y - 1], down[y - 1], falling[y - 1], rising[y - 1])
        for y in range(GRID - 2, -1, -1):
            _shorten(length[y], length[y + 1], down[y], rising[y], falling[y])
        across = length.T
        for x in range(1, GRID):
            np.minimum(across[x], across[x - 1] + right[:, x - 1], out=across[x])
        for x in range(GRID - 2, -1, -1):
            np.minimum(across[x], across[x + 1] + right[:, x], out=across[x])
        if np.array_equal(before, length):
            break
    return length


def _shorten(
    row: NDArray[np.float32],
    before: NDArray[np.float32],
    straight: NDArray[np.float32],
    from_left: NDArray[np.float32],
    from_right: NDArray[np.float32],
) -> None:
    """Ways to a row (GRID,) through the row before it, in place."""
    np.minimum(row, before + straight, out=row)
    np.minimum(row[1:], before[:-1] + from_left, out=row[1:])
    np.minimum(row[:-1], before[1:] + from_right, out=row[:-1])


def _grown(seen: Seen, clicks: Sequence[_Click]) -> tuple[Tensor, Tensor]:
    """Regions of several sizes, boolean (N, h, w) at the network's size, and what the negative clicks own, (h, w)."""
    near = np.min([_distance(seen, click) for click in clicks if click.positive], 0)
    far = [_distance(seen, click) for click in clicks if not click.positive]
    own = _resized(torch.from_numpy(near), seen.inside)
    other = torch.zeros(seen.inside, dtype=torch.bool)
    if far:
        other = _resized(torch.from_numpy(np.min(far, 0)), seen.inside) < own
    limits = np.quantile(near, SHARES)
    regions = torch.stack([(own <= float(limit)) & ~other for limit in limits])
    return regions | _discs(seen.inside, clicks, positive=True), other | _discs(seen.inside, clicks, positive=False)


def _discs(size: tuple[int, int], clicks: Sequence[_Click], *, positive: bool) -> Tensor:
    """Boolean (h, w): what lies close to a click."""
    rows, columns = torch.meshgrid(*(torch.arange(side) for side in size), indexing="ij")
    near = torch.zeros(size, dtype=torch.bool)
    for click in clicks:
        if click.positive is positive:
            row, column = click.cell(*size)
            near |= (rows - row) ** 2 + (columns - column) ** 2 <= (TOUCH * max(size)) ** 2
    return near


# -- drawing -----------------------------------------------------------------------------------------------------------


def _known(seen: Seen, concept: Concept, label: int) -> Tensor:
    """(h, w): log-odds of a class that was learned, at the network's size."""
    predictor = seen.segmenter.predictor
    logits = predictor.recall(concept.memory, seen.features)[0, label - 1]
    height, width = seen.inside
    return (logits[1] - logits[0])[:height, :width].cpu()


def _drawn(seen: Seen, clicks: Sequence[_Click], known: Tensor | None) -> Tensor:
    """(h, w): log-odds of what is pointed at, at the network's size."""
    regions, other = _grown(seen, clicks)
    if known is not None:
        theirs = torch.from_numpy(_touched((known > 0).numpy(), clicks))
        regions = torch.cat([regions, (theirs & ~other)[None] | _discs(seen.inside, clicks, positive=True)])
    odds = _again(seen, regions)
    if known is not None:
        odds = (odds + known) / 2
    odds[:, other] = odds[:, other].clamp(max=-1)
    best = max(range(len(odds)), key=lambda i: _certainty(odds[i], clicks))
    touched = torch.from_numpy(_touched((odds[best] > 0).numpy(), clicks))
    final = _again(seen, touched[None])[0]
    final = final if known is None else (final + known) / 2
    final[other] = final[other].clamp(max=-1)
    near = _discs(seen.inside, clicks, positive=True)
    final[near] = final[near].clamp(min=1)
    return final


def _certainty(odds: Tensor, clicks: Sequence[_Click]) -> float:
    """Mean probability of what is drawn, of log-odds (h, w); 0 where nothing is."""
    drawn = torch.from_numpy(_touched((odds > 0).numpy(), clicks))
    return float(odds[drawn].sigmoid().mean()) if drawn.any() else 0.0


@torch.no_grad()
def _again(seen: Seen, regions: Tensor) -> Tensor:
    """Regions (N, h, w) boolean as examples, each drawn again by the network: log-odds (N, h, w), on the CPU."""
    engine = seen.segmenter.engine
    height, width = seen.inside
    stride = min(seen.features)
    full = [side * stride for side in seen.features[stride].shape[-2:]]
    masks = torch.zeros(len(regions), 1, 1, *full, device=engine.device)
    masks[:, 0, 0, :height, :width] = regions
    features = {stride: one.expand(len(regions), -1, -1, -1) for stride, one in seen.features.items()}
    network = engine.predictor.network
    memory = network.learn_points(network.support_points(features, masks))
    logits = engine.predictor.recall(memory, features)[:, 0]
    return (logits[:, 1] - logits[:, 0])[:, :height, :width].cpu()


def _touched(mask: NDArray[np.bool_], clicks: Sequence[_Click]) -> NDArray[np.bool_]:
    """Those 8-connected parts of a mask (H, W) that a positive click is in."""
    kept = np.zeros_like(mask)
    cells = [click.cell(*mask.shape) for click in clicks if click.positive]
    for part in parts(mask):
        height, width = part.pixels.shape
        if any(_holds(part.pixels, row - part.top, column - part.left) for row, column in cells):
            kept[part.top : part.top + height, part.left : part.left + width] |= part.pixels
    return kept


def _holds(mask: NDArray[np.bool_], row: int, column: int) -> bool:
    return 0 <= row < mask.shape[0] and 0 <= column < mask.shape[1] and bool(mask[row, column])


def _resized(field: Tensor, size: tuple[int, int]) -> Tensor:
    """A field (h, w) at another size, bilinear."""
    return resample(field[None], size, slice(0, size[0]))[0]

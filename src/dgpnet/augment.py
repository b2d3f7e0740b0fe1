"""Augmentation in two halves: parameters drawn on the CPU, pictures rendered where the photographs live.

A view of a photograph is 18 numbers: an affine map of the frame (2 × 3) and one of colours (3 × 4). Flip, crop, scale,
aspect, rotation are the former; brightness, contrast, saturation, hue, grey the latter. Rendering is then one pure
function of tensors with static shapes and no host synchronisation, fit for a CUDA graph.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.images import IGNORE, MEAN, STD

#: Numbers that describe one view, for `render`.
PARAMETERS = 18
#: Uniform numbers that one view uses.
DRAWS = 16

#: Rec. 601 luma of red, green, blue.
_LUMA = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True)
class Augmentation:
    """How views of photographs are drawn. The default is the paper's recipe: a horizontal flip, nothing else.

    flip: probability of a mirror image.
    frame: probability that the view is moved at all by scale, aspect, shift and rotation.
    scale: side of the view over the photograph's, log-uniform; below 1 zooms in, above 1 leaves a border (ignored).
    aspect: largest change of the view's width over height, log-uniform in [1/aspect, aspect].
    shift: extra movement of the view in halves of the frame, beyond what keeps it inside the photograph.
    rotate: largest rotation in degrees.
    colour: probability that colours are changed; brightness, contrast, saturation: largest relative change;
    hue: largest rotation of hue in degrees. grey: probability of a grey photograph.
    """

    flip: float = 0.5
    frame: float = 1.0
    scale: tuple[float, float] = (1.0, 1.0)
    aspect: float = 1.0
    shift: float = 0.0
    rotate: float = 0.0
    colour: float = 1.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    grey: float = 0.0

    def __post_init__(self) -> None:
        for name in ("flip", "frame", "colour", "grey"):
            if not 0 <= getattr(self, name) <= 1:
                raise Error(f"The probability {name} of an augmentation lies in [0, 1]; given {getattr(self, name)}.")
        object.__setattr__(self, "scale", tuple(self.scale))
        if not (len(self.scale) == 2 and 0 < self.scale[0] <= self.scale[1]) or self.aspect < 1:
            raise Error(
                f"An augmentation has 0 < scale[0] <= scale[1] and aspect >= 1; given {self.scale}, {self.aspect}."
            )
        for name in ("shift", "rotate", "brightness", "contrast", "saturation", "hue"):
            if getattr(self, name) < 0:
                raise Error(f"{name} of an augmentation is at least 0; given {getattr(self, name)}.")

    @property
    def plain(self) -> bool:
        """Whether a view is the whole photograph or its mirror image in its own colours; `render` is quicker then."""
        moved = self.frame > 0 and (self.scale != (1.0, 1.0) or self.aspect > 1 or self.shift > 0 or self.rotate > 0)
        jitter = max(self.brightness, self.contrast, self.saturation, self.hue)
        return not moved and self.grey == 0 and (self.colour == 0 or jitter == 0)


#: As the paper trains; photographs as they are; views for classes never seen.
PAPER = Augmentation()
NONE = Augmentation(flip=0.0)
STRONG = Augmentation(
    scale=(0.5, 1.2),
    aspect=1.25,
    rotate=10.0,
    colour=0.8,
    brightness=0.3,
    contrast=0.3,
    saturation=0.3,
    hue=15.0,
    grey=0.05,
)


def identity(count: int) -> NDArray[np.float32]:
    """Parameters (count, 18) of the photographs as they are."""
    return np.tile(np.array([1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0], np.float32), (count, 1))


def draw_parameters(
    augmentation: Augmentation, draws: NDArray[np.float64], anchors: NDArray[np.float32] | None, size: int
) -> NDArray[np.float32]:
    """Parameters (M, 18) of M views. draws: (M, DRAWS) in [0, 1).

    anchors: (M, 2), a foreground pixel (x, y) in [-1, 1] of each photograph that stays in view and falls on the centre
    of a pixel of the (size, size) view, so that no crop and no shrinking loses the whole object; None: no such promise.
    """
    parameters = identity(len(draws))
    if augmentation.flip > 0:
        parameters[:, 0] = np.where(draws[:, 0] < augmentation.flip, -1, 1)
    if augmentation.plain:
        return parameters
    parameters[:, :6] = _frames(augmentation, draws[:, :8], anchors, size, parameters[:, 0])
    parameters[:, 6:] = _colours(augmentation, draws[:, 8:16])
    return parameters


def _frames(
    a: Augmentation, u: NDArray[np.float64], anchors: NDArray[np.float32] | None, size: int, flip: NDArray[np.float32]
) -> NDArray[np.float64]:
    """(M, 6) rows of [A | t]: a point q of the view shows the point A q + t of the photograph, both in [-1, 1]²."""
    moved = u[:, 1] < a.frame
    low, high = np.log(a.scale)
    side = np.exp(low + u[:, 2] * (high - low))
    stretch = np.exp((u[:, 3] - 0.5) * np.log(a.aspect))  # width and height each by the root of the aspect
    width, height = side * stretch, side / stretch
    angle = np.radians(a.rotate) * (2 * u[:, 4] - 1)
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.stack([cos * width * flip, -sin * height, sin * width * flip, cos * height], axis=1).reshape(-1, 2, 2)
    # A view smaller than the photograph stays inside it, a larger one keeps all of it.
    reach = np.abs(1 - np.stack([width, height], axis=1)) + a.shift
    offset = reach * (2 * u[:, 5:7] - 1)
    if anchors is not None:
        where = np.linalg.solve(matrix, (anchors - offset)[:, :, None])[:, :, 0]
        pixel = np.clip(np.round((where + 1) * size / 2 - 0.5), 0, size - 1)
        offset = anchors - (matrix @ ((2 * pixel + 1) / size - 1)[:, :, None])[:, :, 0]
    frames = np.concatenate([matrix, offset[:, :, None]], axis=2).reshape(-1, 6)
    still = np.zeros_like(frames)
    still[:, 0], still[:, 4] = flip, 1
    return np.where(moved[:, None], frames, still)


def _colours(a: Augmentation, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M, 12) rows of [C | c]: the colour v in [0, 1]³ becomes C v + c."""
    jitter = u[:, 0] < a.colour
    brightness = 1 + a.brightness * (2 * u[:, 1] - 1)
    contrast = 1 + a.contrast * (2 * u[:, 2] - 1)
    saturation = 1 + a.saturation * (2 * u[:, 3] - 1)
    hue = np.radians(a.hue) * (2 * u[:, 4] - 1)
    luma = np.tile(_LUMA, (3, 1))
    # Hue: a rotation about the grey axis (Rodrigues); saturation: towards or away from the luma.
    across = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    c, s = np.cos(hue)[:, None, None], np.sin(hue)[:, None, None]
    turn = c * np.eye(3) + s * across + (1 - c) / 3
    rich = saturation[:, None, None]
    matrix = (rich * np.eye(3) + (1 - rich) * luma) @ turn * (brightness * contrast)[:, None, None]
    shift = np.repeat(0.5 * (1 - contrast)[:, None], 3, axis=1)
    matrix = np.where(jitter[:, None, None], matrix, np.eye(3))
    shift = np.where(jitter[:, None], shift, 0)
    matrix = np.where((u[:, 5] < a.grey)[:, None, None], luma @ matrix, matrix)
    return np.concatenate([matrix, shift[:, :, None]], axis=2).reshape(-1, 12)


def normalise(photos: Tensor) -> Tensor:
    """(..., 3, H, W) uint8 to float32 with ImageNet's mean and standard deviation removed."""
    return _standardise(photos.float() / 255)


def _standardise(values: Tensor) -> Tensor:
    """(..., 3, H, W) in [0, 1]. The constants are filled in on the device: a copy from the host breaks a CUDA graph."""
    mean, std = (torch.stack([torch.full((1, 1), v, device=values.device) for v in three]) for three in (MEAN, STD))
    return (values - mean) / std


def render(
    photos: Tensor,
    masks: Tensor,
    index: Tensor,
    class_id: Tensor | None,
    parameters: Tensor,
    size: int | None = None,
    *,
    plain: bool = False,
) -> tuple[Tensor, Tensor]:
    """Views of photographs with the mask of one class each, or with all labels.

    photos: (N, 3, s, s) uint8, masks: (N, s, s) uint8 labels; index, class_id: (M,) long; parameters: (M, 18) float32.
    size: side of the view, s by default. plain: the caller knows that all views are whole photographs or their mirror
    images in their own colours (`Augmentation.plain`) at size s: nothing is interpolated then.
    Returns normalised photographs (M, 3, size, size) float32 and masks (M, size, size) uint8: 1 the class, 255 ignore;
    with class_id None the labels themselves, which are at most 253 then.
    Outside the photograph a view is ImageNet's mean colour and ignored.
    """
    side = photos.shape[-1]
    size = size or side
    pictures, labels = photos[index], masks[index]
    targets = labels
    if class_id is not None:
        found = (labels == (class_id % 256).to(torch.uint8)[:, None, None]).to(torch.uint8)
        targets = torch.where(labels == IGNORE, labels, found)
    if plain:
        if size != side:
            raise Error(f"Plain views have the size of the photographs, {side}; given {size}.")
        mirrored = parameters[:, 0] < 0
        pictures = torch.where(mirrored[:, None, None, None], pictures.flip(-1), pictures)
        return normalise(pictures), torch.where(mirrored[:, None, None], targets.flip(-1), targets)

    colours = parameters[:, 6:].view(-1, 3, 4, 1, 1)
    values = pictures.float() / 255
    # Written out, since a matrix product may be rounded to TF32.
    red, green, blue = values.split(1, dim=1)
    values = colours[:, :, 0] * red + colours[:, :, 1] * green + colours[:, :, 2] * blue + colours[:, :, 3]
    values = _standardise(values.clamp(0, 1))

    points = (2 * torch.arange(size, device=photos.device, dtype=torch.float32) + 1) / size - 1
    a = parameters[:, :6, None, None]
    x, y = points[None, None, :], points[None, :, None]
    grid = torch.stack([a[:, 0] * x + a[:, 1] * y + a[:, 2], a[:, 3] * x + a[:, 4] * y + a[:, 5]], dim=-1)
    # Outside reads as 0: the mean colour, and with ignore as 0 and the rest one higher, ignore.
    codes = torch.where(targets == IGNORE, 0, targets + 1).float()[:, None]
    values = F.grid_sample(values, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    codes = F.grid_sample(codes, grid, mode="nearest", padding_mode="zeros", align_corners=False)[:, 0]
    # 0, 1, 2 -> 255, 0, 1: unsigned numbers wrap.
    return values, codes.to(torch.uint8) - 1

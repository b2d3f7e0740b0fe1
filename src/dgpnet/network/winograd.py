"""3×3 convolutions by Winograd's algorithm: 64 products for a tile of 6×6 outputs where the plain way takes 324.

A tile d: (8, 8) and a filter g: (3, 3) are polynomials in two variables, multiplied by way of their values at points:
Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A. G evaluates the filter, Bᵀ the tile, Aᵀ interpolates (Toom and Cook; Lavin & Gray,
2016). Over channels ⊙ is a matrix product for each of the 64 points: a 1×1 convolution in 64 groups, whose weights can
be laid out beforehand, which a batch of matrix products has no way to do. Rounding errors are about ten times those of
the plain way, some 1e-5 of the largest output.

Tiles are channels-last and taken in bands of rows, so that what lies between stays in the cache, however large the
photograph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

#: Where polynomials are evaluated, besides infinity: small ones keep rounding errors small. The second is 1.
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
#: Sides of a tile's outputs and of its inputs, which overlap by 2.
TILE, SIDE = 6, 8
#: Values of a band at most: 8 MiB in float32.
BAND = 2**21


def pays(channels_in: int, channels_out: int, height: int, width: int) -> bool:
    """Whether it is quicker than the plain way in float32, on the CPUs that it was measured on (2 cores with AVX2; with
    AVX-512): with fewer channels evaluating costs more than the products save, with fewer tiles reading 64 / 9 of the
    weights does."""
    tiles = -(-height // TILE) * -(-width // TILE)
    return min(channels_in, channels_out) >= 128 and tiles >= 16


@cache
def matrices() -> tuple[Tensor, Tensor, Tensor]:
    """Bᵀ: (SIDE, SIDE), G: (SIDE, 3) and Aᵀ: (TILE, SIDE) in float64; the point at infinity comes last."""
    with torch.device("cpu"):  # whatever the program has made the default
        points = torch.tensor(POINTS, dtype=torch.float64)
        others = [torch.cat([points[:i], points[i + 1 :]]) for i in range(len(points))]
        scale = torch.stack(
            [(p - o).prod() for p, o in zip(points, others, strict=True)] + [torch.ones_like(points[0])]
        )
        b = torch.stack([_coefficients(roots) for roots in [*others, points]])
        return b, _powers(points, 3) / scale[:, None], _powers(points, TILE).T.contiguous()


def _powers(points: Tensor, count: int) -> Tensor:
    """(SIDE, count): each point to the powers 0 … count - 1; of infinity only the highest counts."""
    return torch.cat([points[:, None] ** torch.arange(count), torch.eye(count, dtype=points.dtype)[-1:]])


def _coefficients(roots: Tensor) -> Tensor:
    """(SIDE,): of the polynomial ∏ (x - root), the constant one first."""
    found = torch.ones(1, dtype=roots.dtype)
    for root in roots:
        found = F.pad(found, (1, 0)) - root * F.pad(found, (0, 1))
    return F.pad(found, (0, SIDE - len(found)))


@cache
def transforms(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Bᵀ: (SIDE, SIDE) for one direction after the other, and Aᵀ for both at once: (TILE², SIDE²). The latter has more
    products in it, but one pass less over memory."""
    b, _, a = matrices()
    return b.to(dtype), torch.kron(a, a).to(dtype)


def filters(weight: Tensor) -> Tensor:
    """weight: (O, I, 3, 3) -> its values at the points, (SIDE² · O, I, 1, 1): a convolution in SIDE² groups."""
    g = matrices()[1]
    values = torch.einsum("ik, jl, ockl -> jioc", g, g, weight.double())
    return values.flatten(0, 2)[..., None, None].to(weight.dtype, memory_format=torch.contiguous_format)


def constant(bias: Tensor) -> Tensor:
    """bias: (O,) -> that of the convolution in groups, (SIDE² · O,): at the point (1, 1), whose share in every output
    is 1."""
    return F.pad(bias[None], (0, 0, SIDE + 1, SIDE**2 - SIDE - 2)).flatten()


def convolve(x: Tensor, multiply: Callable[[Tensor], Tensor], outputs: int, z: Tensor | None = None) -> Tensor:
    """ReLU(convolution of x: (N, I, H, W), padded by 1, + bias [+ z: (N, O, H, W)]) -> (N, O, H, W): z, overwritten.

    multiply: (1, SIDE² · I, tiles, 1) -> (1, SIDE² · O, tiles, 1), the convolution that `filters` and `constant`
    describe; outputs: O. All maps are channels-last.
    """
    b, a = transforms(x.dtype)
    many, inputs, height, width = x.shape
    rows, columns = -(-height // TILE), -(-width // TILE)
    count = -(-rows // max(1, BAND // (SIDE**2 * columns * max(inputs, outputs))))
    rows = -(-rows // count)  # of tiles in a band; where they do not come out even, the last has some that nobody sees
    y = z
    if y is None:
        y = x.new_empty(many, height, width, outputs).permute(0, 3, 1, 2)
    # A row of tiles evaluated vertically: (columns of pixels, SIDE, I). The pixels beyond the edges stay zero.
    strip = x.new_zeros(columns * TILE + 2, SIDE, inputs)
    inner = strip[1 : width + 1]
    tiles = strip.as_strided((columns, SIDE, SIDE * inputs), (TILE * SIDE * inputs, SIDE * inputs, 1))
    values = x.new_empty(rows, *tiles.shape)
    found = x.new_empty(rows * columns, TILE**2, outputs)
    vertical, horizontal, back = b.expand(width, -1, -1), b.expand(columns, -1, -1), a.expand(len(found), -1, -1)
    for photo, result in zip(x.permute(0, 3, 2, 1), y.permute(0, 2, 3, 1), strict=True):  # (W, H, I), (H, W, O)
        for start in range(0, height, rows * TILE):
            for value, top in zip(values, range(start, height, TILE), strict=False):
                first, last = max(0, top - 1), min(height, top + TILE + 1)
                seen = vertical[:, :, first - top + 1 : last - top + 1]
                torch.bmm(seen, photo[:, first:last], out=inner)
                torch.bmm(horizontal, tiles, out=value)
            products = multiply(values.view(1, len(found), 1, -1).permute(0, 3, 1, 2))
            torch.bmm(back, products.permute(0, 2, 3, 1).view(-1, SIDE**2, outputs), out=found)
            band = found.view(rows, columns, TILE, TILE, outputs).permute(0, 3, 1, 2, 4)
            lines = result[start : start + rows * TILE]
            if lines.shape[:2] == (rows * TILE, columns * TILE):
                lines = lines.view(band.shape)
            else:
                band = band.reshape(rows * TILE, columns * TILE, outputs)[: len(lines), :width]
            if z is None:
                torch.clamp_min(band, 0, out=lines)
            else:
                lines.add_(band).clamp_min_(0)
    return y

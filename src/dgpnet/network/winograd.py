"""3×3 convolutions by Winograd's algorithm: 64 products for a tile of 6×6 outputs where the plain way takes 324.

A tile d: (8, 8) and a filter g: (3, 3) are polynomials in two variables, multiplied by way of their values at points:
Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A. G evaluates the filter, Bᵀ the tile, Aᵀ interpolates (Toom and Cook; Lavin & Gray,
2016). Over channels ⊙ is a matrix product for each of the 64 points. Rounding errors are about ten times those of the
plain way, some 1e-5 of the largest output.

Tiles are channels-last and taken in bands of rows, so that what lies between stays in the cache, however large the
photograph.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

#: Where polynomials are evaluated, besides infinity: small ones keep rounding errors small. The second is 1.
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
#: Sides of a tile's outputs and of its inputs, which overlap by 2.
TILE, SIDE = 6, 8
#: Values of a band at most: 4 MiB in float32.
BAND = 2**20


def pays(channels_in: int, channels_out: int, height: int, width: int) -> bool:
    """Whether it is quicker than the plain way on the CPU that it was measured on (AVX2, 2 cores): with fewer channels
    evaluating costs more than the products save, with fewer tiles reading 64 / 9 of the weights does."""
    return min(channels_in, channels_out) >= 128 and -(-height // TILE) * -(-width // TILE) >= 16


@cache
def matrices() -> tuple[Tensor, Tensor, Tensor]:
    """Bᵀ: (SIDE, SIDE), G: (SIDE, 3) and Aᵀ: (TILE, SIDE) in float64; the point at infinity comes last."""
    points = torch.tensor(POINTS, dtype=torch.float64)
    others = [torch.cat([points[:i], points[i + 1 :]]) for i in range(len(points))]
    scale = torch.stack([(p - o).prod() for p, o in zip(points, others, strict=True)] + [torch.ones_like(points[0])])
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


def filters(weight: Tensor) -> Tensor:
    """weight: (O, I, 3, 3) -> its values at the points, (SIDE², I, O)."""
    g = matrices()[1].to(weight.device)
    values = torch.einsum("ik, jl, ockl -> jico", g, g, weight.double())
    return values.flatten(0, 1).to(weight.dtype, memory_format=torch.contiguous_format)


def convolve(x: Tensor, filters: Tensor, bias: Tensor, z: Tensor | None = None) -> Tensor:
    """ReLU(convolution of x: (N, I, H, W), padded by 1, + bias: (O,) [+ z: (N, O, H, W)]) -> (N, O, H, W).

    filters: what `filters` made of the weights. All maps are channels-last.
    """
    b, _, a = (matrix.to(x) for matrix in matrices())
    many, inputs, height, width = x.shape
    outputs = len(bias)
    rows, columns = -(-height // TILE), -(-width // TILE)
    count = -(-rows // max(1, BAND // (SIDE**2 * columns * max(inputs, outputs))))
    rows = -(-rows // count)  # of tiles in a band; where they do not come out even, the last is cut off at the end
    y = x.new_empty(many, count, rows, TILE, columns, TILE, outputs)
    # A row of tiles evaluated vertically: (columns of pixels, SIDE, I). The pixels beyond the edges stay zero.
    strip = x.new_zeros(columns * TILE + 2, SIDE, inputs)
    inner = strip[1 : width + 1]
    tiles = strip.as_strided((columns, SIDE, SIDE * inputs), (TILE * SIDE * inputs, SIDE * inputs, 1))
    values = x.new_empty(rows, *tiles.shape)
    products = x.new_empty(SIDE**2, rows * columns, outputs)
    half = x.new_empty(SIDE, TILE, rows * columns * outputs)
    whole = x.new_empty(TILE, TILE, rows * columns * outputs)
    vertical, horizontal = b.expand(width, -1, -1), b.expand(columns, -1, -1)
    for photo, bands, add in zip(x, y, [None] * many if z is None else z, strict=True):
        pixels = photo.permute(2, 1, 0)  # (W, H, I)
        for start, band in zip(range(0, height, rows * TILE), bands, strict=True):
            for value, top in zip(values, range(start, height, TILE), strict=False):
                first, last = max(0, top - 1), min(height, top + TILE + 1)
                seen = vertical[:, :, first - top + 1 : last - top + 1]
                torch.bmm(seen, pixels[:, first:last], out=inner)
                torch.bmm(horizontal, tiles, out=value)
            torch.bmm(values.view(-1, SIDE**2, inputs).transpose(0, 1), filters, out=products)
            products[SIDE + 1] += bias  # at the point (1, 1), whose share in every output is 1
            torch.bmm(a.expand(SIDE, -1, -1), products.view(SIDE, SIDE, -1), out=half)
            torch.bmm(a.expand(TILE, -1, -1), half.transpose(0, 1), out=whole)
            found = whole.view(TILE, TILE, rows, columns, outputs).permute(2, 0, 3, 1, 4)
            if add is None:
                torch.clamp_min(found, 0, out=band)
            else:
                shortcut = add[:, start : start + rows * TILE]
                done = band.copy_(found).view(rows * TILE, -1, outputs).permute(2, 0, 1)
                done[:, : shortcut.shape[1], :width].add_(shortcut).clamp_min_(0)
    y = y.view(many, -1, columns * TILE, outputs)[:, :height, :width].permute(0, 3, 1, 2)
    return y.contiguous(memory_format=torch.channels_last)

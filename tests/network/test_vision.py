"""A vision transformer beside a small convolutional encoder: what each computes, at which strides, of any size."""

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dgpnet.network.encoders import build_encoder
from dgpnet.network.encoders.efficientnet import EfficientNetLite
from dgpnet.network.encoders.vision import BLOCKS, GRID, HEADS, PATCH, SEEN, TAPS, WIDTH, Block, Vision, VisionAndLite
from tests.tolerances import assert_equal

LITE = (24, 40, 112, 320)


def unsettled(module: nn.Module) -> nn.Module:
    """With parameters of which none is 0 or 1, as training leaves them."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return module.eval().requires_grad_(False)


@pytest.fixture
def body() -> VisionAndLite:
    found = unsettled(build_encoder("vision_lite0"))
    assert isinstance(found, VisionAndLite)
    return found


@pytest.fixture
def vision(body: VisionAndLite) -> Vision:
    assert body.vision is not None
    return body.vision.double()


def block_by_torch(block: Block, x: Tensor) -> Tensor:
    """The same with PyTorch's own attention."""
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).to(x.dtype).requires_grad_(False)
    names = {"in_proj_weight": block.qkv.weight, "in_proj_bias": block.qkv.bias}
    attention.load_state_dict({**names, "out_proj.weight": block.out.weight, "out_proj.bias": block.out.bias})
    y = F.layer_norm(x, (WIDTH,), block.norm1.weight, block.norm1.bias, 1e-6)
    x = x + block.scale1 * attention(y, y, y, need_weights=False)[0]
    y = F.layer_norm(x, (WIDTH,), block.norm2.weight, block.norm2.bias, 1e-6)
    y = y @ block.fc1.weight.T + block.fc1.bias
    y = y * 0.5 * (1 + torch.erf(y / 2**0.5))
    return x + block.scale2 * (y @ block.fc2.weight.T + block.fc2.bias)


def test_a_block_is_attention_and_a_perceptron_each_in_its_measure() -> None:
    block = unsettled(Block().double())
    assert isinstance(block, Block)
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    expected = block_by_torch(block, x)
    assert_equal(block(x), expected)
    for _ in range(2):  # a second time there is nothing left to do
        quick = block.fused()
        assert quick is block and not [name for name, _ in block.named_parameters() if "scale" in name]
        assert_equal(quick(x), expected)


def resized(x: Tensor, size: Sequence[int]) -> Tensor:
    """x: (…, H, W), bilinearly."""
    return linear(x.shape[-2], size[0]) @ x @ linear(x.shape[-1], size[1]).T


def linear(old: int, new: int) -> Tensor:
    """(new, old): how much of each old place is in each new one, halves of pixels counted."""
    found = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        place = min(max((i + 0.5) * old / new - 0.5, 0.0), old - 1)
        first, share = int(place), place - int(place)
        found[i, first] += 1 - share
        found[i, min(first + 1, old - 1)] += share
    return found


@pytest.mark.parametrize("size", [(64, 96), (32, 32), (80, 48)])
def test_features_are_those_of_a_transformer_written_down_plainly(vision: Vision, size: tuple[int, int]) -> None:
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    grid = [math.ceil(side // PATCH * SEEN[0] / SEEN[1]) for side in size]
    rows, columns = grid
    pixels = (
        resized(x, [PATCH * side for side in grid])
        .unflatten(3, (columns, PATCH))
        .unflatten(2, (rows, PATCH))
        .permute(0, 2, 4, 1, 3, 5)
        .flatten(3)
    )
    places = resized(vision.places[0], grid)  # (384, rows, columns)
    patches = pixels @ vision.patches.weight.flatten(1).T + vision.patches.bias + places.permute(1, 2, 0)
    tokens = torch.cat([vision.token.expand(2, -1, -1), patches.flatten(1, 2)], 1)
    found = vision(x)
    for i, block in enumerate(vision.blocks, 1):
        assert isinstance(block, Block)
        tokens = block_by_torch(block, tokens)
        for stride in (stride for stride, (blocks, _) in TAPS.items() if blocks == i):
            norm = vision._norm(stride)
            known = F.layer_norm(tokens[:, 1:], (WIDTH,), norm.weight, norm.bias, 1e-6).mT.unflatten(-1, grid)
            known = resized(known, [side // PATCH for side in size])  # (2, 384, …)
            step = stride // PATCH
            means = [
                [known[..., y : y + step, x : x + step].mean((2, 3)) for x in range(0, known.shape[3], step)]
                for y in range(0, known.shape[2], step)
            ]
            expected = torch.stack([torch.stack(row, -1) for row in means], -2)
            assert_equal(found[stride], expected)


@pytest.mark.parametrize("size", [(60, 100), (33, 17), (96, 64), (16, 48), (31, 32)])
def test_any_size_gives_the_sizes_of_the_strides(body: VisionAndLite, size: tuple[int, int]) -> None:
    x = torch.randn(1, 3, *size)
    features = body(x)
    for feature, stride, channels in zip(features, body.strides, (24, 40, 112 + WIDTH, 320 + WIDTH), strict=True):
        assert feature.shape == (1, channels, -(-size[0] // stride), -(-size[1] // stride))
    assert body.vision is not None
    whole = body.vision(F.pad(x, [0, -size[1] % PATCH, 0, -size[0] % PATCH]))
    assert all(torch.equal(a, whole[s]) for s, a in body.vision(x).items())


def test_what_both_know_lies_side_by_side(body: VisionAndLite) -> None:
    x = torch.randn(1, 3, 64, 96)
    assert body.vision is not None and isinstance(body.lite, EfficientNetLite)
    for feature, stride, lite, channels in zip(body(x), body.strides, body.lite(x), LITE, strict=True):
        assert torch.equal(feature[:, :channels], lite)
        if stride in TAPS:
            assert torch.equal(feature[:, channels:], body.vision(x)[stride])


def test_each_photograph_is_seen_by_itself(body: VisionAndLite) -> None:
    x = torch.randn(3, 3, 64, 96)
    for together, *alone in zip(body(x), *(body(one[None]) for one in x), strict=True):
        assert_equal(together, torch.cat(alone))


@pytest.mark.parametrize(
    ("strides", "blocks", "channels"),
    [
        ((4, 8), 0, (24, 40)),
        ((4, 8, 16), TAPS[16][0], (24, 40, 112 + WIDTH)),
        ((4, 8, 32), TAPS[32][0], (24, 40, 320 + WIDTH)),
        ((16, 32), BLOCKS, (112 + WIDTH, 320 + WIDTH)),
    ],
)
def test_what_no_stride_needs_is_dropped(
    body: VisionAndLite, strides: tuple[int, ...], blocks: int, channels: tuple[int, ...]
) -> None:
    x = torch.randn(1, 3, 64, 64)
    expected = dict(zip(body.strides, body(x), strict=True))
    body.keep(strides)
    assert (body.strides, body.channels) == (strides, channels)
    assert all(torch.equal(f, expected[s]) for s, f in zip(strides, body(x), strict=True))
    if body.vision is None:
        assert blocks == 0
    else:
        assert len(body.vision.blocks) == blocks
        assert {int(name) for name in body.vision.norms} == set(strides) & set(TAPS)
    lite = EfficientNetLite()
    lite.keep(strides)
    assert body.lite.state_dict().keys() == lite.state_dict().keys()


def test_it_has_the_numbers_of_ten_blocks_and_of_the_other_encoder() -> None:
    with torch.device("meta"):
        body, lite = build_encoder("vision_lite0"), build_encoder("efficientnet_lite0")
    block = 3 * WIDTH * (WIDTH + 1) + WIDTH * (WIDTH + 1) + 2 * 4 * WIDTH * WIDTH + 5 * WIDTH + 2 * 3 * WIDTH
    around = (3 * PATCH**2 + 1) * WIDTH + WIDTH + GRID**2 * WIDTH + 2 * 2 * WIDTH
    count = sum(p.numel() for p in body.parameters())
    assert count == 10 * block + around + sum(p.numel() for p in lite.parameters())

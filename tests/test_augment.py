"""Views: parameters drawn, pictures rendered."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dgpnet.augment import (
    DRAWS,
    NONE,
    PAPER,
    PARAMETERS,
    STRONG,
    Augmentation,
    draw_parameters,
    identity,
    normalise,
    render,
)
from dgpnet.data import draws
from dgpnet.errors import Error
from dgpnet.images import MEAN, STD


@pytest.fixture
def photos(rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.integers(0, 256, (3, 3, 12, 12), np.uint8))


@pytest.fixture
def masks(rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.choice(np.array([0, 1, 2, 255], np.uint8), (3, 12, 12)))


def views(augmentation: Augmentation, count: int, anchors: np.ndarray | None = None, size: int = 12) -> Tensor:
    u = draws.uniform(0, draws.AUGMENTATION, np.arange(count), DRAWS)
    return torch.from_numpy(draw_parameters(augmentation, u, anchors, size))


def by_hand(photo: Tensor, mask: Tensor, label: int, p: list[float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """One view, pixel by pixel: where it looks, four neighbours, colours first."""
    side = photo.shape[-1]
    rgb = photo.double().numpy() / 255
    changed = (
        np.einsum("ck,khw->chw", np.reshape(p[6:], (3, 4))[:, :3], rgb) + np.reshape(p[6:], (3, 4))[:, 3, None, None]
    )
    values = (np.clip(changed, 0, 1) - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STD, (3, 1, 1))
    out, found = np.zeros((3, size, size)), np.full((size, size), 255)
    for j in range(size):
        for i in range(size):
            u, v = (2 * i + 1) / size - 1, (2 * j + 1) / size - 1
            x = ((p[0] * u + p[1] * v + p[2] + 1) * side - 1) / 2
            y = ((p[3] * u + p[4] * v + p[5] + 1) * side - 1) / 2
            for yy, xx in ((math.floor(y) + a, math.floor(x) + b) for a in (0, 1) for b in (0, 1)):
                if 0 <= yy < side and 0 <= xx < side:
                    out[:, j, i] += (1 - abs(y - yy)) * (1 - abs(x - xx)) * values[:, yy, xx]
            yy, xx = round(y), round(x)
            if 0 <= yy < side and 0 <= xx < side:
                value = int(mask[yy, xx])
                found[j, i] = 255 if value == 255 else int(value == label)
    return out, found


@pytest.mark.parametrize("plain", [True, False])
def test_the_papers_recipe_gives_the_photograph_or_its_mirror_image(photos: Tensor, masks: Tensor, plain: bool) -> None:
    parameters = views(PAPER, 40)
    index = torch.arange(40) % 3
    pictures, targets = render(photos, masks, index, torch.full((40,), 2), parameters, plain=plain)
    mirrored = parameters[:, 0] < 0
    assert 10 < mirrored.sum() < 30
    expected = normalise(photos[index])
    expected = torch.where(mirrored[:, None, None, None], expected.flip(-1), expected)
    labels = torch.where(mirrored[:, None, None], masks[index].flip(-1), masks[index])
    if plain:
        assert torch.equal(pictures, expected)  # bit by bit
    else:
        torch.testing.assert_close(pictures, expected, rtol=0, atol=1e-4)
    assert torch.equal(targets, torch.where(labels == 255, 255, (labels == 2).long()).to(torch.uint8))


def test_the_papers_recipe_is_plain_and_others_are_not() -> None:
    assert PAPER.plain
    assert NONE.plain
    assert not STRONG.plain
    assert not Augmentation(rotate=5).plain
    assert not Augmentation(grey=0.1).plain
    assert Augmentation(rotate=5, frame=0, brightness=1, colour=0).plain


def test_plain_views_have_the_photographs_size(photos: Tensor, masks: Tensor) -> None:
    one = torch.zeros(1, dtype=torch.long)
    with pytest.raises(Error, match="size of the photographs, 12; given 8"):
        render(photos, masks, one, one, torch.from_numpy(identity(1)), 8, plain=True)


@pytest.mark.parametrize("size", [12, 7, 20])
def test_render_equals_doing_it_by_hand(photos: Tensor, masks: Tensor, size: int) -> None:
    wild = Augmentation(
        scale=(0.4, 1.6), aspect=1.5, shift=0.3, rotate=30, brightness=0.5, contrast=0.5, saturation=0.8, hue=60
    )
    parameters = views(wild, 6, size=size)
    index, class_id = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([1, 2, 1, 257, 258, 1])
    pictures, targets = render(photos, masks, index, class_id, parameters, size)
    for m in range(6):
        expected, found = by_hand(
            photos[index[m]], masks[index[m]], int(class_id[m]) % 256, parameters[m].tolist(), size
        )
        np.testing.assert_allclose(pictures[m].numpy(), expected, atol=1e-4)
        assert (targets[m].numpy() == found).mean() > 0.98  # a tie between two pixels may fall either way


def test_render_needs_no_values_on_the_host() -> None:
    """Under fake tensors anything that reads a value, and so would break a CUDA graph, raises."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        photos, masks = torch.empty(5, 3, 8, 8, dtype=torch.uint8), torch.empty(5, 8, 8, dtype=torch.uint8)
        index = torch.empty(4, dtype=torch.long)
        for plain, size in ((True, 8), (False, 6)):
            pictures, targets = render(photos, masks, index, index, torch.empty(4, PARAMETERS), size, plain=plain)
            assert pictures.shape == (4, 3, size, size)
            assert targets.shape == (4, size, size)


def test_outside_the_photograph_is_mean_colour_and_ignored(photos: Tensor, masks: Tensor) -> None:
    parameters = torch.from_numpy(identity(1))
    parameters[0, [0, 4]] = 3.0  # the photograph fills the middle third
    pictures, targets = render(photos, masks, torch.tensor([0]), torch.tensor([1]), parameters)
    assert (targets[0, :3] == 255).all()
    assert pictures[0, :, :3].abs().max() == 0


@pytest.mark.parametrize("size", [64, 40, 17])
def test_no_view_loses_the_whole_object(size: int) -> None:
    """One foreground pixel, hard crops, shrinking, rotation: it is always seen."""
    side, count = 64, 300
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, side, count), rng.integers(0, side, count)
    masks = torch.zeros(count, side, side, dtype=torch.uint8)
    masks[torch.arange(count), torch.from_numpy(y), torch.from_numpy(x)] = 3
    anchors = ((2 * np.stack([x, y], axis=1) + 1) / side - 1).astype(np.float32)
    wild = Augmentation(scale=(0.2, 2.5), aspect=2, shift=0.5, rotate=180)
    photos = torch.zeros(count, 3, side, side, dtype=torch.uint8)
    kept = render(photos, masks, torch.arange(count), torch.full((count,), 3), views(wild, count, anchors, size), size)[
        1
    ]
    assert (kept == 1).flatten(1).any(dim=1).all()
    lost = render(photos, masks, torch.arange(count), torch.full((count,), 3), views(wild, count, None, size), size)[1]
    assert not (lost == 1).flatten(1).any(dim=1).all()


def test_small_views_stay_inside_the_photograph() -> None:
    p = views(Augmentation(scale=(0.3, 1.0), aspect=1.0), 500)
    assert (p[:, 2].abs() + p[:, 0].abs()).max() <= 1 + 1e-6
    assert (p[:, 5].abs() + p[:, 4].abs()).max() <= 1 + 1e-6
    assert p[:, 0].abs().min() < 0.4
    assert p[:, 2].max() > 0.4


def test_grey_is_grey_and_white_stays_white_under_hue_and_saturation(photos: Tensor, masks: Tensor) -> None:
    grey = views(Augmentation(grey=1.0), 3)
    pictures, _ = render(photos, masks, torch.arange(3), torch.ones(3, dtype=torch.long), grey)
    values = pictures * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)
    torch.testing.assert_close(values[:, 0], values[:, 2], rtol=0, atol=1e-5)
    coloured = views(Augmentation(hue=90, saturation=0.9), 20)[:, 6:].view(20, 3, 4)
    torch.testing.assert_close(coloured.sum(dim=2), torch.ones(20, 3))
    assert (coloured[:, :, :3] - torch.eye(3)).abs().amax(dim=(1, 2)).min() > 0.01


def test_probabilities_are_kept() -> None:
    p = views(Augmentation(flip=0.2, frame=0.3, scale=(0.5, 0.5), colour=0.6, brightness=0.5, grey=0.1), 4000)
    assert (p[:, 0] < 0).float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert (p[:, 4] != 1).float().mean().item() == pytest.approx(0.3, abs=0.03)
    same = (p[:, 6:] == torch.from_numpy(identity(1))[:, 6:]).all(dim=1)
    assert same.float().mean().item() == pytest.approx(0.4 * 0.9, abs=0.03)


@pytest.mark.parametrize(
    "wrong",
    [{"flip": 1.5}, {"scale": (0.0, 1.0)}, {"scale": (2.0, 1.0)}, {"aspect": 0.5}, {"rotate": -1}, {"grey": -0.1}],
)
def test_impossible_augmentations_are_refused(wrong: dict) -> None:
    with pytest.raises(Error, match="augmentation"):
        Augmentation(**wrong)

"""The whole network: shapes and sizes of the paper, gradients everywhere, equal ways to the same answer."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dgpnet import processor
from dgpnet.errors import Error
from dgpnet.network import PRESETS, Config, DGPNet
from dgpnet.network.fast import Predictor, fold
from tests.tolerances import assert_equal

TINY = Config(encoder="resnet18", features=24, encodings=6, decoder_width=12, size=64)
#: Every ablation of the paper, one field away from the tiny network.
VARIANTS = {
    "paper": {},
    "reference": {"mask_relu": True},
    "exponential": {"kernel": "exponential"},
    "linear": {"kernel": "linear"},
    "trainable kernel": {"trainable_kernel": True},
    "trainable exponential": {"trainable_kernel": True, "kernel": "exponential"},
    "trainable linear": {"trainable_kernel": True, "kernel": "linear"},
    "no covariance": {"window": 0},
    "window 1": {"window": 1},
    "window 7": {"window": 7},
    "plain mask": {"output_space": "mask"},
    "level 16": {"levels": (16,)},
    "level 32": {"levels": (32,)},
    "baseline": {"kernel": "linear", "window": 0, "output_space": "mask", "levels": (32,)},
    "frozen": {"freeze_encoder": True},
    "prototype": {"learner": "prototype"},
    "prior mask": {"learner": "prior"},
    "none": {"learner": "none"},
    "dense support": {"support_stride": 16, "similarity": True},
    "similarity": {"similarity": True},
    "similarity alone": {"similarity": True, "learner": "none", "levels": (16,)},
    "efficientnet": {"encoder": "efficientnet_lite0"},
    "efficientnet, level 16": {"encoder": "efficientnet_lite0", "levels": (16,)},
    "vision": {"encoder": "vision_lite0"},
    "vision, level 16": {"encoder": "vision_lite0", "levels": (16,)},
    "resnet34": {"encoder": "resnet34"},
    "resnet50, stride on the 1x1": {"encoder": "resnet50", "stride_on": "1x1"},
    # Without trained norms the features of so many blocks are far apart, and only directions are left to compare.
    "resnet101": {"encoder": "resnet101", "learner": "prototype"},
}


def episode(batch: int = 2, shots: int = 2, height: int = 64, width: int = 96) -> tuple[Tensor, Tensor, Tensor]:
    photos = torch.randn(batch, shots, 3, height, width)
    masks = torch.zeros(batch, shots, height, width)
    masks[..., 16:48, 20:70] = 1
    return photos, masks, torch.randn(batch, 3, height, width)


def tiny(**changes: object) -> DGPNet:
    torch.manual_seed(0)
    return DGPNet(TINY.but(**changes)).eval()


class TestTheTableOfThePaper:
    def test_parameters(self) -> None:
        counts = DGPNet(PRESETS["paper"]).parameter_counts()
        millions = {name: round(count / 1e6, 1) for name, count in counts.items()}
        assert millions == {"encoder": 23.5, "projections": 1.6, "mask encoder": 0.3, "decoder": 10.7}
        assert round(sum(counts.values()) / 1e6, 1) == 36.1

    def test_shapes(self) -> None:
        """Every row of the layer table, at its 512 × 512 input."""
        network = DGPNet(PRESETS["paper"]).eval()
        seen: dict[str, tuple[int, ...]] = {}
        for name, module in network.named_modules():
            module.register_forward_hook(lambda m, a, out, name=name: seen.update({name: _shape(out)}))
        photos, masks, query = episode(1, 1, 512, 512)
        with torch.no_grad():
            assert network(photos, masks, query).shape == (1, 2, 512, 512)
        expected = {
            "encoder.body.layer1": (256, 128, 128),
            "encoder.body.layer2": (512, 64, 64),
            "encoder.body.layer3": (1024, 32, 32),
            "encoder.body.layer4": (2048, 16, 16),
            "encoder.project.16": (512, 32, 32),
            "encoder.project.32": (512, 16, 16),
            "mask_encoder.conv1": (16, 256, 256),
            "mask_encoder.bn1": (16, 256, 256),
            "mask_encoder.layer1": (32, 64, 64),
            "mask_encoder.layer2": (64, 32, 32),
            "mask_encoder.layer3": (64, 16, 16),
            "mask_encoder.heads.16": (64, 32, 32),
            "mask_encoder.heads.32": (64, 16, 16),
            "decoder.classify": (2, 128, 128),
        }
        for stride, side in ((32, 16), (16, 32), (8, 64), (4, 128)):
            for part in ("refine_in", "attend", "refine_up"):
                expected[f"decoder.{part}.{stride}"] = (256, side, side)
        assert {name: seen[name][1:] for name in expected} == expected
        assert network.decoder.refine_in["32"].conv1.in_channels == 64 + 25


def _shape(out: object) -> tuple[int, ...]:
    return tuple(out.shape) if isinstance(out, Tensor) else ()


@pytest.mark.parametrize("name", VARIANTS)
class TestEveryVariant:
    def test_every_parameter_gets_a_finite_gradient(self, name: str) -> None:
        network = tiny(**VARIANTS[name]).train()
        logits = network(*episode())
        assert logits.shape == (2, 2, 64, 96) and torch.isfinite(logits).all()
        target = torch.randint(0, 2, (2, 64, 96))
        F.cross_entropy(logits, target).backward()
        for parameter_name, parameter in network.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, parameter_name
                assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().max() > 0, parameter_name
        frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
        assert bool(frozen) == network.config.freeze_encoder

    def test_learn_and_predict_is_forward(self, name: str) -> None:
        network = tiny(**VARIANTS[name])
        photos, masks, query = episode()
        with torch.no_grad():
            logits, novelty, likeness = network.answer(network.learn(photos, masks[:, :, None]), query)
            assert_equal(logits[:, 0], network(photos, masks, query))
        assert novelty.shape == query.shape[:1] + query.shape[2:] and (novelty >= 0).all() and (novelty <= 1).all()
        assert likeness.shape == logits.shape[:2] + query.shape[2:] and likeness.isfinite().all()
        assert bool(likeness.any()) == network.config.similarity

    def test_extend_without_restore_and_classes(self, name: str) -> None:
        network = tiny(**VARIANTS[name])
        photos, masks, query = episode(1, 3)
        masks = torch.stack([masks, 1 - masks], 2)
        with torch.no_grad():
            memory = network.learn(photos, masks)
            expected = network.predict(memory, query)
            grown = network.extend(network.learn(photos[:, :1], masks[:, :1]), photos[:, 1:], masks[:, 1:])
            assert_equal(network.predict(grown, query), expected)
            assert torch.equal(network.predict(network.restore(memory.tensors()), query), expected)
            for c in range(2):
                alone = network.predict(network.learn(photos, masks[:, :, c : c + 1]), query)
                assert_equal(expected[:, c], alone[:, 0])
            others = network.learn(photos[:, [0, 2]], masks[:, [0, 2]])
            assert_equal(network.predict(memory.without(1), query), network.predict(others, query))

    def test_the_predictor_gives_the_same(self, name: str) -> None:
        network = tiny(**VARIANTS[name])
        _unsettle(network)
        photos, masks, query = episode()
        plain = Predictor(network, dtype=torch.float32)
        with torch.no_grad():
            expected = network(photos, masks, query)
            assert_equal(plain.episode(photos, masks, query), expected)
            assert_equal(plain.predict(plain.learn(photos, masks[:, :, None]), query)[:, 0], expected)
            if processor.half_works():
                half = Predictor(network, dtype=torch.bfloat16)
                assert_equal(half.episode(photos, masks, query), expected, dtype=torch.bfloat16)


def _unsettle(network: DGPNet) -> None:
    """BatchNorm statistics that are not the initial ones, so that folding has something to do."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]


def test_a_folded_network_has_no_batch_norm_left() -> None:
    for changes in ({}, *({"encoder": name} for name in ("efficientnet_lite0", "vision_lite0", "resnet50"))):
        folded = fold(tiny(**changes))
        assert not [m for m in folded.modules() if isinstance(m, torch.nn.BatchNorm2d)]


@pytest.mark.parametrize("levels", [(16, 32), (16,), (32,)])
@pytest.mark.parametrize("backbone", ["convnext", "swin", "dinov2"])
def test_every_trained_parameter_of_a_hugging_face_network_gets_a_gradient(
    backbone: str, levels: tuple[int, ...]
) -> None:
    transformers = pytest.importorskip("transformers")
    hierarchical = {"depths": [1, 1, 1, 1]}
    config = {
        "convnext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], **hierarchical),
        "swin": lambda: transformers.SwinConfig(embed_dim=8, num_heads=[1, 1, 2, 2], window_size=4, **hierarchical),
        "dinov2": lambda: transformers.Dinov2Config(
            hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=56, patch_size=14
        ),
    }[backbone]()
    network = tiny(encoder=f"hf:{backbone}", encoder_options={"config": config}, levels=levels).train()
    logits = network(*episode())
    assert logits.shape == (2, 2, 64, 96)
    F.cross_entropy(logits, torch.randint(0, 2, (2, 64, 96))).backward()
    trained = {name: p.grad for name, p in network.named_parameters() if p.requires_grad}
    assert any(name.startswith("encoder.body") for name in trained)
    assert not [name for name, g in trained.items() if g is None or not g.isfinite().all() or not g.any()]


class TestBatches:
    @settings(max_examples=8)
    @given(batch=st.integers(1, 3), shots=st.integers(1, 3), h=st.integers(1, 3), w=st.integers(1, 3))
    def test_batched_is_one_by_one(self, batch: int, shots: int, h: int, w: int) -> None:
        network = tiny()
        photos, masks, query = episode(batch, shots, 32 * h, 32 * w)
        with torch.no_grad():
            together = network(photos, masks, query)
            for b in range(batch):
                assert_equal(together[b : b + 1], network(photos[b : b + 1], masks[b : b + 1], query[b : b + 1]))

    def test_one_memory_serves_many_queries(self) -> None:
        network = tiny()
        photos, masks, _ = episode(1)
        queries = torch.randn(5, 3, 64, 64)
        with torch.no_grad():
            memory = network.learn(photos, masks[:, :, None])
            together = network.predict(memory, queries)
            assert_equal(together, torch.cat([network.predict(memory, q[None]) for q in queries]))

    def test_supports_of_another_size_extend_a_memory(self) -> None:
        network = tiny()
        photos, masks, query = episode(1)
        more, more_masks, _ = episode(1, 1, 96, 32)
        more_masks[..., 10:20] = 1
        with torch.no_grad():
            memory = network.learn(photos, masks[:, :, None])
            grown = network.extend(memory, more, more_masks[:, :, None])
            assert grown.examples == 3
            assert_equal(network.predict(grown.without(2), query), network.predict(memory, query))

    def test_a_budget_is_said_and_close(self) -> None:
        network = tiny()
        photos, masks, query = episode(1, 6)
        with torch.no_grad():
            exact = network.learn(photos, masks[:, :, None])
            budgeted = network.learn(photos, masks[:, :, None], budget=30)
            assert budgeted.budgeted and not exact.budgeted
            assert_equal(network.predict(budgeted, query), network.predict(exact, query), dtype=torch.bfloat16)


class TestEncoderStatistics:
    def test_frozen_in_training_mode_while_scale_and_shift_learn(self) -> None:
        network = tiny().train()
        before = {k: v.clone() for k, v in network.encoder.state_dict().items() if "running" in k}
        decoder = {k: v.clone() for k, v in network.decoder.state_dict().items() if "running_mean" in k}
        network(*episode()).sum().backward()
        after = network.encoder.state_dict()
        assert all(torch.equal(after[k], v) for k, v in before.items())
        assert any(not torch.equal(network.decoder.state_dict()[k], v) for k, v in decoder.items())
        assert network.encoder.body.bn1.weight.grad.abs().max() > 0  # type: ignore[union-attr]


class TestBadInput:
    @pytest.mark.parametrize(
        ("photos", "masks", "message"),
        [
            (torch.randn(1, 0, 3, 64, 64), torch.zeros(1, 0, 1, 64, 64), "empty"),
            (torch.randn(1, 1, 3, 64, 64), torch.zeros(1, 1, 1, 64, 64), "shows class 0"),
            (torch.randn(1, 1, 3, 64, 64), torch.ones(1, 1, 1, 32, 64), "own size"),
            (torch.full((1, 1, 3, 64, 64), torch.nan), torch.ones(1, 1, 1, 64, 64), "NaN"),
            (torch.randn(1, 1, 3, 64, 64), torch.full((1, 1, 1, 64, 64), torch.nan), "mask holds NaN"),
            (torch.randn(1, 1, 4, 64, 64), torch.ones(1, 1, 1, 64, 64), "three channels"),
            (torch.randn(1, 1, 3, 16, 64), torch.ones(1, 1, 1, 16, 64), "multiples of 32"),
            (torch.randn(1, 3, 64, 64), torch.ones(1, 1, 1, 64, 64), "support set is"),
        ],
    )
    def test_an_unusable_support_set(self, photos: Tensor, masks: Tensor, message: str) -> None:
        with pytest.raises(Error, match=message):
            tiny().learn(photos, masks)

    def test_an_unusable_query(self) -> None:
        network = tiny()
        photos, masks, _ = episode(1)
        memory = network.learn(photos, masks[:, :, None])
        for query, message in (
            (torch.randn(1, 3, 60, 64), "multiples"),
            (torch.randn(1, 1, 64, 64), "channels"),
            (torch.full((1, 3, 64, 64), torch.nan), "NaN"),
        ):
            with pytest.raises(Error, match=message):
                network.predict(memory, query)

    def test_other_classes_cannot_extend(self) -> None:
        network = tiny()
        photos, masks, _ = episode(1)
        memory = network.learn(photos, masks[:, :, None])
        with pytest.raises(Error, match="1 classes"):
            network.extend(memory, photos, torch.stack([masks, masks], 2))


def test_golden_tensors() -> None:
    """The same weights and input give the same numbers as when this test was written."""
    network = tiny()
    with torch.no_grad():
        for i, (_, tensor) in enumerate(sorted(network.state_dict().items())):
            if tensor.is_floating_point():
                wave = torch.sin(torch.arange(tensor.numel(), dtype=torch.float64) * 0.7 + i).reshape(tensor.shape)
                tensor.copy_(0.5 + 0.1 * wave if tensor.dim() == 1 else wave * (2 / tensor[0].numel()) ** 0.5)
        ramp = torch.linspace(-1, 1, 64)
        photo = torch.stack([ramp.expand(64, 64), ramp[:, None].expand(64, 64), (ramp * ramp[:, None])])
        mask = (photo[0] > 0).float()
        logits = network(photo[None, None], mask[None, None], photo.flip(-1)[None])
    found = logits[0, :, ::21, ::21].flatten()
    assert_equal(found, torch.tensor(GOLDEN))


GOLDEN = [
    -2.937595, -4.986213, -5.303029, -3.027064, -0.799663, -1.089553, -1.0452, -0.67364, -1.47601, -2.519721, -2.730001,
    -1.677813, -1.737471, -2.802299, -3.654321, -3.077615, 6.487403, 10.71089, 11.260283, 7.460464, 2.896612, 3.407091,
    3.336069, 2.729733, 4.144922, 6.100167, 6.498982, 4.608723, 4.129752, 6.493224, 7.924744, 5.714451,
]  # fmt: skip


def test_one_tiny_episode_is_learned() -> None:
    """Gradient descent on a single episode finds its mask."""
    network = tiny(decoder_width=24).train()
    torch.manual_seed(1)
    canvas = torch.randn(1, 3, 64, 64) * 0.1
    mask = torch.zeros(1, 64, 64)
    mask[:, 16:48, 16:48] = 1
    photo = canvas + mask[:, None]
    query, target = photo.roll((8, -8), (-2, -1)), mask.roll((8, -8), (-2, -1)).long()
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(40):
        optimiser.zero_grad()
        logits = network(photo[:, None], mask[:, None], query)
        F.cross_entropy(logits, target).backward()
        optimiser.step()
    found = network(photo[:, None], mask[:, None], query).argmax(1)
    intersection, union = ((found & target).sum(), (found | target).sum())
    assert intersection / union > 0.95

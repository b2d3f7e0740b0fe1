"""Configurations: the protocol's figures, JSON and back, settings by name, and what is refused."""

from collections.abc import Callable

import pytest

from dgpnet import Error
from dgpnet.network.config import PRESETS
from dgpnet.training import Source, TrainConfig, recipe, with_settings
from dgpnet.training.config import plain

Make = Callable[..., TrainConfig]


def test_the_default_is_the_papers_recipe_for_pascal() -> None:
    assert recipe("paper", "pascal") == TrainConfig()
    paper = TrainConfig()
    assert (paper.rate, paper.projection_rate, paper.encoder_rate, paper.weight_decay) == (5e-5, 5e-5, 1e-6, 1e-3)
    assert (paper.iterations, paper.episodes, paper.network.size) == (20_000, 8, 384)
    assert (paper.schedule, paper.decay_at, paper.decay_factor, paper.foreground) == ("step", 0.5, 0.1, 4.0)
    assert paper.augmentation.plain
    assert paper.augmentation.flip == 0.5
    assert (paper.average, paper.clip, paper.warmup) == (0, 0, 0)


def test_coco_is_trained_longer_and_larger() -> None:
    for name in ("coco", "coco2pascal"):
        coco = recipe("paper", name)
        assert (coco.iterations, coco.network.size) == (40_000, 512)
        assert coco.iterations * (1 - coco.decay_at) == 10_000


@pytest.mark.parametrize("dataset", ["pascal", "coco"])
def test_reference_decays_when_9000_steps_remain(dataset: str) -> None:
    reference = recipe("reference", dataset)
    assert round(reference.iterations * (1 - reference.decay_at)) == 9_000
    assert reference.protocol == "reference"
    assert reference.network.mask_relu


def test_strong_is_what_measured_best() -> None:
    strong = recipe("strong")
    assert strong.shots == (1, 1, 1, 3, 5)
    assert strong.schedule == "cosine"
    assert strong.warmup > 0
    assert strong.balance == 0.5
    assert strong.foreground == 2 and strong.overlap == 0.5 and strong.self_episodes == 0.2
    assert strong.network.similarity and strong.projection == "principal"
    assert len({strong.rate, strong.projection_rate, strong.encoder_rate}) == 3


def test_projections_start_as_components_where_the_encoder_has_weights_to_start_from() -> None:
    assert not TrainConfig().principal
    assert TrainConfig(encoder_weights="resnet50.safetensors").principal
    assert not TrainConfig(encoder_weights="resnet50.safetensors", start_from="model.safetensors").principal
    assert not TrainConfig(encoder_weights="resnet50.safetensors", projection="random").principal
    assert TrainConfig(projection="principal").principal
    assert not TrainConfig(projection="principal", start_from="model.safetensors").principal
    assert TrainConfig(network=PRESETS["paper"].but(encoder="hf:folder")).principal


def test_json_and_back(config: Make) -> None:
    for one in (config(), recipe("strong"), config(sources=(Source("folder", "a", 0.5, None, ("mug",)),))):
        assert TrainConfig.from_json(one.to_json()) == one


def test_missing_fields_have_their_defaults() -> None:
    assert TrainConfig.from_json('{"rate": 1}') == TrainConfig(rate=1.0)


def test_settings_reach_every_depth(config: Make) -> None:
    changed = with_settings(
        config(),
        [
            "rate=1e-4",
            "shots=[1,5]",
            "sizes=[32,64]",
            "network.kernel=linear",
            "augmentation.scale=[0.5, 2]",
            "balance=null",
        ],
    )
    assert (changed.rate, changed.shots, changed.sizes, changed.balance) == (1e-4, (1, 5), (32, 64), None)
    assert changed.network.kernel == "linear"
    assert changed.augmentation.scale == (0.5, 2.0)
    assert with_settings(config(), ["shots=3"]).shots == (3,)
    assert with_settings(recipe("strong"), ["balance=null"]).balance is None
    assert with_settings(config(), []) == config()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rates=1", "perhaps rate is meant"),
        ("network.kernal=se", "perhaps kernel is meant"),
        ("nothing.kernel=se", "names no field"),
        ("rate", "write field=value"),
        ("rate=fast", "should be a number"),
        ("iterations=1.5", "should be a whole number"),
        ("shots=[]", "shots"),
        ("shots=0", "shots"),
        ("iterations=0", "at least 1"),
        ("rate=-1", "above 0"),
        ("schedule=linear", "step, cosine"),
        ("precision=half", "float32, bf16"),
        ("average=1", "average"),
        ("accumulate=3", "multiple of accumulate"),
        ("cache_size=16", "cache_size"),
        ("sizes=[64,100]", "multiples of 32"),
        ("sizes=[small]", "whole number"),
        ("network.window=4", "window"),
        ("network.features=many", "whole number"),
        ("augmentation.flip=2", "flip"),
        ("protocol=ours", "paper or reference"),
    ],
)
def test_a_wrong_setting_is_one_sentence(config: Make, setting: str, message: str) -> None:
    with pytest.raises(Error, match=message) as caught:
        with_settings(config(), [setting])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sources": [1]}', '{"network": 3}', '{"seed": true}'])
def test_json_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(Error):
        TrainConfig.from_json(text)


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(Error, match="paper, reference, strong"):
        recipe("weak")


def test_plain_is_json() -> None:
    assert plain(TrainConfig())["network"]["levels"] == [16, 32]

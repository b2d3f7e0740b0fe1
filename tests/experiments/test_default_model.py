"""How the default model is made: variants are what they say, and nothing trains on what measures."""

from pathlib import Path

import pytest

from dgpnet.experiments.default_model import MODERATE, VARIANTS, configuration


def made(name: str, *, hold_out: bool = True):  # type: ignore[no-untyped-def]
    return configuration(name, Path("data"), Path("encoders"), hold_out=hold_out, iterations=100, seed=3)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_a_valid_configuration(name: str) -> None:
    config = made(name)
    assert config.iterations == 100 and config.seed == 3 and config.precision == "bf16"
    assert config.encoder_weights == f"encoders/{config.network.encoder}.safetensors"
    assert not any("coco" in source.root for source in config.sources)


def test_a_variant_inherits_from_the_one_it_builds_on() -> None:
    paper, base, encoder, light = (made(name) for name in ("paper", "base", "encoder", "light"))
    assert paper.foreground == 4 and paper.rate == 5e-5 and len(paper.sources) == 1 and not paper.network.similarity
    assert base.network.similarity and base.projection == "principal" and len(base.sources) == 4 and base.shots == (1,)
    assert encoder.shots == (1, 1, 1, 3, 5) and encoder.foreground == 2 and encoder.encoder_rate == 5e-6
    assert light.network == encoder.network.but(decoder_width=128)
    assert made("augmented").augmentation == MODERATE and base.augmentation != MODERATE


def test_classes_are_held_out_only_while_variants_are_compared() -> None:
    assert [s.fold for s in made("light").sources] == [1, 0, 0, None]
    assert [s.fold for s in made("light", hold_out=False).sources] == [None] * 4

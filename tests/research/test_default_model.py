"""How the default model is made: variants are what they say, and nothing trains on what measures."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from dgpnet import data, weights
from dgpnet.files import differences
from dgpnet.network import Config, DGPNet
from dgpnet.training import TrainConfig, recipe
from dgpnet.training.config import plain
from research.default_model import MODERATE, SHIPPED, VARIANTS, configuration, measure, provenance_of


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
    assert not paper.principal  # as it was when the others were compared with it
    assert paper.foreground == 4 and paper.rate == 5e-5 and len(paper.sources) == 1 and not paper.network.similarity
    assert base.network.similarity and base.projection == "principal" and len(base.sources) == 4 and base.shots == (1,)
    assert encoder.shots == (1, 1, 1, 3, 5) and encoder.foreground == 2 and encoder.encoder_rate == 5e-6
    assert light.network == encoder.network.but(decoder_width=128)
    assert made("augmented").augmentation == MODERATE and base.augmentation != MODERATE


def test_classes_are_held_out_only_while_variants_are_compared() -> None:
    assert [s.fold for s in made("light").sources] == [1, 0, 0, None]
    assert [s.fold for s in made("light", hold_out=False).sources] == [None] * 4


def test_the_steps_lead_to_what_ships() -> None:
    combined, views, overlap = (made(name) for name in ("combined", "views", "overlap"))
    assert combined == dataclasses.replace(views, overlap=overlap.overlap) and combined.self_episodes > 0


@pytest.mark.parametrize("model", SHIPPED)
def test_what_ships_is_the_strong_recipe_but_for_data_length_and_widths(model: str) -> None:
    variant, iterations = SHIPPED[model]
    config = configuration(variant, Path(), Path(), hold_out=False, iterations=iterations, seed=0)
    changed = {words.partition(" ")[0] for words in differences(plain(recipe("strong")), plain(config))}
    own = {"sources", "encoder_weights", "iterations", "precision", "decay_at"}  # cosine has no use for the last
    widths = {f"network.{name}" for name in ("encoder", "stride_on", "features", "encodings", "decoder_width")}
    assert {name.partition("[")[0] for name in changed} <= own | widths
    # ... and it is what the file in the package says of itself.
    assert config == TrainConfig.from_json(json.dumps(weights.read_metadata(model)["provenance"]["training"]))


def test_objects_are_pasted_of_classes_that_are_trained_on() -> None:
    assert [s.options["objects"]["fold"] for s in made("objects").sources if "objects" in s.options] == [1]
    assert made("objects", hold_out=False).sources[-1].options["objects"]["fold"] is None
    assert made("objects").sources[:-1] == made("light").sources


def test_any_of_pascals_folds_can_be_held_out() -> None:
    config = configuration("objects", Path("a"), Path("b"), hold_out=True, iterations=9, seed=0, fold=2)
    assert [s.fold for s in config.sources] == [2, 0, 0, None, None]
    assert config.sources[-1].options["objects"]["fold"] == 2


@pytest.mark.parametrize("variant", ["small", "objects"])
def test_a_shipped_file_names_no_folder_of_the_machine_that_made_it(variant: str) -> None:
    config = configuration(variant, Path("/a/data"), Path("/a/weights"), hold_out=False, iterations=9, seed=0)
    text = json.dumps(provenance_of(config, "small", variant, 12))
    assert "/a" not in text and "VOC2012" in text and f"{config.network.encoder}.safetensors" in text
    assert f"ship --model small --variant {variant} --iterations 9 --seed 0" in text


@pytest.mark.parametrize(("bias", "quiet"), [(-50.0, 100.0), (50.0, 0.0)])
def test_what_stays_empty_is_measured(tmp_path: Path, bias: float, quiet: float) -> None:
    """A network that says "nothing", or "everything", whatever it sees."""
    dataset = data.build("synthetic", photographs=80, side=64, kinds=6, size=64, cache=tmp_path)
    network = DGPNet(Config(encoder="resnet18", features=16, encodings=4, decoder_width=8, size=64)).eval()
    with torch.no_grad():
        network.decoder.classify.weight.zero_()
        network.decoder.classify.bias.copy_(torch.tensor([0.0, bias]))
    figures = measure(network, {"shapes": dataset}, 12)
    assert figures["quiet"]["shapes"] == {"1": quiet, "5": quiet}
    assert (figures["miou"]["shapes"]["5"] > 0) == (bias > 0)

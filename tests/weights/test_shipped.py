"""The checkpoints in the package: what they are, what they know of themselves, and that they work."""

import json
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open

import dgpnet
from dgpnet import weights
from dgpnet.demo import scenes
from research.default_model import SHIPPED

MODELS = pytest.mark.parametrize("model", ["default", "small"])


@MODELS
def test_small_enough_and_in_half_precision_but_for_norms(model: str) -> None:
    path = weights.checkpoint_path(model)
    assert path.stat().st_size <= {"default": 60_000_000, "small": 15_000_000}[model]
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118  (a file is no mapping)
            tensor = file.get_tensor(name)
            if tensor.is_floating_point():
                assert tensor.dtype == (torch.float16 if tensor.dim() > 1 else torch.float32), name


@MODELS
def test_it_says_how_it_was_made_and_names_no_folder_of_the_machine_that_made_it(model: str) -> None:
    about = weights.read_metadata(model)
    training, command = about["provenance"]["training"], about["provenance"]["command"]
    variant, iterations = SHIPPED[model]
    assert training["iterations"] == iterations and training["seed"] == 0
    assert f"default_model ship --model {model} --variant {variant} --iterations {iterations}" in command
    assert not any("coco" in source["root"] for source in training["sources"])
    assert about["calibration"]["temperature"] > 0
    assert '"/' not in json.dumps(about)


@MODELS
def test_it_loads_within_two_seconds(model: str) -> None:
    start = time.process_time()
    dgpnet.load(model)
    assert time.process_time() - start < 2


@MODELS
def test_it_finds_what_it_was_shown(model: str) -> None:
    pytest.importorskip("skimage")
    scene = next(scene for scene in scenes() if scene.name == "motorcycle")
    (photo, mask) = scene.painted[0]
    concept = dgpnet.load(model).learn([photo], [mask], classes=list(scene.classes))
    found = concept.segment(photo)
    union = ((found.mask == 1) | (mask == 1)).sum()
    assert ((found.mask == 1) & (mask == 1)).sum() / union > 0.9
    assert found.score > 0.7
    wrong = (found.mask == 1) != (mask == 1)
    assert found.uncertainty[wrong].mean() > 3 * found.uncertainty[~wrong].mean()
    assert np.isfinite(found.probability).all()


@MODELS
def test_copies_and_the_next_frame_of_a_film_are_no_further_examples_of_what_a_find_should_look_like(
    model: str,
) -> None:
    pytest.importorskip("skimage")
    segmenter = dgpnet.load(model, device="cpu")
    scene = next(scene for scene in scenes() if scene.name == "shapes")
    (photo, mask), (other, painted), *_ = scene.painted
    frame = np.clip(np.roll(photo, (3, 3), (0, 1)) * 1.04, 0, 255).astype(np.uint8)
    known = [
        segmenter.learn(photos, masks, classes=scene.classes).kin.known.tolist()
        for photos, masks in (
            ([photo, photo], [mask, mask]),
            ([photo, frame], [mask, np.roll(mask, (3, 3), (0, 1))]),
            ([photo, other], [mask, painted]),
            ([photo, photo], [mask, np.roll(mask, 200, axis=1)]),
        )
    ]
    assert known[:2] == [[0.0, 0.0]] * 2 and min(known[2] + known[3]) > 0.5, (
        "one place may show the thing here and there"
    )


@pytest.mark.parametrize("name", weights.SHIPPED)
def test_what_was_fitted_after_it_was_saved_belongs_to_its_calibration(name):
    about = weights.read_metadata(name)["calibration"]
    assert {"temperature", "score", "presence", "quality"} <= set(about)
    calibration = dgpnet.load(name, device="cpu").calibration
    assert calibration.presence is not None and calibration.quality is not None
    for numbers in (calibration.presence.one, calibration.presence.several):
        assert numbers[1] > 0, "what is more like the examples is more probably there"

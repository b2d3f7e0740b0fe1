"""The folder that an export is: complete, checked, and enough for a program without dgpnet."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dgpnet.errors import Error
from dgpnet.export import check
from dgpnet.export.folder import whole_folder
from dgpnet.export.halves import state_of, write_state
from dgpnet.export.to_onnx import export_onnx, opened
from dgpnet.learners import Similarity
from dgpnet.segmenter import Segmenter
from dgpnet.segmenter.segmentation import Maps
from tests.tiny import CONFIG, scene, scenes, tiny_segmenter


@pytest.fixture(scope="module")
def segmenter(quick_encoder: str) -> Segmenter:
    return tiny_segmenter(CONFIG.but(encoder=quick_encoder, similarity=True, levels=(32,)))


@pytest.fixture(scope="module")
def folder(segmenter: Segmenter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "model"
    export_onnx(segmenter, out)
    return out


def test_the_folder_says_what_a_program_needs(segmenter: Segmenter, folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"query.onnx", "support.onnx", "about.json", "README.md"}
    about = json.loads((folder / "about.json").read_text())
    assert about["model"] == segmenter.fingerprint
    assert about["size"] == CONFIG.size and about["mean"] and about["std"] and about["calibration"]["temperature"] == 1
    query = about["files"]["query.onnx"]
    assert query["inputs"]["photographs"] == {"shape": [1, 3, "height", "width"], "dtype": "float32"}
    assert query["inputs"]["32.weights"]["shape"] == [1, "points_32", "classes", CONFIG.encodings]
    assert set(about["files"]["support.onnx"]["outputs"]) == set(query["inputs"]) - {"photographs"}
    assert [(one["height"], one["width"]) for one in about["checked"]] == [(64, 64), (128, 96)]
    for one in about["checked"]:
        assert one["log_odds"] <= 1e-3 and one["labels"] >= 0.999 and one["state"] < 1e-4
    assert all(name in (folder / "README.md").read_text() for name in ("query.onnx", "32.weights", "log_odds"))


@torch.no_grad()
@pytest.mark.parametrize(("sides", "shots", "classes"), [((64, 64), 1, 1), ((96, 160), 4, 3)])
def test_one_export_serves_any_size(
    segmenter: Segmenter, folder: Path, sides: tuple[int, int], shots: int, classes: int
) -> None:
    photos, masks = torch.randn(shots + 1, 3, *sides), torch.zeros(shots, classes, *sides)
    for c in range(classes):
        masks[:, c, 16 * c : 16 * c + 20, 8:50] = 1
    state = opened(folder / "support.onnx")({"photographs": photos[:-1].numpy(), "masks": masks.numpy()})
    found = opened(folder / "query.onnx")({"photographs": photos[-1:].numpy(), **state})
    memory = segmenter.network.learn(photos[None, :-1], masks[None])
    expected = Maps.of(segmenter.network.answer(memory, photos[-1:])).log_odds.numpy()
    np.testing.assert_allclose(found["log_odds"], expected, atol=1e-4)


@torch.no_grad()
def test_what_stands_for_many_points_goes_in_like_any_other(
    segmenter: Segmenter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inducing points, and evenly spaced ones for plain similarity."""
    monkeypatch.setattr(Similarity, "MOST", 5)
    photos, masks = torch.randn(4, 3, 64, 64), torch.zeros(3, 1, 64, 64)
    masks[..., 20:60, 10:50] = 1
    memory = segmenter.network.learn(photos[None, :-1], masks[None], budget=7)
    assert memory.budgeted
    state = {name: tensor.numpy() for name, tensor in state_of(memory).items()}
    assert state["32.basis"].shape[1] == 7 and state["32_similarity.x"].shape[1] <= 5
    found = opened(folder / "query.onnx")({"photographs": photos[-1:].numpy(), **state})
    expected = Maps.of(segmenter.network.answer(memory, photos[-1:])).log_odds.numpy()
    np.testing.assert_allclose(found["log_odds"], expected, atol=1e-4)


def test_a_concept_goes_in_as_arrays_or_is_in_the_graph(segmenter: Segmenter, folder: Path, tmp_path: Path) -> None:
    concept = segmenter.learn(*scenes(2, classes=2), classes=["mug", "spoon"])
    write_state(concept, tmp_path / "mug.npz")
    about = export_onnx(segmenter, tmp_path / "mug", concept=concept, timed=True).to_json()
    assert about["legend"]["names"] == ["mug", "spoon"] and about["concept"] == concept.fingerprint
    assert min(about["milliseconds"].values()) > 0
    assert not (tmp_path / "mug" / "support.onnx").exists()
    photo = segmenter.engine.as_input([segmenter.engine.read(scene(9)[0]).photo]).numpy()
    (maps,) = concept.maps([segmenter.engine.read(scene(9)[0])])
    with np.load(tmp_path / "mug.npz") as state:
        given = opened(folder / "query.onnx")({"photographs": photo, **state})
    inside = opened(tmp_path / "mug" / "query.onnx")({"photographs": photo})
    for found in (given, inside):
        np.testing.assert_allclose(found["log_odds"][0], maps.log_odds.numpy(), atol=1e-4)
        np.testing.assert_allclose(found["novelty"][0], maps.novelty.numpy(), atol=1e-4)


def test_the_example_needs_no_dgpnet(segmenter: Segmenter, folder: Path, tmp_path: Path, repository: Path) -> None:
    (painted, other), (mask, _) = scenes(2)
    for name, array in (("painted", painted), ("mask", mask), ("photo", other)):
        Image.fromarray(array).save(tmp_path / f"{name}.png")
    names = [str(tmp_path / f"{name}.png") for name in ("painted", "mask", "photo", "found")]
    example = (repository / "examples" / "onnx" / "segment.py").read_text()
    program = f"import sys; sys.modules.update(dgpnet=None, torch=None)\n{example}"
    subprocess.run([sys.executable, "-c", program, str(folder), *names], check=True)
    expected = segmenter.learn([painted], [mask]).segment(other).mask
    assert np.mean(np.asarray(Image.open(names[-1])) == expected) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["convnext", "dinov2"])
def test_hugging_face_backbones_at_the_models_own_size(backbone: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = {
        "convnext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
        "dinov2": lambda: transformers.Dinov2Config(
            hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=56, patch_size=14
        ),
    }[backbone]()
    other = tiny_segmenter(CONFIG.but(encoder=f"hf:{backbone}", encoder_options={"config": config}))
    about = export_onnx(other, tmp_path / "model").to_json()
    assert about["files"]["query.onnx"]["inputs"]["photographs"]["shape"] == [1, 3, 64, 64]
    assert len(about["checked"]) == 1


@pytest.mark.slow
def test_an_export_that_differs_is_refused_and_leaves_nothing(
    segmenter: Segmenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    concept = segmenter.learn(*scenes(1))
    with pytest.raises(Error, match="nothing was written"):
        export_onnx(segmenter, tmp_path / "model", concept=concept)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("difference", "labels"), [(2e-3, 1.0), (0.0, 0.998), (float("nan"), 1.0)])
def test_what_differs_too_much_is_an_error(difference: float, labels: float) -> None:
    near = check.Parity(64, 64, "rendered", 1e-4, 0.9995)
    assert near.require() is near
    with pytest.raises(Error, match="nothing was written"):
        check.Parity(64, 64, "rendered", difference, labels).require()


def test_a_concept_of_another_model_is_refused(segmenter: Segmenter, tmp_path: Path) -> None:
    concept = tiny_segmenter().learn(*scenes(1))
    with pytest.raises(Error, match="another model"):
        export_onnx(segmenter, tmp_path / "model", concept=concept)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "model") as folder:
        (folder / "query.onnx").write_text("half of it")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    with pytest.raises(Error, match="there already"), whole_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_without_scikit_image_photographs_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "find_spec", lambda name: None)
    photos, what = check.photographs((64, 96))
    assert photos.shape == (3, 3, 64, 96) and what == "rendered" and photos.std() > 0.3

import numpy as np
import pytest
from PIL import Image

from dgpnet.cli import run
from dgpnet.demo import scenes
from dgpnet.images import IGNORE
from tests.tiny import tiny_checkpoint

pytest.importorskip("skimage")


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
def test_every_scene_shows_all_of_its_classes_and_its_masks_fit(scene):
    values = {int(value) for _, mask in scene.painted for value in np.unique(mask)}
    assert values == {0, *range(1, len(scene.classes) + 1)}
    for photo, mask in scene.painted:
        assert photo.shape[:2] == mask.shape
    for name, mask in scene.truth.items():
        assert scene.photos[name].shape[:2] == mask.shape
        assert set(np.unique(mask).tolist()) <= {*values, IGNORE}


def test_painted_things_are_brighter_or_redder_than_what_is_around_them():
    for scene in scenes():
        if scene.name in ("coins", "motorcycle", "rocket"):
            photo, mask = scene.painted[0]
            red = photo[..., 0].astype(float)
            assert abs(red[mask == 1].mean() - red[mask == 0].mean()) > 15


def test_the_demo_ends_by_saying_where_everything_is(tmp_path, capsys):
    model = tiny_checkpoint(tmp_path / "tiny.safetensors")
    for _ in range(2):  # again over its own results
        assert run(["demo", "--out", str(tmp_path / "demo"), "--model", str(model)]) == 0
    shown = capsys.readouterr().out
    assert f"Pictures: {tmp_path / 'demo' / 'demo.png'}" in shown
    assert shown.count("Report:   file://") == 2 * len(scenes())
    with Image.open(tmp_path / "demo" / "demo.png") as picture:
        assert picture.width > 500
    assert (tmp_path / "demo" / "coins" / "found" / "masks" / "coins.png").is_file()

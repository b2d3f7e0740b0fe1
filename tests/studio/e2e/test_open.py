"""The shortest way through the studio: open, paint one stroke, learn, and the other photographs have masks."""

from tests.studio.e2e.desk import iou, shapes, write


def test_one_painted_photograph_and_the_others_follow(tmp_path, studio, desk):
    scenes = [scene for scene in shapes(8, side=192) if (scene[1] == 1).any()][:4]
    folder = write(tmp_path / "photos", {f"scene-{i}.png": photo for i, (photo, _) in enumerate(scenes)})
    tab = desk(studio(folder).address)

    tab.page.fill("#first-class", "star")
    tab.page.keyboard.press("Enter")
    tab.go("scene-0.png")
    tab.paint_region(scenes[0][1] == 1)
    tab.saved()
    assert iou(tab.labels(), scenes[0][1]) > 0.9
    tab.learn()

    found = [iou(tab.found(f"scene-{i}.png"), scenes[i][1]) for i in range(1, len(scenes))]
    assert max(found) > 0.3, found
    assert tab.page.locator("#this-photograph .badge").inner_text() in ("Found by the model", "Nothing found")

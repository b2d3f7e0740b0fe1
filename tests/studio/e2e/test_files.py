"""Files: what is exported is what `dgpnet segment` writes; what another program made is imported."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.children import environment
from tests.studio.e2e.desk import iou, shapes, write

pytestmark = pytest.mark.e2e


def test_an_export_is_what_the_command_writes(tmp_path, studio, desk):
    scenes = [scene for scene in shapes(12, side=224) if (scene[1] == 1).any()][:5]
    photographs = {f"{'' if i < 3 else 'more/'}scene-{i}.png": photo for i, (photo, _) in enumerate(scenes)}
    folder = write(tmp_path / "photos", photographs)
    tab = desk(studio(folder).address)
    tab.add_class("star")
    for i in (0, 1):
        tab.go(f"scene-{i}.png")
        tab.paint_region(scenes[i][1] == 1)
        tab.saved()
    tab.learn()
    tab.page.wait_for_timeout(1500)
    tab.quiet()
    tab.page.click("#tab-files")
    for value in ("coco", "labelme", "yolo"):
        tab.page.check(f".choices input[value={value}]")
    tab.page.click("#export")
    tab.until("() => document.querySelector('#download')")
    with tab.page.expect_download() as download:
        tab.page.click("#download")
    archive = zipfile.ZipFile(download.value.path())
    names = {name: name for name in archive.namelist() if not name.endswith("/")}

    # The same with the command: what was painted, as a support of files.
    support = tmp_path / "support"
    for i in (0, 1):
        write(support / "images", {f"scene-{i}.png": scenes[i][0]})
        tab.go(f"scene-{i}.png")
        (support / "masks").mkdir(exist_ok=True)
        Image.fromarray(tab.labels()).save(support / "masks" / f"scene-{i}.png")
    (support / "classes.json").write_text(json.dumps({"1": "star"}))
    out = tmp_path / "found"
    words = ["segment", support, folder, "--out", out, "--model", "small"]
    words += ["--format", "coco", "--format", "labelme", "--format", "yolo"]
    done = subprocess.run(
        [sys.executable, "-m", "dgpnet", *map(str, words)],
        env=environment(OMP_NUM_THREADS="2"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    def exported(path):
        match = [name for name in names if name == path or name.endswith("/" + path)]
        assert len(match) == 1, (path, sorted(names))
        return archive.read(match[0])

    for path in sorted((out / "masks").rglob("*.png")):
        ours = np.asarray(Image.open(io.BytesIO(exported(f"masks/{path.relative_to(out / 'masks').as_posix()}"))))
        assert (ours == np.asarray(Image.open(path))).all(), path.name
    kinds = {path.relative_to(out).as_posix() for path in (out / "annotations").rglob("*") if path.is_file()}
    assert kinds
    for path in kinds:
        assert exported(path), path
    coco = next(path for path in kinds if "coco" in path and path.endswith(".json"))
    ours, theirs = json.loads(exported(coco)), json.loads((out / coco).read_text())
    assert [one["name"] for one in ours["categories"]] == [one["name"] for one in theirs["categories"]]
    assert len(ours["annotations"]) == len(theirs["annotations"])


def test_masks_of_another_program_become_painted_examples(tmp_path, studio, desk):
    scenes = [scene for scene in shapes(12, side=160) if (scene[1] == 1).any()][:3]
    folder = write(tmp_path / "photos", {f"scene-{i}.png": photo for i, (photo, _) in enumerate(scenes)})
    bundle = tmp_path / "painted.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        for i in (0, 1):
            for part, array in (("images", scenes[i][0]), ("masks", (scenes[i][1] == 1).astype(np.uint8))):
                file = io.BytesIO()
                Image.fromarray(array).save(file, "PNG")
                archive.writestr(f"{part}/scene-{i}.png", file.getvalue())
        archive.writestr("classes.json", json.dumps({"1": "star"}))
    tab = desk(studio(folder).address)
    tab.page.click("#tab-files")
    tab.page.set_input_files("#import", str(bundle))
    tab.until("() => dgpnet.studio.classes.some((one) => one.name === 'star' && one.examples === 2)")
    assert "2 photographs painted" in tab.page.locator("#panel-files").inner_text()
    tab.go("scene-1.png")
    tab.until("() => dgpnet.studio.current.source === 'painted'")
    assert iou(tab.labels(), scenes[1][1]) == 1.0

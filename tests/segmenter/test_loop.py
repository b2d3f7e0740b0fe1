"""The loop of a person in one folder: paint, segment, correct, put back, segment."""

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import SupportSet, read_support
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.segmenter import Concept, Segmenter, masks, stages
from dgpnet.segmenter.folder import Outcome, segment_folder
from tests.tiny import scene, tiny_segmenter, write_photos, write_support

#: Numbers and colours that nobody would give by himself.
LEGEND = Legend(("mug", "spoon"), (7, 3), ((250, 0, 10), (0, 10, 250)))


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return tiny_segmenter()


def learn(segmenter: Segmenter, painted: Path) -> tuple[Concept, SupportSet]:
    support = read_support(painted)
    support = replace(support, legend=replace(LEGEND, names=LEGEND.names[: len(support.classes)],
                                              values=LEGEND.values[: len(support.classes)],
                                              colours=LEGEND.colours[: len(support.classes)]))  # fmt: skip
    photos = [example.photo for example in support.examples]
    return segmenter.learn(photos, [example.mask for example in support.examples], classes=support.legend), support


@pytest.fixture
def here(tmp_path) -> Path:
    """painted/ with two photographs of two classes, and photos/ with five others."""
    write_support(tmp_path / "painted", 2, classes=2)
    write_photos(tmp_path / "photos", 5)
    return tmp_path


def run(here: Path, segmenter: Segmenter, **options: object) -> Outcome:
    concept, support = learn(segmenter, here / "painted")
    return segment_folder(concept, [here / "photos"], here / "found", painted=support, **options)


def rows(here: Path) -> dict[str, dict]:
    whole = json.loads((here / "found" / "summary.json").read_text())
    return {row["photo"]: row for row in whole["photographs"]}


def edit(path: Path) -> np.ndarray:
    """Paint a corner of a mask with the first class, as a program would that knows nothing of us."""
    image = Image.open(path)
    values = np.array(image)
    values[:9, :9] = LEGEND.values[0]
    other = Image.fromarray(values)
    other.putpalette(image.getpalette())
    other.save(path)
    return values


def test_a_painted_photograph_keeps_its_mask_whatever_it_is_called(here, segmenter):
    shutil.copy(here / "painted" / "images" / "0.png", here / "photos" / "renamed.png")  # by what is in it
    (here / "photos" / "linked.png").symlink_to(here / "painted" / "images" / "1.png")  # by where it lies
    outcome = run(here, segmenter, overlay=True, instances=True, uncertainty=True)
    assert (outcome.done, outcome.painted, outcome.edited) == (7, 2, 0)
    _, support = learn(segmenter, here / "painted")
    for name, example in zip(("renamed", "linked"), support.examples, strict=True):
        found = masks.read(here / "found" / "masks" / f"{name}.png", LEGEND)
        np.testing.assert_array_equal(found, example.mask)
        row = rows(here)[f"{name}.png"]
        assert row["painted"] is True
        assert row["areas"] == {"mug": int((found == 1).sum()), "spoon": int((found == 2).sum())}
    assert rows(here)["0000.jpg"]["painted"] is False


def test_values_and_colours_are_those_of_the_legend_everywhere(here, segmenter):
    shutil.copy(here / "painted" / "images" / "0.png", here / "photos" / "p.png")
    run(here, segmenter, overlay=True)
    image = Image.open(here / "found" / "masks" / "p.png")
    assert set(np.unique(np.asarray(image))) == {0, 3, 7}
    y, x = np.argwhere(np.asarray(image) == 7)[0]
    assert image.convert("RGB").getpixel((int(x), int(y))) == (250, 0, 10)
    assert json.loads((here / "found" / "classes.json").read_text()) == {"mug": 7, "spoon": 3}
    thumbnail = Image.open(here / "found" / "report" / "mask" / "p.png").convert("RGB")
    assert thumbnail.getpixel((int(x), int(y))) == (250, 0, 10)
    assert "#fa000a" in (here / "found" / "report" / "data.js").read_text()


def test_a_mask_that_a_person_edited_is_kept_told_and_never_overwritten(here, segmenter):
    run(here, segmenter, overlay=True)
    path = here / "found" / "masks" / "0000.png"
    values = edit(path)
    content = path.read_bytes()
    for again in (False, True):
        outcome = run(here, segmenter, overlay=True, again=again)
        assert (outcome.done, outcome.edited) == (5, 1)
        assert path.read_bytes() == content
        assert rows(here)["0000.jpg"]["edited"] is True
        assert rows(here)["0000.jpg"]["areas"]["mug"] == int((values == 7).sum())
    outcome = run(here, segmenter, threshold=0.4, again=True)  # everything else is done anew
    assert (outcome.done, outcome.before, outcome.edited) == (5, 0, 1)
    assert path.read_bytes() == content
    path.unlink()  # how to have it back
    assert run(here, segmenter, threshold=0.4).edited == 0


@pytest.mark.parametrize("value", [1, 255])
def test_a_painted_mask_is_written_anew_when_one_pixel_of_it_has_changed(here, segmenter, value):
    """A pixel that the network does not see: it is larger than what it learns from."""
    photo, mask = scene(7, (500, 700))
    for path, pixels in (("painted/images/big.png", photo), ("painted/masks/big.png", mask), ("photos/p.png", photo)):
        Image.fromarray(pixels).save(here / path)
    run(here, segmenter)
    mask[0, 0] = value
    Image.fromarray(mask).save(here / "painted" / "masks" / "big.png")
    with pytest.raises(Error, match=r"1 photograph was painted anew since: big\.png\. Add --again"):
        run(here, segmenter)
    assert run(here, segmenter, again=True).painted == 1
    np.testing.assert_array_equal(masks.read(here / "found" / "masks" / "p.png", LEGEND), mask)


def save_white_on_black(path: Path) -> np.ndarray:
    """Turn a corner of a mask over, as a program would that knows black and white only."""
    shown = np.array(Image.open(path)) > 0
    shown[:9, :9] = ~shown[:9, :9]
    Image.fromarray(shown * np.uint8(255)).save(path)
    return shown


def test_an_edit_saved_white_on_black_is_the_one_class_and_told(tmp_path, segmenter):
    write_support(tmp_path / "painted", 2)
    write_photos(tmp_path / "photos", 3)
    run(tmp_path, segmenter, formats=["coco"])
    path = tmp_path / "found" / "masks" / "0000.png"
    shown = save_white_on_black(path)
    content = path.read_bytes()
    for again in (False, True, False):
        outcome = run(tmp_path, segmenter, formats=["coco"], again=again)
        assert (outcome.done, outcome.edited, outcome.white, outcome.notes) == (3, 1, 1, ())
        row = rows(tmp_path)["0000.jpg"]
        assert (row["edited"], row["white"], row["areas"]) == (True, True, {"mug": int(shown.sum())})
        assert path.read_bytes() == content
    coco = json.loads(outcome.annotations["coco"].read_text())
    image = next(one["id"] for one in coco["images"] if one["file_name"] == "0000.jpg")
    (annotation,) = (one for one in coco["annotations"] if one["image_id"] == image)
    assert (annotation["iscrowd"], annotation["area"]) == (0, int(shown.sum()))


@pytest.mark.parametrize("why", ["several classes", "ignore elsewhere"])
def test_an_edit_saved_white_on_black_that_may_be_something_else_is_put_aside(tmp_path, segmenter, why):
    classes = 2 if why == "several classes" else 1
    write_support(tmp_path / "painted", 2, classes=classes)
    write_photos(tmp_path / "photos", 3)
    if classes == 1:
        mask = np.array(Image.open(tmp_path / "painted" / "masks" / "1.png"))
        mask[:3] = 255
        Image.fromarray(mask).save(tmp_path / "painted" / "masks" / "1.png")
    run(tmp_path, segmenter)
    path = tmp_path / "found" / "masks" / "0000.png"
    save_white_on_black(path)
    content = path.read_bytes()
    outcome = run(tmp_path, segmenter)
    assert (outcome.done, outcome.edited, outcome.white) == (3, 0, 0)
    assert any(
        "nothing but black and white" in note and "kept as aside/masks/0000.png" in note for note in outcome.notes
    )
    assert (tmp_path / "found" / "aside" / "masks" / "0000.png").read_bytes() == content
    assert masks.is_ours(path)


def test_a_painted_mask_of_nothing_but_ignore_is_no_edit(tmp_path, segmenter):
    """Though it is 0 and 255 alone, also in the annotations that are made of it."""
    write_support(tmp_path / "painted", 2)
    photo, mask = scene(9)
    Image.fromarray(photo).save(tmp_path / "painted" / "images" / "9.png")
    Image.fromarray(mask * np.uint8(255)).save(tmp_path / "painted" / "masks" / "9.png")
    (tmp_path / "painted" / "classes.json").write_text('{"mug": 1, "__ignore__": 255}')
    write_photos(tmp_path / "photos", 1)
    shutil.copy(tmp_path / "painted" / "images" / "9.png", tmp_path / "photos")
    for _ in range(2):
        outcome = run(tmp_path, segmenter, formats=["coco"])
        assert (outcome.painted, outcome.edited, outcome.white) == (1, 0, 0)
        assert rows(tmp_path)["9.png"]["areas"] == {"mug": 0}


def test_a_mask_saved_again_without_a_change_is_no_edit(here, segmenter):
    run(here, segmenter)
    path = here / "found" / "masks" / "0000.png"
    image = Image.open(path)
    image.load()
    image.info.clear()
    image.save(path)
    assert not masks.is_ours(path)
    assert run(here, segmenter).before == 5
    outcome = run(here, segmenter, threshold=0.4, again=True)
    assert (outcome.before, outcome.edited) == (0, 0)
    assert masks.is_ours(path)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_mask_saved_again_in_colours_is_no_edit(here, segmenter, mode):
    run(here, segmenter)
    path = here / "found" / "masks" / "0000.png"
    Image.open(path).convert(mode).save(path)
    assert run(here, segmenter).edited == 0
    assert masks.is_ours(path)


def test_a_folder_by_its_name_alone(here, segmenter):
    concept, _ = learn(segmenter, here / "painted")
    assert segment_folder(concept, str(here / "photos"), here / "found", formats=["coco", "coco"]).done == 5


def test_what_is_no_edit_is_done_again(here, segmenter):
    run(here, segmenter)
    folder = here / "found" / "masks"
    before = {path.name: path.read_bytes() for path in folder.glob("*.png")}
    (folder / "0000.png").write_bytes(b"")
    (folder / "0001.png").write_bytes(before["0001.png"][:60])
    (folder / "0003.png").write_bytes(before["0004.png"])
    Image.fromarray(np.full((9, 9), 7, np.uint8)).save(folder / "0004.png")
    outcome = run(here, segmenter)
    assert (outcome.before, outcome.edited) == (1, 0)
    for name, content in before.items():
        np.testing.assert_array_equal(
            masks.read(folder / name, LEGEND), np.asarray(_decoded(content, here)), err_msg=name
        )
    assert len([note for note in outcome.notes if "kept as aside/masks/" in note]) == 2
    assert (here / "found" / "aside" / "masks" / "0004.png").is_file()
    assert run(here, segmenter).notes == ()


def _decoded(content: bytes, here: Path) -> np.ndarray:
    (here / "x.png").write_bytes(content)
    return masks.read(here / "x.png", LEGEND)


def put_back(here: Path, name: str) -> None:
    """Correct a mask among the results and add it, with its photograph, to what is painted."""
    edit(here / "found" / "masks" / f"{name}.png")
    values = np.array(Image.open(here / "found" / "masks" / f"{name}.png"))
    numbers = np.zeros(256, np.uint8)
    numbers[list(LEGEND.values)] = (1, 2)
    Image.fromarray(numbers[values]).save(here / "painted" / "masks" / f"{name}.png")
    shutil.copy(here / "photos" / f"{name}.jpg", here / "painted" / "images")


def test_the_next_round_is_offered_in_words_and_done_when_asked_for(here, segmenter):
    run(here, segmenter)
    put_back(here, "0000")
    with pytest.raises(Error, match=r"1 photograph was painted since: 0000\.jpg\. Add --again .* another --out"):
        run(here, segmenter)
    edited = edit(here / "found" / "masks" / "0001.png")
    outcome = run(here, segmenter, again=True)
    assert (outcome.done, outcome.before, outcome.painted, outcome.edited) == (5, 0, 1, 1)
    assert rows(here)["0000.jpg"]["painted"] is True
    np.testing.assert_array_equal(np.asarray(Image.open(here / "found" / "masks" / "0001.png")), edited)
    assert set(np.unique(np.asarray(Image.open(here / "found" / "masks" / "0000.png")))) <= {0, 3, 7}
    outcome = run(here, segmenter)  # nothing has changed since
    assert (outcome.done, outcome.before) == (5, 5)


def test_a_round_that_was_cut_off_goes_on(here, segmenter, monkeypatch):
    run(here, segmenter)
    put_back(here, "0000")
    drawn, written = masks.drawn, []

    def interrupted(*given: object) -> tuple[bytes, str]:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(given)
        return drawn(*given)

    monkeypatch.setattr(masks, "drawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(here, segmenter, again=True)
    monkeypatch.undo()
    outcome = run(here, segmenter)
    assert (outcome.done, outcome.painted) == (5, 1)
    assert outcome.before == 2


def test_only_what_depends_on_an_option_is_done_again(here, segmenter, monkeypatch):
    run(here, segmenter)
    with pytest.raises(Error, match=r'formats \(\[\] then, \["coco", "labelme"\] now\)'):
        run(here, segmenter, formats=["coco", "labelme"])
    outcome = run(here, segmenter, formats=["coco", "labelme"], again=True)
    assert (outcome.done, outcome.before) == (5, 5)
    assert all(path.exists() for path in outcome.annotations.values())
    assert set(outcome.annotations) == {"coco", "labelme"}
    assert run(here, segmenter, formats=["coco", "labelme"], max_pixels=10**7).before == 5


@pytest.mark.parametrize("format", ["coco", "voc"])
def test_a_damaged_annotation_is_no_edit(here, segmenter, format):
    options = {"formats": [format, "labelme"]}
    run(here, segmenter, **options)
    folder = here / "found" / "annotations"
    path = next(
        one for one in (folder / "coco.json", folder / "voc" / "SegmentationClass" / "0000.png") if one.exists()
    )
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        outcome = run(here, segmenter, **options)
        assert path.read_bytes() == whole
        assert any("is damaged" in note and "aside/" in note for note in outcome.notes)


def test_annotations_that_somebody_edited_are_left_or_put_aside(here, segmenter):
    options = {"formats": ["labelme"]}
    run(here, segmenter, **options)
    path = here / "found" / "annotations" / "labelme" / "0000.json"
    mine = path.read_text() + "\n"
    path.write_text(mine)
    outcome = run(here, segmenter, **options)
    assert path.read_text() == mine  # there is nothing new to say
    assert any("left as it is" in note for note in outcome.notes)
    edit(here / "found" / "masks" / "0000.png")
    outcome = run(here, segmenter, **options)
    assert path.read_text() != mine
    assert (here / "found" / "aside" / "annotations" / "labelme" / "0000.json").read_text() == mine
    assert any("aside/annotations/labelme/0000.json" in note for note in outcome.notes)
    assert not (here / "found" / ".dgpnet" / "stage").exists()


def test_small_parts_are_neither_counted_nor_numbered_nor_annotated(here, segmenter):
    shutil.copy(here / "painted" / "images" / "0.png", here / "photos" / "p.png")
    mask = np.zeros((48, 64), np.uint8)
    mask[2:12, 2:12], mask[20:22, 20:22], mask[40:46, 3:9] = 1, 1, 2
    Image.fromarray(mask).save(here / "painted" / "masks" / "0.png")
    outcome = run(here, segmenter, instances=True, min_area=5, formats=["coco"])
    row = rows(here)["p.png"]
    assert row["counts"] == {"mug": 1, "spoon": 1}
    assert row["areas"] == {"mug": 104, "spoon": 36}
    assert row["shares"]["spoon"] == pytest.approx(36 / (48 * 64), abs=1e-5)
    numbers = np.asarray(Image.open(here / "found" / "instances" / "p.png"))
    assert np.unique(numbers).tolist() == [0, 1, 2]
    coco = json.loads(outcome.annotations["coco"].read_text())
    image = next(one["id"] for one in coco["images"] if one["file_name"] == "p.png")
    assert sorted(one["area"] for one in coco["annotations"] if one["image_id"] == image) == [36, 100]
    assert outcome.totals["mug"]["count"] == sum(one["counts"]["mug"] for one in rows(here).values())
    with (here / "found" / "summary.csv").open(newline="") as file:
        table = {line["photo"]: line for line in csv.DictReader(file)}
    assert table["p.png"]["count mug"] == "1"
    assert table["p.png"]["painted"] == "True"


def test_what_is_no_file_or_has_no_name_in_text_neither_hangs_nor_ends_the_job(here, segmenter):
    photos = here / "photos"
    odd = os.fsdecode(b"caf\xe9.jpg")
    shutil.copy(photos / "0000.jpg", photos / odd)
    for name in ("new\nline.jpg", "'\"<script>alert(1)<.jpg", "%20 #1?.jpg", "x" * 250 + ".jpg"):
        shutil.copy(photos / "0000.jpg", photos / name)
    shutil.copy(photos / "0000.jpg", photos / ("x" * 250 + ".png"))
    os.mkfifo(photos / "pipe.jpg")
    (photos / "loop.jpg").symlink_to("loop.jpg")
    (photos / "gone.jpg").symlink_to("nowhere")
    outcome = run(here, segmenter, overlay=True, formats=["coco", "labelme"])
    assert sorted(outcome.failures) == ["gone.jpg", "loop.jpg", "pipe.jpg", "x" * 250 + ".jpg", "x" * 250 + ".png"]
    assert "a pipe" in outcome.failures["pipe.jpg"]
    assert outcome.done == 9
    assert (here / "found" / "masks" / os.fsdecode(b"caf\xe9.png")).is_file()
    assert odd in rows(here)
    assert run(here, segmenter, overlay=True, formats=["coco", "labelme"]).before == 9


def test_a_photograph_that_vanishes_is_listed(here, segmenter, monkeypatch):
    real = stages.open_photo

    def gone(path: Path, **options: object) -> Image.Image:
        if path.name == "0003.jpg":
            path.unlink()
        return real(path, **options)

    monkeypatch.setattr(stages, "open_photo", gone)
    outcome = run(here, segmenter)
    assert outcome.done == 4
    assert "0003.jpg" in outcome.failures["0003.jpg"]


def test_photographs_with_names_alike_each_have_their_own_results_also_later(here, segmenter):
    photos = here / "photos"
    for seed, name in enumerate(["a.jpg", "a.png", "a.jpg.png"]):
        (photos / name).parent.mkdir(exist_ok=True)
        Image.fromarray(scene(50 + seed, (40 + seed, 50))[0]).save(photos / name)
        outcome = run(here, segmenter, formats=["coco"])
    assert outcome.done == 8
    table = rows(here)
    for seed, name in enumerate(["a.jpg", "a.png", "a.jpg.png"]):
        assert Image.open(here / "found" / table[name]["mask"]).size == (50, 40 + seed)
    assert table["a.jpg"]["mask"] == "masks/a.png"  # as it was before there were others
    coco = json.loads((here / "found" / "annotations" / "coco.json").read_text())
    heights = {one["file_name"]: one["height"] for one in coco["images"]}
    assert [heights[name] for name in ("a.jpg", "a.png", "a.jpg.png")] == [40, 41, 42]


def test_photographs_of_an_earlier_round_that_are_not_given_again_are_told(here, segmenter):
    run(here, segmenter)
    (here / "photos" / "0000.jpg").unlink()
    outcome = run(here, segmenter, threshold=0.4, again=True)
    assert outcome.done == 4
    assert any("first: 0000.jpg" in note for note in outcome.notes)
    assert "0000.jpg" not in rows(here)
    assert (here / "found" / "masks" / "0000.png").is_file()


def test_results_are_a_support_themselves(here, segmenter):
    run(here, segmenter, threshold=0.05)
    back = read_support(here / "found", photos=here / "photos")
    assert set(back.classes) <= {"mug", "spoon"}
    for example in back.examples:
        path = here / "found" / "masks" / example.photo.relative_to(here / "photos").with_suffix(".png")
        names = ["", *back.classes]
        found = masks.read(path, LEGEND)
        assert {names[v] for v in np.unique(example.mask)} == {["", *LEGEND.names][v] for v in np.unique(found)}


def test_an_option_that_is_none_is_named(here, segmenter):
    with pytest.raises(Error, match="There is no option overlays; there are overlay"):
        run(here, segmenter, overlays=True)
    assert not (here / "found").exists()


def test_a_format_that_cannot_be_written_costs_nothing_else(here, segmenter):
    for name in ("a.jpg", "a.png"):  # which YOLO tells apart by nothing
        Image.fromarray(scene(50)[0]).save(here / "photos" / name)
    outcome = run(here, segmenter, formats=["yolo", "coco"])
    assert outcome.stopped.startswith("yolo: ")
    assert str(here / "found" / "annotations" / "yolo") in outcome.stopped
    assert (outcome.done, list(outcome.annotations)) == (7, ["coco"])
    assert (here / "found" / "report" / "index.html").is_file()

"""What is recognised as a support set, and what is not."""

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgpnet.annotations import Example, Item, export, read_support
from dgpnet.annotations.reading import LARGEST_FILE
from dgpnet.annotations.support import BY_CONTENT, BY_PATH
from dgpnet.errors import Error
from tests.tiny import scene, write_support


def test_a_mask_is_kept_small_and_given_out_as_it_was() -> None:
    mask = np.zeros((1000, 1000), np.uint8)
    mask[100:400, 300:500] = 3
    example = Example.of(Path("a.jpg"), mask)
    assert len(example.packed) < 10_000
    np.testing.assert_array_equal(example.mask, mask)
    example.mask[:] = 0  # a copy: the example does not change
    assert zlib.decompress(example.packed) == mask.tobytes()


@pytest.mark.parametrize("name", ["missing", "missing.json", "text.txt", "other.json", "folder"])
def test_what_is_no_support_set_is_refused_with_a_list_of_what_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "folder").mkdir()
    with pytest.raises(Error, match="COCO") as caught:
        read_support(tmp_path / name)
    assert name in str(caught.value)


def test_masks_without_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "masks").mkdir()
    with pytest.raises(Error, match="no images/"):
        read_support(tmp_path)
    (tmp_path / "images").mkdir()
    with pytest.raises(Error, match="holds no masks"):
        read_support(tmp_path)


def test_several_annotation_files_in_a_folder_are_not_guessed_between(
    tmp_path: Path, photo: Callable[..., Path]
) -> None:
    mask = np.eye(6, dtype=np.uint8)
    photo("a.jpg", mask.shape)
    for format_ in ("coco", "labelstudio"):
        export(format_, tmp_path, ["line"], [Item("a.jpg", mask)])
    with pytest.raises(Error, match="2 annotation files; give the path of one"):
        read_support(tmp_path)
    for name in ("coco", "labelstudio"):
        assert read_support(tmp_path / f"{name}.json").format == name
    (tmp_path / "coco.json").unlink()
    assert read_support(tmp_path).format == "labelstudio"


@pytest.mark.parametrize("classes", [[], ["a", "a"], "mug", 3, [3], [["mug"]]])
def test_a_choice_of_classes_is_checked(tmp_path: Path, classes: object) -> None:
    with pytest.raises(Error, match="classes is a list"):
        read_support(tmp_path, classes=classes)


def test_too_many_classes_are_refused(tmp_path: Path) -> None:
    categories = [{"id": number, "name": str(number)} for number in range(300)]
    annotations = [{"image_id": 1, "category_id": number} for number in range(300)]
    data = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": annotations, "categories": categories}
    (tmp_path / "coco.json").write_text(json.dumps(data))
    with pytest.raises(Error, match="300 classes"):
        read_support(tmp_path)
    with pytest.raises(Error, match=r"there is no photograph 'a\.jpg'"):
        read_support(tmp_path, classes=["7"])


def test_every_format_is_named_to_those_who_give_none(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        read_support(tmp_path / "missing")
    for reader in (*BY_PATH.values(), *BY_CONTENT.values()):
        assert reader.what in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("path", [None, 3, b"a", ["a"]])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(Error, match="The path of a support set is a text"):
        read_support(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A fifo would be waited for without end."""
    os.mkfifo(tmp_path / "labels.json")
    with pytest.raises(Error, match="no file that can be read"):
        read_support(tmp_path / "labels.json")
    with pytest.raises(Error, match="is no support set"):
        read_support(tmp_path)


def test_a_file_is_not_read_when_it_is_far_too_large(tmp_path: Path) -> None:
    with (tmp_path / "labels.json").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(Error, match="at most 536,870,912 are read"):
        read_support(tmp_path / "labels.json")


def test_an_annotation_file_outside_the_folder_is_not_read(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret.json"
    secret.write_text('{"shapes": "hidden"}')
    (tmp_path / "a.json").symlink_to(secret)
    with pytest.raises(Error, match="leads outside") as caught:
        read_support(tmp_path)
    assert "hidden" not in str(caught.value)


def test_a_photograph_that_is_none_is_named(tmp_path: Path, photo: Callable[..., Path]) -> None:
    mask = np.eye(6, dtype=np.uint8)
    export("coco", tmp_path, ["line"], [Item("a.jpg", mask)])
    (tmp_path / "a.jpg").write_text("text")
    with pytest.raises(Error, match=r"a\.jpg"):
        read_support(tmp_path)
    photo("a.jpg", mask.shape)
    with pytest.raises(Error, match="more than the 20 allowed"):
        read_support(tmp_path, max_pixels=20)


def test_real_annotations_are_read(data_root: Path, tmp_path: Path) -> None:
    """A few photographs of COCO-mini, with COCO's own tools as the judge."""
    import tarfile

    from pycocotools import mask as pycoco

    with tarfile.open(data_root / "coco-mini.tar") as tar:
        data = json.load(tar.extractfile("coco/annotations/instances.json"))
        data["images"] = data["images"][:20]
        for image in data["images"]:
            (tmp_path / "images").mkdir(exist_ok=True)
            content = tar.extractfile(f"coco/images/{image['file_name']}").read()
            (tmp_path / "images" / image["file_name"]).write_bytes(content)
    kept = {image["id"] for image in data["images"]}
    data["annotations"] = [a for a in data["annotations"] if a["image_id"] in kept]
    used = {a["category_id"] for a in data["annotations"] if not a.get("iscrowd")}
    data["categories"] = [category for category in data["categories"] if category["id"] in used]
    data["annotations"] = [a for a in data["annotations"] if a["category_id"] in used]
    (tmp_path / "instances.json").write_text(json.dumps(data))
    support = read_support(tmp_path / "instances.json")
    names = {category["id"]: category["name"] for category in data["categories"]}
    for example, image in zip(support.examples, data["images"], strict=True):
        found = np.zeros(example.size, bool)
        for annotation in (a for a in data["annotations"] if a["image_id"] == image["id"]):
            segmentation = annotation["segmentation"]
            rle = pycoco.frPyObjects(segmentation, *example.size)
            drawn = pycoco.decode(pycoco.merge(rle) if isinstance(rle, list) else rle).astype(bool)
            value = 255 if annotation.get("iscrowd") else support.classes.index(names[annotation["category_id"]]) + 1
            if not annotation.get("iscrowd"):
                assert np.isin(example.mask[drawn], range(1, 255)).all()
            assert value in example.mask
            found |= drawn
        np.testing.assert_array_equal(example.mask > 0, found)


def test_a_partial_set_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    folder = write_support(tmp_path / "painted", 3, classes=2)
    (folder / "images" / "2.png").unlink()
    for mask in ("0.png", "1.png"):  # the second class is on the third photograph alone
        values = np.array(Image.open(folder / "masks" / mask))
        Image.fromarray(np.where(values == 2, 0, values).astype(np.uint8)).save(folder / "masks" / mask)
    (folder / "classes.json").write_text('{"mug": 1, "spoon": 2}')
    with pytest.raises(Error, match="no photograph"):
        read_support(folder)
    found = read_support(folder, partial=True)
    assert [example.photo.name for example in found.examples] == ["0.png", "1.png"]
    assert found.classes == ("mug",) and any("1 annotated photographs are not here" in note for note in found.notes)


def test_a_partial_file_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    photo, mask = scene(0)
    Image.fromarray(photo).save(tmp_path / "here.png")
    export("coco", tmp_path, ["mug"], [Item("here.png", mask), Item("elsewhere.png", mask)])
    with pytest.raises(Error, match="elsewhere"):
        read_support(tmp_path / "coco.json")
    found = read_support(tmp_path / "coco.json", partial=True)
    assert [example.photo.name for example in found.examples] == ["here.png"]
    assert "elsewhere.png" in found.notes[-1]


def test_names_are_said_not_to_be_used_where_a_file_has_them(tmp_path: Path) -> None:
    photo, mask = scene(0)
    Image.fromarray(photo).save(tmp_path / "here.png")
    export("coco", tmp_path, ["mug"], [Item("here.png", mask)])
    found = read_support(tmp_path / "coco.json", names=["cup"])
    said = f"the names that were given are not used, those of the file are (first: {tmp_path / 'coco.json'})."
    assert found.classes == ("mug",) and said in found.notes
    assert said not in read_support(tmp_path / "coco.json").notes

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error, Notice
from dgpnet.images import MEAN, STD
from dgpnet.segmenter import support
from dgpnet.segmenter.resizing import CPU
from dgpnet.segmenter.support import QUICK, as_input, fitted, pixels_of, prepare, quick, read_examples, shrunk
from tests.tiny import CONFIG, SIZE, scene, scenes


def test_square_fills_the_network_and_pad_keeps_the_shape():
    assert fitted((100, 200), CONFIG) == (SIZE, SIZE)
    assert fitted((100, 200), CONFIG.but(resize="pad")) == (SIZE // 2, SIZE)
    assert fitted((3, 2000), CONFIG.but(resize="pad")) == (1, SIZE)
    assert fitted((10, 20), CONFIG.but(resize="pad")) == (10, 20)


def test_input_is_normalised_and_zero_outside_the_photograph():
    photo = np.full((10, 40, 3), 255, np.uint8)
    batch = as_input([prepare(photo, CONFIG.but(resize="pad")).photo], torch.device("cpu"))
    assert batch.shape == (1, 3, 32, 64)
    np.testing.assert_allclose(batch[0, :, 0, 0], [(1 - m) / s for m, s in zip(MEAN, STD, strict=True)], rtol=1e-5)
    assert (batch[..., :10, :40] != 0).all() and (batch[..., 10:, :] == 0).all() and (batch[..., 40:] == 0).all()


def test_a_batch_can_be_filled_up_without_changing_what_is_in_it():
    photos = [prepare(photo, CONFIG).photo for photo in scenes(2)[0]]
    alone, filled = (as_input(photos, torch.device("cpu"), count=count) for count in (1, 5))
    assert (len(alone), len(filled)) == (2, 5)
    assert torch.equal(alone, filled[:2])


def test_a_mask_too_small_for_the_network_is_not_lost():
    mask = np.zeros((640, 640), bool)
    mask[101, 333] = True
    small = shrunk(mask, (64, 64))
    assert small.sum() == 1
    assert small[10, 33]


def test_a_mask_that_survives_is_resized_to_the_nearest():
    mask = np.zeros((8, 8), bool)
    mask[:4] = True
    np.testing.assert_array_equal(shrunk(mask, (4, 4)), [[True] * 4] * 2 + [[False] * 4] * 2)


def test_examples_say_which_class_each_mask_shows_and_how_large_the_photograph_was():
    photos, masks = scenes(2, classes=2)
    masks[1][masks[1] == 2] = 0
    (shots,), legend = read_examples(photos, masks, None, CONFIG)
    assert legend.names == ("class 1", "class 2")
    assert [shot.origin.shown for shot in shots] == [(True, True), (True, False)]
    assert shots[0].origin.side == pytest.approx((48 * 64) ** 0.5)
    assert [shot.masks.shape for shot in shots] == [(2, SIZE, SIZE)] * 2


def test_ignore_counts_as_background():
    photo, mask = scene(0)
    mask[:5] = 255
    (shots,), legend = read_examples([photo], [mask], None, CONFIG)
    assert legend.names == ("object",)
    assert shots[0].masks.shape[0] == 1 and not shots[0].masks[0, :4].any()


def test_every_kind_of_photograph_and_mask_is_the_same_example(tmp_path):
    photo, mask = scene(0)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(mask).save(tmp_path / "mask.png")
    kinds = [
        (photo, mask),
        (photo, mask == 1),
        (photo, mask.astype(np.int64)),
        (Image.fromarray(photo), Image.fromarray(mask)),
        (Image.fromarray(photo), Image.fromarray(mask == 1)),
        (torch.from_numpy(photo).permute(2, 0, 1), torch.from_numpy(mask)),
        (torch.from_numpy(photo).permute(2, 0, 1) / 255, torch.from_numpy(mask == 1)),
        (tmp_path / "photo.png", str(tmp_path / "mask.png")),
    ]
    ((first,),), _ = read_examples(*zip(kinds[0], strict=True), None, CONFIG)
    for kind in kinds[1:]:
        ((other,),), _ = read_examples([kind[0]], [kind[1]], None, CONFIG)
        np.testing.assert_array_equal(other.photo, first.photo)
        np.testing.assert_array_equal(other.masks, first.masks)
        assert other.origin.digest == first.origin.digest


@pytest.mark.parametrize("value", [1, 255])
def test_every_pixel_of_a_mask_makes_another_example_though_the_network_does_not_see_it(value):
    photo, mask = scene(0, (500, 700))
    changed = mask.copy()
    changed[0, 0] = value
    shots, _ = read_examples([photo, photo, photo], [mask, changed, mask.copy()], Legend.of(["mug"]), CONFIG)
    first, other, same = shots[0]
    np.testing.assert_array_equal(other.masks, first.masks)
    assert other.origin.digest != first.origin.digest == same.origin.digest


def test_an_example_is_the_same_in_whatever_way_its_mask_is_saved():
    photo, mask = scene(0, classes=2)
    mask[:4] = 255
    digests = []
    for one in (mask, mask.astype(np.int32), torch.from_numpy(mask), np.asfortranarray(mask)):
        ((shot,),), _ = read_examples([photo], [one], None, CONFIG)
        digests.append(shot.origin.digest)
    assert len(set(digests)) == 1


def test_photographs_are_read_one_after_another_from_generators():
    photos, masks = scenes(3)
    (shots,), _ = read_examples(iter(photos), (mask for mask in masks), None, CONFIG)
    assert len(shots) == len({shot.origin.digest for shot in shots}) == 3


PHOTO, MASK = scene(0)


@pytest.mark.parametrize(
    ("photos", "masks", "classes", "message"),
    [
        ([], [], None, "at least one photograph"),
        ([PHOTO], [], None, "as many masks"),
        ([PHOTO], [MASK, MASK], None, "as many masks"),
        ("photo.jpg", [MASK], None, "in a list"),
        ([PHOTO], Image.fromarray(MASK), None, "in a list"),
        ([PHOTO], [MASK * 0], None, "No mask shows anything"),
        ([PHOTO], [(MASK > 0) * np.uint8(255)], ["mug", "cup"], "0 and white, and there are 2 classes"),
        ([PHOTO], [MASK.astype(np.int64) * 10**15], None, "the value 10+, and at most 254"),
        ([PHOTO], [MASK * 7], ["mug"], "values 7, which are no class"),
        ([PHOTO], [MASK[:-1]], None, r"64 × 47.*64 × 48"),
        ([PHOTO], [MASK.astype(np.float32)], None, "boolean or integer"),
        ([PHOTO], [-MASK.astype(int)], None, "no mask"),
        ([PHOTO], [PHOTO], None, r"has \d+ colours"),
        ([PHOTO], [MASK], "mug", "put it in a list"),
        ([PHOTO], [MASK], ["mug", "mug"], "each name once"),
        ([PHOTO], [MASK], [], "at least one and each name once; given none"),
        ([PHOTO], [MASK], [str(i) for i in range(255)], "at most 254"),
        ([PHOTO], [np.arange(MASK.size).reshape(MASK.shape)], None, "different values"),
        (["missing.jpg"], [MASK], None, r"missing\.jpg"),
    ],
)
def test_wrong_use_is_explained(photos, masks, classes, message):
    with pytest.raises(Error, match=message):
        read_examples(photos, masks, classes, CONFIG)


def test_a_file_with_a_mistake_is_named(tmp_path):
    Image.fromarray(MASK * 9).save(tmp_path / "odd.png")
    with pytest.raises(Error, match=r"odd\.png has the values 9"):
        read_examples([PHOTO], [tmp_path / "odd.png"], ["mug"], CONFIG)


def test_pixels_are_known_before_decoding(tmp_path):
    Image.fromarray(PHOTO).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"")
    sources = [tmp_path / "a.png", PHOTO, Image.fromarray(PHOTO), torch.zeros(3, 48, 64)]
    assert [pixels_of(source) for source in sources] == [48 * 64] * 4
    assert pixels_of(tmp_path / "b.png") == pixels_of(None) == 0


WHITE = (MASK > 0) * np.uint8(255)
RED = np.stack([WHITE, MASK * 0, MASK * 0], axis=2)


@pytest.mark.parametrize(
    "one", [WHITE, WHITE * np.uint16(257), RED, Image.fromarray(RED)], ids=["grey", "deep", "rgb", "pil"]
)
def test_one_object_in_white_or_in_a_colour_is_the_class(one):
    with pytest.warns(Notice, match="taken for the object"):
        (shots,), legend = read_examples([PHOTO, PHOTO], [one, MASK], None, CONFIG)
    assert legend.names == ("object",)
    np.testing.assert_array_equal(shots[0].masks, shots[1].masks)
    assert shots[0].origin.digest == shots[1].origin.digest


def test_beside_a_class_number_255_stays_ignore():
    mask = MASK.copy()
    mask[:2] = 255
    (shots,), _ = read_examples([PHOTO], [mask], None, CONFIG)
    np.testing.assert_array_equal(shots[0].masks, read_examples([PHOTO], [mask == 1], None, CONFIG)[0][0][0].masks)


def test_with_a_legend_white_is_ignore():
    (shots,), _ = read_examples([PHOTO, PHOTO], [MASK, WHITE], Legend.of(["mug"]), CONFIG)
    assert shots[0].masks.any() and not shots[1].masks.any()


def test_a_failure_leaves_no_reader_behind(tmp_path):
    """In a process of its own, since what a forgotten stream writes comes when it is collected."""
    program = """
import gc
from PIL import Image
from dgpnet.errors import Error
from dgpnet.segmenter.support import read_examples
from tests.tiny import CONFIG, scenes
photos, masks = scenes(40)
photos = [Image.fromarray(photo) for photo in photos]  # for which there are threads
for _ in range(5):
    try:
        read_examples(["missing.jpg", *photos], [masks[0], *masks], None, CONFIG)
    except Error:
        pass
    gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_caller_s_generator_raises_is_an_error_that_says_so():
    def photos():
        yield PHOTO
        raise ValueError("the camera is gone")

    with pytest.raises(Error, match="ValueError: the camera is gone"):
        read_examples(photos(), [MASK, MASK], None, CONFIG)


def test_only_small_arrays_for_a_gpu_are_read_without_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    photo = np.zeros((48, 64, 3), np.uint8)
    assert not quick(photo, CPU)
    monkeypatch.setattr(support, "pays", lambda device: True)
    assert quick(photo, CPU)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    on_disk = np.memmap(tmp_path / "photo.raw", np.uint8, "w+", shape=photo.shape)
    others = [tmp_path / "photo.png", Image.fromarray(photo), torch.zeros(3, 48, 64, dtype=torch.uint8), on_disk]
    others += [photo / 255, photo[..., 0], np.zeros((48, 64, 4), np.uint8), None]
    assert not any(quick(one, CPU) for one in others)
    assert not quick(np.zeros((QUICK // 64 + 1, 64, 3), np.uint8), CPU)


def test_it_makes_no_difference_who_reads(monkeypatch: pytest.MonkeyPatch):
    photos, masks = scenes(4)
    by_threads, _ = read_examples(photos, masks, None, CONFIG)
    monkeypatch.setattr(support, "pays", lambda device: True)
    here, _ = read_examples(photos, masks, None, CONFIG)
    assert [shot.origin for shot in here[0]] == [shot.origin for shot in by_threads[0]]

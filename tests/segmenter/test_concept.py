import copy
import dataclasses
import json
import pickle
import threading

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open

import dgpnet
from dgpnet import weights
from dgpnet.annotations.legend import Legend
from dgpnet.errors import Error
from dgpnet.segmenter import Calibration, Concept, Segmentation, Segmenter, engine, load
from dgpnet.segmenter.calibration import Curve
from dgpnet.segmenter.concept import anew
from dgpnet.segmenter.support import as_input, prepare
from dgpnet.weights import sealed
from tests.tiny import CONFIG, SIZE, scene, scenes, tiny_checkpoint, tiny_network, tiny_segmenter

CLOSE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return tiny_segmenter(CONFIG.but(similarity=True))


def same(a: Segmentation, b: Segmentation) -> None:
    for name in ("probability", "uncertainty", "novelty"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), **CLOSE)
    assert (a.mask == b.mask).mean() > 0.999
    assert a.score == pytest.approx(b.score, abs=1e-3)
    assert a.likeness == pytest.approx(b.likeness, abs=1e-3)


QUERY = scene(50, (70, 90))[0]


@pytest.mark.parametrize("learner", ["gp", "prototype", "prior", "none"])
def test_a_segmentation_has_the_photographs_own_size(learner):
    photos, masks = scenes(2)
    found = tiny_segmenter(CONFIG.but(learner=learner)).learn(photos, masks, classes=["mug"]).segment(QUERY)
    assert found.mask.shape == found.uncertainty.shape == found.novelty.shape == QUERY.shape[:2]
    assert found.probability.shape == (2, *QUERY.shape[:2])
    assert 0 <= found.score <= 1
    assert (found.novelty.max() > 0) == (learner == "gp")
    assert found.novelty.max() <= 1


def test_what_was_shown_is_less_novel_than_what_was_not(segmenter):
    photos, masks = scenes(2)
    learned = segmenter.learn(photos, masks)
    strange = np.full((64, 64, 3), (255, 0, 255), np.uint8)
    assert learned.segment(photos[0]).novelty.mean() < learned.segment(strange).novelty.mean()


def test_likeness_is_of_what_was_painted_and_without_plain_similarity_there_is_none(segmenter):
    photo = scene(0, (SIZE, SIZE))[0]
    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[:, : SIZE // 2] = 1
    likeness = segmenter.learn([photo], [mask]).maps([prepare(photo, CONFIG)])[0].likeness[0]
    assert likeness[mask == 1].mean() > likeness[mask == 0].mean()
    assert not tiny_segmenter().learn([photo], [mask]).maps([prepare(photo, CONFIG)])[0].likeness.any()


def test_extending_is_learning_all_at_once(segmenter):
    photos, masks = scenes(4)
    parts = segmenter.learn(photos[:2], masks[:2]).extend(photos[2:3], masks[2:3]).extend(photos[3:], masks[3:])
    whole = segmenter.learn(photos, masks)
    same(parts.segment(QUERY), whole.segment(QUERY))
    assert parts.examples == whole.examples == 4
    assert parts.sides == whole.sides
    assert parts.origins == whole.origins and parts.fingerprint == whole.fingerprint


@pytest.mark.parametrize("example", [0, 1, 2])
def test_taking_an_example_back_is_never_having_shown_it(segmenter, example):
    photos, masks = scenes(3)
    fewer = segmenter.learn(photos, masks).without(example)
    del photos[example], masks[example]
    same(fewer.segment(QUERY), segmenter.learn(photos, masks).segment(QUERY))


def test_what_grew_is_learned_anew_from_its_own_examples_to_the_last_bit(segmenter):
    photos, masks = scenes(3)
    grown = segmenter.learn(photos[1:], masks[1:]).extend(photos[:1], masks[:1])
    again, whole = anew(grown, [2, 0, 1], [f"example {i}" for i in (2, 3, 1)]), segmenter.learn(photos, masks)
    assert again.fingerprint == whole.fingerprint != grown.fingerprint
    for name in ("mask", "probability", "uncertainty", "novelty"):
        assert (getattr(again.segment(QUERY), name) == getattr(whole.segment(QUERY), name)).all()
    assert again.estimate == whole.estimate


def test_a_concept_is_a_value_that_nothing_changes(segmenter):
    photos, masks = scenes(3)
    learned = segmenter.learn(photos[:2], masks[:2])
    before = learned.segment(QUERY)
    learned.extend(photos[2:], masks[2:])
    learned.without(0)
    segmenter.learn(photos[2:], masks[2:])
    np.testing.assert_array_equal(learned.segment(QUERY).probability, before.probability)
    with pytest.raises(dataclasses.FrozenInstanceError):
        learned.classes = ("other",)


def test_batched_is_one_by_one_and_in_order(segmenter):
    photos, masks = scenes(2)
    learned = segmenter.learn(photos, masks)
    queries = [scene(i, (30 + i, 50))[0] for i in range(11)]
    found = list(learned.segment_all(iter(queries)))
    assert [one.mask.shape for one in found] == [(30 + i, 50) for i in range(11)]
    for one, query in zip(found, queries, strict=True):
        same(one, learned.segment(query))


def test_several_classes_at_once_are_each_class_alone(segmenter):
    photos, masks = scenes(3, classes=2)
    both = segmenter.learn(photos, masks, classes=["mug", "spoon"]).segment(QUERY)
    odds = np.log(both.probability[1:]) - np.log(both.probability[0])
    for c in (1, 2):
        alone = segmenter.learn(photos, [mask == c for mask in masks]).segment(QUERY)
        np.testing.assert_allclose(odds[c - 1], np.log(alone.probability[1] / alone.probability[0]), atol=1e-3)
        np.testing.assert_allclose(both.novelty, alone.novelty, **CLOSE)


def test_photographs_without_a_class_are_negative_examples(segmenter):
    photos, masks = scenes(2)
    learned = segmenter.learn([*photos, QUERY], [*masks, np.zeros(QUERY.shape[:2], np.uint8)])
    assert learned.examples == 3
    assert learned.classes == ("object",)


def test_padded_photographs_keep_their_shape():
    photos, masks = scenes(2)
    learned = tiny_segmenter(CONFIG.but(resize="pad")).learn(photos, masks)
    found = learned.segment(QUERY)
    assert found.mask.shape == QUERY.shape[:2]
    same(found, next(learned.segment_all([QUERY])))


def test_maps_come_in_order_whatever_their_sizes_and_however_the_batch_is_filled(monkeypatch):
    photos, masks = scenes(2)
    learned = tiny_segmenter(CONFIG.but(resize="pad", similarity=True)).learn(photos, masks)
    sizes = [(48, 64), (20, 64), (48, 60), (64, 30), (22, 50)]
    prepared = [prepare(scene(i, size)[0], learned.segmenter.network.config) for i, size in enumerate(sizes)]
    alone = [learned.maps([one])[0] for one in prepared]
    monkeypatch.setattr(
        engine.Engine, "as_input", lambda self, photos, *, count: as_input(photos, self.device, count=4)
    )
    for one, together, size in zip(alone, learned.maps(prepared, batch=4), sizes, strict=True):
        assert together.log_odds.shape[1:] == together.novelty.shape == size
        torch.testing.assert_close(one.log_odds, together.log_odds, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(one.novelty, together.novelty, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(one.likeness, together.likeness, atol=1e-3, rtol=1e-3)


def test_padded_photographs_of_different_sizes_do_not_see_each_other():
    pad = tiny_segmenter(CONFIG.but(resize="pad"))
    (wide, wide_mask), (tall, tall_mask) = scene(1, (30, 60)), scene(2, (60, 30))
    (tiny, tiny_mask), photos = scene(3, (20, 24)), [scene(4, (64, 40))[0], scene(5, (20, 60))[0], QUERY]
    learned = pad.learn([wide, tall, tiny], [wide_mask, tall_mask, tiny_mask])
    grown = pad.learn([wide], [wide_mask]).extend([tall, tiny], [tall_mask, tiny_mask])
    assert learned.memory.learned["32"].points == (2, 2, 1)
    for photo, found in zip(photos, learned.segment_all(photos), strict=True):
        assert found.mask.shape == photo.shape[:2]
        same(found, learned.segment(photo))
        same(found, grown.segment(photo))
    same(learned.without(1).segment(QUERY), pad.learn([wide, tiny], [wide_mask, tiny_mask]).segment(QUERY))
    assert sorted(pad.suggest(photos, budget=3)) == [0, 1, 2]


def test_calibration_comes_with_the_checkpoint_and_reaches_the_numbers(tmp_path):
    fitted = Calibration(
        temperature=2.0,
        background=Curve((0.0, 1.0), (0.2, 0.2)),
        foreground=Curve((0.0, 1.0), (0.4, 0.4)),
        score=Curve((0.0, 1.0), (0.0, 0.5)),
    )
    weights.save(tmp_path / "net.safetensors", tiny_network(), calibration=fitted.to_json())
    segmenter = load(tmp_path / "net.safetensors", device="cpu")
    assert segmenter.calibration == fitted
    photos, masks = scenes(2)
    found = segmenter.learn(photos, masks).segment(QUERY)
    np.testing.assert_allclose(found.uncertainty, np.where(found.mask == 0, 0.2, 0.4), atol=1e-6)
    assert found.score <= 0.5
    plain = tiny_segmenter().learn(photos, masks).segment(QUERY)
    np.testing.assert_array_equal(found.mask, plain.mask)


# -- EXIF, modes, sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_match_the_photograph_as_viewers_show_it(segmenter, tmp_path, orientation):
    photo, mask = scene(3, (40, 72))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = tmp_path / "turned.png"
    Image.fromarray(photo).save(stored, exif=exif)
    upright = dgpnet.segmenter.support.read_photo(stored)
    learned = segmenter.learn([stored], [mask])  # the mask is in the file's own orientation: recognised by its size
    found = learned.segment(stored)
    assert found.mask.shape == upright.shape[:2]
    np.testing.assert_array_equal(found.mask, learned.segment(upright).mask)


@pytest.mark.parametrize("mode", ["L", "1", "RGBA", "CMYK", "P", "I;16", "LA"])
def test_every_kind_of_photograph_simply_works(segmenter, tmp_path, mode):
    picture = Image.fromarray(QUERY).convert("L" if mode == "I;16" else mode)
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture).astype(np.uint16) * 257)
    path = tmp_path / ("photo.tif" if mode == "CMYK" else "photo.png")
    picture.save(path)
    photos, masks = scenes(1)
    assert segmenter.learn(photos, masks).segment(path).mask.shape == QUERY.shape[:2]


def test_the_first_frame_of_an_animation_counts(segmenter, tmp_path):
    frames = [Image.fromarray(scene(i)[0]) for i in range(2)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    photos, masks = scenes(1)
    assert segmenter.learn(photos, masks).segment(tmp_path / "a.gif").mask.shape == (48, 64)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (7, 5)])
def test_tiny_photographs_work(segmenter, size):
    photos, masks = scenes(1)
    assert segmenter.learn(photos, masks).segment(np.zeros((*size, 3), np.uint8)).mask.shape == size


def test_tiles_cover_a_large_photograph_and_a_small_one_is_seen_whole(segmenter):
    photos, masks = scenes(2)
    learned = segmenter.learn(photos, masks)
    large = scene(9, (200, 330))[0]
    tiled = learned.segment(large, tile=True)
    assert tiled.mask.shape == large.shape[:2]
    assert np.isfinite(tiled.probability).all()
    assert abs(tiled.probability - learned.segment(large).probability).max() > 1e-4  # something else was looked at
    small = scene(9, (SIZE, SIZE))[0]
    same(learned.segment(small, tile=True), learned.segment(small))
    same(next(learned.segment_all([large], tile=True)), tiled)


def test_tiles_leave_no_seam(segmenter):
    photos, masks = scenes(2)
    flat = np.full((150, 150, 3), 90, np.uint8)
    learned = segmenter.learn(photos, masks)
    tile = learned.maps_of_tiles(flat[:SIZE, :SIZE]).log_odds
    assert learned.maps_of_tiles(flat).log_odds.min() >= tile.min() - 1e-3
    assert learned.maps_of_tiles(flat).log_odds.max() <= tile.max() + 1e-3


# -- files -------------------------------------------------------------------------------------------------------------


def test_saving_and_loading_changes_nothing(segmenter, tmp_path):
    photos, masks = scenes(3, classes=2)
    learned = segmenter.learn(photos, masks, classes=["mug", "ünï 🍵"])
    learned.save(tmp_path / "mug.concept")
    back = Concept.load(tmp_path / "mug.concept", tiny_segmenter(segmenter.network.config))
    assert (back.classes, back.examples, back.sides) == (learned.classes, 3, learned.sides)
    np.testing.assert_array_equal(back.segment(QUERY).probability, learned.segment(QUERY).probability)
    same(back.without(1).segment(QUERY), learned.without(1).segment(QUERY))
    same(back.extend(photos, masks).segment(QUERY), learned.extend(photos, masks).segment(QUERY))
    assert back.suggest(photos, budget=2) == learned.suggest(photos, budget=2)


def test_a_file_holds_no_photograph(segmenter, tmp_path):
    photos, masks = scenes(2)
    segmenter.learn(photos, masks).save(tmp_path / "a.concept")
    with safe_open(tmp_path / "a.concept", "pt") as file:
        assert set(json.loads(json.loads(file.metadata()[sealed.KEY])["about"])) == {
            "format",
            "fingerprint",
            "legend",
            "origins",
            "estimate",
        }
        shapes = [file.get_tensor(name).shape for name in file.keys()]  # noqa: SIM118
    assert not [shape for shape in shapes if list(shape[-2:]) == [SIZE, SIZE]]


def test_another_models_concept_is_refused(segmenter, tmp_path):
    segmenter.learn(*scenes(1)).save(tmp_path / "a.concept")
    with pytest.raises(Error, match="another model"):
        Concept.load(tmp_path / "a.concept", tiny_segmenter(seed=1))


def test_what_is_no_concept_is_refused_by_name(segmenter, tmp_path):
    (tmp_path / "text.concept").write_text("hello")
    tiny_checkpoint(tmp_path / "net.concept")
    segmenter.learn(*scenes(1)).save(tmp_path / "cut.concept")
    whole = (tmp_path / "cut.concept").read_bytes()
    (tmp_path / "cut.concept").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "net", "cut", "missing"):
        with pytest.raises(Error, match=rf"{name}\.concept"):
            Concept.load(tmp_path / f"{name}.concept", segmenter)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("legend", {}),
        ("legend", Legend.of(["a", "b"]).to_json()),
        ("origins", []),
        ("origins", [{"name": "a"}]),
        ("origins", 7),
    ],
)
def test_a_file_whose_parts_disagree_is_refused(segmenter, tmp_path, field, value):
    path = tmp_path / "a.concept"
    segmenter.learn(*scenes(1)).save(path)
    tensors, about = sealed.read(path, "concept")
    sealed.write(path, tensors, {**about, field: value})
    with pytest.raises(Error, match="damaged"):
        Concept.load(path, segmenter)
    sealed.write(path, {}, about)
    with pytest.raises(Error, match="damaged"):
        Concept.load(path, segmenter)


def test_the_same_concept_gives_the_same_bytes_and_the_same_support_the_same_fingerprint(segmenter, tmp_path):
    photos, masks = scenes(2, classes=2)
    learned = segmenter.learn(photos, masks, classes=["mug", "spoon"])
    for name in "abcdefgh":
        learned.save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in "abcdefgh"}) == 1
    again = segmenter.learn(photos, masks, classes=["mug", "spoon"])
    back = Concept.load(tmp_path / "a", segmenter)
    assert learned.fingerprint == again.fingerprint == back.fingerprint
    others = (
        segmenter.learn(photos, masks, classes=["mug", "fork"]),
        segmenter.learn(photos, masks, classes=Legend.of(["mug", "spoon"], [3, 5])),
        segmenter.learn(photos[::-1], masks[::-1], classes=["mug", "spoon"]),
        learned.without(0),
    )
    assert len({learned.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_a_file_whose_examples_were_told_in_another_way_loads_and_works(segmenter, tmp_path):
    photos, masks = scenes(2)
    learned = segmenter.learn(photos, masks)
    origins = tuple(dataclasses.replace(origin, digest=f"{n:064x}") for n, origin in enumerate(learned.origins))
    dataclasses.replace(learned, origins=origins).save(tmp_path / "old.concept")
    old = Concept.load(tmp_path / "old.concept", segmenter)
    assert old.fingerprint != learned.fingerprint
    np.testing.assert_array_equal(old.segment(photos[0]).mask, learned.segment(photos[0]).mask)
    grown = old.extend(photos[:1], masks[:1])
    assert [origin.digest for origin in grown.origins[:2]] == [origin.digest for origin in origins]
    assert grown.without(0).examples == 2


def test_it_remembers_what_its_examples_are_called_and_what_stands_for_its_classes(segmenter, tmp_path):
    (photo, mask), legend = scene(0), Legend.of(["mug"], [7])
    Image.fromarray(photo).save(tmp_path / "desk.png")
    learned = segmenter.learn([photo], [mask], classes=legend).extend([tmp_path / "desk.png", photo], [mask, mask])
    assert [origin.name for origin in learned.origins] == ["example 1", "desk.png", "example 3"]
    learned.save(tmp_path / "a.concept")
    back = Concept.load(tmp_path / "a.concept", segmenter)
    assert back.legend == legend and back.origins == learned.origins


def test_a_failed_save_leaves_the_old_file(segmenter, tmp_path, monkeypatch):
    learned = segmenter.learn(*scenes(1))
    learned.save(tmp_path / "a.concept")
    before = (tmp_path / "a.concept").read_bytes()

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sealed, "to_bytes", full)
    with pytest.raises(Error, match="full"):
        learned.save(tmp_path / "a.concept")
    assert (tmp_path / "a.concept").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.concept"]


# -- many examples -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch) -> None:
    monkeypatch.setattr(engine, "EXACT_POINTS", 10)  # a tiny photograph has 4 points
    monkeypatch.setattr(engine, "INDUCING_POINTS", 6)


@pytest.mark.usefixtures("small_limits")
def test_above_a_number_of_points_the_inducing_budget_takes_over_and_says_so(segmenter):
    photos, masks = scenes(5)
    assert not segmenter.learn(photos[:2], masks[:2]).budgeted
    learned = segmenter.learn(photos, masks)
    assert learned.budgeted
    assert learned.inducing_points == 6
    assert "inducing" in repr(learned)
    assert np.isfinite(learned.segment(QUERY).probability).all()


@pytest.mark.usefixtures("small_limits")
def test_growing_over_the_limit_is_learning_over_the_limit(segmenter, tmp_path):
    photos, masks = scenes(5)
    grown = segmenter.learn(photos[:2], masks[:2]).extend(photos[2:4], masks[2:4]).extend(photos[4:], masks[4:])
    learned = segmenter.learn(photos, masks)
    at_once = segmenter.learn(photos[:1], masks[:1]).extend(photos[1:], masks[1:])  # fewer points than the budget
    for one in (grown, at_once):
        assert one.budgeted
        same(one.segment(QUERY), learned.segment(QUERY))
    learned.save(tmp_path / "many.concept")
    back = Concept.load(tmp_path / "many.concept", segmenter)
    assert back.budgeted
    same(back.segment(QUERY), learned.segment(QUERY))
    same(learned.without(4).segment(QUERY), segmenter.learn(photos[:4], masks[:4]).segment(QUERY))


def test_more_examples_than_go_through_the_network_at_once(segmenter, monkeypatch):
    photos, masks = scenes(7)
    whole = segmenter.learn(photos, masks)
    monkeypatch.setitem(engine.BATCH, "cpu", 2)
    same(segmenter.learn(photos, masks).segment(QUERY), whole.segment(QUERY))


# -- wrong use ---------------------------------------------------------------------------------------------------------


def test_a_class_that_no_mask_shows_is_named(segmenter):
    photos, masks = scenes(2)
    with pytest.raises(Error, match="No mask shows spoon"):
        segmenter.learn(photos, masks, classes=["mug", "spoon"])
    learned = segmenter.learn(photos, [masks[0], masks[1] * 2])
    with pytest.raises(Error, match="No mask shows class 2"):
        learned.without(1)


def test_what_cannot_be_taken_back(segmenter):
    learned = segmenter.learn(*scenes(1))
    with pytest.raises(Error, match="at least one example"):
        learned.without(0)
    with pytest.raises(Error, match="from 0 to 0; given 3"):
        learned.without(3)
    with pytest.raises(Error, match="from 0 to 0; given -1"):
        learned.without(-1)


def test_an_extension_has_the_concepts_classes(segmenter):
    learned = segmenter.learn(*scenes(1))
    photo, mask = scene(1)
    with pytest.raises(Error, match="values 2"):
        learned.extend([photo], [mask * 2])


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1, 7])
def test_a_threshold_is_a_probability(segmenter, threshold):
    learned = segmenter.learn(*scenes(1))
    with pytest.raises(Error, match="threshold"):
        learned.segment(QUERY, threshold=threshold)
    with pytest.raises(Error, match="threshold"):
        learned.segment_all([QUERY], threshold=threshold)


def test_a_photograph_with_too_many_pixels_is_refused(segmenter):
    with pytest.raises(Error, match="pixels"):
        segmenter.learn(*scenes(1)).segment(QUERY, max_pixels=100)


def test_a_broken_photograph_is_named_where_it_comes_and_those_before_it_are_fine(segmenter, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"")
    found = segmenter.learn(*scenes(1)).segment_all([QUERY] * 8 + [tmp_path / "bad.jpg"])
    assert next(found).mask.shape == QUERY.shape[:2]
    with pytest.raises(Error, match=r"bad\.jpg"):
        list(found)


def test_or_its_error_stands_in_its_place_and_the_rest_goes_on(segmenter, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"")
    learned = segmenter.learn(*scenes(1))
    given = [QUERY, tmp_path / "bad.jpg", *([QUERY] * 6), tmp_path / "missing.jpg"]
    found = list(learned.segment_all(given, on_error="return"))
    assert [isinstance(one, Error) for one in found] == [False, True, *([False] * 6), True]
    assert "bad.jpg" in str(found[1])
    np.testing.assert_array_equal(found[2].mask, learned.segment(QUERY).mask)
    with pytest.raises(Error, match="on_error"):
        learned.segment_all(given, on_error="ignore")


@pytest.mark.parametrize("on_error", ["raise", "return"])
@pytest.mark.parametrize("count", [0, 1, 11])
def test_what_photographs_of_a_generator_showed_comes_out_before_what_it_raises(
    segmenter, tmp_path, count, on_error, monkeypatch
):
    monkeypatch.setattr(engine, "batch_on", lambda kind, classes: 4)
    Image.fromarray(QUERY).save(tmp_path / "query.png")

    def photos():
        yield from [tmp_path / "query.png"] * count
        raise OSError("the disk is gone")

    found, threads = [], threading.active_count()
    with pytest.raises(Error, match="photos ended with OSError: the disk is gone"):
        found.extend(segmenter.learn(*scenes(1)).segment_all(photos(), on_error=on_error))
    assert [type(one) for one in found] == [Segmentation] * count
    assert threading.active_count() == threads
    if count:
        stream = segmenter.learn(*scenes(1)).segment_all(photos(), on_error=on_error)
        next(stream)
        stream.close()
        assert threading.active_count() == threads


def test_a_copy_has_all_and_a_pickle_the_estimate(segmenter, tmp_path):
    learned = segmenter.learn(*scenes(3))
    learned.save(tmp_path / "it.concept")
    for make in (lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy):
        other = make(segmenter.learn(*scenes(3)))  # nobody asked it for its estimate
        other.save(tmp_path / "other.concept")
        assert (tmp_path / "other.concept").read_bytes() == (tmp_path / "it.concept").read_bytes()
        assert other.estimate == learned.estimate is not None
    for make in (copy.copy, copy.deepcopy):
        assert make(learned).without(0).estimate == learned.without(0).estimate is not None
    assert len(pickle.dumps(learned)) < len(pickle.dumps(segmenter)) + (tmp_path / "it.concept").stat().st_size + 20_000


def test_likeness_can_be_demanded_where_the_model_tells_it(segmenter):
    learned = segmenter.learn(*scenes(1))
    odds = 0.001  # an untrained network gives hardly any pixel to a class by itself
    likeness = learned.segment(QUERY, threshold=odds).likeness
    assert learned.segment(QUERY, threshold=odds, min_likeness=likeness / 2).mask.any()
    assert not learned.segment(QUERY, threshold=odds, min_likeness=min(1.0, likeness + 0.01)).mask.any()
    (found,) = learned.segment_all([QUERY], threshold=odds, min_likeness=min(1.0, likeness + 0.01))
    assert not found.mask.any()
    with pytest.raises(Error, match="from 0 to 1; given 2"):
        learned.segment(QUERY, min_likeness=2)
    with pytest.raises(Error, match="plain similarity"):
        tiny_segmenter().learn(*scenes(1)).segment(QUERY, min_likeness=0.5)


def test_load_takes_a_path_and_names_what_is_missing(tmp_path):
    path = tiny_checkpoint(tmp_path / "net.safetensors")
    assert load(path, device="cpu").fingerprint == load(str(path)).fingerprint == tiny_segmenter().fingerprint
    with pytest.raises(Error, match=r"missing\.safetensors"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(Error, match="no device"):
        load(path, device="quantum")
    with pytest.raises(Error, match="tiny is neither a model's name nor a file; give default, small, or the path"):
        load("tiny")


def test_nothing_needs_a_gradient(segmenter):
    learned = segmenter.learn(*scenes(1))
    assert not any(tensor.requires_grad for tensor in learned.memory.tensors().values())
    assert json.dumps(learned.segmenter.calibration.to_json())
    assert torch.is_grad_enabled()

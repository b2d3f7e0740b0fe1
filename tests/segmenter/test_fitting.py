"""A concept fitted to its own examples: decided by leaving examples out, kept where it gains more than noise."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from dgpnet.errors import Error, Notice
from dgpnet.segmenter import Concept, Segmenter, fitting, tuning
from dgpnet.segmenter.concept import FITTED, FORMAT
from dgpnet.segmenter.fitting import LONGEST, Fitted, Member, Prior, Trial
from dgpnet.segmenter.segmentation import Maps
from dgpnet.segmenter.support import read_examples
from dgpnet.segmenter.views import View
from dgpnet.weights import sealed
from tests.tiny import CONFIG, SIZE, scene, scenes, tiny_segmenter

LARGER = 2 * SIZE
QUERY = scene(50, (70, 90))[0]
#: Of an untrained network that finds something, though not everything.
SEED = 10
#: A belief that no measurement moves.
SURE, NEVER = Prior(1.0, 1e-6), Prior(-1.0, 1e-6)


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    return tiny_segmenter(CONFIG.but(similarity=True), SEED)


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(fitting, "STEPS", 4)
    monkeypatch.setattr(tuning, "STEPS", 4)


@pytest.fixture
def everything(monkeypatch) -> None:
    """Both sizes and a tuned decoder, whatever they gain."""
    monkeypatch.setattr(fitting, "SEEN", SURE)
    monkeypatch.setattr(fitting, "TUNED", {1.0: SURE})


def fit(segmenter: Segmenter, count: int = 3, seconds: float = LONGEST, **options: object) -> Concept:
    photos, masks = scenes(count)
    return segmenter.learn(photos, masks, classes=["mug"], fit=True, fit_seconds=seconds, **options)


def shots_of(segmenter: Segmenter, count: int = 3) -> dict:
    sizes = fitting.sizes(segmenter.network.config)
    several, _ = read_examples(*scenes(count), ["mug"], *(segmenter.network.config.but(size=size) for size in sizes))
    return dict(zip(sizes, several, strict=True))


# -- leaving examples out ----------------------------------------------------------------------------------------------


def test_an_example_that_is_left_out_is_seen_by_what_the_others_alone_teach(segmenter):
    """The cheap way against learning anew from the others, at both sizes."""
    shots = shots_of(segmenter)
    members = list(fitting._members(segmenter, shots, fitting.Clock(LONGEST, None)))
    assert [member.view.size for member in members] == [SIZE, LARGER]
    for member in members:
        engine = segmenter.engine.at(member.view.size)
        for i, seen in member.seen.items():
            others = [shot for j, shot in enumerate(member.shots) if j != i]
            (anew,) = engine.maps(engine.remember(others), [member.shots[i].photo])
            for cheap, brute in zip(seen, anew, strict=True):
                torch.testing.assert_close(cheap, brute, atol=2e-4, rtol=1e-4)


def test_a_decoder_is_judged_by_examples_that_it_never_saw(segmenter, monkeypatch):
    shots = shots_of(segmenter, 4)
    trained = []
    real = tuning.Tuner.tune
    monkeypatch.setattr(tuning.Tuner, "tune", lambda self, kept: trained.append(list(kept)) or real(self, kept))
    asked = []
    see = fitting.Probe.see
    monkeypatch.setattr(
        fitting.Probe, "see", lambda self, w, kept, fold: asked.append((kept, fold)) or see(self, w, kept, fold)
    )
    monkeypatch.setattr(fitting, "TUNED", {1.0: NEVER})
    fitting.fit(segmenter, shots, LONGEST)
    assert trained == [[1, 3], [0, 2]]
    assert asked and all(not set(kept) & set(fold) and len(kept) + len(fold) == 4 for kept, fold in asked)


def test_an_untouched_decoder_sees_in_the_probe_what_the_concept_sees(segmenter):
    shots = shots_of(segmenter)
    (member, *_) = fitting._members(segmenter, shots, fitting.Clock(LONGEST, None))
    probe = fitting.Probe(Trial([member], member.seen))
    untouched = tuning.Tuner(segmenter.network, member.shots).tune([0, 1]).weights(0.0)
    found = probe.see(untouched, [0, 1], [2])[2]
    torch.testing.assert_close(found.log_odds, member.seen[2].log_odds, atol=2e-4, rtol=1e-4)


# -- what is believed --------------------------------------------------------------------------------------------------


def test_what_was_measured_is_drawn_towards_what_is_usual():
    prior = Prior(0.02, 0.05)
    assert prior.believed([]) == 0.02
    few, many = prior.believed([0.3, 0.3]), prior.believed([0.3] * 10)
    assert 0.02 < few < many < 0.3
    wild = prior.believed([0.9, -0.3])  # the same mean
    assert 0.02 < wild < few
    own = (0.03**2) / 2 * (1 + 1 / 2)
    assert few == pytest.approx((0.02 / 0.05**2 + 0.3 / own) / (1 / 0.05**2 + 1 / own))


def member(segmenter: Segmenter, size: int, shots: dict, wrong: float) -> Member:
    """One that sees what was painted, but for a share of the pixels."""
    seen = {}
    for i, shot in enumerate(shots[size]):
        truth = torch.from_numpy(shot.masks).float()
        truth[:, : round(wrong * size)] = 1 - truth[:, : round(wrong * size)]
        seen[i] = Maps(4 * truth - 2, truth[0] * 0, truth * 0)
    return Member(View(segmenter, size, memory=None), shots[size], seen, work=float(size**2), seconds=0.1)


@pytest.mark.parametrize(
    ("own", "larger", "chosen"),
    [(0.5, 0.0, {SIZE, LARGER}), (0.0, 0.5, {SIZE}), (0.1, 0.1, {SIZE})],
    ids=["it gains", "it loses", "it changes nothing"],
)
def test_sizes_are_chosen_by_examples_that_are_left_out(segmenter, own, larger, chosen):
    shots = shots_of(segmenter, 5)
    members = [member(segmenter, SIZE, shots, own), member(segmenter, LARGER, shots, larger)]
    assert {one.view.size for one in fitting._chosen(members).members} == chosen


def test_a_change_has_to_be_worth_its_work(segmenter, monkeypatch):
    monkeypatch.setattr(fitting, "SEEN", Prior(2.2 * fitting.WORTH, 1e-6))
    shots = shots_of(segmenter, 3)
    members = [member(segmenter, size, shots, 0.1) for size in (SIZE, LARGER)]  # log2(1 + 4) doublings
    assert len(fitting._chosen(members).members) == 1
    cheap = [members[0], replace(members[1], work=members[0].work)]
    assert len(fitting._chosen(cheap).members) == 2


def test_log_odds_that_are_all_too_high_are_lowered_and_right_ones_left_alone(segmenter):
    shots = shots_of(segmenter, 4)
    right = member(segmenter, SIZE, shots, 0.0)
    assert Trial([right], right.seen).bias == 0.0
    high = {i: maps._replace(log_odds=maps.log_odds + 2.5) for i, maps in right.seen.items()}
    assert Trial([right], high).bias == -0.5  # the least that is enough
    assert Trial([right], high).ious(-0.5) == [1.0] * 4
    one = Trial([right], {**right.seen, 0: high[0]})
    assert one.ious(-0.5) == [1.0] * 4 != one.ious(0.0)
    assert one.bias == 0.0, "what a single example asks for is no threshold for all"


# -- the concept that comes out ----------------------------------------------------------------------------------------


def test_without_fit_nothing_changes(segmenter, tmp_path):
    photos, masks = scenes(3)
    before = segmenter.learn(photos, masks, classes=["mug"])
    maps, fingerprint = before.maps([before.prepare(QUERY)])[0], segmenter.fingerprint
    fit(segmenter)
    after = segmenter.learn(photos, masks, classes=["mug"], fit=False)
    assert all(torch.equal(a, b) for a, b in zip(maps, after.maps([after.prepare(QUERY)])[0], strict=True))
    assert after.fitted is None and len(after.views) == 1 and after.fingerprint == before.fingerprint
    del segmenter.__dict__["fingerprint"]
    assert segmenter.fingerprint == fingerprint, "the model itself is never tuned"
    for name, concept in (("a", before), ("b", after)):
        concept.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sealed.read_about(tmp_path / "a", "concept")["format"] == FORMAT


@pytest.mark.usefixtures("everything")
def test_saved_and_loaded_it_gives_the_same_masks(segmenter, tmp_path):
    concept = fit(segmenter)
    assert [view.size for view in concept.views] == [SIZE, LARGER]
    assert all(view.segmenter.base is segmenter for view in concept.views)
    concept.save(tmp_path / "it.concept")
    assert sealed.read_about(tmp_path / "it.concept", "concept")["format"] == FITTED
    back = Concept.load(tmp_path / "it.concept", tiny_segmenter(segmenter.network.config, SEED))
    one, other = concept.segment(QUERY), back.segment(QUERY)
    assert one.probability[1].std() > 0
    assert np.array_equal(one.probability, other.probability) and np.array_equal(one.mask, other.mask)
    assert back.fitted == concept.fitted and back.estimate == concept.estimate
    assert back.fingerprint == concept.fingerprint
    large = np.tile(QUERY, (3, 3, 1))
    assert np.array_equal(concept.segment(large, tile=True).mask, back.segment(large, tile=True).mask)


@pytest.mark.usefixtures("everything")
def test_two_fits_are_the_same(segmenter, tmp_path):
    for name in "ab":
        fit(segmenter).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.usefixtures("everything")
def test_a_fit_that_was_stopped_leaves_nothing_and_starts_over(segmenter, tmp_path):
    undisturbed = fit(segmenter)
    for ticks in (1, 20):
        left = [ticks]

        def stop(done: int, total: int, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(segmenter, advance=stop)
    assert fit(segmenter).fingerprint == undisturbed.fingerprint


@pytest.mark.usefixtures("everything")
def test_it_grows_and_shrinks_and_says_when_fitting_anew_would_pay(segmenter):
    photos, masks = scenes(5)
    concept = fit(segmenter, 3)
    more = concept.extend(photos[3:4], masks[3:4])  # a Notice would be an error here
    with pytest.warns(Notice, match="fitted to 3 examples and has 5 now"):
        most = more.extend(photos[4:], masks[4:])
    assert (most.examples, most.fitted) == (5, concept.fitted)
    assert most.estimate == concept.estimate is not None, "of examples that it was tuned on, a decoder says too much"
    back = most.without(4).without(3)
    np.testing.assert_allclose(back.segment(QUERY).probability, concept.segment(QUERY).probability, atol=1e-4)
    for view, learned in zip(most.views, concept.views, strict=True):
        assert view.segmenter is learned.segmenter and view.memory.examples == 5


def test_what_is_not_tuned_is_estimated_anew_as_it_grows(segmenter, monkeypatch):
    monkeypatch.setattr(fitting, "TUNED", {1.0: NEVER})
    photos, masks = scenes(5)
    concept = fit(segmenter, 3)
    with pytest.warns(Notice, match="would pay"):
        grown = concept.extend(photos[3:], masks[3:])
    assert len(grown.estimate.examples) == 5 and len(grown.without(0).estimate.examples) == 4


@pytest.mark.parametrize("count", [1, 3], ids=["one example", "three"])
def test_two_models_may_vote_and_a_file_needs_both(segmenter, count, monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "SEEN", NEVER)
    monkeypatch.setattr(fitting, "VOTED", SURE)
    monkeypatch.setattr(fitting, "TUNED", {1.0: NEVER})
    other = tiny_segmenter(CONFIG.but(similarity=True), seed=1)
    monkeypatch.setattr(Segmenter, "voters", lambda self: [other] if self is segmenter else [])
    concept = fit(segmenter, count)
    assert [view.segmenter for view in concept.views] == [segmenter, other]
    assert concept.fitted.cost == pytest.approx(2.0)  # the two are of one kind
    each = [
        view.engine.maps(view.memory, [concept.prepare(QUERY).photos[i]])[0] for i, view in enumerate(concept.views)
    ]
    together = concept.maps([concept.prepare(QUERY)])[0].log_odds
    torch.testing.assert_close(together, (each[0].log_odds + each[1].log_odds) / 2 + concept.bias)
    concept.save(tmp_path / "it.concept")
    assert np.array_equal(
        Concept.load(tmp_path / "it.concept", segmenter).segment(QUERY).mask, concept.segment(QUERY).mask
    )
    monkeypatch.setattr(Segmenter, "voters", lambda self: [])
    with pytest.raises(Error, match="not at hand; learn it again"):
        Concept.load(tmp_path / "it.concept", segmenter)


@pytest.mark.usefixtures("everything")
def test_nobody_is_asked_where_a_decoder_is_tuned(segmenter, monkeypatch):
    monkeypatch.setattr(fitting, "VOTED", SURE)
    alone = fit(segmenter)
    monkeypatch.setattr(Segmenter, "voters", lambda self: pytest.fail("another model was loaded"))
    concept = fit(segmenter)
    assert all(view.segmenter.base is segmenter for view in concept.views)
    assert concept.fingerprint == alone.fingerprint


@pytest.mark.parametrize(("side", "sizes"), [(8, [SIZE, LARGER]), (60, [SIZE])], ids=["small", "large"])
def test_with_one_example_sizes_follow_from_how_large_the_thing_is(segmenter, side, sizes):
    photo, mask = scene(0, (64, 64))[0], np.zeros((64, 64), np.uint8)
    mask[:side, :side] = 1
    concept = segmenter.learn([photo], [mask], fit=True)
    assert [view.size for view in concept.views] == sizes
    assert concept.estimate is None and concept.fitted.gain is None and concept.bias == 0.0
    assert (concept.fitted.cost > 4) == (len(sizes) > 1)


def test_one_example_teaches_a_fitted_concept_what_it_teaches_any(segmenter):
    concept = fit(segmenter, 1)
    photos, masks = scenes(1)
    plain = segmenter.learn(photos, masks, classes=["mug"])
    one, other = (c.views[0].engine.maps(c.memory, [c.prepare(QUERY).photos[0]])[0] for c in (concept, plain))
    torch.testing.assert_close(one.log_odds, other.log_odds, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "config",
    [CONFIG.but(resize="pad"), CONFIG.but(learner="prototype"), CONFIG.but(output_space="mask")],
    ids=["padded", "prototype", "mask"],
)
def test_other_networks_are_fitted_too(config):
    concept = fit(tiny_segmenter(config))
    assert concept.fitted.examples == 3
    assert concept.segment(QUERY).mask.shape == QUERY.shape[:2]


def test_several_classes_negatives_and_what_is_unsaid(segmenter, everything):
    photos, masks = scenes(4, classes=2)
    masks[0][:] = 0
    masks[1][masks[1] == 2] = 255
    concept = segmenter.learn(photos, masks, classes=["mug", "spoon"], fit=True, fit_seconds=LONGEST)
    assert concept.estimate.examples[0].iou is None  # shows neither
    assert concept.segment(QUERY).probability.shape[0] == 3


def test_where_no_two_examples_show_a_class_nothing_is_said_to_be_gained(segmenter):
    photos, masks = scenes(2, classes=2)
    masks[0][masks[0] == 2] = 0
    masks[1][masks[1] == 1] = 0
    concept = segmenter.learn(photos, masks, classes=["mug", "spoon"], fit=True)
    assert concept.fitted.gain is None and concept.estimate is None


def test_two_examples_are_too_few_to_tune_on(segmenter, everything):
    concept = fit(segmenter, 2)
    assert "decoder tuned" not in concept.fitted.words and len(concept.views) == 2
    assert concept.estimate is not None


# -- time --------------------------------------------------------------------------------------------------------------


def test_without_time_it_is_as_it_ships(segmenter):
    concept = fit(segmenter, seconds=0)
    plain = segmenter.learn(*scenes(3), classes=["mug"])
    assert [view.size for view in concept.views] == [SIZE] and concept.fitted.cost == 1.0
    one, other = (c.maps([c.prepare(QUERY)])[0].log_odds for c in (concept, plain))
    torch.testing.assert_close(one, other + concept.bias, atol=2e-4, rtol=1e-4)


def test_whoever_waits_is_told_how_much_of_the_time_has_gone(segmenter):
    told = []
    fit(segmenter, seconds=20, advance=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 20) and told[-1] == (20, 20) and len(told) > 10
    assert told == sorted(told) and all(done < 20 for done, _ in told[:-1])


def test_no_decoder_is_tuned_where_there_is_no_time_for_it(segmenter, monkeypatch):
    monkeypatch.setattr(fitting, "TUNED", {1.0: SURE})
    monkeypatch.setattr(tuning.Tuner, "tune", lambda *args: pytest.fail("begun in vain"))
    shots = shots_of(segmenter)
    slow = replace(member(segmenter, SIZE, shots, 0.1), seconds=100.0)
    assert fitting._tuned(Trial([slow], slow.seen), slow, fitting.Clock(60.0, None)) is None


def test_a_tuning_that_turns_out_slow_is_given_up(monkeypatch):
    """Steps of a second each, by a clock of their own."""
    now = [0.0]
    monkeypatch.setattr(fitting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(fitting, "STEPS", 10)
    made = []

    def steps(slow_from: int):
        for step in range(1, 11):
            now[0] += 1.0 if step < slow_from else 30.0
            made.append(step)
            yield step

    assert fitting._in_time(steps(99), fitting.Clock(60.0, None))
    assert not fitting._in_time(steps(99), fitting.Clock(60.0, None), more=9)
    assert made[10:] == list(range(1, fitting.PACED + 1))
    del made[:]
    assert not fitting._in_time(steps(5), fitting.Clock(60.0, None))
    assert made == [1, 2, 3, 4, 5]


# -- words and files ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("everything")
def test_it_says_what_was_chosen_and_what_that_costs(segmenter):
    told = fit(segmenter).fitted
    assert told.words.startswith("seen at 64 and 128 pixels, decoder tuned")
    assert told.cost > 1 + (LARGER / SIZE) ** 2 - 0.1  # the larger alone has four times the pixels
    assert f"; {told.cost:.1f}× the time of one view, " in str(told) and "IoU on examples left out" in str(told)


def test_what_is_told_comes_back_from_json():
    told = Fitted(3, -0.5, 4.7, 0.0312, "seen at 64 pixels")
    assert Fitted.from_json(asdict(told)) == told
    assert Fitted.from_json(asdict(replace(told, gain=None))).gain is None
    assert Fitted.from_json(None) is None
    for wrong in ({}, {"gain": "x"}, {**asdict(told), "cost": None}):
        with pytest.raises(Error, match="learn the concept again"):
            Fitted.from_json(wrong)


@pytest.mark.parametrize("options", [{"fit_seconds": -1}, {"fit_seconds": "long"}, {"fit": "yes"}, {"advance": 3}])
def test_wrong_use_is_refused_before_any_work(segmenter, options):
    with pytest.raises(Error):
        segmenter.learn(*scenes(2), **{"fit": True, **options})

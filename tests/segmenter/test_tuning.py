"""Training decoder and mask encoder on the examples themselves."""

import numpy as np
import pytest
import torch

from dgpnet.images import IGNORE
from dgpnet.segmenter import tuning
from dgpnet.segmenter.support import read_examples
from dgpnet.segmenter.tuning import Tuner
from tests.tiny import CONFIG, scenes, tiny_network


@pytest.fixture
def network():
    return tiny_network(CONFIG.but(similarity=True))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(tuning, "STEPS", 6)


def shots_of(count=3, classes=1, names=("it",)):
    (shots,), _ = read_examples(*scenes(count, classes=classes), names, CONFIG)
    return shots


def tuned(network, shots, examples, share=1.0):
    steps = Tuner(network, shots).tune(examples)
    assert list(steps) == list(range(1, tuning.STEPS + 1))
    return steps.weights(share)


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_makes_small_what_training_made_small(network, monkeypatch):
    monkeypatch.setattr(tuning, "STEPS", 40)
    monkeypatch.setattr(tuning, "RATE", 3e-3)
    tuner = Tuner(network, shots_of())
    steps = tuner.tune(range(3))
    list(steps)

    def loss() -> float:
        with torch.no_grad():
            rng = np.random.default_rng(0)
            return sum(float(tuner.loss(network, range(3), query, rng)) for query in (0, 1, 2) * 4)

    before = loss()
    network.load_state_dict(steps.weights(1.0), strict=False)
    assert loss() < 0.95 * before


def test_only_decoder_and_mask_encoder_change_and_the_network_itself_does_not(network):
    before = {name: p.clone() for name, p in network.state_dict().items()}
    found = tuned(network, shots_of(), range(3))
    assert {name.split(".")[0] for name in found} == {"decoder", "mask_encoder"}
    assert any(not torch.equal(p, before[name]) for name, p in found.items())
    assert all(torch.equal(p, before[name]) for name, p in network.state_dict().items())
    assert all(p.requires_grad for p in network.parameters())


def test_a_share_lies_between_the_network_and_all_that_was_tuned(network):
    steps = Tuner(network, shots_of()).tune(range(3))
    list(steps)
    none, half, whole = (steps.weights(share) for share in (0.0, 0.5, 1.0))
    start = dict(network.named_parameters())
    assert all(torch.equal(p, start[name]) for name, p in none.items())
    for name in whole:
        torch.testing.assert_close(half[name], (start[name] + whole[name]) / 2, atol=1e-3, rtol=1e-3)
        assert torch.equal(whole[name], whole[name].half().float()), "a file in half precision holds what is used"


def test_the_same_examples_give_the_same_weights(network):
    shots = shots_of()
    assert equal(tuned(network, shots, [0, 1]), tuned(network, shots, [0, 1]))
    assert not equal(tuned(network, shots, [0, 1]), tuned(network, shots, [0, 2]))


def test_an_example_that_is_left_out_leaves_no_trace(network):
    shots = shots_of()
    before = tuned(network, shots, [0, 1])
    shots[2].photo[:] = 255 - shots[2].photo
    assert equal(tuned(network, shots, [0, 1]), before)
    shots[1].photo[:] = 255 - shots[1].photo
    assert not equal(tuned(network, shots, [0, 1]), before)


@pytest.mark.parametrize("among", [0.0, 1.0])
def test_a_query_is_another_view_where_it_is_among_the_examples(network, monkeypatch, among):
    monkeypatch.setattr(tuning, "AMONG", among)
    learned = []
    real = network.support_points
    monkeypatch.setattr(network, "support_points", lambda f, m: learned.append(m.shape[1]) or real(f, m))
    tuner, views = Tuner(network, shots_of()), set()
    encoding = tuner.encoding
    monkeypatch.setattr(tuner, "encoding", lambda i, view=0: views.add((i, view)) or encoding(i, view))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for _ in range(20):
            views.clear()
            tuner.loss(network, range(3), 0, rng)
            assert learned[-1] == 2 + among
            assert len(views) == 3 + among, "the query is a further view"


def test_a_view_goes_through_the_encoder_once_and_only_if_it_is_asked_for(network, monkeypatch):
    seen = []
    real = network.encoder.forward
    monkeypatch.setattr(network.encoder, "forward", lambda photos: seen.append(len(photos)) or real(photos))
    tuner = Tuner(network, shots_of())
    assert not seen
    first = tuner.encoding(1)
    assert tuner.encoding(1) is first and seen == [1]
    list(tuner.tune([0, 1]))
    assert len(seen) <= 2 * tuning.MOST


def test_the_first_view_is_the_example_as_it_is(network):
    shots = shots_of(classes=2, names=("mug", "spoon"))
    shots[0].ignore[:4] = True
    labels = Tuner(network, shots).encoding(0).labels.numpy()
    assert (labels[:4] == IGNORE).all()
    for c in (0, 1):
        np.testing.assert_array_equal(labels[4:] == c + 1, shots[0].masks[c, 4:] & ~shots[0].masks[c + 1 :, 4:].any(0))


def test_a_class_is_asked_for_that_others_know(network):
    photos, masks = scenes(3, classes=2)
    masks[2][masks[2] == 2] = 0
    (shots,), _ = read_examples(photos, masks, ["mug", "spoon"], CONFIG)
    tuner = Tuner(network, shots)
    rng = np.random.default_rng(0)
    assert {tuner._class(0, [2], rng) for _ in range(50)} == {1}  # nobody else shows a spoon
    asked = [tuner._class(2, [0, 1], rng) for _ in range(400)]
    assert asked.count(2) / 400 == pytest.approx(tuning.ABSENT, abs=0.08)  # which it lacks: now and then

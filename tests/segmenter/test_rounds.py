import json
from dataclasses import asdict, replace

import pytest

from dgpnet.segmenter.rounds import Round, differences

THEN = Round(
    "c", "m", {"mug": 1, "spoon": 4}, (("a.jpg", "1"), ("b.jpg", "2")), {"overlay": False}, {"formats": ["coco"]}
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"examples": (*THEN.examples, ("desk.jpg", "3"), ("bar.jpg", "4"))},
         "2 photographs were painted since: bar.jpg, desk.jpg"),
        ({"examples": THEN.examples[:1]}, "1 photograph was taken out of the examples: b.jpg"),
        ({"examples": (("a.jpg", "1"), ("b.jpg", "9"))}, "1 photograph was painted anew since: b.jpg"),
        ({"examples": THEN.examples[::-1]}, "in another order"),
        ({"model": "n"}, "the model was another"),
        ({"options": {"overlay": True}}, "overlay (false then, true now)"),
        ({"afterwards": {"formats": []}}, 'formats (["coco"] then, [] now)'),
        ({"values": {"mug": 1}}, "the classes were mug, spoon and are mug"),
        ({"concept": "d"}, "other colours"),
        ({"concept": "d", "fitted": "seen at 64 pixels"}, "it was not fitted (--fit)"),
        ({"version": 99}, "another version"),
    ],
)  # fmt: skip
def test_what_has_changed_is_said_in_words(change, says):
    now = replace(THEN, **change)
    assert says in differences(THEN, now)
    assert bool(differences(THEN, now)) == bool(change)


def test_of_another_version_only_what_can_be_compared_is_told():
    now = replace(THEN, version=99, concept="d", examples=(("a.jpg", "7"), ("b.jpg", "8"), ("desk.jpg", "9")))
    said = differences(THEN, now)
    assert said == "it was made by another version of dgpnet; 1 photograph was painted since: desk.jpg"
    now = replace(THEN, version=99, concept="d", examples=(("a.jpg", "7"), ("b.jpg", "8")))
    assert differences(THEN, now) == "it was made by another version of dgpnet"


def test_files_of_a_photograph_do_not_depend_on_what_is_written_afterwards():
    assert replace(THEN, afterwards={}).made_with == THEN.made_with
    assert replace(THEN, options={}).made_with != THEN.made_with != replace(THEN, concept="d").made_with


def test_a_class_that_has_another_value_now_is_found_and_a_new_name_for_a_value_is_not():
    assert "spoon was 4 in masks and is 5 now" in THEN.moved(replace(THEN, values={"mug": 1, "spoon": 5}))
    assert THEN.moved(replace(THEN, values={"cup": 1, "fork": 2})) == ""


def test_a_round_is_a_record_and_what_is_none_is_none():
    assert Round.of(json.loads(json.dumps(asdict(THEN)))) == THEN
    for wrong in ({}, {**asdict(THEN), "examples": [1]}, {**asdict(THEN), "values": 3}):
        assert Round.of(wrong) is None


def test_a_round_that_was_fitted_is_told_from_one_that_was_not():
    fitted = replace(THEN, concept="d", fitted="seen at 64 pixels")
    assert differences(fitted, THEN) == "it was fitted (--fit)"
    assert (
        differences(fitted, replace(fitted, concept="e", fitted="seen at 128 pixels")) == "it was fitted in another way"
    )
    before = {name: value for name, value in asdict(THEN).items() if name != "fitted"}
    assert Round.of(before) == THEN  # of a time when nothing was


def test_long_lists_are_cut():
    many = tuple((f"{i}" * 80, str(i)) for i in range(20))
    said = differences(THEN, replace(THEN, examples=many))
    assert "20 photographs were painted since" in said
    assert "and 15 more" in said
    assert len(said) < 500

"""The protocol of Label Studio's machine learning back ends, without Label Studio."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dgpnet.annotations import brush
from dgpnet.annotations.shapes import paint
from dgpnet.backends.learning import others
from dgpnet.segmenter import Concept, Segmenter
from dgpnet.serving import Access, Guard, serving
from tests.backends.conftest import (
    CONFIG,
    POLYGONS,
    PROJECT,
    SIZE,
    Desk,
    LabelStudio,
    annotation,
    application,
    httpx,
    limits,
    task,
)
from tests.tiny import scene


def mask_of(regions: list[Any], label: str) -> NDArray[np.bool_]:
    """What the strokes of a label cover."""
    own = [one["value"]["rle"] for one in regions if one["value"]["brushlabels"] == [label]]
    return paint(SIZE, [(1, brush.decode(bytes(rle), SIZE)) for rle in own]) > 0


def results(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["results"]
    return found


def version(desk: Desk, **more: Any) -> str | None:
    answer = desk.setup(**more)
    assert answer.status_code == 200, answer.text
    found: str | None = answer.json()["model_version"]
    return found


def concept_of(segmenter: Segmenter, *painted: tuple[int, NDArray[np.uint8]]) -> Concept:
    photos, masks = zip(*[(scene(n, SIZE)[0], mask) for n, mask in painted], strict=True)
    return segmenter.learn(photos, masks, classes=["mug"])


def truth(n: int) -> NDArray[np.uint8]:
    return scene(n, SIZE)[1]


def test_it_says_that_it_is_there(desk: Desk):
    for path in ("", "health"):
        assert desk.client.get(path).json() == {"status": "UP", "model_class": "dgpnet"}
    assert desk.client.get("versions").json() == {"versions": []}


def test_with_nothing_painted_there_are_no_predictions_and_no_error(desk: Desk):
    assert version(desk) is None
    assert results(desk.predict(1, 2)) == [[], []]


def test_a_setup_says_what_is_missing(desk: Desk, caplog):
    answer = desk.setup("<View/>")
    assert answer.status_code == 400
    assert "add <Image" in answer.json()["detail"]
    assert "Project 7 cannot be connected" in caplog.text
    assert desk.setup(project="../7.1").status_code == 422


def test_a_setup_is_answered_in_time_though_something_is_still_being_learned(desk: Desk, monkeypatch):
    desk.paint(0)
    first, gate = version(desk), threading.Event()
    desk.mind._learning.put(lambda: gate.wait(20))
    desk.paint(1)
    with monkeypatch.context() as hasty:
        hasty.setattr("dgpnet.backends.label_studio.SETUP", 0.1)
        assert version(desk) is None
    gate.set()
    assert version(desk) not in (None, first)


def test_predictions_are_what_the_concept_finds(desk: Desk, segmenter: Segmenter):
    assert version(desk) is None
    for n in (0, 1):
        assert desk.paint(n).json() == {"status": "heard"}
    found = results(desk.predict(2, 3))
    concept = concept_of(segmenter, (0, truth(0)), (1, truth(1)))
    name = version(desk)
    assert name == f"dgpnet-{concept.fingerprint[:16]}"
    for n, (prediction,) in zip((2, 3), found, strict=True):
        expected = concept.segment(scene(n, SIZE)[0])
        assert prediction["model_version"] == name
        assert prediction["score"] == pytest.approx(expected.score, abs=1e-4)
        assert np.array_equal(mask_of(prediction["result"], "mug"), expected.mask == 1)
        for region in prediction["result"]:
            assert (region["from_name"], region["to_name"], region["type"]) == ("paint", "picture", "brushlabels")
            assert (region["original_height"], region["original_width"], region["image_rotation"]) == (*SIZE, 0)
            assert 0 <= region["score"] <= 1
        assert len({region["id"] for region in prediction["result"]}) == len(prediction["result"])


def test_annotations_that_are_changed_and_deleted_change_what_is_learned(desk: Desk, segmenter: Segmenter):
    for n in (0, 1):
        desk.paint(n)
    first = version(desk)
    other = np.roll(truth(1), 5, axis=1)
    desk.paint(1, other, action="UPDATED", updated_at="2026-01-03T00:00:00Z")
    changed = version(desk)
    assert changed == f"dgpnet-{concept_of(segmenter, (0, truth(0)), (1, other)).fingerprint[:16]}" != first
    ((prediction,),) = results(desk.predict(4))
    expected = concept_of(segmenter, (0, truth(0)), (1, other)).segment(scene(4, SIZE)[0]).mask == 1
    assert (mask_of(prediction["result"], "mug") != expected).mean() < 0.01  # equal but for rounding

    desk.webhook("ANNOTATIONS_DELETED", annotations=[{"id": 101}, {"id": 999}])
    assert version(desk) == f"dgpnet-{concept_of(segmenter, (0, truth(0))).fingerprint[:16]}"
    desk.webhook("TASKS_DELETED", tasks=[{"id": 0}])
    assert version(desk) is None
    assert results(desk.predict(4)) == [[]]


def test_the_annotation_that_was_changed_last_counts_and_the_one_before_when_it_goes(desk: Desk, segmenter: Segmenter):
    desk.paint(0)
    other = np.roll(truth(0), 5, axis=1)
    desk.paint(0, other, id=555, updated_at="2026-01-05T00:00:00Z")
    assert version(desk) == f"dgpnet-{concept_of(segmenter, (0, other)).fingerprint[:16]}"
    desk.webhook("ANNOTATIONS_DELETED", annotations=[{"id": 555}])
    assert version(desk) == f"dgpnet-{concept_of(segmenter, (0, truth(0))).fingerprint[:16]}"
    desk.paint(0, action="UPDATED", was_cancelled=True)
    assert version(desk) is None


def test_events_that_come_in_another_order_do_not_bring_back_what_was_before(desk: Desk):
    desk.paint(0, np.roll(truth(0), 5, axis=1), updated_at="2026-01-05T00:00:00Z")
    later = version(desk)
    desk.webhook("ANNOTATION_UPDATED", task=task(0), annotation=annotation(0))
    assert version(desk) == later


def test_a_photograph_without_regions_is_an_example_of_nothing(desk: Desk):
    desk.paint(0, np.zeros(SIZE, np.uint8))
    assert version(desk) is None
    desk.paint(1)
    assert version(desk) is not None
    (learned,) = [one.learned for one in desk.mind.projects.values()]
    assert learned is not None and learned.concept.examples == 2


def test_a_class_that_comes_later_is_learned_with_the_others(desk: Desk):
    desk.paint(0)
    desk.paint(1, 2 * truth(1))
    assert version(desk) is not None
    (project,) = desk.mind.projects.values()
    assert project.learned is not None and project.learned.concept.classes == ("mug", "tea spoon")
    desk.webhook("ANNOTATIONS_DELETED", annotations=[{"id": 101}])
    version(desk)
    assert project.learned is not None and project.learned.concept.classes == ("mug",)


def test_labels_that_are_renamed_are_learned_again_once_they_are_painted(desk: Desk):
    desk.paint(0)
    assert version(desk) is not None
    renamed = CONFIG.replace("mug", "cup")
    desk.webhook("PROJECT_UPDATED", renamed)
    assert version(desk, config=renamed) is None


def test_many_annotations_at_once_are_one_lesson(desk: Desk):
    annotations = [annotation(n) for n in range(8)]
    tasks = [task(n) for n in range(8)]
    desk.studio.kept = {100 + n: (tasks[n], annotations[n]) for n in range(8)}
    assert desk.webhook("ANNOTATIONS_CREATED", task=tasks, annotation=annotations).status_code == 200
    version(desk)
    (project,) = desk.mind.projects.values()
    assert project.learned is not None and project.learned.concept.examples == 8


def test_a_restart_loses_nothing(restart: Callable[..., Desk], studio: LabelStudio):
    desk = restart()
    for n in (0, 1):
        desk.paint(n)
    name, found = version(desk), results(desk.predict(3))
    asked = len(studio.asked)
    again = restart()
    assert version(again) == name
    assert results(again.predict(3)) == found
    assert "/data/upload/7/0.png" not in studio.asked[asked:]  # what is painted is there already


def test_what_was_painted_while_it_was_away_is_asked_for(restart: Callable[..., Desk], studio: LabelStudio):
    desk = restart()
    for n in (0, 1):
        desk.paint(n)
    first = version(desk)
    studio.kept = {100 + n: (task(n), annotation(n)) for n in (1, 2)}
    again = restart()
    assert version(again) not in (None, first)
    (project,) = again.mind.projects.values()
    assert project.known == {101, 102}


def test_an_annotation_that_cannot_be_read_does_not_keep_the_others_from_being_asked_for(
    restart: Callable[..., Desk], studio: LabelStudio, caplog
):
    studio.kept = {101: (task(1), annotation(1)), 102: ({"id": 2, "data": {}}, annotation(2))}
    desk = restart()
    assert version(desk) is not None
    assert "no photograph in its 'photo'" in caplog.text


def test_without_a_key_only_webhooks_tell(restart: Callable[..., Desk], studio: LabelStudio):
    desk = restart(key=None)
    assert version(desk) is None
    assert studio.asked == []
    assert desk.paint(0).status_code == 200
    assert version(desk) is None  # the photograph may not be had
    assert results(desk.predict(1)) == [[]]


def test_training_learns_anew_and_fits(desk: Desk, studio: LabelStudio, told: list[str]):
    version(desk)
    studio.kept = {100 + n: (task(n), annotation(n)) for n in (1, 2)}
    desk.paint(0)
    assert desk.webhook("START_TRAINING").status_code == 200
    end = time.monotonic() + 300
    while not any("fitted to 3" in line for line in told):
        assert time.monotonic() < end, told
        time.sleep(0.05)
    (project,) = desk.mind.projects.values()
    assert project.learned is not None and project.learned.concept.fitted is not None
    desk.paint(3)
    version(desk)
    assert project.learned.concept.examples == 4


def test_projects_stand_side_by_side(desk: Desk):
    desk.paint(0)
    desk.paint(1, 2 * truth(1), project=8)
    first, second = version(desk), version(desk, project=PROJECT.replace("7.", "8."))
    assert None not in (first, second) and first != second
    assert sorted(desk.client.get("versions").json()["versions"]) == sorted([first, second])


def test_one_photograph_that_cannot_be_had_does_not_spoil_the_others(desk: Desk, caplog):
    desk.paint(0)
    tasks = [task(1), {"id": 2, "data": {"photo": "http://evil.example/2.png"}}, {"id": 3, "data": {}}]
    body = {"tasks": tasks, "project": PROJECT, "label_config": CONFIG, "params": {}}
    first, second, third = results(desk.client.post("predict", json=body))
    assert len(first) == 1 and second == third == []
    assert "evil.example" in caplog.text
    answer = desk.client.post("predict", json={**body, "tasks": tasks[1:]})
    assert answer.status_code == 400 and "nothing is fetched from elsewhere" in answer.json()["detail"]


def test_tasks_for_which_there_is_no_time_are_left_for_later(desk: Desk, monkeypatch, told: list[str]):
    desk.paint(0)
    version(desk)
    monkeypatch.setattr("dgpnet.backends.label_studio.PREDICTING", -1.0)
    assert results(desk.predict(1, 2)) == [[], []]
    assert any("2 of 2 tasks" in line for line in told)


def test_polygons_are_made_where_there_is_no_brush(desk: Desk):
    desk.paint(0, config=POLYGONS)
    desk.paint(1, config=POLYGONS)
    ((prediction,),) = results(desk.predict(0, config=POLYGONS))
    for region in prediction["result"]:
        assert (region["type"], region["from_name"]) == ("polygonlabels", "paint")
        points = np.array(region["value"]["points"])
        assert points.shape[1] == 2 and (points >= 0).all() and (points <= 100).all()
    assert prediction["result"]


# -- clicks and strokes ------------------------------------------------------------------------------------------------


def click(n: int, **more: Any) -> dict[str, Any]:
    """In the middle of the thing of scene n."""
    rows, columns = np.nonzero(truth(n))
    value = {"x": 100 * columns.mean() / SIZE[1], "y": 100 * rows.mean() / SIZE[0], "width": 1}
    value |= {"keypointlabels": ["mug"]}
    about = {"original_width": SIZE[1], "original_height": SIZE[0], "type": "keypointlabels", "from_name": "click"}
    return {**about, "value": value, "is_positive": True, **more}


def test_a_click_proposes_a_region_before_anything_is_learned(desk: Desk):
    (answer,) = results(desk.predict(5, context={"result": [click(5)]}))
    (region,) = answer["result"]
    assert (region["type"], region["from_name"]) == ("brushlabels", "paint")
    rows, columns = np.nonzero(truth(5))
    assert mask_of(answer["result"], "mug")[int(rows.mean()), int(columns.mean())]


def test_a_click_does_not_hear_of_its_own_photograph_that_all_but_what_is_painted_is_nothing(desk: Desk):
    desk.paint(0)
    version(desk)
    (project,) = desk.mind.projects.values()
    assert project.learned is not None
    assert others(project.learned, 0) is None
    assert others(project.learned, 1) is project.learned.concept
    desk.paint(1)
    version(desk)
    left = others(project.learned, 0)
    assert left is not None and left.examples == 1
    assert results(desk.predict(0, context={"result": [click(0)]}))


def test_a_click_that_says_not_this_takes_away(desk: Desk):
    desk.paint(0)
    away = click(5, is_positive=False)
    away["value"] = {**away["value"], "x": 99.0, "y": 99.0}
    (answer,) = results(desk.predict(5, context={"result": [click(5), away]}))
    assert not mask_of(answer["result"], "mug")[-1, -1]


def test_a_stroke_is_part_of_the_region_that_it_proposes(desk: Desk):
    stroke = np.zeros(SIZE, np.uint8)
    stroke[10:14, 10:30] = 1
    (answer,) = results(desk.predict(5, context={"result": annotation(5, stroke)["result"]}))
    assert mask_of(answer["result"], "mug")[stroke == 1].all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"type": "rectanglelabels", "value": {"x": 1, "y": 1, "rectanglelabels": ["mug"]}}, "clicks"),
        ({"value": {"x": 1, "y": 1}}, "has a label"),
        ({"value": {"x": 1, "y": 1, "keypointlabels": ["fork"]}}, "add it"),
        ({"is_positive": False}, "Nothing is pointed at"),
        ({"type": "brushlabels", "value": {"rle": [1, 2], "brushlabels": ["mug"]}}, "cut off"),
        ({"type": "brushlabels", "original_width": 1, "value": {"rle": [1], "brushlabels": ["mug"]}}, "size"),
        ({"value": {"x": "left", "y": 1, "keypointlabels": ["mug"]}}, "number"),
        ({"value": {"x": None, "y": 1, "keypointlabels": ["mug"]}}, "number"),
        ({"value": {"x": float("1e999"), "y": 1, "keypointlabels": ["mug"]}}, "number"),
    ],
)
def test_a_click_that_says_nothing_is_explained(desk: Desk, wrong, said):
    content = json.dumps(
        {
            "tasks": [task(5)],
            "project": PROJECT,
            "label_config": CONFIG,
            "params": {"context": {"result": [click(5, **wrong)]}},
        }
    )
    answer = desk.client.post("predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["detail"]


# -- who may ask, and how much -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("webhook", {"action": "ANNOTATION_CREATED"}),
        ("webhook", {"action": "ANNOTATION_CREATED", "project": {"id": -1, "created_at": "yesterday"}}),
        ("webhook", {}),
        ("setup", {"project": "1", "schema": CONFIG}),
        ("setup", {"project": PROJECT}),
        ("predict", {"project": PROJECT, "label_config": CONFIG, "tasks": [{"id": "x", "data": {}}]}),
        ("predict", []),
    ],
)
def test_what_is_not_the_protocol_is_refused_with_a_sentence(desk: Desk, path, body):
    answer = desk.client.post(path, json=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"].endswith(".")
    assert not list(desk.mind.root.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"result": None},
        {"result": [{"value": {"rle": [1, 2, 3], "brushlabels": ["mug"]}, "from_name": "paint"}]},
        {"result": [7, {"from_name": "paint", "value": {"brushlabels": ["fork"], "rle": []}}]},
        {"id": "x"},
        {"id": True},
    ],
)
def test_an_annotation_that_is_broken_does_not_stop_the_others(desk: Desk, wrong):
    desk.paint(0)
    assert desk.paint(1, **wrong).status_code in (200, 400)
    desk.paint(2)
    assert version(desk) is not None
    (project,) = desk.mind.projects.values()
    assert project.learned is not None and project.learned.concept.examples == 2


def test_other_events_are_not_minded(desk: Desk):
    assert desk.webhook("LABEL_LINK_CREATED").json() == {"status": "not minded"}


def test_a_body_that_is_too_large_is_refused(desk: Desk):
    assert desk.client.post("setup", content=b" " * (2 << 20)).status_code == 413


def test_with_a_token_label_studio_says_it_in_the_address(desk: Desk):
    guard = Guard(application(desk.mind), Access.of("127.0.0.1", "a-long-enough-token"), limits())
    with serving(guard) as address:
        assert httpx.get(f"{address}/health").status_code == 401
        named = address.replace("://", "://dgpnet:a-long-enough-token@")
        assert httpx.get(f"{named}/health").status_code == 200


def test_pages_of_other_sites_are_not_heard(desk: Desk):
    answer = desk.client.post("webhook", json={"action": "x"}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403

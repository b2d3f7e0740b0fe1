"""The API through real connections: every resource, and what it refuses."""

import io
import json
import threading
import zipfile
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from dgpnet.segmenter import Segmenter
from dgpnet.segmenter.calibration import Belief, Calibration
from dgpnet.serving import Access, Guard, serving
from dgpnet.studio import imports
from dgpnet.studio.api import application, limits
from dgpnet.studio.studio import open_studio
from tests.studio.conftest import SIZE, truth, until
from tests.tiny import CONFIG, tiny_network

#: Seconds in which a fit is done even on a machine that is busy with other tests; it takes two on an idle one.
FITTING = 300.0


def png(mask):
    stream = io.BytesIO()
    Image.fromarray(mask).save(stream, "PNG")
    return stream.getvalue()


def put(client, name, mask, **headers):
    headers = headers or {"if-none-match": "*"}
    return client.put(f"photographs/{name}/mask", content=png(mask), headers={"content-type": "image/png", **headers})


def paint(client, ids, *names):
    """The truth, on these photographs; looked at again where a mask was found between the look and the stroke."""
    if not client.get("classes").json():
        assert client.post("classes", json={"name": "box"}).status_code == 201

    def painted(name):
        seen = client.get(f"photographs/{ids[name]}").json()["mask"]["etag"]
        known = {"if-none-match": "*"} if seen is None else {"if-match": seen}
        answer = put(client, ids[name], truth(int(name.split("/")[-1][0])), **known)
        assert answer.status_code in (200, 412), answer.text
        return answer.status_code == 200

    for name in names:
        assert until(lambda name=name: painted(name))


def mask_of(client, name, **query):
    answer = client.get(f"photographs/{name}/mask", params=query, headers={"accept": "image/png"})
    return np.asarray(Image.open(io.BytesIO(answer.content))) if answer.status_code == 200 else None


def learned(client):
    answer = client.post("concept", json={})
    assert answer.status_code == 200, answer.text
    return answer.json()


def quiet(client):
    until(lambda: all(job["state"] not in ("queued", "running") for job in client.get("jobs").json()))


# -- masks -------------------------------------------------------------------------------------------------------------


STROKE = {"x": 2, "y": 3, "width": 4, "height": 2, "runs": [1, 2, 1]}


def test_a_stroke_is_painted_told_and_found_again(client, ids):
    client.post("classes", json={"name": "box"})
    stroke = {**STROKE, "base": "empty", "stroke": "s1"}
    answer = client.patch(f"photographs/{ids['0.png']}/mask", json=stroke)
    assert answer.status_code == 200
    assert answer.json()["photograph"]["state"] == "painted"
    assert answer.json()["photograph"]["classes"] == [{"value": 1, "area": 2, "count": None}]
    got = client.get(f"photographs/{ids['0.png']}/mask", params={"x": 2, "y": 3, "width": 4, "height": 2}).json()
    assert got["runs"] == [1, 2, 1] and got["source"] == "painted" and got["etag"] == answer.json()["etag"]
    whole = mask_of(client, ids["0.png"])
    assert whole.shape == SIZE and whole.sum() == 2 and (whole[3, 3:5] == 1).all()
    again = client.patch(f"photographs/{ids['0.png']}/mask", json={**stroke, "base": "painted"})
    assert again.json()["etag"] == answer.json()["etag"], "a stroke that is sent twice is painted once"


def test_a_mask_is_never_overwritten_unseen(client, ids):
    paint(client, ids, "0.png")
    name = ids["0.png"]
    etag = client.get(f"photographs/{name}/mask").headers["etag"]
    assert put(client, name, truth(1)).status_code == 412
    assert put(client, name, truth(1), x="y").status_code == 428
    assert put(client, name, truth(1), **{"if-match": '"p999"'}).status_code == 412
    assert client.delete(f"photographs/{name}/mask").status_code == 428
    assert client.delete(f"photographs/{name}/mask", headers={"if-match": '"other"'}).status_code == 412
    problem = put(client, name, truth(1)).json()
    assert problem["status"] == 412 and problem["detail"] and problem["etag"] == etag
    assert put(client, name, truth(1), **{"if-match": etag}).status_code == 200
    assert (mask_of(client, name) == truth(1)).all()
    assert client.get(f"photographs/{name}/mask", headers={"if-none-match": etag}).status_code == 200
    new = client.get(f"photographs/{name}/mask").headers["etag"]
    assert client.get(f"photographs/{name}/mask", headers={"if-none-match": new}).status_code == 304
    assert client.delete(f"photographs/{name}/mask", headers={"if-match": new}).json()["etag"] is None
    assert client.get(f"photographs/{name}/mask").status_code == 404


def test_whole_masks_come_as_runs_too(client, ids):
    client.post("classes", json={"name": "box"})
    body = {"width": 64, "height": 48, "runs": [0, 64, 1]}
    answer = client.put(f"photographs/{ids['1.png']}/mask", json=body, headers={"if-none-match": "*"})
    assert answer.status_code == 200
    assert mask_of(client, ids["1.png"])[0].all() and not mask_of(client, ids["1.png"])[1:].any()


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("image/png", b"no picture", 422),
        ("image/png", png(np.zeros((9, 9), np.uint8)), 422),
        ("image/png", png(np.full(SIZE, 9, np.uint8)), 400),
        ("image/png", png(np.zeros((*SIZE, 3), np.uint8) + 7), 422),
        ("application/json", b"{", 422),
        ("application/json", b'{"width": 64, "height": 48, "runs": [0, 99999, 1]}', 400),
        ("application/json", b'{"width": 6, "height": 4, "runs": []}', 422),
        ("text/plain", b"hello", 415),
    ],
)
def test_what_is_no_mask_is_refused(client, ids, kind, content, status):
    client.post("classes", json={"name": "box"})
    headers = {"content-type": kind, "if-none-match": "*"}
    answer = client.put(f"photographs/{ids['0.png']}/mask", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json" and answer.json()["detail"].endswith(".")
    assert client.get(f"photographs/{ids['0.png']}").json()["state"] == "untouched"


@pytest.mark.parametrize(
    "change",
    [{"runs": [0, 1]}, {"runs": [0, 1, 9]}, {"x": 63}, {"width": 0}, {"runs": ["a"]}, {"base": "x"}, {"extra": 1}],
)
def test_what_is_no_stroke_is_refused(client, ids, change):
    client.post("classes", json={"name": "box"})
    stroke = {**STROKE, "base": "empty"} | change
    answer = client.patch(f"photographs/{ids['0.png']}/mask", json=stroke)
    assert answer.status_code in (400, 422)


# -- photographs -------------------------------------------------------------------------------------------------------


def test_the_list_is_filtered_sorted_and_found_in(client, ids):
    paint(client, ids, "0.png", "1.png")
    answer = client.get("photographs", params={"limit": 2, "offset": 1, "find": ids["more/5.png"]}).json()
    assert [one["name"] for one in answer["items"]] == ["1.png", "2.png"]
    assert answer["total"] == 6 and answer["position"] == 5
    names = lambda **query: [one["name"] for one in client.get("photographs", params=query).json()["items"]]  # noqa: E731
    assert names(state="painted") == ["0.png", "1.png"]
    assert names(folder="more") == ["more/4.png", "more/5.png"]
    assert names(query="3.P") == ["3.png"]
    assert names(**{"class": 1}) == ["0.png", "1.png"]
    assert client.get("photographs", params={"sort": "colour"}).status_code == 422
    learned(client)
    quiet(client)
    found = client.get("photographs", params={"sort": "score"}).json()["items"]
    scores = [one["score"] for one in found if one["state"] == "found"]
    assert len(scores) == 4 and scores == sorted(scores)
    assert [one["state"] for one in found[4:]] == ["painted", "painted"]


def test_pictures_are_small_kept_and_checked(client, ids, studio, folder):
    Image.new("RGB", (900, 300), (200, 10, 10)).save(folder / "wide.tiff")
    client.post("scan", json={})
    name = next(one["id"] for one in client.get("photographs").json()["items"] if one["name"] == "wide.tiff")
    answer = client.get(f"photographs/{name}/thumbnail", params={"size": 160})
    assert Image.open(io.BytesIO(answer.content)).size == (160, 53)
    assert (
        client.get(f"photographs/{name}/thumbnail", headers={"if-none-match": answer.headers["etag"]}).status_code
        == 304
    )
    assert len(list((studio.project.root / "thumbnails").iterdir())) == 1
    assert client.get(f"photographs/{name}/thumbnail", params={"size": 10**6}).status_code == 422
    shown = client.get(f"photographs/{name}/image")
    assert shown.headers["content-type"] == "image/jpeg" and Image.open(io.BytesIO(shown.content)).size == (900, 300)
    plain = client.get(f"photographs/{ids['0.png']}/image")
    assert plain.content == (folder / "0.png").read_bytes()
    paint(client, ids, "0.png")
    overlay = np.asarray(Image.open(io.BytesIO(client.get(f"photographs/{ids['0.png']}/overlay").content)))
    assert ((overlay[..., 3] > 0) == (truth(0) > 0)).all()


def test_a_broken_photograph_harms_no_other_and_may_be_mended(client, ids, folder):
    whole = (folder / "0.png").read_bytes()
    (folder / "bad.png").write_bytes(whole[:900])
    client.post("scan", json={})
    name = next(one["id"] for one in client.get("photographs").json()["items"] if one["name"] == "bad.png")
    assert client.get(f"photographs/{name}/image").status_code == 409
    assert client.get("photographs", params={"state": "broken"}).json()["total"] == 1
    paint(client, ids, "0.png")
    learned(client)
    quiet(client)
    assert client.get("project").json()["photographs"]["found"] == 5
    (folder / "bad.png").write_bytes(whole)
    assert client.get(f"photographs/{name}").json()["state"] == "untouched"


def test_verdicts(client, ids):
    name = ids["0.png"]
    assert client.put(f"photographs/{name}/review", json={"review": "accepted"}).status_code == 409
    paint(client, ids, "0.png")
    assert client.put(f"photographs/{name}/review", json={"review": "rejected"}).json()["review"] == "rejected"
    assert client.put(f"photographs/{name}/review", json={"review": "maybe"}).status_code == 422
    assert client.get("photographs", params={"state": "rejected"}).json()["total"] == 1


# -- classes -----------------------------------------------------------------------------------------------------------


def test_classes_come_change_and_go(client, ids):
    made = client.post("classes", json={"name": "box", "colour": "#102030"}).json()
    assert made == {"value": 1, "name": "box", "colour": "#102030", "photographs": 0, "examples": 0}
    assert client.post("classes", json={"name": "box"}).status_code == 400
    assert client.post("classes", json={"name": ""}).status_code == 422
    assert client.patch("classes/1", json={"name": "crate"}).json()["name"] == "crate"
    assert client.patch("classes/1", json={"colour": "red"}).status_code == 422
    assert client.patch("classes/2", json={"name": "x"}).status_code == 404
    paint(client, ids, "0.png")
    assert client.get("classes/1").json()["examples"] == 1
    refused = client.delete("classes/1")
    assert refused.status_code == 409 and refused.json()["photographs"] == 1
    assert client.delete("classes/1", params={"erase": True}).status_code == 204
    assert client.get("classes").json() == [] and not mask_of(client, ids["0.png"]).any()


# -- the model ---------------------------------------------------------------------------------------------------------


def test_learning_finds_and_follows(client, ids, studio):
    assert client.post("concept", json={}).status_code == 400, "nothing is painted yet"
    assert client.get("concept").status_code == 404
    paint(client, ids, "0.png")
    first = learned(client)
    assert first["examples"] == 1 and first["classes"] == ["box"] and not first["stale"]
    quiet(client)
    assert client.get("project").json()["photographs"]["found"] == 5
    # Another example: what is found follows by itself.
    paint(client, ids, "1.png")
    until(lambda: client.get("concept").json()["examples"] == 2)
    until(lambda: client.get("concept").json()["estimate"])
    quiet(client)
    print_of = client.get("concept").json()["fingerprint"]
    found = {one.concept for one in map(studio.project.finds.get, ("2", "3", "more/4", "more/5"))}
    assert found == {print_of} and print_of != first["fingerprint"]
    # What is taken back is forgotten.
    etag = client.get(f"photographs/{ids['1.png']}/mask", params={"source": "painted"}).headers["etag"]
    client.delete(f"photographs/{ids['1.png']}/mask", headers={"if-match": etag})
    until(lambda: client.get("concept").json()["examples"] == 1)
    etag = client.get(f"photographs/{ids['0.png']}/mask").headers["etag"]
    client.delete(f"photographs/{ids['0.png']}/mask", headers={"if-match": etag})
    until(lambda: client.get("concept").status_code == 404)
    assert client.get("project").json()["photographs"]["found"] == 0


def test_what_was_corrected_is_learned_as_the_commands_learn_it_and_photographs_are_not_read_again(
    client, ids, studio, segmenter, folder, monkeypatch
):
    paint(client, ids, "2.png")
    learned(client)
    quiet(client)
    monkeypatch.setattr(segmenter, "learn", None)
    paint(client, ids, "0.png")
    assert until(lambda: len(studio.mind.learned.keys) == 2 and studio.mind.learned.whole)
    monkeypatch.undo()
    now = studio.mind.learned
    paths, masks = [folder / "0.png", folder / "2.png"], [truth(0), truth(2)]
    assert now.fingerprint == segmenter.learn(paths, masks, classes=now.legend).fingerprint
    assert [one.name for one in now.concept.origins] == ["0.png", "2.png"] and now.keys == ("0", "2")


def test_what_was_accepted_stays_as_it_was(client, ids):
    paint(client, ids, "0.png")
    learned(client)
    quiet(client)
    name = ids["2.png"]
    before = client.get(f"photographs/{name}/mask").headers["etag"]
    client.put(f"photographs/{name}/review", json={"review": "accepted"})
    paint(client, ids, "1.png", "3.png")
    until(lambda: client.get("concept").json()["examples"] == 3)
    learned(client)
    quiet(client)
    assert client.get(f"photographs/{name}/mask").headers["etag"] == before


def test_maps_proposals_and_suggestions(client, ids):
    name = ids["2.png"]
    assert client.get(f"photographs/{name}/uncertainty").status_code == 404
    assert client.get(f"photographs/{name}/probability", params={"class": 1}).status_code == 404
    first = client.get("suggestion").json()
    assert first["photograph"]["id"] in ids.values() and first["reason"]
    region = client.post(f"photographs/{name}/propose", json={"x": 30, "y": 20, "class": None, "more": []})
    assert region.status_code == 200 and set(region.json()) == {"x", "y", "width", "height", "runs"}
    assert client.post(f"photographs/{name}/propose", json={"x": 64, "y": 0}).status_code == 422
    paint(client, ids, "0.png")
    learned(client)
    quiet(client)
    for kind, query in (("uncertainty", {}), ("probability", {"class": 1})):
        answer = client.get(f"photographs/{name}/{kind}", params=query)
        assert Image.open(io.BytesIO(answer.content)).mode == "L"
    more = [{"x": 2, "y": 2, "positive": False}]
    assert client.post(f"photographs/{name}/propose", json={"x": 30, "y": 20, "class": 1, "more": more}).is_success
    assert client.get("suggestion").json()["photograph"]["id"] != ids["0.png"]
    summary = client.get("summary").json()
    assert sum(summary["scores"]) == 5 and summary["classes"][0]["photographs"] >= 1


def test_what_next_says_how_probably_it_shows_what_was_painted(folder):
    belief = Belief((0.0, 4.0, 0.0, 0.0, 0.0), (0.0, 4.0, 0.0, 0.0, 0.0))
    network = tiny_network(CONFIG.but(similarity=True))
    segmenter = Segmenter(network, calibration=Calibration(presence=belief, quality=belief), dtype=torch.float32)
    with running(folder, segmenter) as client:
        ids = {one["name"]: one["id"] for one in client.get("photographs").json()["items"]}
        paint(client, ids, "0.png")
        learned(client)
        before = client.get("suggestion").json()
        quiet(client)
        after = client.get("suggestion").json()
        items = client.get("photographs").json()["items"]
    presence = {one["id"]: one["presence"] for one in items if one["name"] != "0.png"}
    for told in (before, after):  # whether or not things were looked for in all of them yet
        assert f"a probability of {round(100 * presence[told['photograph']['id']])} %" in told["reason"]


def test_a_photograph_that_is_half_painted_does_not_say_that_the_rest_of_it_is_nothing(client, ids, studio):
    mind = studio.mind
    mine, other = (studio.project.record(ids[name]) for name in ("0.png", "1.png"))
    paint(client, ids, "0.png")
    learned(client)
    assert mind._others(mind.learned, mine) is None, "a click proposes what it would have before"
    assert mind._others(mind.learned, other) is mind.learned.concept
    paint(client, ids, "1.png")
    until(lambda: client.get("concept").json()["examples"] == 2)
    assert mind._others(mind.learned, mine).examples == 1


@contextmanager
def running(folder, segmenter):
    """A studio of its own, and a client."""
    with open_studio(segmenter, folder) as studio:
        guard = Guard(application(studio), Access.of("127.0.0.1"), limits())
        with (
            serving(guard, stop=[studio.hub.close]) as address,
            httpx.Client(base_url=f"{address}/api/v1/", timeout=120) as one,
        ):
            yield one


def test_after_a_restart_nothing_is_found_anew(folder, segmenter):
    marks = []
    for _ in range(2):
        with running(folder, segmenter) as one:
            if not marks:
                names = {each["name"]: each["id"] for each in one.get("photographs").json()["items"]}
                paint(one, names, "0.png", "1.png")
                learned(one)
            # The estimate comes once it is known what is still to be found.
            until(lambda one=one: one.get("concept").is_success and one.get("concept").json()["estimate"])
            quiet(one)
        found = [path for part in ("masks", "uncertainty") for path in (folder / ".dgpnet/found" / part).rglob("*.png")]
        marks.append({path: path.stat().st_mtime_ns for path in found})
    assert marks[0] == marks[1] and len(marks[0]) == 2 * 4


def test_fitting_goes_on_in_the_background_and_what_is_painted_later_extends_it(client, ids):
    failed = client.post("concept/fit", json={}).json()
    assert until(lambda: client.get(f"jobs/{failed['id']}").json()["state"] == "failed"), "nothing is painted"
    paint(client, ids, "0.png", "1.png", "3.png", "more/4.png")
    job = client.post("concept/fit", json={"seconds": 2}).json()
    assert client.post("concept/fit", json={}).status_code == 409
    assert until(lambda: client.get(f"jobs/{job['id']}").json()["state"] == "done", FITTING)
    assert client.get("concept").json()["fitted"]
    paint(client, ids, "2.png")
    until(lambda: client.get("concept").json()["examples"] == 5)
    assert client.get("concept").json()["fitted"]


def test_what_was_fitted_outlives_the_server(folder, segmenter):
    with running(folder, segmenter) as one:
        names = {each["name"]: each["id"] for each in one.get("photographs").json()["items"]}
        paint(one, names, "0.png", "1.png", "3.png")
        job = one.post("concept/fit", json={"seconds": 2}).json()
        assert until(lambda: one.get(f"jobs/{job['id']}").json()["state"] == "done", FITTING)
        quiet(one)
        before = one.get("concept").json()
    with running(folder, segmenter) as one:
        until(lambda: one.get("concept").status_code == 200)
        after = one.get("concept").json()
    assert before["fitted"] and (before["fingerprint"], before["seconds"]) == (after["fingerprint"], after["seconds"])
    (folder / ".dgpnet/fitted.concept").write_bytes(b"damaged")
    with running(folder, segmenter) as one:
        until(lambda: one.get("concept").status_code == 200)
        assert not one.get("concept").json()["fitted"], "learned anew, as nothing else can be done"


# -- files -------------------------------------------------------------------------------------------------------------


def test_an_export_is_what_the_folder_job_writes(client, ids, studio, folder, tmp_path):
    from dgpnet.annotations import read_support
    from dgpnet.segmenter.folder import segment_folder

    paint(client, ids, "0.png", "1.png")
    learned(client)
    quiet(client)
    job = client.post("exports", json={"formats": ["coco", "yolo"], "overlay": True}).json()
    done = until(lambda: (now := client.get(f"jobs/{job['id']}").json())["state"] == "done" and now)
    archive = zipfile.ZipFile(io.BytesIO(client.get(done["result"]["download"].removeprefix("/api/v1/")).content))
    studio.project.save()
    painted = read_support(studio.project.root / "painted", photos=folder)
    examples = painted.examples
    concept = studio.segmenter.learn([e.photo for e in examples], [e.mask for e in examples], classes=painted.legend)
    out = tmp_path / "out"
    segment_folder(concept, folder, out, painted=painted, formats=["coco", "yolo"], overlay=True)
    theirs = {p.relative_to(out).as_posix(): p for p in out.rglob("*") if p.is_file() and ".dgpnet" not in p.parts}
    ours = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
    assert theirs.keys() == ours.keys()
    timed = {"summary.csv", "summary.json", "report/index.html"}
    different = [name for name, path in theirs.items() if name not in timed and path.read_bytes() != ours[name]]
    assert not [name for name in different if not name.startswith("report/")], different


def test_exports_are_refused_where_there_is_nothing(client, ids):
    assert client.post("exports", json={"formats": ["docx"]}).status_code == 422
    assert client.post("exports", json={"only": "some"}).status_code == 422
    job = client.post("exports", json={}).json()
    failed = until(lambda: (now := client.get(f"jobs/{job['id']}").json())["state"] == "failed" and now)
    assert "painted" in failed["detail"]
    assert client.get("exports/..%2f..%2fx/archive").status_code == 404
    assert client.get("exports/abc/archive").status_code == 404
    assert client.get("jobs/none").status_code == 404


def bundle(entries):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def imported(client, name, content):
    answer = client.post("imports", params={"name": name}, content=content)
    assert answer.status_code == 202, answer.text
    return until(
        lambda: (now := client.get(f"jobs/{answer.json()['id']}").json())["state"] in ("done", "failed") and now
    )


def test_masks_of_other_programs_become_painted_ones(client, ids, folder):
    photo = (folder / "0.png").read_bytes()
    named = {"0.png": photo, "strange.png": (folder / "3.png").read_bytes()}
    entries = {f"set/images/{name}": content for name, content in named.items()}
    entries |= {"set/masks/0.png": png(truth(0)), "set/masks/strange.png": png(truth(3))}
    entries |= {"set/classes.json": json.dumps({"1": "crate"})}
    done = imported(client, "mine.zip", bundle(entries))
    assert done["state"] == "done", done
    assert done["result"]["examples"] == 1 and done["result"]["unmatched"] == ["strange.png"]
    assert (mask_of(client, ids["0.png"]) == truth(0)).all()
    assert client.get("classes").json()[0]["name"] == "crate"
    again = imported(client, "mine.zip", bundle(entries))
    assert again["result"]["examples"] == 0, "what is painted stays"


def test_an_annotation_file_speaks_of_the_folder_s_photographs(client, ids):
    coco = {
        "images": [{"id": 1, "file_name": "1.png", "width": 64, "height": 48}],
        "categories": [{"id": 7, "name": "box"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "segmentation": [[5, 5, 25, 5, 25, 20, 5, 20]]}],
    }
    done = imported(client, "coco.json", json.dumps(coco).encode())
    assert done["state"] == "done" and done["result"]["examples"] == 1
    assert set(np.unique(mask_of(client, ids["1.png"]))) == {0, 7}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.zip", b"PK no archive"),
        ("a.zip", bundle({"../../out.png": b"x"})),
        ("a.zip", bundle({"/etc/out.png": b"x"})),
        ("a.zip", bundle({"readme.txt": b"x"})),
        ("a.json", b"{}"),
        ("a.json", b"\xff\xfe"),
        ("../../a.json", b"[]"),
        ("a.xml", b"<x/>"),
    ],
)
def test_what_cannot_be_imported_is_told_and_leaves_nothing(client, studio, folder, name, content):
    before = sorted(folder.parent.iterdir())
    failed = imported(client, name, content)
    assert failed["state"] == "failed" and failed["detail"].endswith(".")
    assert str(studio.project.root) not in failed["detail"]
    assert not list((studio.project.root / "incoming").iterdir())
    assert sorted(folder.parent.iterdir()) == before


def test_an_archive_that_is_too_much_is_not_unpacked(client, monkeypatch):
    monkeypatch.setattr(imports, "UNPACKED", 1000)
    failed = imported(client, "bomb.zip", bundle({"a.png": b"0" * 5000}))
    assert "too much" in failed["detail"]


# -- events ------------------------------------------------------------------------------------------------------------


def test_events_tell_what_others_do(client, ids):
    heard, up = [], threading.Event()

    def listen():
        with client.stream("GET", "events", params={"client": "me"}) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    heard.append(json.loads(line[6:]))
                    up.set()
                    if {"classes", "mask", "photograph"} <= {one["type"] for one in heard}:
                        return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert up.wait(10)
    with httpx.Client(base_url=client.base_url, timeout=120) as other:
        paint(other, ids, "0.png")
    thread.join(10)
    assert not thread.is_alive()
    assert heard[0]["type"] == "hello"
    told = next(one for one in heard if one["type"] == "mask")
    assert told["id"] == ids["0.png"] and told["source"] == "painted"

import csv
import io
import json
import os
import re

import numpy as np
from PIL import Image

from dgpnet.annotations.legend import Legend
from dgpnet.places import Folder
from dgpnet.segmenter.entries import Entries, Entry, RoundEntries
from dgpnet.segmenter.figures import FIELDS, Figures
from dgpnet.segmenter.page import PAGE
from dgpnet.segmenter.report import thumbnail, thumbnails, write_report, write_summary
from dgpnet.segmenter.rounds import Round


def entry(name: str, score: float, *, painted: bool = False, counts: tuple[int, ...] = ()) -> Entry:
    figures = Figures(
        width=40, height=30, painted=painted, edited=False, score=score, likeness=0.75, presence=0.9,
        uncertainty=0.25, novelty=0.5,
        areas=(100, 20), shares=(100 / 1200, 20 / 1200), counts=counts, scores=(0.8, 0.7), likenesses=(0.6, 0.5),
        presences=(0.9, 0.4),
        seconds=0.125,
    )  # fmt: skip
    return Entry(name + ".jpg", name, f"/photos/{name}.jpg", (1, 2), "m", (3, 4), "d", {}, figures)


ROUND = Round("c", "m", {"mug": 1, "spoon": 2}, (), {}, {})
LEGEND = Legend(("mug", "<i>"), (3, 7), ((1, 2, 3), (255, 0, 0)))
ENTRIES = [entry("a", 0.9, counts=(3, 1)), entry("trip/b", 0.1, counts=(2, 0)), entry("c", 0.5, counts=(0, 0))]


def for_review(several: list[Entry]) -> RoundEntries:
    entries = Entries()
    entries.add(several)
    return entries.of_round("m")


FAILURES = {"bad.jpg": "/photos/bad.jpg is empty."}


def test_the_page_needs_nothing_but_its_own_folder():
    assert not re.search(r"https?://|//cdn|@import|fetch\(|XMLHttpRequest|type=\"module\"", PAGE)
    assert re.findall(r'<script src="([^"]+)"', PAGE) == ["data.js"]


def data_of(report):
    return json.loads((report / "data.js").read_text().removeprefix("window.dgpnetReport = ").removesuffix(";\n"))


def test_data_is_a_script_that_any_name_survives(tmp_path):
    odd = "a'\"</script><b>\u2028\n é"
    write_report(Folder(tmp_path), LEGEND, [entry(odd, 0.5)], {odd: "broken"})
    data = data_of(tmp_path / "report")
    assert data["rows"][0][0] == odd + ".jpg"
    assert [(c["name"], c["value"], c["colour"]) for c in data["classes"]] == [
        ("mug", 3, "#010203"),
        ("<i>", 7, "#ff0000"),
    ]
    assert data["failures"] == [[odd, "broken"]]
    assert (tmp_path / "report" / "index.html").read_text() == PAGE


def test_a_name_that_is_no_text_has_an_address_and_can_be_told_back(tmp_path):
    name = os.fsdecode(b"caf\xe9 50%#1")
    write_report(Folder(tmp_path), LEGEND, [entry(name, 0.5)], {})
    shown, link, _ = data_of(tmp_path / "report")["rows"][0]
    assert shown == "caf\\udce9 50%#1.jpg"
    assert link == "caf%E9%2050%25%231"
    backslash = "x\\udce9"
    write_summary(Folder(tmp_path), ROUND, ["mug", "spoon"], [entry(name, 0.5), entry(backslash, 0.5)], {})
    rows = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["photographs"]
    assert [row["photo"] for row in rows] == [name + ".jpg", backslash + ".jpg"]
    with (tmp_path / "summary.csv").open(newline="", encoding="utf-8") as file:
        told = [row["photo"] for row in csv.DictReader(file)]
    assert told == ["caf\\udce9 50%#1.jpg", "x\\\\udce9.jpg"]


def test_every_number_has_a_meaning_and_the_page_shows_them_all(tmp_path):
    write_report(Folder(tmp_path), LEGEND, ENTRIES, {})
    data = data_of(tmp_path / "report")
    assert [figure["name"] for figure in data["figures"]] == [one.name for one in FIELDS]
    assert all(figure["means"].endswith(".") for figure in data["figures"])
    assert all(len(values) == len(FIELDS) for _, _, values in data["rows"])
    assert data["classes"][0]["total"] == {"photographs": 3, "area": 300, "share": 0.08333, "count": 5}


def test_thumbnails_are_files_of_one_size_that_lie_over_each_other(tmp_path):
    photo = np.full((30, 40, 3), 200, np.uint8)
    mask = np.zeros((30, 40), np.uint8)
    mask[:10] = 1
    uncertainty = np.zeros((60, 40), np.uint8)
    uncertainty[:, :5] = 128
    files = thumbnails("trip/b", Image.fromarray(photo), mask, uncertainty, [(1, 2, 3)])
    layers = {kind: Image.open(io.BytesIO(files[f"report/{kind}/{name}"])) for kind, name in
              [("photo", "trip/b.jpg"), ("mask", "trip/b.png"), ("uncertainty", "trip/b.png")]}  # fmt: skip
    assert {layer.size for layer in layers.values()} == {(40, 30)}
    seen = np.asarray(layers["mask"].convert("RGBA"))[..., 3]
    np.testing.assert_array_equal(seen > 0, mask > 0)
    assert layers["mask"].convert("RGB").getpixel((0, 0)) == (1, 2, 3)
    seen = np.asarray(layers["uncertainty"].convert("RGBA"))[..., 3]
    assert seen[0, 0] == 255
    assert seen[0, 20] == 0


def test_thumbnails_are_small_and_never_larger_than_the_photograph():
    for size, small in (((4000, 3000), (640, 480)), ((30, 20), (30, 20)), ((40_000, 1), (640, 1))):
        assert thumbnail(Image.new("RGB", size)).size == small


def test_the_summary_lists_everything_in_order(tmp_path):
    write_summary(Folder(tmp_path), ROUND, ["mug", "spoon"], for_review(ENTRIES), FAILURES)
    text = (tmp_path / "summary.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False), "though it is written piece by piece"
    whole = json.loads((tmp_path / "summary.json").read_text())
    assert whole["model"] == "m"
    assert [row["photo"] for row in whole["photographs"]] == ["trip/b.jpg", "c.jpg", "a.jpg"]
    first = whole["photographs"][0]
    assert first["mask"] == "masks/trip/b.png"
    assert first["areas"] == {"mug": 100, "spoon": 20}
    assert first["shares"] == {"mug": 0.08333, "spoon": 0.01667}
    assert first["counts"] == {"mug": 2, "spoon": 0}
    assert first["scores"] == {"mug": 0.8, "spoon": 0.7}
    assert first["painted"] is False
    assert whole["totals"]["mug"] == {"photographs": 3, "area": 300, "share": 0.08333, "count": 5}
    assert whole["failures"] == [{"photo": "bad.jpg", "error": "/photos/bad.jpg is empty."}]
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["photo"] for row in rows] == ["trip/b.jpg", "c.jpg", "a.jpg", "bad.jpg"]
    assert rows[0]["area spoon"] == "20"
    assert rows[0]["count mug"] == "2"
    assert rows[0]["likeness spoon"] == "0.5"
    assert rows[0]["seconds"] == "0.125"
    assert rows[3]["error"] == "/photos/bad.jpg is empty."


def test_where_nothing_was_counted_there_is_no_count(tmp_path):
    write_summary(Folder(tmp_path), ROUND, ["mug", "spoon"], [entry("a", 0.5)], {})
    assert "count" not in (tmp_path / "summary.csv").read_text()
    assert "count" not in (tmp_path / "summary.json").read_text()

import csv
import json
import re

import numpy as np
from PIL import Image

from dgpnet.segmenter.ledger import Entry
from dgpnet.segmenter.page import PAGE
from dgpnet.segmenter.report import for_review, thumbnail, write_report, write_summary, write_thumbnails


def entry(name: str, score: float) -> Entry:
    return Entry(name + ".jpg", name, f"/photos/{name}.jpg", (1, 2), 40, 30, score, 0.25, 0.5, 0.75, (100, 20), 0.125)


ENTRIES = [entry("a", 0.9), entry("trip/b", 0.1), entry("c", 0.5)]
FAILURES = {"bad.jpg": "/photos/bad.jpg is empty."}


def test_the_least_certain_come_first():
    assert [e.name for e in for_review(ENTRIES)] == ["trip/b.jpg", "c.jpg", "a.jpg"]


def test_the_page_needs_nothing_but_its_own_folder():
    assert not re.search(r"https?://|//cdn|@import|fetch\(|XMLHttpRequest|type=\"module\"", PAGE)
    assert re.findall(r'<script src="([^"]+)"', PAGE) == ["data.js"]


def test_data_is_a_script_that_any_name_survives(tmp_path):
    odd = "a'\"</script><b>\u2028 é"
    write_report(tmp_path, "mug", ["mug", "<i>"], [entry(odd, 0.5)], {odd: "broken"})
    text = (tmp_path / "data.js").read_text()
    data = json.loads(text.removeprefix("window.dgpnetReport = ").removesuffix(";\n"))
    assert data["rows"][0][0] == odd
    assert [c["name"] for c in data["classes"]] == ["mug", "<i>"]
    assert re.fullmatch("#[0-9a-f]{6}", data["classes"][0]["colour"])
    assert data["failures"] == [[odd, "broken"]]
    assert (tmp_path / "index.html").read_text() == PAGE


def test_thumbnails_are_files_of_one_size_that_lie_over_each_other(tmp_path):
    photo = np.full((30, 40, 3), 200, np.uint8)
    mask = np.zeros((30, 40), np.uint8)
    mask[:10] = 1
    uncertainty = np.zeros((60, 40), np.uint8)
    uncertainty[:, :5] = 128
    write_thumbnails(tmp_path, "trip/b", Image.fromarray(photo), mask, uncertainty)
    layers = {kind: Image.open(tmp_path / kind / name) for kind, name in
              [("photo", "trip/b.jpg"), ("mask", "trip/b.png"), ("uncertainty", "trip/b.png")]}  # fmt: skip
    assert {layer.size for layer in layers.values()} == {(40, 30)}
    seen = np.asarray(layers["mask"].convert("RGBA"))[..., 3]
    np.testing.assert_array_equal(seen > 0, mask > 0)
    seen = np.asarray(layers["uncertainty"].convert("RGBA"))[..., 3]
    assert seen[0, 0] == 255
    assert seen[0, 20] == 0


def test_thumbnails_are_small_and_never_larger_than_the_photograph():
    for size, small in (((4000, 3000), (640, 480)), ((30, 20), (30, 20)), ((40_000, 1), (640, 1))):
        assert thumbnail(Image.new("RGB", size)).size == small


def test_the_summary_lists_everything_in_order(tmp_path):
    write_summary(tmp_path, {"model": "m"}, ["mug", "spoon"], for_review(ENTRIES), FAILURES)
    whole = json.loads((tmp_path / "summary.json").read_text())
    assert whole["model"] == "m"
    assert [row["photo"] for row in whole["photographs"]] == ["trip/b.jpg", "c.jpg", "a.jpg"]
    assert whole["photographs"][0]["mask"] == "masks/trip/b.png"
    assert whole["photographs"][0]["areas"] == {"mug": 100, "spoon": 20}
    assert whole["failures"] == [{"photo": "bad.jpg", "error": "/photos/bad.jpg is empty."}]
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["photo"] for row in rows] == ["trip/b.jpg", "c.jpg", "a.jpg", "bad.jpg"]
    assert rows[0]["area spoon"] == "20"
    assert rows[0]["seconds"] == "0.125"
    assert rows[3]["error"] == "/photos/bad.jpg is empty."

"""What fitting gains: which sets are measured, and how rows are summed up."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from dgpnet import data
from research.encoded import photographs_of
from research.fitting import THIN, Row, beside, compared, measured, miou, read, sets, summary, table
from tests.tiny import CONFIG, tiny_segmenter

FOUND, FITTED = ((20, 100), (40, 100)), ((50, 100), (100, 200))
ROW = Row("thin", "a/b", 0.5, 0.6, FOUND, FITTED, 20.0, 30.0, 4.7, "seen at 832 pixels")


def test_thin_sets_and_evenly_spaced_others_take_turns():
    names = [*(f"{name}/thing" for name in THIN[:3]), *(f"set{i}/thing" for i in range(9))]
    chosen = sets(SimpleNamespace(classes=dict(enumerate(names))), 3)
    assert list(chosen) == [THIN[0], "set0", THIN[1], "set4", THIN[2], "set8"]
    assert set(chosen.values()) == {"thin", "other"}
    assert chosen[THIN[1]] == "thin" and chosen["set4"] == "other"


def test_gains_are_of_means_and_kinds_are_summed_up():
    other = Row("other", "c/d", 0.9, None, ((8, 10),), ((7, 10),), 60.0, 90.0, 1.0, "seen at 384 pixels")
    assert ROW.gain == pytest.approx(0.2) and other.gain == pytest.approx(-0.1)
    lines = table([ROW, other]).splitlines()
    assert "| a/b | 2 | 30.0 | 50.0 | +20.0 | 60 | 4.7× | seen at 832 pixels |" in lines
    assert "| **other, 1** | | **80.0** | **70.0** | **-10.0** | | 1.0× | |" in lines
    worse = replace(ROW, parts_fitted=((3, 10), (3, 10)))  # gains 20 and 0 points: 14.1 between them, 10 of their mean
    assert "| **thin, 2** | | **30.0** | **40.0** | **+10.0 ± 10.0** | | 4.7× | |" in table([ROW, worse]).splitlines()
    assert "estimate, fit: mean absolute error" not in summary([other])
    told = summary([ROW, other, ROW])
    assert told["worst gain of a class"] == pytest.approx(-0.1)
    assert told["fitting, seconds by the clock: most"] == 60.0
    assert told["estimate, one view: mean absolute error"] == pytest.approx((0.2 + 0.1 + 0.2) / 3, abs=1e-3)


def test_miou_sums_pixels_of_a_class_before_it_divides():
    again, other = replace(ROW, parts=((0, 300),)), replace(ROW, name="c/d", parts=((0, 0),))
    assert miou([ROW, again, other], "parts") == pytest.approx((60 / 500 + 1) / 2)
    assert summary([ROW])["mIoU, fit"] == pytest.approx(0.5)


def test_two_files_of_rows_are_put_beside_each_other(tmp_path):
    more = [replace(ROW, name=name, parts_fitted=parts) for name, parts in (("a/b", FITTED), ("c/d", ((80, 100),) * 2))]
    less = [replace(ROW, name=name) for name in ("c/d", "a/b", "e/f")]
    for name, rows in (("before", less), ("after", more)):
        (tmp_path / name).write_text(json.dumps([asdict(row) for row in rows]))
    before, after = read(tmp_path / "before"), read(tmp_path / "after")
    assert (before, after) == (less, more)
    told = beside(before, after)
    assert told.count("| **thin, 2** |") == 2 and "e/f" not in told
    assert told.endswith("Gains are larger by +15.0 ± 15.0, 2 classes.")  # by 0 and 30 points


def test_the_same_examples_are_learned_from_with_and_without_fit():
    dataset = data.build("synthetic", kinds=2, photographs=12, side=64, objects=2, folds=1)
    class_id = next(iter(dataset.classes))
    showing = photographs_of(dataset, class_id)
    row = compared(tiny_segmenter(CONFIG), dataset, "other", class_id, showing[:2], showing[2:4], seconds=0.0)
    assert len(row.ious) == len(row.ious_fitted) == 2 and row.cost == 1.0
    assert all(0 <= both <= either <= 64 * 64 for both, either in row.parts)
    assert np.isfinite([row.wall, row.processor]).all() and row.expected is not None


def test_a_set_without_enough_photographs_is_left_out():
    dataset = data.build("synthetic", kinds=1, photographs=3, side=64, objects=1, folds=1)
    name = next(iter(dataset.classes.values())).split("/")[0]
    assert list(measured(tiny_segmenter(CONFIG), dataset, {name: "other"}, 5, 2, 0.0, 0)) == []

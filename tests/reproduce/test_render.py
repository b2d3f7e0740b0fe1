"""Tables come out as Markdown, CSV, JSON and pictures, the paper's figure beside ours."""

import csv
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from dgpnet.reproduce import render
from dgpnet.reproduce.archive import Archive, Finding
from dgpnet.reproduce.plan import Places, Planner
from dgpnet.reproduce.scales import FULL, MINI
from dgpnet.reproduce.tables import EXHIBITS, Grid, Table

PLANNER = Planner(MINI, Places({}, {}))


def table(name: str) -> Table:
    exhibit = EXHIBITS[name]
    assert isinstance(exhibit, Table)
    return exhibit


@pytest.fixture
def kernels(tmp_path: Path) -> render.Filled:
    archive = Archive(tmp_path)
    for row, miou in zip(table("kernels").rows, (0.55, 0.58, 0.60), strict=True):
        for column in table("kernels").columns[:2]:
            (test,) = PLANNER.cell(row, column)
            archive.record_test(test, Finding((miou,), (miou,), 0.01, 1.0, 1.0))
    return render.filled(table("kernels"), PLANNER, archive)


def test_markdown_has_the_papers_line_over_ours_and_says_which_orderings_hold(kernels: render.Filled) -> None:
    text = render.markdown(kernels, "dgpnet reproduce kernels")
    lines = text.splitlines()
    theirs = lines.index("| SE | paper | 62.1 | 69.9 | 41.7 | 51.2 | 5.5 |")
    assert lines[theirs + 1] == "| SE | **ours** | **60.0** | **60.0** | – | – | **5.0** |"
    assert "- SE over Linear: holds (+5.0, in 2 of 2 columns; ± 1.4)" in lines
    assert "PASCAL-5i-mini, fold 1 (cat, chair, cow), 1,500 iterations" in text
    assert "compare orderings, not figures" in text
    assert "dgpnet reproduce kernels" in lines


def test_the_named_classes_of_every_fold_are_told() -> None:
    several = render.describe(MINI.changed(folds=(1, 3)), table("kernels").columns)
    assert "folds 1 (cat, chair, cow), 3 (sheep, sofa), 1,500" in several
    assert "PASCAL-5i, all folds, 20,000" in render.describe(FULL, table("kernels").columns)
    assert "PASCAL-5i, folds 0, 2, 20,000" in render.describe(FULL.changed(folds=(0, 2)), table("kernels").columns)


def test_csv_has_one_line_a_figure(kernels: render.Filled) -> None:
    rows = list(csv.DictReader(io.StringIO(render.comma_separated(kernels))))
    ours = [row for row in rows if row["from"] == "ours"]
    assert len(ours) == 6
    assert len(rows) == 6 + 12
    assert {row["value"] for row in ours if row["row"] == "SE"} == {"60.0"}
    assert {row["training_spread"] for row in rows} == {""}


def test_several_trainings_are_told_with_their_deviation(tmp_path: Path) -> None:
    archive, planner = Archive(tmp_path), Planner(MINI.changed(trainings=2), Places({}, {}))
    for label, mious in (("Linear", (0.50, 0.54)), ("Exponential", (0.50, 0.53)), ("SE", (0.60, 0.63))):
        for test, miou in zip(
            planner.cell(table("kernels").row(label), table("kernels").columns[0]), mious, strict=True
        ):
            archive.record_test(test, Finding((miou,), (miou,), 0.01, 1.0, 1.0))
    one = render.filled(table("kernels"), planner, archive)
    assert "1 shot, 2 trainings of each network, 1,000 episodes, one draw" in render.describe(
        one.scale, one.table.columns
    )
    rows = list(csv.DictReader(io.StringIO(render.comma_separated(one))))
    assert {row["row"]: row["training_spread"] for row in rows if row["from"] == "ours"} == {
        "Linear": "2.828",
        "Exponential": "2.121",
        "SE": "2.121",
    }
    content = json.loads(json.dumps(render.plain(one, "command")))
    assert content["rows"][2]["columns"][0]["ours"]["networks"] == {"fold 1, seed 0": 60.0, "fold 1, seed 1": 63.0}
    noise = {check["worse"]: check["noise_of"] for check in content["orderings"]}
    assert noise == {"Linear": "trainings", "Exponential": "episodes"}


def test_json_has_both_figures_and_the_orderings(kernels: render.Filled) -> None:
    content = json.loads(json.dumps(render.plain(kernels, "command")))
    cell = content["rows"][2]["columns"][0]
    assert cell["paper"]["value"] == 62.1
    assert cell["ours"]["mean"] == pytest.approx(60.0)
    assert content["rows"][2]["mean_delta"] == {"paper": 5.5, "ours": pytest.approx(5.0)}
    assert all(ordering["holds"] for ordering in content["orderings"])


def test_files_are_written_with_a_picture_for_each_benchmark_that_was_measured(
    kernels: render.Filled, tmp_path: Path
) -> None:
    paths = render.write(kernels, tmp_path / "tables", "command")
    names = {path.name for path in paths}
    assert names == {"kernels.md", "kernels.csv", "kernels.json", "kernels-pascal.png"}
    assert all(path.is_file() for path in paths)
    assert "](kernels-pascal.png)" in (tmp_path / "tables" / "kernels.md").read_text(encoding="utf-8")


def test_the_first_figure_is_drawn_even_before_anything_is_measured(tmp_path: Path) -> None:
    empty = render.filled(table("shots"), PLANNER, Archive(tmp_path))
    assert not empty.begun
    drawn = dict(render.plots(empty))
    assert set(drawn) == {"pascal", "coco"}
    assert all(isinstance(picture, Image.Image) for picture in drawn.values())


def test_a_wide_table_is_cut_into_one_for_each_benchmark(tmp_path: Path) -> None:
    text = render.markdown(render.filled(table("shots"), PLANNER, Archive(tmp_path)), "command")
    headers = [line for line in text.splitlines() if line.startswith("| Method")]
    assert [line.count("-shot") for line in headers] == [10, 10]
    lines = text.splitlines()
    coco = lines.index(headers[1])
    assert not any("CRNet" in line for line in lines[coco:])  # it has no figure there


@pytest.mark.parametrize("name", [name for name, exhibit in EXHIBITS.items() if isinstance(exhibit, Table)])
def test_every_table_can_be_written_empty(name: str, tmp_path: Path) -> None:
    one = render.filled(table(name), PLANNER, Archive(tmp_path))
    assert all(row.label in render.markdown(one, "command") for row in table(name).rows)
    assert not one.checks


def test_the_page_of_a_grid_says_how_episodes_were_chosen() -> None:
    grid = EXHIBITS["grid-shots"]
    assert isinstance(grid, Grid)
    text = render.grid_markdown(grid, MINI.setups["pascal"], "command")
    assert "grid-shots.png" in text
    assert "not chosen by how well they came out" in text

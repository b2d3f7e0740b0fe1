"""Every table and figure of the paper has its exhibit, and the exhibit can be built."""

import pytest

from dgpnet.errors import Error
from dgpnet.network import Config
from dgpnet.reproduce import paper
from dgpnet.reproduce.tables import BASELINE, EXHIBITS, FINAL, Grid, Table, select

TABLES = [exhibit for exhibit in EXHIBITS.values() if isinstance(exhibit, Table)]


def test_every_table_of_the_paper_has_an_entry() -> None:
    sources = " ".join(exhibit.source for exhibit in EXHIBITS.values())
    assert all(label in sources for label in ("tab:runtimes", *(table.label for table in paper.ALL)))
    for figure in ("fig:kshot-performance", "fig:appendix-qualitative-1-5-10", "fig:appendix-qualitative-pascal"):
        assert figure in sources


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_fit_their_columns_and_are_networks(table: Table) -> None:
    assert len({row.label for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert len(row.figures) == len(table.columns)
        if row.changes is not None:
            Config().but(**row.changes)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_orderings_and_the_base_of_delta_name_rows_of_ours(table: Table) -> None:
    ours = {row.label for row in table.rows if row.changes is not None}
    named = {label for ordering in table.orderings for label in (ordering.better, ordering.worse)}
    assert named <= ours
    assert not table.delta_from or table.delta_from in ours


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_orderings_hold_in_the_papers_own_figures(table: Table) -> None:
    for ordering in table.orderings:
        better, worse = (table.row(label).figures for label in (ordering.better, ordering.worse))
        gains = [a.value - b.value for a, b in zip(better, worse, strict=True) if a and b]
        assert sum(gains) > 0, ordering


def test_ablations_start_where_the_protocol_says() -> None:
    first = {name: EXHIBITS[name].rows[0].changes for name in ("kernels", "window", "covariance")}  # type: ignore[union-attr]
    plain = Config(window=0, output_space="mask", levels=(32,))
    assert Config().but(**first["kernels"]) == plain.but(kernel="linear")
    assert Config().but(**first["window"]) == Config().but(**first["covariance"]) == plain
    assert Config().but(**FINAL) == Config()
    assert Config().but(**BASELINE) == plain.but(kernel="linear")


def test_the_shots_table_has_the_papers_points_at_one_and_five_shots() -> None:
    table = EXHIBITS["shots"]
    assert isinstance(table, Table)
    row = table.row("HSNet (ResNet-101)")
    printed = {column.title: figure.value for column, figure in zip(table.columns, row.figures, strict=True) if figure}
    assert printed == {"PASCAL 1-shot": 66.2, "PASCAL 5-shot": 70.4, "COCO 1-shot": 41.2, "COCO 5-shot": 49.5}


def test_the_nested_grid_shows_one_five_and_ten_shots() -> None:
    grid = EXHIBITS["grid-shots"]
    assert isinstance(grid, Grid)
    assert [model.shots for model in grid.models] == [1, 5, 10]


def test_selection_keeps_the_papers_order_and_refuses_what_it_does_not_know() -> None:
    assert [exhibit.name for exhibit in select(["levels", "kernels"])] == ["kernels", "levels"]
    assert len(select([])) == len(EXHIBITS)
    with pytest.raises(Error, match="No table is called tables: choose from sota"):
        select(["tables"])

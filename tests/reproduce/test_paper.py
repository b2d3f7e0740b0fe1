"""The paper's figures are what the paper prints."""

import os
import re
from pathlib import Path

import pytest

from dgpnet.benchmark import others
from dgpnet.reproduce import paper

SOURCE = (
    Path(os.environ.get("DGPNET_DATA", Path(__file__).parents[3] / "shared" / "data")).parent / "paper" / "dgpnet.tex"
)


def printed(source: str, label: str) -> list[float]:
    """All numbers between the last midrules of the tabular that carries `label`, in reading order."""
    body = source[: source.index(f"\\label{{{label}}}")]
    body = body[body.rindex("\\begin{tabular}") :]
    body = body[body.index("\\midrule") : body.index("\\bottomrule")]
    return [float(number) for number in re.findall(r"-?\d+\.\d+", body)]


def flat(table: paper.PaperTable) -> list[float]:
    """The same from our data: every value followed by its ± where there is one."""
    found = [figure for row in table.rows for figure in row.figures if figure is not None]
    return [number for figure in found for number in (figure.value, figure.spread) if number is not None]


@pytest.mark.skipif(not SOURCE.exists(), reason="needs the paper's source")
@pytest.mark.parametrize("table", paper.ALL, ids=lambda table: table.label)
def test_every_figure_equals_the_source(table: paper.PaperTable) -> None:
    assert flat(table) == printed(SOURCE.read_text(encoding="utf-8"), table.label)


@pytest.mark.skipif(not SOURCE.exists(), reason="needs the paper's source")
def test_so_do_the_run_times_that_the_benchmark_prints() -> None:
    ours = [figure for line in others.PAPER.values() for figure in line.values()]
    assert ours == printed(SOURCE.read_text(encoding="utf-8"), "tab:runtimes")


def test_a_figure_reads_and_prints_as_in_the_paper() -> None:
    assert [str(figure) for figure in paper.figures("63.5±0.4 40.8* 7.0 -")] == ["63.5 ± 0.4", "40.8*", "7.0", "None"]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 figures in 1 columns"):
        paper.PaperTable("t", ("a",), (paper.PaperRow("m", paper.figures("1.0 2.0")),))


#: Mean Δ that does not follow from the table's own figures: the paper prints -3.9 and 1.4 there.
PRINTED_OTHERWISE = {("tab:multiscale", "stride 16"): -3.3, ("tab:multiscale", "strides 16 and 32"): 1.1}


@pytest.mark.parametrize("table", [paper.KERNELS, paper.COVARIANCE, paper.LEVELS, paper.WINDOW], ids=lambda t: t.label)
def test_mean_delta_is_the_mean_gain_over_the_first_row(table: paper.PaperTable) -> None:
    base = table.rows[0].figures[:4]
    for row in table.rows:
        gains = [new.value - old.value for new, old in zip(row.figures[:4], base, strict=True) if new and old]
        delta = row.figures[4]
        assert delta is not None
        expected = PRINTED_OTHERWISE.get((table.label, row.method), delta.value)
        assert sum(gains) / 4 == pytest.approx(expected, abs=0.1)

"""From the name of a table to its files, on rendered photographs and tiny networks."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet.errors import Error
from dgpnet.reproduce import work
from dgpnet.reproduce.plan import Places, PlannedRun, Planner
from dgpnet.reproduce.reproduction import Reproduction
from dgpnet.reproduce.scales import SYNTHETIC, Scale
from dgpnet.reproduce.tables import EXHIBITS, Grid, Table, select
from dgpnet.training import Running

TINY = replace(SYNTHETIC.changed(iterations=2, episodes=4, seeds=2), batch=1)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded photographs, shared by the tests here."""
    return tmp_path_factory.mktemp("cache")


def reproduction(out: Path, cache: Path, scale: Scale = TINY) -> Reproduction:
    running = Running(device="cpu", cache=cache, quiet=True)
    return Reproduction(Planner(scale, Places({}, {})), out, "dgpnet reproduce", running, lambda text: None)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Reproduction]:
    """The kernels' table, and a grid that needs one network more."""
    one = reproduction(tmp_path_factory.mktemp("out"), cache)
    assert one.work(select(["kernels", "grid-pascal"])) == []
    yield one


def test_tables_and_grids_are_written_and_shown_on_one_page(done: Reproduction) -> None:
    names = {path.name for path in (done.out / "tables").iterdir()}
    assert {"kernels.md", "kernels.csv", "kernels.json", "kernels-pascal.png"} <= names
    assert {"grid-pascal.md", "grid-pascal.png"} <= names
    page = (done.out / "README.md").read_text(encoding="utf-8")
    assert "](tables/kernels-pascal.png)" in page
    assert "](tables/grid-pascal.png)" in page


def test_every_cell_of_the_scale_is_filled(done: Reproduction) -> None:
    content = json.loads((done.out / "tables" / "kernels.json").read_text(encoding="utf-8"))
    for row in content["rows"]:
        figures = [cell["ours"] for cell in row["columns"]]
        assert all(0 <= figure["mean"] <= 100 and figure["spread"] is not None for figure in figures[:2])
        assert figures[2:] == [None, None]


def test_networks_are_shared_and_nothing_is_done_twice(done: Reproduction, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(list((done.out / "runs").iterdir())) == 4  # three kernels, of which one is the baseline, and the final

    def refuse(*args: object, **more: object) -> None:
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr(work, "train", refuse)
    monkeypatch.setattr(work, "evaluate", refuse)
    assert done.work(select(["kernels"])) == []
    assert work.cost(done.plan(select(["kernels"])), done.archive).runs == 0


def test_the_plan_says_what_is_done_and_what_is_left(done: Reproduction) -> None:
    lines = work.describe(done.plan(select(["kernels", "levels"])), done.archive)
    assert sum("  done  " in line for line in lines) == 4
    assert sum("  to train  " in line for line in lines) == 2
    assert "Left to do: 2 networks to train" in lines[-1]


def test_finished_runs_keep_their_network_and_no_optimiser(done: Reproduction) -> None:
    for folder in (done.out / "runs").iterdir():
        assert (folder / "model.safetensors").is_file()
        assert not (folder / "checkpoints").exists()


def test_a_run_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = work.train

    def fail_for_linear(config: object, *rest: object) -> Path:
        if getattr(config, "network").kernel == "linear":  # noqa: B009
            raise RuntimeError("out of memory")
        return real(config, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(work, "train", fail_for_linear)
    one = reproduction(tmp_path, cache)
    (failure,) = one.work(select(["kernels"]))
    assert "kernel linear" in failure
    assert "out of memory" in failure
    content = json.loads((tmp_path / "tables" / "kernels.json").read_text(encoding="utf-8"))
    ours = {row["label"]: row["columns"][0]["ours"] for row in content["rows"]}
    assert ours["Linear"] is None
    assert ours["SE"] is not None
    assert [ordering["worse"] for ordering in content["orderings"]] == ["Exponential"]


def test_data_that_are_missing_or_too_few_are_refused_before_any_work(tmp_path: Path, cache: Path) -> None:
    setup = TINY.setups["pascal"]
    absent = replace(TINY, setups={"pascal": replace(setup, train_on="pascal", test_on="pascal", options={})})
    few = replace(TINY, setups={"pascal": replace(setup, options={"photographs": 20, "side": 64})})
    for scale, message in ((absent, "needs a root"), (few, "photographs")):
        out = tmp_path / message.split()[0]
        with pytest.raises(Error, match=message):
            reproduction(out, cache, scale).work(select(["shots"]))
        assert not out.exists()


def test_tests_that_differ_in_shots_only_go_through_the_network_together() -> None:
    planner = Planner(TINY, Places({}, {}))
    table = EXHIBITS["shots"]
    assert isinstance(table, Table)
    groups = work.together(planner.plan([table]).tests)
    assert [len(group) for group in groups] == [10]
    assert [test.shots for test in groups[0]] == list(range(1, 11))


def test_costs_count_photographs() -> None:
    planner = Planner(TINY, Places({}, {}))
    grid = EXHIBITS["grid-shots"]
    assert isinstance(grid, Grid)
    run: PlannedRun = planner.grid(grid)[0].run
    assert run.photographs == pytest.approx(2 * 1 * 2 * (64 / 384) ** 2)
    assert work.duration(30) == "30 s"
    assert work.duration(600) == "10 min"
    assert work.duration(7200) == "2 h"
    assert work.duration(400_000) == "4.6 days"

"""A plan is the least work for its tables, and knows what is done."""

from dataclasses import replace
from pathlib import Path

import pytest

from dgpnet.errors import Error
from dgpnet.reproduce.plan import EncoderFile, Places, Planner, places
from dgpnet.reproduce.scales import FULL, MINI, SCALES, named
from dgpnet.reproduce.tables import FINAL, select

NOWHERE = Places({}, {})


def test_four_tables_share_their_networks_at_mini_scale() -> None:
    plan = Planner(MINI, NOWHERE).plan(select(["kernels", "covariance", "levels", "baselines"]))
    assert len(plan.runs) == 11
    assert plan.wanted == 14
    assert len({run.key for run in plan.runs}) == 11
    assert {run.config.sources[0].fold for run in plan.runs} == {1}
    assert all(run.config.shots == (1,) and run.config.iterations == 1500 for run in plan.runs)
    assert all(test.episodes == 1000 and test.classes == ("cat", "chair", "cow") for test in plan.tests)


def test_full_scale_is_the_papers_protocol() -> None:
    plan = Planner(FULL, NOWHERE).plan(select(["sota"]))
    pascal = [run for run in plan.runs if run.config.sources[0].dataset == "pascal"]
    coco = [run for run in plan.runs if run.config.sources[0].dataset == "coco"]
    assert len(pascal) == len(coco) == 2 * 2 * 4  # encoders, shots, folds
    assert {(run.config.iterations, run.config.network.size, run.config.episodes) for run in pascal} == {
        (20_000, 384, 8)
    }
    assert {(run.config.iterations, run.config.network.size, run.config.decay_at) for run in coco} == {
        (40_000, 512, 0.75)
    }
    assert {test.episodes for test in plan.tests if test.dataset == "coco"} == {20_000}
    assert {test.seeds for test in plan.tests} == {5}


def test_more_than_one_shot_is_tested_with_the_five_shot_network() -> None:
    planner = Planner(FULL, NOWHERE)
    pascal = FULL.setups["pascal"]
    trained = {shots: planner.test(pascal, 0, shots, FINAL).run.config.shots for shots in (1, 2, 5, 10)}
    assert trained == {1: (1,), 2: (5,), 5: (5,), 10: (5,)}
    assert Planner(MINI, NOWHERE).test(MINI.setups["pascal"], 1, 5, FINAL).run.config.shots == (1,)


def test_coco_to_pascal_trains_nothing_of_its_own() -> None:
    planner = Planner(FULL, NOWHERE)
    both = planner.plan(select(["coco", "coco2pascal"]))
    assert len(both.runs) == len(planner.plan(select(["coco"])).runs)
    assert {test.dataset for test in both.tests} == {"coco", "coco2pascal"}


def test_a_runs_name_follows_from_what_decides_its_outcome_and_not_from_paths() -> None:
    setup = MINI.setups["pascal"]

    def key(where: Places = NOWHERE, settings: tuple[str, ...] = (), **changes: object) -> str:
        return Planner(MINI, where, settings).run(setup, 1, 1, changes).key

    assert key() == key(Places({"": "/somewhere"}, {}))
    one = Places({}, {"resnet50": EncoderFile("a/path", "digest", "3x3")})
    assert key(one) == key(Places({}, {"resnet50": EncoderFile("another", "digest", "3x3")})) != key()
    assert key(one) != key(Places({}, {"resnet50": EncoderFile("a/path", "other", "3x3")}))
    assert key(kernel="linear") != key() != key(settings=("precision=bf16",))


def test_weights_decide_where_the_strides_are() -> None:
    where = Places({}, {"resnet50": EncoderFile("keras", "digest", "1x1")})
    assert Planner(MINI, where).run(MINI.setups["pascal"], 1, 1, FINAL).config.network.stride_on == "1x1"


def test_rows_without_weights_and_benchmarks_outside_the_scale_are_left_out_and_said() -> None:
    where = Places({}, {"resnet50": EncoderFile("x", "digest", "3x3")})
    plan = Planner(MINI, where).plan(select(["sota", "grid-coco"]))
    assert {run.config.network.encoder for run in plan.runs} == {"resnet50"}
    assert any("resnet101" in reason and "sota" in reason for reason in plan.left_out)
    assert any("coco" in reason and "grid-coco" in reason for reason in plan.left_out)


def test_overrides_reach_every_benchmark() -> None:
    changed = MINI.changed(iterations=7, episodes=9, seeds=2)
    setup = changed.setups["pascal"]
    assert (setup.iterations, setup.episodes, changed.seeds) == (7, 9, 2)
    assert setup.classes == MINI.setups["pascal"].classes


def test_each_fold_is_tested_with_its_own_named_classes() -> None:
    plan = Planner(MINI.changed(folds=(1, 2, 3)), NOWHERE).plan(select(["frozen"]))
    assert {test.run.config.sources[0].fold: test.classes for test in plan.tests} == {
        1: ("cat", "chair", "cow"),
        2: ("dog", "horse", "person"),
        3: ("sheep", "sofa"),
    }
    assert {test.classes for test in Planner(FULL, NOWHERE).plan(select(["frozen"])).tests} == {()}


def test_names_stay_what_they_were_so_that_folders_of_earlier_versions_are_used() -> None:
    for scale in (MINI, MINI.changed(folds=(1, 2))):
        test = Planner(scale, NOWHERE).test(scale.setups["pascal"], 1, 1, FINAL)
        assert (test.run.key, test.key) == ("a45502f68cf3", "bb3dadd768e4")


def test_trainings_count_on_from_the_seed_and_share_their_episodes() -> None:
    scale = MINI.changed(trainings=3)
    for settings, seeds in (((), {0, 1, 2}), (("seed=5",), {5, 6, 7})):
        plan = Planner(scale, NOWHERE, settings).plan(select(["kernels", "grid-pascal"]))
        assert {run.config.seed for run in plan.runs} == seeds
        assert len(plan.runs) == 3 * 3 + 1  # a grid shows one training
        assert len(plan.tests) == 3 * 3 * 2
        assert all(test.seeds == 1 for test in plan.tests)
    once = Planner(MINI, NOWHERE).plan(select(["kernels"]))
    assert {run.key for run in once.runs} < {run.key for run in Planner(scale, NOWHERE).plan(select(["kernels"])).runs}
    assert plan.runs[0].describe().endswith(", seed 5")


def test_a_test_of_other_episodes_has_another_name() -> None:
    planner = Planner(MINI, NOWHERE)
    test = planner.test(MINI.setups["pascal"], 1, 1, FINAL)
    assert len({test.key, replace(test, shots=5).key, replace(test, episodes=7).key, replace(test, seeds=3).key}) == 4
    assert replace(test, root="/elsewhere").key == test.key


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: named("huge"), "No scale is called 'huge'"),
        (lambda: MINI.changed(folds=(4,)), "--folds takes numbers out of 0,1,2,3"),
        (lambda: MINI.changed(folds=(0, 1)), "no classes with enough photographs in fold 0: choose --folds from 1,2,3"),
        (lambda: MINI.changed(trainings=0), "--trainings must be at least 1"),
        (lambda: MINI.changed(iterations=0), "--iterations must be at least 1"),
        (lambda: places(["/no/such/folder"]), "/no/such/folder does not exist"),
        (lambda: places([], ["/no/such/file"]), "/no/such/file does not exist"),
    ],
)
def test_wrong_use_is_explained(wrong: object, message: str) -> None:
    with pytest.raises(Error, match=message):
        wrong()  # type: ignore[operator]


def test_roots_are_for_all_datasets_or_for_one(tmp_path: Path) -> None:
    for name in ("all", "coco"):
        (tmp_path / name).mkdir()
    where = places([str(tmp_path / "all"), f"coco={tmp_path / 'coco'}"])
    assert where.root("pascal") == str(tmp_path / "all")
    assert where.root("coco") == str(tmp_path / "coco")


def test_every_scale_can_be_planned_whole() -> None:
    for scale in SCALES.values():
        assert Planner(scale, NOWHERE).plan(select([])).runs

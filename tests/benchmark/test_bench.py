"""The benchmark measures every section, keeps what it has, and says what it could not do. Not how fast anything is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from dgpnet.benchmark import bench, growth, naive, report, speed, throughput
from dgpnet.benchmark.timing import Effort
from dgpnet.errors import Error
from dgpnet.network import DGPNet
from dgpnet.network.fast import Predictor
from tests.tiny import CONFIG as TINY

CPU = torch.device("cpu")
WORKLOAD = bench.Workload(
    CPU,
    network=TINY,
    small=TINY.but(window=3),
    size=64,
    batches=(1, 2),
    shots=(1,),
    train_size=64,
    train_episodes=1,
    growth_shots=(1, 2),
    growth_sides=(64, 96),
    growth_side=64,
    growth_examples=1,
    inducing=(60, 12),
    photographs=4,
    large=(96, 64),
    copy_megabytes=1,
    matrix_side=64,
    together=(),  # has a test of its own
    studio_sizes=(),  # likewise
    effort=Effort(1, 0.1, 1),
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    """A whole benchmark of tiny networks."""
    out = tmp_path_factory.mktemp("benchmark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DGPNET_CACHE", str(out / "cache"))
        return bench.run(WORKLOAD, out, command="dgpnet benchmark", say=lambda text: None), out


def test_every_section_is_measured(measured: tuple[dict[str, object], Path]) -> None:
    found, _ = measured
    assert tuple(found) == bench.SECTIONS[:-2]  # the last two need photographs
    assert bench.failed(found) == []


def test_the_run_time_table_has_every_part_for_both_paths_and_the_floor(
    measured: tuple[dict[str, object], Path],
) -> None:
    columns = measured[0]["runtimes"]
    assert isinstance(columns, list)
    assert [(one["batch"], one["shots"]) for one in columns] == [(1, 1), (2, 1)]
    for one in columns:
        for kind in ("naive_ms", "ours_ms", "floor_ms"):
            assert tuple(one[kind]) == (*naive.PARTS, naive.TOTAL)
            assert all(time >= 0 for time in one[kind].values())
        assert one["agreement"] > 0.99
        assert one["ratio"] == pytest.approx(one["naive_ms"]["Total"] / one["ours_ms"]["Total"])


def test_the_mask_encoder_is_the_same_however_it_begins(measured: tuple[dict[str, object], Path]) -> None:
    ways = measured[0]["masks"]
    assert isinstance(ways, list)
    done = [one for one in ways if "error" not in one]
    assert "layers" in {one["stem"] for one in done}
    assert all(one["apart"] < 0.05 and one["ms"] > 0 for one in done)
    assert "layers" in "\n".join(report.masks(ways))


def test_files_hold_the_same_as_what_is_returned(measured: tuple[dict[str, object], Path]) -> None:
    found, out = measured
    assert json.loads((out / "benchmark.json").read_text(encoding="utf-8")) == json.loads(json.dumps(found))
    text = (out / "benchmark.md").read_text(encoding="utf-8")
    for title in ("Machine", "Run times", "Training step", "Growth of the Gaussian process", "End to end"):
        assert f"## {title}" in text
    assert "photographs a second" in text
    assert "dgpnet benchmark" in text
    assert (out / "growth-shots-time.png").is_file()
    assert "](growth-shots-time.png)" in text


def test_photographs_go_end_to_end_without_a_loss(measured: tuple[dict[str, object], Path]) -> None:
    content = measured[0]["end_to_end"]
    assert isinstance(content, dict)
    assert content["photographs"] == WORKLOAD.photographs
    assert content["failures"] == 0
    assert 0 < content["network_busy"] <= 1


def test_a_section_that_fails_is_written_down_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(points: object) -> None:
        raise TypeError("no such instruction")

    monkeypatch.setattr(growth, "plots", fail)
    said: list[str] = []
    found = bench.run(WORKLOAD, tmp_path, sections=("growth", "machine"), say=said.append)
    assert bench.failed(found) == ["growth"]
    assert "ceilings" in found["machine"]
    assert "Not measured: TypeError: no such instruction" in (tmp_path / "benchmark.md").read_text(encoding="utf-8")
    assert any("growth: failed" in line for line in said)


def test_a_problem_too_large_for_the_memory_is_a_point_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = growth.measured

    def full(**arguments: object) -> dict[str, object]:
        if arguments["shots"] == 2:
            raise torch.OutOfMemoryError("too large")
        return real(**arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(growth, "measured", full)
    points = bench.Bench(WORKLOAD, tmp_path).growth()
    assert [point["shots"] for point in points if "error" in point] == [2, 2]
    assert "out of memory" in "\n".join(report.growth(points))


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no section speed: choose from machine"):
        bench.run(WORKLOAD, tmp_path / "out", sections=("speed",))
    assert not (tmp_path / "out").exists()


def test_a_cached_concept_agrees_with_the_naive_path() -> None:
    network = speed.settle(DGPNet(TINY).eval().requires_grad_(False), 64)
    found = speed.cached(
        naive.unfolded(network), Predictor(network), batch=2, shots=2, size=64, effort=Effort(1, 0.1, 1)
    )
    assert found["agreement"] > 0.99
    assert found["ours_ms_per_photograph"] == found["ours_ms"] / 2


def test_settling_keeps_activations_of_random_networks_in_bounds() -> None:
    network = speed.settle(DGPNet(TINY).eval().requires_grad_(False), 64)
    one = speed.rendered_episodes(1, 1, 64, CPU)
    features = network.encoder(one.query)
    assert all(0.01 < float(map_.std()) < 100 for map_ in features.values())
    assert not any(module.training for module in network.modules())


def test_episodes_are_photographs_with_masks_that_show_something() -> None:
    one = speed.rendered_episodes(3, 2, 64, CPU)
    assert one.supports.shape == (3, 2, 3, 64, 64)
    assert one.masks.shape == (3, 2, 64, 64)
    assert one.query.shape == (3, 3, 64, 64)
    assert one.target.shape == (3, 64, 64)
    assert bool((one.masks.flatten(2).sum(2) > 0).all())


def test_growth_measures_exact_and_inducing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "INDUCING_POINTS", 4)
    points = [
        {"against": "shots", **growth.measured(shots=shots, side=64, kind=kind, device=CPU, effort=Effort(1, 0.05, 1))}
        for shots in (1, 3)
        for kind in (growth.EXACT, growth.INDUCING)
    ]
    assert [point["support_points"] for point in points] == [4, 4, 12, 12]
    assert all(point["query_points"] == 16 for point in points)
    assert set(growth.plots(points)) == set(growth.plot_names(points)) == {"growth-shots-time"}


def test_inducing_points_are_as_good_as_one_by_one(measured: tuple[dict[str, object], Path]) -> None:
    content = measured[0]["inducing"]
    assert isinstance(content, dict)
    assert content["left"] == pytest.approx(content["naive_left"], rel=1e-3) and content["same"] > 0.9
    assert content["ratio"] == content["naive_ms"] / content["ours_ms"]


def test_jpeg_files_are_as_many_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "DIFFERENT", 2)
    monkeypatch.setattr(throughput, "WIDTH", 64)
    monkeypatch.setattr(throughput, "HEIGHT", 48)
    masks = throughput.write_photographs(tmp_path / "photographs", 5)
    assert len(list((tmp_path / "photographs").glob("*.jpg"))) == 5
    assert [mask.shape for mask in masks] == [(48, 64)] * 2


def test_the_quick_workload_is_smaller_in_every_way() -> None:
    whole, quick = bench.workload_for(CPU), bench.workload_for(CPU, quick=True)
    assert (whole.size, whole.batches, whole.shots) == (512, (1, 20), (1, 5))
    assert quick.size < whole.size
    assert max(quick.batches) < max(whole.batches)
    assert quick.photographs < whole.photographs
    assert replace(whole, device=CPU) == whole


def test_peers_and_accuracy_take_listed_episodes_of_coco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, names = tmp_path / "coco", ["a", "b", "c"]
    for folder in ("images", "annotations"):
        (root / folder).mkdir(parents=True)
    for i, name in enumerate(names):
        Image.new("RGB", (80, 60), (60 * i, 90, 120)).save(root / "images" / f"{name}.jpg")
    square = [[10 * x + 5 for x in (1, 1, 4, 1, 4, 4, 1, 4)]]
    instances = {
        "images": [{"id": i, "file_name": f"{name}.jpg", "width": 80, "height": 60} for i, name in enumerate(names)],
        "categories": [{"id": 17, "name": "cat"}],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 17, "iscrowd": 0, "segmentation": square, "area": 900}
            for i in range(len(names))
        ],
    }
    (root / "annotations" / "instances.json").write_text(json.dumps(instances))
    few, enough = ({"category_id": 17, "query": "a", "support": names[1 : 1 + k]} for k in (1, 2))
    (tmp_path / "listed.json").write_text(json.dumps([few, enough]))
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    workload = replace(WORKLOAD, root=str(root), listed=str(tmp_path / "listed.json"), shots=(1, 2))
    found = bench.run(workload, tmp_path, sections=bench.NEED_ROOT, say=lambda text: None)
    assert bench.failed(found) == []
    assert {(one["of"], one["episodes"]) for name in bench.NEED_ROOT for one in found[name]} == {("listed", 1)}
    assert "| listed |" in (tmp_path / "benchmark.md").read_text()

"""An evaluation equals a plain loop over its episodes, however it is batched, cut up, killed or shared out."""

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from dgpnet import data
from dgpnet.annotations.legend import Legend
from dgpnet.augment import normalise
from dgpnet.data.dataset import Dataset
from dgpnet.errors import Error
from dgpnet.evaluation import run
from dgpnet.evaluation.records import Records
from dgpnet.evaluation.results import Results, gather
from dgpnet.evaluation.run import Evaluation, EvaluationOptions, evaluate
from dgpnet.files import Journal
from dgpnet.metrics import rank_correlation
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration, Curve
from dgpnet.segmenter.segmentation import Maps, judge, render
from tests.capability import needs_half
from tests.damage import Damage, damage

OPTIONS = EvaluationOptions(shots=(1, 2), episodes=7, seeds=(0, 3))
HONEST = Calibration(
    1.7, Curve((0.0, 0.3, 0.5), (0.0, 0.1, 0.4)), Curve((0.1, 0.5), (0.2, 0.6)), Curve((0.0, 1.0), (0.1, 0.8))
)


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SIZES", (3, 3))


def one_by_one(
    network: DGPNet, dataset: Dataset, shots: int, seed: int, count: int
) -> list[tuple[int, np.ndarray, np.ndarray, float, np.ndarray]]:
    """Class, found mask, target, score and uncertainty of each episode, the obvious way."""
    found = []
    photos, masks = dataset.tensors()
    for index in range(count):
        episode = data.episode(dataset, seed=seed, index=index, max_shots=shots)
        support_photos = torch.stack([normalise(photos[i]) for i in episode.supports])[None]
        support_masks = torch.stack([(masks[i] == episode.class_id).float() for i in episode.supports])[None]
        with torch.no_grad():
            logits = network(support_photos, support_masks, normalise(photos[episode.query])[None])
        truth = dataset.mask(episode.query)
        resized = F.interpolate(logits, size=truth.shape, mode="bilinear", align_corners=False)[0]
        target = np.where(truth == 255, 255, truth == episode.class_id)
        log_odds = logits[0, 1:] - logits[0, :1]
        maps = Maps(log_odds, torch.zeros_like(log_odds[0]), torch.zeros_like(log_odds))
        photo = np.zeros((*truth.shape, 3), np.uint8)
        (rendered,) = render([maps], judge([maps], HONEST), [photo], Legend.of(["class"]), HONEST)
        found.append((episode.class_id, resized.argmax(0).numpy(), target, rendered.score, rendered.uncertainty))
    return found


def test_figures_equal_a_plain_loop(network: DGPNet, discs: Dataset):
    results = evaluate(network, discs, OPTIONS, calibration=HONEST)
    for shots in OPTIONS.shots:
        mious, scores, ious = [], [], []
        errors: list[np.ndarray] = []
        doubts: list[np.ndarray] = []
        for seed in OPTIONS.seeds:
            loop = one_by_one(network, discs, shots, seed, OPTIONS.episodes)
            sums = {c: [0, 0] for c, *_ in loop}
            both = np.zeros((2, 2))
            for class_id, mask, target, score, uncertainty in loop:
                kept = target != 255
                for value in (0, 1):
                    intersection = ((mask == value) & (target == value) & kept).sum()
                    union = (((mask == value) | (target == value)) & kept).sum()
                    both[value] += intersection, union
                    if value == 1:
                        sums[class_id][0] += intersection
                        sums[class_id][1] += union
                        ious.append(intersection / union)
                scores.append(score)
                errors.append((mask != target)[kept])
                doubts.append(uncertainty[kept])
            found = results.shots[shots].seeds[seed]
            assert found.per_class == pytest.approx({c: i / u for c, (i, u) in sums.items()})
            assert found.fb_iou == pytest.approx(np.mean(both[:, 0] / both[:, 1]))
            assert found.episodes == 7
            mious.append(np.mean([i / u for i, u in sums.values()]))
        total = results.shots[shots]
        assert total.miou.mean == pytest.approx(np.mean(mious))
        assert total.miou.std == pytest.approx(np.std(mious, ddof=1))
        assert total.rank_correlation == pytest.approx(rank_correlation(scores, ious), abs=1e-6)
        assert total.calibration.error_rate == pytest.approx(np.concatenate(errors).mean())
        expected = roc_auc_score(np.concatenate(errors), np.concatenate(doubts))
        assert total.calibration.auroc == pytest.approx(expected, abs=2e-3)


def test_masks_are_neither_all_right_nor_all_wrong(network: DGPNet, discs: Dataset):
    """Or the comparisons of this file would show nothing."""
    miou = evaluate(network, discs, OPTIONS).shots[1].miou.mean
    assert 0.02 < miou < 0.98


def test_figures_do_not_depend_on_the_batch(network: DGPNet, discs: Dataset):
    one, many = (
        evaluate(network, discs, EvaluationOptions(shots=(2,), episodes=10, batch=b)).shots[2] for b in (1, 12)
    )
    assert one.miou.mean == pytest.approx(many.miou.mean, abs=1e-3)
    assert one.calibration.auroc == pytest.approx(many.calibration.auroc, abs=1e-3)


def test_more_shots_use_the_same_queries(network: DGPNet, discs: Dataset):
    job = Evaluation(network, discs, EvaluationOptions(shots=(1, 3), episodes=9), None, Calibration(), {})
    few = Evaluation(network, discs, EvaluationOptions(shots=(1,), episodes=9), None, Calibration(), {})
    for key in job.units():
        for a, b in zip(job.episodes(key), few.episodes(key), strict=True):
            assert (a.query, a.class_id, a.supports[:1]) == (b.query, b.class_id, b.supports)


def test_parts_of_several_processes_add_up_to_a_single_run(network: DGPNet, discs: Dataset, folder: Path):
    job = Evaluation(network, discs, OPTIONS, None, HONEST, {})
    for part in (2, 0, 1):
        records = Records.open(folder, job.parts(), name=f"part-{part}")
        job.work(records, part=(part, 3))
    merged = gather(Records.open(folder, job.parts()).found, job.about(), discs.classes)
    assert merged == evaluate(network, discs, OPTIONS, calibration=HONEST)


def test_a_run_that_was_cut_off_goes_on(network: DGPNet, discs: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch):
    whole = evaluate(network, discs, OPTIONS)

    def stop_after_two(done: int, total: int) -> None:
        if done > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(network, discs, OPTIONS, records=folder, progress=stop_after_two)
    with open(folder / "part.jsonl", "a") as file:
        file.write('{"seed": 0, "first": 6, "sho')  # as a kill in the middle of a write leaves it
    steps: list[int] = []
    resumed = evaluate(network, discs, OPTIONS, records=folder, progress=lambda done, total: steps.append(done))
    assert steps[0] >= 6 and steps[-1] == 14
    assert resumed == whole
    assert sorted((line["seed"], line["first"]) for line in Journal(folder / "part.jsonl").read()) == [
        (seed, first) for seed in (0, 3) for first in (0, 3, 6)
    ]


@pytest.fixture(scope="module")
def finished(network: DGPNet, discs: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """A folder of records with the results that came of them."""
    folder = tmp_path_factory.mktemp("finished")
    results = evaluate(network, discs, EvaluationOptions(episodes=2, seeds=(0, 1)), records=folder)
    results.write(folder / "results.json")
    return folder, results


@given(damage(), st.sampled_from(["about.json", "part.jsonl"]))
def test_damaged_records_give_the_same_results_or_one_sentence(
    network: DGPNet, discs: Dataset, finished: tuple[Path, Results], change: Damage, name: str
):
    with TemporaryDirectory() as place:
        folder = Path(shutil.copytree(finished[0], Path(place) / "parts"))
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        try:
            assert evaluate(network, discs, EvaluationOptions(episodes=2, seeds=(0, 1)), records=folder) == finished[1]
        except Error as problem:
            assert str(problem).endswith(".")


@given(damage())
@settings(max_examples=100)
def test_damaged_results_are_refused_or_read_as_they_were(finished: tuple[Path, Results], change: Damage):
    folder, results = finished
    with TemporaryDirectory() as place:
        path = Path(place) / "results.json"
        path.write_bytes(change((folder / "results.json").read_bytes()))
        try:
            assert Results.read(path).to_json() == results.to_json()
        except Error as problem:
            assert str(problem).endswith("remove it and evaluate again.")


def test_records_of_another_evaluation_are_refused(network: DGPNet, discs: Dataset, folder: Path):
    evaluate(network, discs, EvaluationOptions(episodes=4), records=folder)
    with pytest.raises(Error, match=r"another evaluation \(episodes 4, not 5"):
        evaluate(network, discs, EvaluationOptions(episodes=5), records=folder)


def test_listed_episodes_count_where_they_have_enough_supports(network: DGPNet, discs: Dataset):
    drawn = data.episodes(discs, seed=5, indices=range(6), max_shots=3)
    listed = [*drawn[:4], *(data.Episode(e.query, e.supports[:1], e.class_id) for e in drawn[4:])]
    results = evaluate(network, discs, EvaluationOptions(shots=(1, 3), seeds=(0, 1)), listed=listed)
    assert results.shots[1].seeds[0].episodes == 6
    assert results.shots[3].seeds[0].episodes == 4
    assert list(results.shots[1].seeds) == [0]
    again = evaluate(network, discs, EvaluationOptions(shots=(1,), episodes=6, seeds=(5,)))
    assert results.shots[1].miou.mean == again.shots[1].miou.mean
    with pytest.raises(Error, match="at most 3 supports"):
        evaluate(network, discs, EvaluationOptions(shots=(4,)), listed=listed)


@needs_half
def test_bf16_changes_little(network: DGPNet, discs: Dataset):
    plain = evaluate(network, discs, EvaluationOptions(episodes=6))
    rough = evaluate(network, discs, EvaluationOptions(episodes=6, precision="bf16"))
    assert plain.shots[1].miou.mean == pytest.approx(rough.shots[1].miou.mean, abs=0.02)


def test_too_few_photographs_of_a_class_are_named(network: DGPNet, discs: Dataset):
    with pytest.raises(Error, match="red"):
        evaluate(network, discs, EvaluationOptions(shots=(8,), episodes=3))


@pytest.mark.parametrize(
    "wrong",
    [{"shots": ()}, {"shots": (0,)}, {"seeds": (1, 1)}, {"episodes": 0}, {"protocol": "mine"}, {"precision": "int8"}],
)
def test_wrong_options_are_refused(wrong: dict[str, object]):
    with pytest.raises(Error):
        EvaluationOptions(**wrong)


def test_results_say_what_they_are_of_and_survive_a_file(network: DGPNet, discs: Dataset, tmp_path: Path):
    results = evaluate(network, discs, EvaluationOptions(shots=(1,), episodes=4), about={"checkpoint": "mine"})
    results.write(tmp_path / "results.json")
    again = type(results).read(tmp_path / "results.json")
    assert again.to_json() == results.to_json()
    assert math.isnan(again.shots[1].miou.std)
    assert again.about["checkpoint"] == "mine"
    assert again.about["size"] == 64
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results-reliability.png", "results.json"]
    assert "red" in results.table()


def test_a_run_is_cut_into_so_many_parts_that_little_is_lost(
    network: DGPNet, discs: Dataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()

    def unit(episodes: int, seeds: int) -> int:
        return Evaluation(
            network, discs, EvaluationOptions(episodes=episodes, seeds=tuple(range(seeds))), None, HONEST, {}
        ).unit

    assert [unit(24, 5), unit(1000, 1), unit(1000, 5), unit(20_000, 5)] == [8, 8, 64, 256]


def test_progress_is_told_while_a_part_is_measured(network: DGPNet, discs: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    told: list[int] = []
    evaluate(
        network,
        discs,
        EvaluationOptions(shots=(1, 2), episodes=8, batch=4),
        progress=lambda done, of: told.append(done),
    )
    assert told == sorted(told) and told[-1] == 8
    assert len(set(told)) > 4  # all eight are one part

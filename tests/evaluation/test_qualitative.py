"""Pictures of episodes show what was measured."""

import numpy as np
import torch

from dgpnet import data
from dgpnet.data.dataset import Dataset
from dgpnet.evaluation.qualitative import Contender, binary, episode_grid, segment, varied_episodes
from dgpnet.evaluation.run import EvaluationOptions, evaluate
from dgpnet.metrics import confusion, foreground_iou
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration


def test_the_mask_shown_is_the_mask_measured(network: DGPNet, discs: Dataset):
    episode = data.episode(discs, seed=0, index=0, max_shots=2)
    mask, uncertainty = segment(network, discs, episode, 2, Calibration())
    truth = binary(discs.mask(episode.query), episode.class_id)
    assert mask.shape == uncertainty.shape == truth.shape
    iou = foreground_iou(confusion(torch.from_numpy(mask == 1), torch.from_numpy(truth)).numpy())
    measured = evaluate(network, discs, EvaluationOptions(shots=(2,), episodes=1, batch=1))
    assert measured.shots[2].miou.mean == iou


def test_binary_keeps_ignore():
    mask = np.array([[0, 1, 2], [255, 2, 0]], np.uint8)
    assert binary(mask, 2).tolist() == [[0, 0, 1], [255, 1, 0]]
    assert binary(mask, 256 + 2).tolist() == [[0, 0, 1], [255, 1, 0]]  # the same label in another set


def test_a_grid_has_a_row_for_each_episode_and_a_column_for_each_contender(network: DGPNet, discs: Dataset):
    episodes = data.episodes(discs, seed=0, indices=range(4), max_shots=3)
    one, three = Contender("1 shot", network, 1), Contender("3 shots", network, 3)
    small = episode_grid([one], discs, episodes[:2])
    assert episode_grid([one], discs, episodes).height > 1.8 * small.height
    assert episode_grid([one], discs, episodes[:2], uncertainty=False).width < small.width
    column = small.width - episode_grid([one], discs, episodes[:2], uncertainty=False).width
    # ... and one for the supports that more shots add.
    assert episode_grid([one, three], discs, episodes[:2]).width == small.width + 2 * column


def test_no_class_comes_again_before_all_others_have_come(discs: Dataset):
    count = len(discs.classes)
    chosen = varied_episodes(discs, 2, 2 * count)
    assert {e.class_id for e in chosen[:count]} == {e.class_id for e in chosen[count:]} == set(discs.classes)
    drawn = data.episodes(discs, seed=0, indices=range(400), max_shots=2)
    places = [drawn.index(e) for e in chosen[:count]]
    assert places == sorted(places)

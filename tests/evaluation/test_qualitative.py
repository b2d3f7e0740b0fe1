"""Pictures of episodes show what was measured."""

import numpy as np
import torch

from dgpnet import data
from dgpnet.data.dataset import Dataset
from dgpnet.evaluation.qualitative import binary, episode_grid, segment
from dgpnet.evaluation.run import Options, evaluate
from dgpnet.metrics import confusion, foreground_iou
from dgpnet.network.dgpnet import DGPNet
from dgpnet.segmenter.calibration import Calibration


def test_the_mask_shown_is_the_mask_measured(network: DGPNet, discs: Dataset):
    episode = data.episode(discs, seed=0, index=0, max_shots=2)
    mask, uncertainty = segment(network, discs, episode, 2, Calibration())
    truth = binary(discs.mask(episode.query), episode.class_id)
    assert mask.shape == uncertainty.shape == truth.shape
    iou = foreground_iou(confusion(torch.from_numpy(mask == 1), torch.from_numpy(truth)).numpy())
    measured = evaluate(network, discs, Options(shots=(2,), episodes=1, batch=1))
    assert measured.shots[2].miou.mean == iou


def test_binary_keeps_ignore():
    mask = np.array([[0, 1, 2], [255, 2, 0]], np.uint8)
    assert binary(mask, 2).tolist() == [[0, 0, 1], [255, 1, 0]]
    assert binary(mask, 256 + 2).tolist() == [[0, 0, 1], [255, 1, 0]]  # the same label in another set


def test_a_grid_has_a_row_for_each_episode_and_shots(network: DGPNet, discs: Dataset):
    episodes = data.episodes(discs, seed=0, indices=range(2), max_shots=3)
    small = episode_grid({"ours": network}, discs, episodes, [1])
    large = episode_grid({"baseline": network, "ours": network}, discs, episodes, [1, 3])
    assert large.height > 1.8 * small.height
    assert large.width > small.width

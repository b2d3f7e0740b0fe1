"""Programs of PyTorch that are loaded without dgpnet."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dgpnet.export.to_torch import export_torch
from dgpnet.segmenter.segmentation import Maps
from tests.tiny import CONFIG, tiny_segmenter

PROGRAM = """
import sys
sys.modules["dgpnet"] = None
import torch
folder = sys.argv[1]
support, query = (torch.export.load(f"{folder}/model/{name}.pt2").module() for name in ("support", "query"))
photos, masks = torch.load(f"{folder}/episode.pt")
with torch.no_grad():
    torch.save(query(photos[1:], support(photos[:1], masks))[0], f"{folder}/found.pt")
"""


@pytest.mark.slow
def test_a_program_needs_pytorch_alone(quick_encoder: str, tmp_path: Path) -> None:
    segmenter = tiny_segmenter(CONFIG.but(encoder=quick_encoder, levels=(32,)))
    about = export_torch(segmenter, tmp_path / "model").to_json()
    assert list(about["files"]) == ["query.pt2", "support.pt2"] and "opset" not in about["versions"]
    assert all(one["log_odds"] <= 1e-4 and one["labels"] >= 0.999 for one in about["checked"])
    photos, masks = torch.randn(2, 3, 96, 64), torch.zeros(1, 1, 96, 64)
    masks[..., 20:60, 10:50] = 1
    torch.save((photos, masks), tmp_path / "episode.pt")
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
    with torch.no_grad():
        memory = segmenter.network.learn(photos[None, :1], masks[None])
        expected = Maps.of(segmenter.network.answer(memory, photos[1:])).log_odds
    np.testing.assert_allclose(torch.load(tmp_path / "found.pt"), expected, atol=1e-4)

"""The page on evaluation shows code that runs."""

import re
from pathlib import Path

import pytest

from dgpnet import weights
from dgpnet.network.dgpnet import DGPNet


def test_python_of_the_page_runs(
    network: DGPNet,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    weights.save("model.safetensors", network)
    (snippet,) = re.findall(r"```python\n(.*?)```", (repository / "docs" / "evaluation.md").read_text(), re.DOTALL)
    exec(compile(snippet, "evaluation.md", "exec"), {})
    assert "mIoU" in capsys.readouterr().out
    assert weights.read_metadata("calibrated.safetensors")["calibration"]["temperature"] > 0

"""Jobs that share a machine, each a process of its own."""

from pathlib import Path

import pytest

from dgpnet.benchmark import report, together
from tests.tiny import tiny_checkpoint


def test_jobs_are_timed_alone_and_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "READY", 1.0)
    found = together.measured(str(tiny_checkpoint(tmp_path / "net.safetensors")), 2)
    assert found["alone_ms"] > 0 and found["ratio"] == found["together_ms"] / found["alone_ms"]
    assert 0 <= found["system_share"] <= 1
    assert "net.safetensors" in "\n".join(report.together([found]))


def test_a_job_that_fails_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="A job ended"):
        together.measured("no-such-model", 1)

"""What the studio's page would wait for, asked of a real server."""

import pytest

from tests.tiny import tiny_segmenter

pytest.importorskip("fastapi", reason="the studio extra is not installed")

from dgpnet.benchmark import report, studio


def test_strokes_are_timed_until_the_new_mask_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio, "PAUSE", 0.1)
    found = studio.measured(tiny_segmenter(), (96, 64), 2)
    assert 0 < found["median_s"] <= found["longest_s"] < studio.PATIENCE
    assert (found["strokes"], found["examples"]) == (2, studio.PAINTED)
    assert "96×64, 5 examples" in "\n".join(report.studio([found]))

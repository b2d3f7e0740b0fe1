"""The presets fix what the paper and the authors' program test at."""

import pytest

from dgpnet.errors import Error
from dgpnet.evaluation.protocol import Setting, setting


@pytest.mark.parametrize(
    ("protocol", "dataset", "size", "episodes"),
    [
        ("paper", "pascal", 384, 5000),
        ("reference", "pascal", 448, 5000),
        ("paper", "coco", 512, 20_000),
        ("reference", "coco", 512, 20_000),
        ("reference", "coco2pascal", 384, 5000),
        ("paper", "folder", None, 1000),
    ],
)
def test_settings(protocol: str, dataset: str, size: int | None, episodes: int):
    assert setting(protocol, dataset) == Setting(size, episodes)


def test_an_unknown_protocol_is_refused():
    with pytest.raises(Error, match="reference"):
        setting("mine", "pascal")

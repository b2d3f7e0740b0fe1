"""What the field's protocol fixes for each dataset: the size photographs are tested at, and how many episodes."""

from __future__ import annotations

from dataclasses import dataclass

from dgpnet.data.episodes import check_protocol


@dataclass(frozen=True)
class Setting:
    """size: side of the square that the network sees, None for the network's own. episodes: how many a seed."""

    size: int | None
    episodes: int


_OTHERS = Setting(None, 1000)
SETTINGS: dict[str, dict[str, Setting]] = {
    "paper": {
        "pascal": Setting(384, 5000),
        "coco": Setting(512, 20_000),
        "coco2pascal": Setting(512, 5000),
    },
    "reference": {
        "pascal": Setting(448, 5000),
        "coco": Setting(512, 20_000),
        "coco2pascal": Setting(384, 5000),
    },
}


def setting(protocol: str, dataset: str) -> Setting:
    """The setting of a dataset in the protocol `paper` or `reference`; our own for datasets the field has none for."""
    check_protocol(protocol)
    return SETTINGS[protocol].get(dataset, _OTHERS)

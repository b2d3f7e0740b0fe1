"""One door to all datasets."""

from pathlib import Path

import pytest

from dgpnet.data import DATASETS, Cache, build
from dgpnet.errors import Error


def test_names_are_those_of_the_house() -> None:
    assert set(DATASETS) == {"pascal", "coco", "coco2pascal", "fss1000", "folder", "synthetic", "composites"}


def test_an_unknown_name_root_or_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match="no dataset 'pascall'; choose one of pascal, coco"):
        build("pascall", tmp_path)
    with pytest.raises(Error, match="There is no"):
        build("pascal", tmp_path / "nowhere")
    with pytest.raises(Error, match="pascal needs a root"):
        build("pascal")
    with pytest.raises(Error, match="synthetic has no option colour; it has folds, kinds, objects"):
        build("synthetic", colour="red")


def test_a_size_gives_a_cache_and_classes_narrow(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    dataset = build(
        *("synthetic", None), fold=0, split="test", classes=["shape-4"], size=32, cache=tmp_path, photographs=40,
        progress=lambda *step: seen.append(step), workers=1,
    )  # fmt: skip
    assert isinstance(dataset, Cache)
    assert dataset.side == 32
    assert list(dataset.classes.values()) == ["shape-4"]
    assert seen == [(32, 40), (40, 40)]

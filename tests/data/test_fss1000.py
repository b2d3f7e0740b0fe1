"""FSS-1000."""

from pathlib import Path

import numpy as np
import pytest

from dgpnet.data import build, label_of
from dgpnet.errors import Error


@pytest.fixture
def fss(tmp_path: Path, save) -> Path:
    for k, name in enumerate(["ant", "bee", "cat", "dog", "eel"]):
        for n in range(1, 11):
            save(tmp_path / name / f"{n}.jpg", np.full((8, 10, 3), 20 * k, np.uint8))
            mask = np.zeros((8, 10, 3), np.uint8)
            mask[:, :n] = 255
            save(tmp_path / name / f"{n}.png", mask if n > 5 else mask[..., 0])
    return tmp_path


def test_every_photograph_shows_its_class(fss: Path) -> None:
    dataset = build("fss1000", fss)
    assert list(dataset.classes.values()) == ["ant", "bee", "cat", "eel"]
    assert [len(p) for p in dataset.by_class().values()] == [10, 10, 10, 10]
    for i, c in dataset.pairs:
        mask = dataset.mask(i)
        assert (mask == label_of(c)).sum() == 8 * int(Path(dataset.path(i)).stem)
        assert mask.max() == 1
        assert dataset.path(i).startswith(dataset.classes[c])


def test_without_lists_every_fourth_class_is_tested(fss: Path) -> None:
    assert list(build("fss1000", fss, split="test").classes.values()) == ["dog"]


def test_lists_choose_the_classes(fss: Path) -> None:
    (fss / "splits" / "fss").mkdir(parents=True)
    (fss / "splits" / "fss" / "trn.txt").write_text("eel\nant\n")
    (fss / "splits" / "fss" / "test.txt").write_text("bee\n")
    assert list(build("fss1000", fss).classes.values()) == ["eel", "ant"]
    assert list(build("fss1000", fss, split="test").classes.values()) == ["bee"]
    (fss / "splits" / "fss" / "test.txt").write_text("bee\nunicorn\n")
    with pytest.raises(Error, match="no photographs of unicorn"):
        build("fss1000", fss, split="test")


def test_there_are_no_folds(fss: Path, tmp_path: Path) -> None:
    with pytest.raises(Error, match="no folds"):
        build("fss1000", fss, fold=1)
    with pytest.raises(Error, match=r"no test\.txt"):
        build("fss1000", fss, split="test", lists=tmp_path / "ant")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Error, match="no folder with photographs"):
        build("fss1000", tmp_path / "empty")

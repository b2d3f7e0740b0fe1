"""Whatever is written comes back: pixels, names, and numbers where the format has a place for them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from dgpnet.annotations import FORMATS, Item, export, read_support

#: Formats without a place for ignore, which becomes background.
WITHOUT_IGNORE = frozenset({"yolo"})
#: Formats in which classes have numbers.
NUMBERED = frozenset({"coco", "yolo"})

letters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
names = st.one_of(
    st.sampled_from(["mug #1", "it's: a, b", 'x"y', "{n}", "[a]", "\\n", "杯", "😀", "Tasse (groß)", "- a", "0: b"]),
    st.text(letters, min_size=1, max_size=20),
).filter(
    lambda name: name.strip() == name and name not in ("background", "_background_", "__background__", "__ignore__")
)
masks = arrays(np.uint8, st.tuples(st.integers(4, 24), st.integers(4, 24)), elements=st.sampled_from([0, 0, 1, 2, 255]))


@pytest.mark.parametrize("format_", sorted(set(FORMATS) - {"voc"}))
@pytest.mark.parametrize("instances", [False, True])
def test_what_goes_out_comes_back(tmp_path_factory: pytest.TempPathFactory, format_: str, instances: bool) -> None:
    @given(
        classes=st.lists(names, min_size=2, max_size=2, unique=True), mask=masks, polygons=st.booleans(), data=st.data()
    )
    @settings(max_examples=30)
    def test(classes: list[str], mask: np.ndarray, polygons: bool, data: st.DataObject) -> None:
        mask[data.draw(st.integers(0, 3)), :2] = (1, 2)
        folder = tmp_path_factory.mktemp("trip")
        (folder / "photos").mkdir()
        Image.fromarray(mask).save(folder / "photos/a.png")
        path = export(format_, folder / "out", classes, [Item("a.png", mask)], instances=instances, polygons=polygons)
        support = read_support(Path(path), photos=folder / "photos")
        assert set(support.classes) == set(classes)
        expected = np.where(mask == 255, 0, mask) if format_ in WITHOUT_IGNORE else mask
        numbers = np.array([0, *(classes.index(name) + 1 for name in support.classes)] + [255] * 253, np.uint8)
        np.testing.assert_array_equal(numbers[support.examples[0].mask], expected)
        if format_ in NUMBERED:
            assert support.legend.values == tuple(classes.index(name) + 1 for name in support.classes)

    test()

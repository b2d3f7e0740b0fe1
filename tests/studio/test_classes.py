"""Classes, and the files that they are kept in."""

import json

import pytest

from dgpnet.annotations.legend import LEGEND_FILE
from dgpnet.annotations.reading import IGNORE_LABEL
from dgpnet.errors import Error
from dgpnet.studio.classes import Classes, colour_of


def made(*names):
    classes = Classes()
    for name in names:
        classes, _ = classes.with_new(name)
    return classes


def test_values_are_the_lowest_that_are_free():
    classes = made("mug", "spoon", "fork").without(2)
    classes, new = classes.with_new("knife")
    assert new.value == 2 and [one.name for one in classes.every] == ["mug", "knife", "fork"]
    classes, wished = classes.with_new("cup", value=9)
    assert wished.value == 9


def test_a_name_is_there_once_and_is_one():
    classes = made("mug")
    for name in ("mug", " mug ", "", "background", IGNORE_LABEL):
        with pytest.raises(Error):
            classes.with_new(name)
    assert classes.changed(1, "mug").every == classes.every
    with pytest.raises(Error):
        made("mug", "spoon").changed(1, "spoon")


def test_there_are_as_many_as_a_mask_has_room_for():
    classes = made(*(f"class {i}" for i in range(254)))
    with pytest.raises(Error, match="254"):
        classes.with_new("one more")


def test_they_are_read_back_with_their_colours(tmp_path):
    classes = made("mug", "spoon").changed(2, colour=(1, 2, 3))
    classes.write(tmp_path)
    assert Classes.read(tmp_path) == classes
    (tmp_path / "classes.json").write_text(json.dumps({"cup": 1, "spoon": 2}))
    assert [one.name for one in Classes.read(tmp_path).every] == ["cup", "spoon"], "a person's edit counts"
    Classes().write(tmp_path)
    assert not (tmp_path / LEGEND_FILE).exists() and Classes.read(tmp_path) == Classes()


@pytest.mark.parametrize("content", ['{"mug": 0}', '{"mug": 255}', '{"mug": "1"}', '{"a": 1, "b": 1}'])
def test_a_file_that_is_no_list_of_classes_is_refused(tmp_path, content):
    (tmp_path / "classes.json").write_text(content)
    with pytest.raises(Error):
        Classes.read(tmp_path)


def test_what_is_learned_has_the_classes_that_are_shown():
    legend = made("mug", "spoon", "fork").legend([3, 1])
    assert legend.names == ("mug", "fork") and legend.values == (1, 3) and legend.unused == ((2, "spoon"),)


def test_a_colour_is_written_in_one_way():
    assert colour_of("#0a141E") == (10, 20, 30)
    for text in ("red", "#12", "#12345g", "123456"):
        with pytest.raises(Error):
            colour_of(text)
